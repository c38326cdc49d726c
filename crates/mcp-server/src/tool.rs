//! A worker as a tool.

use crate::ServeError;
use llm_do::{
    Reach, RunOptions, Session,
    core::{function::tool_name, worker::WorkerDefinition},
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use std::sync::Arc;

/// What a caller inside a program can pass beside the parameters: instructions to trust, and paths in its own view. A client
/// has neither.
const NOT_FOR_CLIENTS: [&str; 2] = ["instructions", "attachments"];

/// A worker that clients can call.
pub(crate) struct ServedTool {
    /// How clients see it.
    pub(crate) tool: Tool,
    /// What a call is a run of.
    pub(crate) session: Session,
}

impl ServedTool {
    /// The tool of a session's entry.
    ///
    /// # Errors
    /// A model of the session can't be used.
    pub(crate) fn new(session: &Session) -> Result<Self, ServeError> {
        // A client that can't ask its user refuses: the model is told why, and the result counts it.
        let options = RunOptions { can_ask: true, untrusted_input: true, ..session.options().clone() };
        let session =
            session.with_options(options).map_err(|problem| ServeError::Problem(Box::new(problem)))?;
        let worker = session.entry();
        let name = tool_name(&worker.id);
        let description = worker.description.as_ref().map(|text| text.to_string().into());
        let mut tool = Tool::new_with_raw(name, description, input_schema(worker))
            .with_annotations(annotations(session.reach()));
        if let Some(Value::Object(schema)) = worker.returns.as_ref().map(|schema| schema.value().as_ref()) {
            tool = tool.with_raw_output_schema(Arc::new(schema.clone()));
        }
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
        let worker = self.session.entry();
        NOT_FOR_CLIENTS.into_iter().find(|name| arguments.contains_key(*name) && !declares(worker, name))
    }
}

fn declares(worker: &WorkerDefinition, name: &str) -> bool {
    worker.signature.parameters.iter().any(|parameter| *parameter.name == *name)
}

/// The schema of the parameters, without what clients can't pass.
fn input_schema(worker: &WorkerDefinition) -> JsonObject {
    let mut schema = worker.signature.schema.value().as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !NOT_FOR_CLIENTS.contains(&name.as_str()) || declares(worker, name));
    }
    schema
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
