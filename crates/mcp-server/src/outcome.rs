//! The end of a run as the result of a tool call.

use crate::{runs::NotStarted, tool::ServedTool};
use llm_do::{
    Problem, Report,
    core::{
        engine::{End, Halt},
        question::{Question, Waiting},
    },
    output_text,
};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;
use std::{fmt::Write as _, path::Path};

/// Key of a result's `_meta` with the ID of its run.
pub(crate) const RUN_META: &str = "llm-do/run";

/// The result of a run that has ended. `project` is the folder of the program, if it is a
/// project.
pub(crate) fn result(
    report: &Report,
    tool: &ServedTool,
    refused: usize,
    project: Option<&Path>,
) -> CallToolResult {
    let mut result = match &report.end {
        _ if matches!(report.halt, Some(Halt::Cancelled)) => {
            let resume = command("resume", &report.run, project);
            error(format!("The run {} was cancelled. To continue it: {resume}", report.run))
        }
        End::Done(value) if tool.is_typed() => CallToolResult::structured((**value).clone()),
        End::Done(value) => CallToolResult::success(vec![ContentBlock::text(output_text(value, false))]),
        End::Failed(failure) => {
            let mut text = failure.message.clone();
            if let Some(partial) = &failure.partial {
                // Writing to a `String` does not fail.
                let _ = write!(text, "\nThe answer so far: {}", output_text(partial, false));
            }
            error(text)
        }
        End::Suspended(waiting) => error(suspended(&report.run, waiting, project)),
    };
    if refused > 0 {
        result.content.push(ContentBlock::text(refusals(refused)));
    }
    let mut meta = MetaObject::new();
    meta.insert(RUN_META.into(), json!(report.run));
    result.meta = Some(meta);
    result
}

/// The result of a call that started no run.
pub(crate) fn not_started(why: &NotStarted) -> CallToolResult {
    error(match why {
        NotStarted::LongKey => "The idempotency key is longer than 256 bytes.".into(),
        NotStarted::OtherCall => {
            "The idempotency key was used for another call. Use a new key for each different call.".into()
        }
        NotStarted::Busy => "The server has too many calls in progress. Try again later.".into(),
        NotStarted::Ending => "The server is shutting down.".into(),
        NotStarted::Problem(problem) => problem_text(problem),
    })
}

/// A result that says what went wrong.
pub(crate) fn error(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn problem_text(problem: &Problem) -> String {
    match problem {
        Problem::Grants(missing) => {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            format!("The call needs what the operator of this server has not granted: {missing}")
        }
        problem => problem.to_string(),
    }
}

/// Which calls wait, and the commands that answer.
fn suspended(run: &str, waiting: &[Waiting], project: Option<&Path>) -> String {
    let mut text = format!("The run {run} waits for the operator of this server:");
    for Waiting { id, question } in waiting {
        let resume = command("resume", run, project);
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

fn command(what: &str, run: &str, project: Option<&Path>) -> String {
    match project {
        Some(folder) => format!("llm-do runs {what} {run} --project '{}'", folder.display()),
        None => format!("llm-do runs {what} {run}"),
    }
}

fn refusals(count: usize) -> String {
    let asked = if count == 1 { "1 question was" } else { &format!("{count} questions were") };
    format!(
        "{asked} refused, because this client can't ask its user. The operator of the server can allow calls with `--allow`, or \
         start it with `--approval defer`: then the run waits, and the result says which command answers."
    )
}
