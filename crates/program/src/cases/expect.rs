//! The expectations about a call.

use super::{Matcher, is_portable, read::bad_case};
use crate::{
    diagnostics::{Diagnostic, codes},
    shape::milliseconds,
    span::Span,
    tool_reference::is_word,
    yaml::{Data, Node},
};
use llm_do_core::{code::Language, gate::Calls, outcome::FailureKind, price::Usd, template::check_condition};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// The expectations about a call. A case has at least one.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// The expected output.
    pub output: Option<Matcher>,
    /// Conditions on the output.
    pub ensures: Vec<Ensured>,
    /// A worker that judges the output, with its place.
    pub judge: Option<(String, Span)>,
    /// Calls that are made or never made.
    pub calls: Vec<CallExpected>,
    /// Files of the copy, after the call.
    pub files: Vec<ExpectedFile>,
    /// The kind of failure with which the call ends.
    pub fails: Option<FailureKind>,
    /// Limits for the call.
    pub limits: CaseLimits,
}

/// A condition on the output.
#[derive(Clone, Debug)]
pub enum Ensured {
    /// An expression over `input` and `output`.
    That(Arc<str>),
    /// A Python function of the program that is called with the output.
    Function {
        /// The file, relative to the program's root.
        file: String,
        /// The function.
        function: String,
        /// The place of the file and the function.
        span: Span,
    },
}

/// A call that is expected, or excluded.
#[derive(Clone, Debug)]
pub struct CallExpected {
    /// The call as written, without `!`.
    pub text: String,
    /// The place of the text.
    pub span: Span,
    /// True if the call must never be made.
    pub never: bool,
    /// The pattern and conditions of the calls.
    pub calls: Calls,
}

/// A file of the copy, after the call.
#[derive(Clone, Debug)]
pub struct ExpectedFile {
    /// The path of the file from the root.
    pub path: String,
    /// The place of the path.
    pub span: Span,
    /// The expectation about the file.
    pub expected: FileExpected,
}

/// An expectation about a file.
#[derive(Clone, Debug)]
pub enum FileExpected {
    /// The text of the file.
    Text(Matcher),
    /// The file does not exist.
    Absent,
}

/// Limits for a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseLimits {
    /// The highest cost.
    pub max_cost_usd: Option<Usd>,
    /// The longest time of the run.
    pub timeout: Option<Duration>,
    /// The largest number of turns of the worker's own conversation.
    pub max_turns: Option<u64>,
    /// The largest number of calls of tools and workers in the whole run.
    pub max_tool_calls: Option<u64>,
    /// The largest number of tokens of the whole run.
    pub max_tokens: Option<u64>,
}

impl Expect {
    /// Reads the expectations of a checked map of a file.
    pub(super) fn of(node: &Node, found: &mut Vec<Diagnostic>) -> Self {
        let limits = node.get("limits");
        let count = |key: &str| limits.and_then(|node| node.get(key)).and_then(Node::as_count);
        let limits = CaseLimits {
            max_cost_usd: limits
                .and_then(|node| node.get("max_cost_usd"))
                .and_then(Node::as_number)
                .and_then(Usd::dollars),
            timeout: limits
                .and_then(|node| node.get("timeout"))
                .and_then(milliseconds)
                .map(Duration::from_millis),
            max_turns: count("max_turns"),
            max_tool_calls: count("max_tool_calls"),
            max_tokens: count("max_tokens"),
        };
        Self {
            output: node.get("output").map(|node| Matcher::of(node, found)),
            ensures: ensures(node, found),
            judge: node.get("judge").and_then(|node| Some((node.as_text()?.to_owned(), node.span.clone()))),
            calls: node
                .get("calls")
                .into_iter()
                .flat_map(Node::texts)
                .filter_map(|(text, span)| call(text, span, found))
                .collect(),
            files: node
                .get("files")
                .map(Node::entries)
                .unwrap_or_default()
                .iter()
                .map(|entry| ExpectedFile {
                    path: entry.key.clone(),
                    span: entry.key_span.clone(),
                    expected: FileExpected::of(&entry.value, found),
                })
                .collect(),
            fails: node.get("fails").and_then(|node| FailureKind::deserialize(node.to_json()).ok()),
            limits,
        }
    }

