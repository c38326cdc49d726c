//! The result of a run, and the summary after it.

use super::Output;
use crate::{
    args::Format,
    program::{home, quoted},
    visible,
};
use llm_do::Report;
use llm_do_core::{
    engine::{End, Halt},
    journal::RunStatus,
    ledger::Left,
    model::Usage,
    question::{Question, Waiting},
};
use llm_do_records::{duration, thousands};
use llm_do_runs::JOURNAL_FILE;
use serde_json::{Value, json};
use std::{env, fs};

/// Shows the end of a run: the result on stdout, the rest on stderr. `streamed` is the text that is on the screen
/// already.
pub(crate) fn show_report(output: &Output, report: &Report, streamed: Option<&str>) {
    match output.format {
        Format::Json => {
            output.print_json(&as_json(report));
        }
        // The last event, the end of the run, has told it.
        Format::StreamJson | Format::Sarif => {}
        Format::Text => {
            if let End::Done(value) = &report.end {
                show_value(output, value, streamed);
            }
        }
    }
    if output.screen.is_gone() {
        return;
    }
    match &report.end {
        End::Done(_) => {}
        End::Failed(failure) => show_failure(output, report, &failure.message, failure.partial.as_deref()),
        End::Suspended(waiting) => {
            show_waiting(output, waiting);
            let (run, place) = (visible::line(&report.run).into_owned(), place(report));
            show_how_to_answer(output, &format!("{run}{place}"), waiting);
        }
    }
    summary(output, report);
}

fn show_value(output: &Output, value: &Value, streamed: Option<&str>) {
    let text = llm_do::output_text(value, output.out_terminal);
    let text = text.trim_end_matches('\n');
    if streamed.is_some_and(|streamed| streamed.trim_end() == text.trim()) {
        // It stands there; only its end is missing, which the next line or the prompt of the shell needs.
        output.screen.finish_answer();
        return;
    }
    let shown = if output.out_terminal { visible::prose(text) } else { text.into() };
    output.screen.result(format!("{shown}\n").as_bytes());
}

fn show_failure(output: &Output, report: &Report, message: &str, partial: Option<&Value>) {
    let paint = output.err;
    match report.status {
        RunStatus::Interrupted => {
            let id = visible::line(&report.run);
            let took = duration(millis(report.took));
            output.line(&format!(
                "interrupted after {took}; `llm-do runs resume {id}{}` continues it",
                place(report)
            ));
            return;
        }
        _ => output.line(&format!("{} {}", paint.error("error:"), visible::text(message))),
    }
    let continues = how_to_continue(report);
    if continues.is_some() {
        output.line(&format!(
            "{} what the run did up to there has happened, and is not repeated when the run continues",
            paint.dim("note:")
        ));
    }
    if let Some(partial) = partial {
        let text = llm_do::output_text(partial, true);
        let text = visible::text(visible::start(&text, 2000).trim_end()).into_owned();
        output.line(&format!("{} the incomplete answer:", paint.dim("note:")));
        for line in text.lines() {
            output.line(&format!("  {} {line}", paint.dim("│")));
        }
    }
    let hint = continues.unwrap_or_else(|| {
        format!("`llm-do runs show {}{}` shows what it did", visible::line(&report.run), place(report))
    });
    output.line(&format!("{} {hint}", paint.hint("hint:")));
}

/// Explains how to continue a run whose journal could not be written to its end. `None`: the journal is complete, or
/// has no records.
fn how_to_continue(report: &Report) -> Option<String> {
    let is_cut_off = matches!(report.halt, Some(Halt::Journal(_))) && report.dir.join(JOURNAL_FILE).is_file();
    is_cut_off.then(|| {
        let (run, place) = (visible::line(&report.run).into_owned(), place(report));
        format!("when the journal can be written again, `llm-do runs resume {run}{place}` continues the run")
    })
}

/// Returns the project's folder as a further word for `runs`, if `runs` would not search there.
fn place(report: &Report) -> String {
    let Ok(here) = env::current_dir().and_then(fs::canonicalize) else { return String::new() };
    // PROJECT/.llm-do/runs/ID; runs of lone files lie in the home, where `runs` looks anyway.
    let dir = fs::canonicalize(&report.dir).unwrap_or_else(|_| report.dir.clone());
    let Some(project) = dir.ancestors().nth(3) else { return String::new() };
    if project == here || dir.starts_with(home()) {
        return String::new();
    }
    let shown = project.strip_prefix(&here).unwrap_or(project).display().to_string();
    format!(" {}", quoted(&shown))
}

/// Shows the open questions of a suspended run.
pub(crate) fn show_waiting(output: &Output, waiting: &[Waiting]) {
    let paint = output.err;
    let number = |is: fn(&Question) -> bool| waiting.iter().filter(|waiting| is(&waiting.question)).count();
    let kinds = [
        (number(|question| matches!(question, Question::Approval(_))), "approval"),
        (number(|question| matches!(question, Question::Input(_))), "input"),
        (number(|question| matches!(question, Question::Settlement(_))), "decision"),
    ];
    let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<String> = kinds.map(|(number, noun)| count(number, noun)).collect();
    let header = format!("{} the run waits for {}:", paint.warning("suspended:"), kinds.join(", "));
    output.line(&header);
    for Waiting { id, question } in waiting {
        let call = &id.call;
        let line = match question {
            Question::Approval(approval) => format!(
                "  {call}  {} wants to call {} {}",
                visible::line(&approval.chain.join(" → ")),
                paint.bold(visible::line(&approval.function)),
                paint.dim(visible::start(&visible::line(&approval.input.to_string()), 200)),
            ),
            Question::Input(input) => format!(
                "  {}  {} asks: {}",
                visible::line(&id.to_string()),
                visible::line(&input.chain.join(" → ")),
                visible::start(&visible::line(&input.prompt), 200),
            ),
            Question::Settlement(cut_off) => format!(
                "  {call}  {} was cut off before it ended; only you can know whether its effect took place",
                paint.bold(visible::line(&cut_off.function)),
            ),
        };
        output.line(&line);
    }
}

