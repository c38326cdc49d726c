//! The input of a worker as clients of a server see it.

use llm_do_core::worker::WorkerDefinition;
use serde_json::{Map, Value};

/// What a caller inside a program can pass beside the parameters: instructions to trust, and paths in its own view. A client
/// has neither.
const NOT_FOR_CLIENTS: [&str; 2] = ["instructions", "attachments"];

/// The JSON Schema of the worker's parameters, without what clients can't pass.
pub fn client_schema(worker: &WorkerDefinition) -> Map<String, Value> {
    let mut schema = worker.signature.schema.value().as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !NOT_FOR_CLIENTS.contains(&name.as_str()) || declares(worker, name));
    }
    schema
}

/// The argument that only callers inside a program can pass, if there is one among these.
pub fn not_for_clients(worker: &WorkerDefinition, arguments: &Map<String, Value>) -> Option<&'static str> {
    NOT_FOR_CLIENTS.into_iter().find(|name| arguments.contains_key(*name) && !declares(worker, name))
}

fn declares(worker: &WorkerDefinition, name: &str) -> bool {
    worker.signature.parameters.iter().any(|parameter| *parameter.name == *name)
}
