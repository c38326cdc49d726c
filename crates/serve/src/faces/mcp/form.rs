//! Questions of a run as forms for the client's user, and the answers to them.

use llm_do::{
    core::question::{Answer, Waiting},
    digest, question_text,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use std::fmt::Write as _;

/// The form for a question of that run.
pub(super) fn form(run: &str, waiting: &Waiting) -> ElicitRequestParams {
    let mut message = question_text::plain(&waiting.question, false);
    // Writing to a `String` does not fail.
    let _ = write!(message, "\n\nRun {run}, question {}, digest {}", waiting.id, digest(waiting));
    let form = question_text::form(&waiting.question).schema;
    let requested_schema =
        serde_json::from_value(form).expect("a form is a flat object of texts, numbers and flags");
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// Reads the answer from a filled form. A dismissed form is a refusal.
///
/// # Errors
/// The form is filled wrong. The text says why.
pub(super) fn answer(waiting: &Waiting, filled: &ElicitResult) -> Result<Answer, String> {
    let question = &waiting.question;
    match (&filled.action, &filled.content) {
        (ElicitationAction::Accept, Some(content)) => {
            question.filled(content).map_err(|wrong| wrong.to_string())
        }
        (ElicitationAction::Accept, None) => Err("the form has no content".into()),
        (ElicitationAction::Cancel, _) => Ok(question.refusal(Some("the user dismissed the question"))),
        _ => Ok(question.refusal(None)),
    }
}
