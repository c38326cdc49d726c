//! A worker as a tool.

use llm_do::{Reach, Session, client_schema, core::function::tool_name};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;
use std::sync::Arc;

/// The name of the entry of a session as a tool.
pub(crate) fn name(session: &Session) -> String {
    tool_name(&session.entry().id)
}

/// The entry of a session as a tool: its name, description, schemas and hints.
pub(super) fn tool(session: &Session) -> Tool {
    let worker = session.entry();
    let description = worker.description.as_ref().map(|text| text.to_string().into());
    let tool = Tool::new_with_raw(name(session), description, client_schema(worker))
        .with_annotations(annotations(session.reach()));
    match worker.returns.as_ref().map(|schema| schema.value().as_ref()) {
        Some(Value::Object(schema)) => tool.with_raw_output_schema(Arc::new(schema.clone())),
        _ => tool,
    }
}

/// Hints for clients. The protocol calls an update destructive unless it only adds something, and a file can be overwritten.
fn annotations(Reach { changes, network }: Reach) -> ToolAnnotations {
    ToolAnnotations::new().read_only(!changes && !network).destructive(changes).open_world(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_and_reaches_nothing_is_read_only() {
        let hints = |changes, network| {
            let hints = annotations(Reach { changes, network });
            (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint)
        };
        assert_eq!(hints(false, false), (Some(true), Some(false), Some(false)));
        assert_eq!(hints(true, false), (Some(false), Some(true), Some(false)));
        assert_eq!(hints(false, true), (Some(false), Some(false), Some(true)));
    }
}
