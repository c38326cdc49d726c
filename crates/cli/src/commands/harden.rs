//! `llm-do harden`: tests a function as a replacement for a worker, against the worker's recorded calls.

use crate::{
    args::{CompareBy, Format, HardenArgs},
    exit::{Complaint, Exit},
    opening::{NotReady, grants, said, surrounded},
    paint::Paint,
    past_runs,
    program::only_target,
    render::Output,
    visible,
};
use llm_do::{Cases, Compare, Hardened, Tried, Verdict, harden, program::target::Request};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The default tolerance for numbers.
const TOLERANCE: f64 = 1e-6;
/// The longest excerpt of an input in the table, in characters.
const EXCERPT: usize = 60;

/// Runs the command: exit code 1 if a case fails.
pub(crate) fn run(args: &HardenArgs, output: &Output) -> Exit {
    hardened(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn hardened(args: &HardenArgs, output: &Output) -> Result<Exit, NotReady> {
    let compare = match (args.compare, args.tolerance) {
        (Some(CompareBy::Tolerance) | None, Some(most)) if most.is_finite() && most >= 0.0 => {
            Compare::Tolerance(most)
        }
        (Some(CompareBy::Tolerance) | None, Some(_)) => {
            return Err(Complaint::wrong("--tolerance is a number, at least 0").into());
        }
        (Some(CompareBy::Tolerance), None) => Compare::Tolerance(TOLERANCE),
        (Some(_), Some(_)) => {
            return Err(Complaint::wrong("--tolerance and another --compare exclude each other").into());
        }
        (Some(CompareBy::Schema), None) => Compare::Schema,
        (Some(CompareBy::Exact) | None, None) => Compare::Exact,
    };
    let cases = match &args.cases {
        Some(path) => Cases::read(path).map_err(|error| Complaint::wrong(error.to_string()))?,
        None => {
            let mut cases = Cases::default();
            let folders = past_runs::folders(args.target.as_deref(), None)?;
            super::cases::add_all(&mut cases, &folders, &args.worker, output)?;
            cases
        }
    };
    if cases.list().is_empty() {
        return Err(Complaint::wrong(format!("there are no cases of `{}`", args.worker))
            .hint("run the program first, or name a file with --cases")
            .into());
    }
    let mut settings = surrounded()?;
    let target = args.target.as_deref().unwrap_or(".");
    settings.request = Request {
        positionals: only_target(Some(target)),
        entry: Some(args.worker.clone()),
        ..Request::default()
    };
    settings.run.grants = grants(&args.grant)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let hardened = runtime.block_on(harden(settings, &args.function, &cases, compare))?;
    if output.format == Format::Text {
        output.print(&told(&hardened, output.out));
    } else {
        output.print_json(&as_json(&hardened));
    }
    let fails = hardened.count(|verdict| matches!(verdict, Verdict::Fail { .. }));
    Ok(if fails > 0 { Exit::Failed } else { Exit::Done })
}

fn told(hardened: &Hardened, paint: Paint) -> String {
    let mut out = String::new();
    for Tried { case, verdict } in &hardened.cases {
        let (word, why) = match verdict {
            Verdict::Pass => (paint.green("pass"), None),
            Verdict::Fail { difference } => (paint.red("fail"), Some(difference)),
            Verdict::NotCovered { reason } => (paint.yellow("skip"), Some(reason)),
        };
        let input: String = case.input.to_string().chars().take(EXCERPT).collect();
        // Writing to a `String` does not fail.
        let _ = writeln!(
            out,
            "{word}  {} {}  {}",
            case.run,
            visible::line(case.place.as_str()),
            paint.dim(visible::line(&input))
        );
        for line in why.into_iter().flat_map(|why| why.lines()) {
            let _ = writeln!(out, "      {}", visible::line(line));
        }
    }
    let (covered, calls) = hardened.coverage();
    let count = |of: fn(&Verdict) -> bool| hardened.count(of);
    let _ = writeln!(
        out,
        "{} pass, {} fail, {} not covered; {covered} of {calls} recorded calls are covered",
        count(|verdict| *verdict == Verdict::Pass),
        count(|verdict| matches!(verdict, Verdict::Fail { .. })),
        count(|verdict| matches!(verdict, Verdict::NotCovered { .. })),
    );
    out
}

fn as_json(hardened: &Hardened) -> Value {
    let (covered, calls) = hardened.coverage();
    json!({
        "worker": hardened.worker,
        "cases": hardened.cases,
        "coverage": {"covered": covered, "calls": calls},
    })
}
