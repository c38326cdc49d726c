//! The signatures of a program's workers as programs in other languages see them, each with a hash that changes when the
//! signature does. Stubs carry the hash (`docs/reference/stdio.md`).

use llm_do_core::{schema::sha256, worker::WorkerDefinition};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a caller inside a program can pass beside the parameters: instructions to trust, and paths in its own view. A client
/// has neither.
const NOT_FOR_CLIENTS: [&str; 2] = ["instructions", "attachments"];

/// How many hexadecimal digits of a hash are kept.
const DIGITS: usize = 32;

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

/// The signature of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSignature {
    /// Its ID.
    pub worker: Arc<str>,
    /// What it does.
    pub description: Option<String>,
    /// Whether it declares its parameters. If not, it takes any `input`.
    pub declared: bool,
    /// JSON Schema of its input, without what clients can't pass.
    pub input: Value,
    /// JSON Schema of its output; `None` for text.
    pub output: Option<Arc<Value>>,
    /// Hash of ID, input and output.
    pub hash: String,
}

impl WorkerSignature {
    /// That of a worker.
    pub fn of(worker: &WorkerDefinition) -> Self {
        let input = Value::Object(client_schema(worker));
        let output = worker.returns.as_ref().map(|schema| Arc::clone(schema.value()));
        let mut signed = json!({"worker": worker.id, "input": input, "output": output});
        // The order of keys says nothing about a type.
        signed.sort_all_objects();
        Self {
            worker: Arc::clone(&worker.id),
            description: worker.description.as_ref().map(ToString::to_string),
            declared: worker.signature.declared,
            input,
            output,
            hash: short(&signed.to_string()),
        }
    }
}

/// The signatures of all workers of a program, sorted by ID.
#[derive(Clone, Debug, PartialEq)]
pub struct Signatures {
    /// The workers.
    pub workers: Vec<WorkerSignature>,
    /// The ID of each worker that can't be loaded, and why.
    pub broken: Vec<(String, String)>,
}

impl Signatures {
    /// Those of these workers.
    pub fn of_definitions<'a>(workers: impl IntoIterator<Item = &'a WorkerDefinition>) -> Self {
        let mut workers: Vec<_> = workers.into_iter().map(WorkerSignature::of).collect();
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        workers.dedup_by(|a, b| a.worker == b.worker);
        Self { workers, broken: Vec::new() }
    }

    /// The hash of all signatures.
    pub fn hash(&self) -> String {
        let lines: Vec<&str> = self.workers.iter().map(|worker| worker.hash.as_str()).collect();
        short(&lines.join("\n"))
    }
}

fn short(text: &str) -> String {
    sha256(text.as_bytes()).chars().take(DIGITS).collect()
}
