//! `limits` of a file, and those of `--set`.

use crate::{
    diagnostics::Diagnostic,
    keys,
    shape::{self, milliseconds},
    span::SourceFile,
    yaml::{self, Data, Node},
};
use llm_do_core::{price::Usd, worker::GivenLimits};

/// Returns the limits that a file gives, checked by shape.
pub(crate) fn given(node: &Node) -> GivenLimits {
    let count = |key: &str| node.get(key).and_then(Node::as_count);
    let small = |key: &str| count(key).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    GivenLimits {
        max_turns: small("max_turns"),
        max_tool_calls: small("max_tool_calls"),
        timeout_ms: node.get("timeout").and_then(milliseconds),
        max_tokens: count("max_tokens"),
        max_cost_usd: node.get("max_cost_usd").and_then(Node::as_number).and_then(Usd::dollars),
        max_depth: small("max_depth"),
        max_repeats: small("max_repeats"),
        request_retries: small("request_retries"),
        output_retries: small("output_retries"),
        // A key of its own beside `limits`.
        max_context_tokens: None,
    }
}

/// Parses the limits that a command line gives, each a key of `limits` and its value.
///
/// # Errors
/// The first problem, in one line.
pub fn parse<'a>(limits: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<GivenLimits, String> {
    let lines: String =
        limits.into_iter().map(|(key, value)| format!("{}: {value}\n", yaml::scalar(key))).collect();
    let file = SourceFile::new("--set", lines.as_str());
    let node = yaml::parse(&file, lines.len()).map_err(|error| error.message)?;
    if let Some(empty) = node.entries().iter().find(|entry| entry.value.data == Data::Null) {
        return Err(format!("`limits.{}` has no value", empty.key));
    }
    let mut found: Vec<Diagnostic> = Vec::new();
    let node = shape::check(&node, keys::LIMITS, "limits", &mut found);
    match found.into_iter().next() {
        Some(problem) => Err([vec![problem.message], problem.help].concat().join("; ")),
        None => Ok(given(&node)),
    }
}