/// Shows how to answer the first question of each kind. `run` is the argument of `runs resume`.
pub(crate) fn show_how_to_answer(output: &Output, run: &str, waiting: &[Waiting]) {
    for hint in how_to_answer(run, waiting) {
        output.line(&format!("{} {hint}", output.err.hint("hint:")));
    }
}

/// Returns these hints as text.
pub(crate) fn how_to_answer(run: &str, waiting: &[Waiting]) -> Vec<String> {
    let mut hints = Vec::new();
    let first = |is: fn(&Question) -> bool| waiting.iter().find(|waiting| is(&waiting.question));
    if let Some(Waiting { id, .. }) = first(|question| matches!(question, Question::Approval(_))) {
        let call = &id.call;
        hints.push(format!("decide with `llm-do runs resume {run} --approve {call}` or `--deny {call}`"));
    }
    if let Some(Waiting { id, .. }) = first(|question| matches!(question, Question::Input(_))) {
        hints.push(format!("answer with `llm-do runs resume {run} --answer '{id}=JSON'`"));
    }
    if let Some(Waiting { id, .. }) = first(|question| matches!(question, Question::Settlement(_))) {
        let call = &id.call;
        hints.push(format!(
            "decide with `llm-do runs resume {run} --again {call}` to run it again, or with `--result {call}=JSON` to count it as done"
        ));
    }
    hints
}

fn summary(output: &Output, report: &Report) {
    // That it was interrupted has been told, with all there is to say.
    if output.quiet || report.status == RunStatus::Interrupted {
        return;
    }
    let counts = &report.counts;
    // The cause that ended the run itself has been shown.
    let below = |count: u32, status: RunStatus| count.saturating_sub(u32::from(report.status == status));
    let refused = below(counts.refused, RunStatus::Refused);
    let refused = (refused > 0).then(|| format!("{} refused", were(refused, "call")));
    let limits = below(counts.limits, RunStatus::Limit);
    let limits = (limits > 0).then(|| format!("{} reached", were(limits, "limit")));
    let failed = (counts.failed_tools > 0)
        .then(|| format!("{} of {} failed", counts.failed_tools, count(counts.tools as usize, "tool call")));
    let unoffered = (counts.unoffered > 0).then(|| {
        let calls =
            if counts.unoffered == 1 { "1 call".to_owned() } else { format!("{} calls", counts.unoffered) };
        format!("{calls} of tools that were not offered")
    });
    if !output.err_terminal && output.verbose == 0 {
        // No one watches: write only the lines that a log should keep.
        for note in &counts.notes {
            output.note(note);
        }
        for line in [refused, limits, failed, unoffered].into_iter().flatten() {
            output.warn(&line);
        }
        return;
    }
    let mut parts = vec![format!("{} in {}", word(report.status), duration(millis(report.took)))];
    parts.extend(tokens(&report.usage));
    parts.extend(report.usage.cost_usd.map(|cost| cost.to_string()));
    parts.extend(report.left.as_ref().and_then(left));
    parts.extend(refused);
    parts.extend(limits);
    parts.extend(failed);
    parts.extend(unoffered);
    parts.push(format!("run {}", report.run));
    output.line(&format!("{}", output.err.dim(parts.join(" · "))));
}

fn tokens(usage: &Usage) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(input) = usage.input_tokens {
        parts.push(match usage.cached_tokens {
            Some(cached) if cached > 0 => {
                format!("{} tokens in ({} cached)", thousands(input), thousands(cached))
            }
            _ => format!("{} tokens in", thousands(input)),
        });
    }
    parts.extend(usage.output_tokens.map(|out| format!("{} out", thousands(out))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Formats the rest of the budget.
fn left(left: &Left) -> Option<String> {
    let counted = |count: Option<u64>, noun: &str| count.map(|count| format!("{} {noun}", thousands(count)));
    let parts = [
        left.cost_usd.map(|cost| cost.to_string()),
        counted(left.tokens, "tokens"),
        counted(left.turns, "turns"),
        counted(left.calls, "calls"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} left", parts.join(", ")))
}

fn as_json(report: &Report) -> Value {
    let (output, error, waiting) = match &report.end {
        End::Done(value) => ((**value).clone(), Value::Null, Vec::new()),
        End::Failed(failure) => (Value::Null, json!(failure), Vec::new()),
        End::Suspended(asks) => (Value::Null, Value::Null, asks.clone()),
    };
    let counts = &report.counts;
    let mut object = json!({
        "run": report.run,
        "status": report.status,
        "output": output,
        "error": error,
        "usage": report.usage,
        "took_ms": millis(report.took),
        "requests": counts.requests,
        "tools": counts.tools,
        "refused": counts.refused,
        "unoffered": counts.unoffered,
        "limits": counts.limits,
        "notes": counts.notes,
    });
    if let Some(left) = &report.left {
        object["left"] = json!(left);
    }
    if !waiting.is_empty() {
        object["waiting"] = json!(waiting);
    }
    if let Some(hint) = how_to_continue(report) {
        object["error"]["hints"] = json!([hint]);
    }
    object
}

fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Limit => "ended by a limit",
        RunStatus::Refused => "refused",
        RunStatus::Suspended => "suspended",
        RunStatus::Interrupted => "interrupted",
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn were(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun} was") } else { format!("{number} {noun}s were") }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
