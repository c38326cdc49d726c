//! The worker that proposes instructions, and the message that it gets.

use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// The worker file of the proposer.
pub const PROPOSER: &str = include_str!("proposer.worker");

/// A failed call, as the proposer reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FailedCall {
    pub(crate) input: Value,
    /// The output; absent if the call failed.
    pub(crate) output: Option<Value>,
    /// The expected output, where the case gives one.
    pub(crate) expected: Option<Value>,
    /// The expectations that do not hold, the judge's reason among them.
    pub(crate) reasons: Vec<String>,
    /// The calls that the worker made.
    pub(crate) trace: String,
}

/// Formats the message to the proposer.
pub(crate) fn message(instructions: &str, failed: &[FailedCall], refused: Option<&str>) -> String {
    let mut text = format!("<instructions>\n{instructions}\n</instructions>\n");
    for (number, call) in failed.iter().enumerate() {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "\n## Failed call {}\n", number + 1);
        section(&mut text, "input", &shown(&call.input));
        match &call.output {
            Some(output) => section(&mut text, "output", &shown(output)),
            None => section(&mut text, "output", "none: the call failed"),
        }
        if let Some(expected) = &call.expected {
            section(&mut text, "expected", &shown(expected));
        }
        section(&mut text, "reasons", &call.reasons.join("\n"));
        if !call.trace.is_empty() {
            section(&mut text, "calls", &call.trace);
        }
    }
    if let Some(reason) = refused {
        let _ = write!(text, "\nYour last rewrite was thrown away: {reason}\n");
    }
    text
}

fn section(text: &mut String, name: &str, content: &str) {
    let _ = writeln!(text, "<{name}>\n{content}\n</{name}>");
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => format!("{value:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_proposer_reads_input_output_expectation_reasons_and_trace() {
        let failed = FailedCall {
            input: json!({"item": "pear"}),
            output: Some(json!("2")),
            expected: Some(json!("1.50")),
            reasons: vec!["judge: `j`: it is rounded".into()],
            trace: "lookup({}) -> 0.5".into(),
        };
        let text = message("Say it.", &[failed], Some("it is empty"));
        for part in [
            "<instructions>\nSay it.\n</instructions>",
            "\"item\": \"pear\"",
            "<output>\n2\n</output>",
            "<expected>\n1.50\n</expected>",
            "it is rounded",
            "lookup({}) -> 0.5",
            "thrown away: it is empty",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
