//! The end of a run as the result of a tool call.

use crate::{runs::NotStarted, tool::ServedTool};
use llm_do::{
    Problem, Report,
    core::{
        engine::{End, Halt},
        outcome::Failure,
        question::{Question, Waiting},
    },
    output_text,
};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};
use std::{fmt::Write as _, path::Path, sync::Arc};

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
        _ if matches!(report.halt, Some(Halt::Cancelled)) => error(interrupted(&report.run, project)),
        End::Done(value) => done(value, tool),
        End::Failed(failure) => failed(failure),
        End::Suspended(waiting) => error(suspended(&report.run, waiting, project)),
    };
    if refused > 0 {
        result.content.push(ContentBlock::text(refusals(refused)));
    }
    of_run(result, &report.run)
}

/// A result with the ID of its run.
pub(crate) fn of_run(mut result: CallToolResult, run: &str) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert(RUN_META.into(), json!(run));
    result.meta = Some(meta);
    result
}

/// The result of a run with an output.
pub(crate) fn done(value: &Arc<Value>, tool: &ServedTool) -> CallToolResult {
    match tool.is_typed() {
        true => CallToolResult::structured((**value).clone()),
        false => CallToolResult::success(vec![ContentBlock::text(output_text(value, false))]),
    }
}

/// The result of a run that has failed.
pub(crate) fn failed(failure: &Failure) -> CallToolResult {
    let mut text = failure.message.clone();
    if let Some(partial) = &failure.partial {
        // Writing to a `String` does not fail.
        let _ = write!(text, "\nThe answer so far: {}", output_text(partial, false));
    }
    error(text)
}

/// That a run was cancelled, and the command that continues it.
pub(crate) fn interrupted(run: &str, project: Option<&Path>) -> String {
    format!("The run {run} was cancelled. To continue it: {}", command("resume", run, project))
}

/// That a run was cut off, and the command that continues it.
pub(crate) fn cut_off(run: &str, project: Option<&Path>) -> String {
    format!("The run {run} was cut off. To continue it: {}", command("resume", run, project))
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

/// The result of a call whose run can't be continued.
pub(crate) fn not_continued(run: &str, why: &NotStarted) -> CallToolResult {
    match why {
        NotStarted::Problem(problem) => {
            error(format!("The run {run} can't be continued: {}", problem_text(problem)))
        }
        why => not_started(why),
    }
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
pub(crate) fn suspended(run: &str, waiting: &[Waiting], project: Option<&Path>) -> String {
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
