//! Calls the `ensures` tools with an output.

use super::{
    Prepared,
    calls::{Making, outcomes},
};
use crate::{
    conversation::Ensure,
    definition::WorkerDefinition,
    function::{CompositeCall, Function},
    model::Usage,
    origin::{Content, Trail},
    outcome::{Ending, Stop},
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A tool that checks outputs.
pub(super) struct Judging {
    /// Position of the tool in [`Prepared::functions`].
    function: usize,
    /// The parameter that takes the output.
    output: Arc<str>,
    /// True if that parameter takes only text.
    as_text: bool,
    /// True if the tool also has a parameter `input`, for the worker's input.
    takes_input: bool,
}

/// The tools that a worker's `ensures` names, from its functions.
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
    fn arguments(&self, output: &Value, input: &Value) -> Value {
        let shown =
            if self.as_text && !output.is_string() { output.to_string().into() } else { output.clone() };
        let mut arguments = Map::from_iter([(self.output.to_string(), shown)]);
        if self.takes_input {
            arguments.insert("input".to_owned(), input.clone());
        }
        Value::Object(arguments)
    }
}

/// Calls all of these tools with an output. Returns the endings of the calls, and the contents that the conversation
/// receives with them.
pub(super) async fn ask(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    turn: u32,
    trail: &Trail,
    output: &Value,
    usage: &mut Usage,
) -> Result<(Vec<Ending>, Vec<Content>), Stop> {
    let input = prepared.setup.output.ensures().map_or(&Value::Null, |ensures| &ensures.input);
    let calls = prepared.judges.iter().enumerate().map(|(at, judging)| Making {
        path: call.path.judge(turn, at),
        function: judging.function,
        input: Arc::new(judging.arguments(output, input)),
    });
    let made = outcomes(prepared, call, trail, calls, usage).await?;
    let (mut endings, mut contents) = (Vec::new(), Vec::new());
    for (at, (judging, outcome)) in prepared.judges.iter().zip(made).enumerate() {
        let function = Arc::clone(&prepared.functions[judging.function].meta.name);
        let (path, ending) = (call.path.judge(turn, at), outcome.end.to_ending());
        contents.extend(Content::said(&path, &function, &outcome.said));
        contents.extend(Content::result(path, function, &ending, outcome.origins, None));
        endings.push(ending);
    }
    Ok((endings, contents))
}
