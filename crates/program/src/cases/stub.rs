//! Stubs that replace the callees of a case.

use crate::{span::Span, yaml::Node};
use serde_json::Value;

/// A replacement for a function that the worker calls.
#[derive(Clone, Debug)]
pub struct Stub {
    /// The function: a tool, or a worker's ID.
    pub function: String,
    /// The place of the name.
    pub span: Span,
    /// The results of its calls.
    pub results: StubResults,
}

/// The results of the calls of a stub.
#[derive(Clone, Debug)]
pub enum StubResults {
    /// A result that each call has.
    Always(StubResult),
    /// Results in order of the calls. A further call fails.
    InOrder(Vec<StubResult>),
}

/// The result of one call of a stub.
#[derive(Clone, Debug)]
pub enum StubResult {
    /// An output, with its place.
    Output(Value, Span),
    /// The function's own error.
    Error(String),
}

impl Stub {
    /// Reads the stub that a value of `given` describes: a list holds the results of the calls in order, `{error:
    /// TEXT}` is an error, `{exactly: VALUE}` an output of any kind, and anything else an output.
    pub(super) fn of(function: &str, span: &Span, node: &Node) -> Self {
        let results = match &node.data {
            crate::yaml::Data::List(items) => {
                StubResults::InOrder(items.iter().map(StubResult::of).collect())
            }
            _ => StubResults::Always(StubResult::of(node)),
        };
        Self { function: function.to_owned(), span: span.clone(), results }
    }

    /// Returns all results that the stub may have.
    pub fn all(&self) -> &[StubResult] {
        match &self.results {
            StubResults::Always(result) => std::slice::from_ref(result),
            StubResults::InOrder(results) => results,
        }
    }

    /// Returns the result of the call with that number, from 0, or `None` if there are fewer results.
    pub fn result(&self, call: usize) -> Option<&StubResult> {
        match &self.results {
            StubResults::Always(result) => Some(result),
            StubResults::InOrder(results) => results.get(call),
        }
    }
}

impl StubResult {
    fn of(node: &Node) -> Self {
        if let [only] = node.entries() {
            match (only.key.as_str(), only.value.as_text()) {
                ("error", Some(text)) => return Self::Error(text.to_owned()),
                ("exactly", _) => return Self::Output(only.value.to_json(), only.value.span.clone()),
                _ => {}
            }
        }
        Self::Output(node.to_json(), node.span.clone())
    }
}
