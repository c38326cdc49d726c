//! The signatures of a program's workers for programs in other languages, each with a hash that changes when the
//! signature does. Stubs carry the hash (`docs/reference/stdio.md`).

use llm_do_core::{schema::sha256, worker::WorkerDefinition};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Arguments that only a caller inside a program can pass beside the parameters: instructions to trust, and paths in
/// its own view.
const NOT_FOR_CLIENTS: [&str; 2] = ["instructions", "attachments"];

/// The number of hexadecimal digits of a hash that are kept.
const DIGITS: usize = 32;

/// Returns the JSON Schema of the worker's parameters, without those that clients can't pass.
pub fn client_schema(worker: &WorkerDefinition) -> Map<String, Value> {
    let mut schema = worker.signature.schema.value().as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !NOT_FOR_CLIENTS.contains(&name.as_str()) || declares(worker, name));
    }
    schema
}

/// Returns the argument among these that only callers inside a program can pass, if there is one.
pub fn not_for_clients(worker: &WorkerDefinition, arguments: &Map<String, Value>) -> Option<&'static str> {
    NOT_FOR_CLIENTS.into_iter().find(|name| arguments.contains_key(*name) && !declares(worker, name))
}

fn declares(worker: &WorkerDefinition, name: &str) -> bool {
    worker.signature.parameters.iter().any(|parameter| *parameter.name == *name)
}

/// The signature of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSignature {
    /// The ID of the worker.
    pub worker: Arc<str>,
    /// The description of the worker.
    pub description: Option<String>,
    /// True if the worker declares its parameters. If not, it takes any `input`.
    pub declared: bool,
    /// The JSON Schema of its input, without the parts that clients can't pass.
    pub input: Value,
    /// The JSON Schema of its output; `None` for text.
    pub output: Option<Arc<Value>>,
    /// A hash of ID, input and output.
    pub hash: String,
}

impl WorkerSignature {
    /// Returns the signature of a worker.
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
    /// The ID of each worker that can't be loaded, and the reason.
    pub broken: Vec<(String, String)>,
}

impl Signatures {
    /// Returns the signatures of these workers.
    pub fn of_definitions<'a>(workers: impl IntoIterator<Item = &'a WorkerDefinition>) -> Self {
        let mut workers: Vec<_> = workers.into_iter().map(WorkerSignature::of).collect();
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        workers.dedup_by(|a, b| a.worker == b.worker);
        Self { workers, broken: Vec::new() }
    }

    /// Computes the hash of all signatures.
    pub fn hash(&self) -> String {
        let lines: Vec<&str> = self.workers.iter().map(|worker| worker.hash.as_str()).collect();
        short(&lines.join("\n"))
    }
}

fn short(text: &str) -> String {
    sha256(text.as_bytes()).chars().take(DIGITS).collect()
}
