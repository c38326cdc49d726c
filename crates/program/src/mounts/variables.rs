//! `sandbox.env`: the environment variables for a worker's code.

use crate::{
    diagnostics::{Diagnostic, codes},
    span::Span,
    yaml::Node,
};
use llm_do_core::authority::variable_refused;
use std::sync::Arc;

/// Reads the names of `env`. Variables that determine the code that a process loads, or that the launcher sets itself,
/// can't be given.
pub(super) fn read(list: &Node, found: &mut Vec<Diagnostic>) -> Vec<(Arc<str>, Span)> {
    let mut names: Vec<(Arc<str>, Span)> = Vec::new();
    for (text, span) in list.texts() {
        match variable_refused(text) {
            Some(reason) => found.push(
                Diagnostic::error(codes::BAD_VALUE, format!("`{text}` cannot be given to tools: {reason}"))
                    .at(span)
                    .help(
                        "list the names of variables that hold settings or keys, such as `WEATHER_API_KEY`",
                    ),
            ),
            None if names.iter().any(|(known, _)| **known == *text) => {}
            None => names.push((text.into(), span.clone())),
        }
    }
    names
}
