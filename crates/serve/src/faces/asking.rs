//! Questions in the words of a message, for clients that have no other form for them.

use crate::views::QuestionView;
use axum::http::{HeaderMap, header};
use llm_do::{core::question::Question, program::visible};
use std::fmt::Write as _;

/// Most bytes of the arguments of a call that a message shows.
const MOST_SHOWN: usize = 2000;

/// The address of a run in the app.
pub(crate) struct Link(String);

impl Link {
    /// By the host that the client has called.
    pub(crate) fn of(headers: &HeaderMap, run: &str) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        Self(format!("http://{host}/#/runs/{run}"))
    }

    pub(crate) fn none() -> Self {
        Self(String::new())
    }

    /// What waits, and where it is answered. The address is a link in Markdown.
    pub(crate) fn asking(&self, questions: &[QuestionView]) -> String {
        let mut text = String::from("The run waits for the operator.\n\n");
        for question in questions {
            // Writing to a `String` does not fail.
            let _ = writeln!(text, "{}\n", describe(&question.waiting.question));
        }
        let _ = write!(text, "Answer it here: <{}>", self.0);
        text
    }
}

/// A question in words, in Markdown. Arguments and prompts are a model's words, and so in blocks of code.
pub(crate) fn describe(question: &Question) -> String {
    match question {
        Question::Approval(approval) => {
            format!(
                "- May it call `{}`?\n\n{}",
                plain(&approval.function),
                block(&approval.input.to_string())
            )
        }
        Question::Input(input) => format!("- It asks:\n\n{}", block(&input.prompt)),
        Question::Settlement(settlement) => format!(
            "- `{}` was cut off, and may have had its effect. What became of it?\n\n{}",
            plain(&settlement.function),
            block(&settlement.input.to_string())
        ),
    }
}

/// A name on one line, without what would end a span of code.
fn plain(name: &str) -> String {
    visible::line(name).replace('`', "'")
}

fn block(text: &str) -> String {
    let shown = visible::start(text, MOST_SHOWN);
    let lines: Vec<String> = shown.lines().map(|line| visible::line(line).replace("```", "'''")).collect();
    format!("```\n{}\n```", lines.join("\n"))
}
