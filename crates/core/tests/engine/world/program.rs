//! Workers by map, and the toolset `test` with the tools of a test.

use llm_do_core::{
    authority::Mount,
    function::Function,
    schema::Schema,
    send::BoxFuture,
    source::FunctionSource,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
    worker::{DefinitionError, Definitions, Delegation, WorkerDefinition},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The workers of a world.
pub(super) struct Program {
    pub(super) workers: BTreeMap<String, Arc<WorkerDefinition>>,
    pub(super) delegation: Delegation,
    pub(super) mounts: HashMap<&'static str, Mount>,
}

impl Program {
    fn named(&self, reference: &str) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        self.workers
            .get(reference)
            .cloned()
            .ok_or_else(|| DefinitionError { message: format!("there is no worker `{reference}`") })
    }
}

impl Definitions for Program {
    fn worker(
        &self,
        _: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        self.named(reference)
    }

    fn named_by(
        &self,
        _: &FunctionSource,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        self.named(reference)
    }

    fn mount(&self, _: &WorkerDefinition, name: &str) -> Option<Mount> {
        self.mounts.get(name).cloned()
    }

    fn matching(&self, _: &WorkerDefinition, glob: &str) -> Vec<String> {
        let folder = glob.trim_end_matches('*');
        self.workers.keys().filter(|id| id.starts_with(folder)).cloned().collect()
    }

    fn project_name(&self) -> &str {
        "test"
    }

    fn delegation(&self) -> Delegation {
        self.delegation
    }
}

/// The toolset `test`.
pub(super) struct TestTools(pub(super) Vec<Function>);

impl ToolsetKind for TestTools {
    fn name(&self) -> &'static str {
        "test"
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for TestTools {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let own = self.0.iter().cloned();
        let made = own.map(|mut function| {
            function.meta.policy.clone_from(&context.policy);
            function
        });
        let made: Vec<Function> = made.collect();
        Box::pin(async move { Ok(made) })
    }
}
