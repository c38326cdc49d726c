//! `llm-do runs replay`: runs a program over the record of a run, and shows the first divergence.

use crate::{
    args::{Format, ReplayArgs},
    exit::{Complaint, Exit},
    opening::{NotReady, grants, said, surrounded},
    paint::Paint,
    past_runs,
    program::{complaint, home},
    render::Output,
    visible,
};
use llm_do::{Problem, Recorded, ReplayReport, replay, sections};
use llm_do_core::journal::Ending;
use llm_do_core::step_name::StepName;
use llm_do_records::{Difference, Divergence, diff::unified_diff};
use serde_json::{Value, json};
use std::{fmt::Write as _, path::Path};

/// Runs the command: exit code 1 if the program diverges from the record.
pub(crate) fn run(args: &ReplayArgs, project: Option<&Path>, output: &Output) -> Exit {
    replayed(args, project, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn replayed(args: &ReplayArgs, project: Option<&Path>, output: &Output) -> Result<Exit, NotReady> {
    // Code 1 is for a difference alone.
    let recorded = Recorded::open(&past_runs::folder(&args.run, args.target.as_deref(), project)?, &home())
        .map_err(|error| Complaint { exit: Exit::Wrong, ..complaint(&Problem::from(error)) })?;
    let mut base = surrounded()?;
    base.run.grants = grants(&args.grant)?;
    let settings = recorded.settings(base, args.against.as_deref()).map_err(Problem::from)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let report = runtime.block_on(replay(settings, &recorded))?;
    if output.format == Format::Text {
        output.print(&told(&recorded, &report, output.out));
    } else {
        output.print_json(&as_json(&recorded, &report));
    }
    Ok(if report.divergence.is_some() { Exit::Failed } else { Exit::Done })
}

fn told(recorded: &Recorded, report: &ReplayReport, paint: Paint) -> String {
    let compared = &report.compared;
    let counts = [
        counted(compared.calls, "call", "calls"),
        counted(compared.requests, "model request", "model requests"),
        counted(compared.tools, "tool", "tools"),
    ]
    .join(", ");
    let end = if report.whole { "" } else { ", as far as the record goes" };
    let Some(divergence) = &report.divergence else {
        return format!("{} {}: {counts}{end}\n", paint.green("the same as"), recorded.run());
    };
    let mut out = format!(
        "{} {} {}\n",
        paint.red("differs from"),
        recorded.run(),
        paint.bold(visible::line(&place(divergence)))
    );
    // Writing to a `String` does not fail.
    let _ = writeln!(out, "{}", visible::text(&what(divergence)));
    for section in sections(&divergence.what) {
        let (before, after) = (format!("recorded {}", section.name), format!("now {}", section.name));
        let diff = unified_diff(&before, &after, &section.recorded, &section.now);
        // Without the remarks on line breaks at the end, which begin with a backslash.
        for line in diff.lines().filter(|line| !line.starts_with('\\')) {
            let line = visible::line(line);
            let _ = match line.chars().next() {
                Some('+') => writeln!(out, "{}", paint.green(line)),
                Some('-') => writeln!(out, "{}", paint.red(line)),
                Some('@') => writeln!(out, "{}", paint.dim(line)),
                _ => writeln!(out, "{line}"),
            };
        }
    }
    let _ = writeln!(out, "{}", paint.dim(format!("{counts} up to there")));
    out
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats the place of a divergence: `at 0/1.0 (main → summarizer, turn 2)`.
fn place(divergence: &Divergence) -> String {
    let chain = divergence.chain.iter().map(|name| &**name).collect::<Vec<_>>().join(" → ");
    let turn = divergence.turn().map(|turn| format!("turn {turn}"));
    let who: Vec<String> = [chain].into_iter().chain(turn).filter(|part| !part.is_empty()).collect();
    let who = if who.is_empty() { String::new() } else { format!(" ({})", who.join(", ")) };
    format!("at {}{who}", divergence.path)
}

/// Describes the subject of a divergence in a sentence.
fn what(divergence: &Divergence) -> String {
    let step = match &divergence.step {
        StepName::Call => "the call".to_owned(),
        StepName::Conversation => "the beginning of the conversation".to_owned(),
        StepName::Model(_) => "the request to the model".to_owned(),
        StepName::Tool(_) => "the tool".to_owned(),
        StepName::Verdict => "the gate's verdict".to_owned(),
        StepName::Ask(_) | StepName::Input(_) | StepName::Settle => "the question to the operator".to_owned(),
        StepName::Links(_) => "where links lead".to_owned(),
        StepName::Recheck(_) => "the changes after the approval".to_owned(),
        StepName::Rule(_) => "the question to the tool's own rule".to_owned(),
        StepName::Repair(_) => "the message to the model about its answer".to_owned(),
        StepName::Wait(_) | StepName::Jitter(_) => "the wait before the next attempt".to_owned(),
        StepName::Limit => "the limit that was reached".to_owned(),
        StepName::Definition => "the worker that is called".to_owned(),
        StepName::End => "how it ends".to_owned(),
        other => other.to_string(),
    };
    match &divergence.what {
        Difference::Changed { .. } | Difference::Sent { .. } => format!("{step} differs:"),
        Difference::Added { .. } => format!("{step} is not in the record:"),
        Difference::Gone { ended: None, .. } => format!("{step} is recorded, and is not made any more:"),
        Difference::Gone { ended: Some(ended), .. } => {
            let ends = match ended {
                Ending::Output(value) => format!("with {value}"),
                Ending::Failure(failure) => format!("with a failure: {failure}"),
                Ending::Suspended => "waiting for an approval".to_owned(),
            };
            format!("{step} is recorded, and is not made any more. Its caller ends {ends}")
        }
    }
}

fn as_json(recorded: &Recorded, report: &ReplayReport) -> Value {
    let divergence = report.divergence.as_ref().map(|divergence| {
        json!({
            "path": divergence.path,
            "chain": divergence.chain,
            "turn": divergence.turn(),
            "step": divergence.step,
            "what": what(divergence).trim_end_matches(':'),
            "sections": sections(&divergence.what),
        })
    });
    json!({
        "run": recorded.run(),
        "same": divergence.is_none(),
        "whole": report.whole,
        "compared": report.compared,
        "divergence": divergence,
    })
}
