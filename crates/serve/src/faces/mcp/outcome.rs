//! A run as the result of a tool call.

use super::caller::Operator;
use crate::views::{RunView, State};
use llm_do::{
    Session,
    core::{
        outcome::Failure,
        question::{Question, Waiting},
    },
    output_text,
};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};
use std::{fmt::Write as _, path::Path, sync::Arc};

/// Key of a result's `_meta` with the ID of its run.
const RUN_META: &str = "llm-do/run";

/// The state of a run for its client.
pub(super) enum Outcome {
    /// The run has no result yet. The text says what it waits for.
    Working(String),
    /// The run has a result.
    Ended(Box<CallToolResult>),
    /// The run was cancelled. The text says how it can be continued.
    Cancelled(String),
}

impl Outcome {
    /// Reads the state from the view of a run of that worker, for a client of that operator's server.
    pub(super) fn of(view: &RunView, session: &Session, operator: &Operator) -> Self {
        let run = &view.run;
        let reason = || view.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        match view.state {
            State::Queued => Self::Working(format!("The run {run} waits for other runs to end.")),
            State::Running => Self::Working(format!("The run {run} is at work.")),
            State::Waiting => Self::Working(operator.asked(run, &view.questions)),
            State::CutOff => {
                Self::Working(format!("The run {run} was cut off{}.{}", reason(), operator.continues(run)))
            }
            State::Changed => Self::Working(format!("The run {run} can't be continued{}.", reason())),
            State::Cancelled => {
                Self::Cancelled(format!("The run {run} was cancelled.{}", operator.continues(run)))
            }
            State::Done | State::Failed | State::Limit | State::Refused => {
                let result = match (&view.failure, &view.output) {
                    (Some(failure), _) => failed(failure),
                    (None, Some(output)) => done(output, session),
                    (None, None) => error("The run has no output.".into()),
                };
                Self::Ended(Box::new(of_run(result, run)))
            }
        }
    }

    /// Converts the state to the result of the tool call.
    pub(super) fn result(self, run: &str) -> CallToolResult {
        match self {
            Self::Ended(result) => *result,
            Self::Working(text) | Self::Cancelled(text) => of_run(error(text), run),
        }
    }
}

/// A result with the ID of its run.
fn of_run(mut result: CallToolResult, run: &str) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert(RUN_META.into(), json!(run));
    result.meta = Some(meta);
    result
}

/// The result of a run with an output.
fn done(value: &Arc<Value>, session: &Session) -> CallToolResult {
    match session.entry().returns.is_some() {
        true => CallToolResult::structured((**value).clone()),
        false => CallToolResult::success(vec![ContentBlock::text(output_text(value, false))]),
    }
}

/// The result of a run that has failed.
fn failed(failure: &Failure) -> CallToolResult {
    let mut text = failure.message.clone();
    if let Some(partial) = &failure.partial {
        // Writing to a `String` does not fail.
        let _ = write!(text, "\nThe answer so far: {}", output_text(partial, false));
    }
    error(text)
}

/// A result that says what went wrong.
pub(super) fn error(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Lists the calls that wait, with the commands that answer.
pub(super) fn suspended<'a>(
    run: &str,
    waiting: impl IntoIterator<Item = &'a Waiting>,
    project: Option<&Path>,
) -> String {
    let mut text = format!("The run {run} waits for the operator of this server:");
    let resume = resume(run, project);
    for Waiting { id, question } in waiting {
        // Writing to a `String` does not fail.
        let _ = match question {
            Question::Approval(approval) => write!(
                text,
                "\n- the call of {} needs an approval: {resume} --approve {call} (or --deny {call})",
                approval.function,
                call = id.call,
            ),
            Question::Input(_) => write!(text, "\n- a question: {resume} --answer '{id}=JSON'"),
            Question::Settlement(_) => write!(text, "\n- an interrupted call: {resume}"),
        };
    }
    text
}

/// The command that continues a run.
pub(super) fn resume(run: &str, project: Option<&Path>) -> String {
    match project {
        Some(folder) => format!("llm-do runs resume {run} --project '{}'", folder.display()),
        None => format!("llm-do runs resume {run}"),
    }
}

/// Adds to a result that questions were refused in the place of the client's user.
pub(super) fn with_refusals(mut result: CallToolResult, count: usize) -> CallToolResult {
    let asked = match count {
        0 => return result,
        1 => "1 question was".to_owned(),
        count => format!("{count} questions were"),
    };
    result.content.push(ContentBlock::text(format!(
        "{asked} refused, because this client can't ask its user. The operator of the server can allow calls with `--allow`, or \
         start it with `--approval defer`: then the run waits, and the result says which command answers."
    )));
    result
}
