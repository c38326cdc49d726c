//! The toolset kind that runs Python, for tests that run none.
#![allow(dead_code, reason = "each test that includes this uses a part")]

use llm_do_core::{
    function::Function,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry},
    worker::CODE,
};
use serde_json::{Value, json};
use std::sync::Arc;

struct Custom;

impl ToolsetKind for Custom {
    fn name(&self) -> &'static str {
        CODE
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({
            "type": "object",
            "properties": {"module": {"type": "string"}},
            "additionalProperties": {
                "type": "object",
                "properties": {"pre_approved": {"type": "boolean"}, "approval_required": {"type": "boolean"}},
                "additionalProperties": false,
            },
        }))
    }
    fn build<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// The built-in kinds and that of Python.
pub(crate) fn registry() -> ToolsetRegistry {
    let mut registry = ToolsetRegistry::built_in();
    registry.register(Arc::new(Custom));
    registry
}
