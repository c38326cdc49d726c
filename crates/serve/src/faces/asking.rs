//! Questions as the text of a message, for clients that have no other form for them.

use crate::views::QuestionView;
use axum::http::{HeaderMap, header};
use llm_do::question_text::markdown;
use std::fmt::Write as _;

/// The address of a run in the app.
pub(crate) struct Link(String);

impl Link {
    /// Makes the address from the host that the client has called.
    pub(crate) fn of(headers: &HeaderMap, run: &str) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        Self(format!("http://{host}/#/runs/{run}"))
    }

    pub(crate) fn none() -> Self {
        Self(String::new())
    }

    /// Returns a text with the questions and the address where the operator answers them. The address is a link in
    /// Markdown.
    pub(crate) fn asking(&self, questions: &[QuestionView]) -> String {
        let mut text = String::from("The run waits for the operator.\n\n");
        for question in questions {
            // Writing to a `String` does not fail.
            let _ = writeln!(text, "{}\n", markdown(&question.waiting.question));
        }
        let _ = write!(text, "Answer it here: <{}>", self.0);
        text
    }
}
