//! The tools that a worker's `ensures` names.

use crate::{conversation::Ensure, definition::WorkerDefinition, function::Function};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A tool that checks outputs.
pub(super) struct Judging {
    /// The position of the tool in the functions of its worker.
    pub(super) function: usize,
    /// The parameter that takes the output.
    output: Arc<str>,
    /// True if that parameter takes only text.
    as_text: bool,
    /// True if the tool also has a parameter `input`, for the worker's input.
    takes_input: bool,
}

/// Finds the tools that a worker's `ensures` names among its functions.
///
/// # Errors
/// A name is not among them, or the tool can't be called with an output.
pub(super) fn judges(worker: &WorkerDefinition, functions: &[Function]) -> Result<Vec<Judging>, String> {
    worker.ensures.iter().filter_map(Ensure::tool).map(|tool| judging(worker, functions, tool)).collect()
}

fn judging(worker: &WorkerDefinition, functions: &[Function], tool: &str) -> Result<Judging, String> {
    let id = &worker.id;
    let found = functions.iter().position(|f| *f.meta.name == *tool || *f.meta.tool_name == *tool);
    let Some(function) = found else {
        let names: Vec<&str> = functions.iter().map(|f| &*f.meta.tool_name).collect();
        let there = match names.as_slice() {
            [] => "it has none".to_owned(),
            names => format!("it has: {}", names.join(", ")),
        };
        return Err(format!(
            "`ensures` of `{id}` names `{tool}`, which is not a tool that it may call; {there}"
        ));
    };
    let schema = functions[function].meta.input.value();
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let output = match required.as_slice() {
        _ if properties.contains_key("output") => "output",
        [only] => only,
        [] if properties.len() == 1 => properties.keys().next().map_or("output", String::as_str),
        // A worker without a signature takes any input.
        [] if properties.contains_key("input") => "input",
        _ => "output",
    };
    let takes_input = output != "input" && properties.contains_key("input");
    let left: Vec<&str> =
        required.into_iter().filter(|name| *name != output && !(takes_input && *name == "input")).collect();
    if !left.is_empty() {
        return Err(format!(
            "`ensures` of `{id}` names `{tool}`, which also requires `{}`; a tool that looks at an output takes `output`, and `input` if it likes",
            left.join("`, `")
        ));
    }
    let as_text = properties.get(output).and_then(|schema| schema.get("type")?.as_str()) == Some("string");
    Ok(Judging { function, output: output.into(), as_text, takes_input })
}

impl Judging {
    /// Returns the arguments of a call that checks this output.
    pub(super) fn arguments(&self, output: &Value, input: &Value) -> Value {
        let shown =
            if self.as_text && !output.is_string() { output.to_string().into() } else { output.clone() };
        let mut arguments = Map::from_iter([(self.output.to_string(), shown)]);
        if self.takes_input {
            arguments.insert("input".to_owned(), input.clone());
        }
        Value::Object(arguments)
    }
}
