//! A worker as a tool.

use crate::ServeError;
use llm_do::{
    Client, Reach, RunOptions, Session, client_schema,
    core::{function::tool_name, question::Requester},
    not_for_clients,
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use std::sync::Arc;

/// A worker that clients can call.
pub(crate) struct ServedTool {
    /// How clients see it.
    pub(crate) tool: Tool,
    /// What a call is a run of.
    pub(crate) session: Session,
}

impl ServedTool {
    /// The tool of a session's entry, whose runs are started for that client.
    ///
    /// # Errors
    /// A model of the session can't be used.
    pub(crate) fn new(session: &Session, client: Client) -> Result<Self, ServeError> {
        // A client that can't ask its user refuses: the model is told why, and the result counts it.
        let options = RunOptions {
            can_ask: true,
            untrusted_input: true,
            requester: Requester { by: Arc::clone(&client.name), via: "mcp".into() },
            client: Some(client),
            ..session.options().clone()
        };
        let session =
            session.with_options(options).map_err(|problem| ServeError::Problem(Box::new(problem)))?;
        let tool = tool(&session);
        Ok(Self { tool, session })
    }

    /// ID of the worker.
    pub(crate) fn worker(&self) -> &Arc<str> {
        &self.session.entry().id
    }

    /// Whether results are values of a declared type.
    pub(crate) fn is_typed(&self) -> bool {
        self.session.entry().returns.is_some()
    }

    /// The argument that only callers inside a program can pass, if there is one among these.
    pub(crate) fn not_for_clients(&self, arguments: &JsonObject) -> Option<&'static str> {
        not_for_clients(self.session.entry(), arguments)
    }
}

/// The entry of a session as a tool: its name, description, schemas and hints.
pub fn tool(session: &Session) -> Tool {
    let worker = session.entry();
    let description = worker.description.as_ref().map(|text| text.to_string().into());
    let tool = Tool::new_with_raw(tool_name(&worker.id), description, client_schema(worker))
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
