//! The kinds of toolsets that a page knows. A page starts no processes: the kinds that need some are known by name, so
//! that programs with them load, and every call of their workers fails with the reason.

use llm_do_core::{
    code::CodeEntry,
    function::Function,
    risk::Risk,
    schema::Schema,
    send::BoxFuture,
    toolset::{Declarations, ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime},
    worker::WorkerDefinition,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A kind whose tools need a process.
struct Absent {
    name: &'static str,
    tools: &'static [&'static str],
    declarations: Option<Declarations>,
    runs_code: bool,
    needs: &'static str,
}

impl Absent {
    fn reason(&self) -> String {
        let Self { name, needs, .. } = self;
        format!(
            "the toolset `{name}` needs {needs}, which a web page does not have: run the program with `llm-do run`"
        )
    }
}

impl ToolsetKind for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tools(&self) -> &[&'static str] {
        self.tools
    }

    fn risk(&self, _tool: &str) -> Option<Risk> {
        Some(Risk::Exec)
    }

    fn has_main_argument(&self, _tool: &str) -> bool {
        !self.tools.is_empty()
    }

    fn tools_are_known(&self) -> bool {
        self.runs_code || !self.tools.is_empty()
    }

    fn declarations(&self) -> Option<Declarations> {
        self.declarations
    }

    fn implied_by(&self, worker: &WorkerDefinition) -> bool {
        self.runs_code && !worker.tools.is_empty()
    }

    fn runs_code(&self) -> bool {
        self.runs_code
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for Absent {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { Err(self.reason()) })
    }

    fn entry<'a>(
        &'a self,
        _: &'a CodeEntry,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Function, String>> {
        Box::pin(async { Err(self.reason()) })
    }
}

/// Returns the kinds.
pub(crate) fn kinds() -> ToolsetRegistry {
    let mut kinds = ToolsetRegistry::built_in();
    let servers = Declarations {
        manifest_key: "mcp_servers",
        property: "servers",
        noun: "MCP server",
        reserved: Some("client"),
    };
    let absent = [
        Absent { name: "shell", tools: &["shell"], declarations: None, runs_code: false, needs: "processes" },
        Absent { name: "custom", tools: &[], declarations: None, runs_code: true, needs: "an interpreter" },
        Absent {
            name: "mcp",
            tools: &[],
            declarations: Some(servers),
            runs_code: false,
            needs: "servers that are processes",
        },
        Absent {
            name: "programs",
            tools: &["run_program"],
            declarations: None,
            runs_code: false,
            needs: "an interpreter",
        },
    ];
    for kind in absent {
        kinds.register(Arc::new(kind));
    }
    kinds
}
