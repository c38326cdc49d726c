//! Findings of the check of a program, for the model that wrote it.

use std::fmt::Write as _;

/// The greatest number of findings that a model gets at once.
const MOST: usize = 20;

/// A problem of a program, with its place and a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The line, from 1.
    pub(super) line: u32,
    /// The column, from 1, in characters.
    pub(super) column: u32,
    /// The problem, and what to write instead.
    pub(super) message: String,
}

/// Returns the message about these findings.
pub(super) fn message(findings: &[Finding]) -> String {
    let mut text = "The program was not run. Correct it and call `run_program` again:".to_owned();
    for Finding { line, column, message } in findings.iter().take(MOST) {
        // Writing to a `String` does not fail.
        let _ = write!(text, "\n- line {line}, column {column}: {message}");
    }
    if findings.len() > MOST {
        let _ = write!(text, "\n- {} more", findings.len() - MOST);
    }
    text
}