    /// Returns true if there is no expectation.
    pub fn is_empty(&self) -> bool {
        let Self { output, ensures, judge, calls, files, fails, limits } = self;
        output.is_none()
            && ensures.is_empty()
            && judge.is_none()
            && calls.is_empty()
            && files.is_empty()
            && fails.is_none()
            && *limits == CaseLimits::default()
    }
}

impl FileExpected {
    fn of(node: &Node, found: &mut Vec<Diagnostic>) -> Self {
        if let [only] = node.entries()
            && only.key == "absent"
        {
            if only.value.data != Data::Flag(true) {
                let message = "`absent` can only be `true`";
                found.push(
                    bad_case(codes::BAD_EXPECTATION, &only.value.span, message)
                        .help("a file that must exist has a text: `{matches: \"\"}` fits any"),
                );
            }
            return Self::Absent;
        }
        let before = found.len();
        let matcher = Matcher::of(node, found);
        if found.len() == before && !matcher.can_fit_text() {
            found.push(
                bad_case(codes::BAD_EXPECTATION, &node.span, "a file holds a text, which this never fits").help(
                    "write a text in quotes, `{matches: REGEX}`, `{any_of: [TEXT, …]}` or `{absent: true}`",
                ),
            );
        }
        Self::Text(matcher)
    }
}

fn ensures(node: &Node, found: &mut Vec<Diagnostic>) -> Vec<Ensured> {
    let Some(node) = node.get("ensures") else { return Vec::new() };
    let read = |(text, span): (&str, &Span)| {
        if let Some((file, function)) = file_and_function(text) {
            let (file, function, span) = (file.to_owned(), function.to_owned(), span.clone());
            return Some(Ensured::Function { file, function, span });
        }
        match check_condition(text, &["input", "output"]) {
            Ok(()) => Some(Ensured::That(text.into())),
            Err(problem) => {
                let message = format!("`{text}` is not a valid condition: {problem}");
                found.push(Diagnostic::error(codes::BAD_CONDITION, message).at(span).help(
                    "write an expression over `input` and `output`, such as `output.total > 0`, or name a function: `tests.py:close`, `checks.ts:close`",
                ));
                None
            }
        }
    };
    node.texts().filter_map(read).collect()
}

fn call(text: &str, span: &Span, found: &mut Vec<Diagnostic>) -> Option<CallExpected> {
    let (never, pattern) = match text.trim().strip_prefix('!') {
        Some(pattern) => (true, pattern.trim()),
        None => (false, text.trim()),
    };
    let unread = |_: &llm_do_core::gate::FileSet| Err("a case reads no file".to_owned());
    match Calls::parse(pattern, &unread) {
        // Reading the case would read the file, whoever reads the case. A tool would be called outside of the run.
        Ok(calls) if calls.conditions.sets().any(|set| set.file().is_some() || !set.is_known()) => {
            let message = format!("`{pattern}` names the values of a file or of a tool");
            let help = "in a case, `in` takes a list: `in [\"a\", \"b\"]`";
            found.push(bad_case(codes::BAD_PATTERN, span, message).help(help));
            None
        }
        Ok(calls) => Some(CallExpected { text: pattern.to_owned(), span: span.clone(), never, calls }),
        Err(error) => {
            found.push(bad_case(codes::BAD_PATTERN, span, error.to_string()));
            None
        }
    }
}

/// Splits `tests.py:close` or `checks.ts:close` into file and function.
fn file_and_function(text: &str) -> Option<(&str, &str)> {
    let (file, function) = text.rsplit_once(':')?;
    (Language::of_file(file).is_some() && is_portable(file) && is_word(function)).then_some((file, function))
}
