//! The report of a tuning as text.

use crate::{paint::Paint, visible};
use llm_do::core::model::{ModelName, Usage};
use llm_do_tune::{
    Difference, Outcome, Progress, Report,
    report::{Compared, Share},
};
use std::fmt::Write as _;

/// Formats the state after a round: `round 3 of 20: 2 candidates on the front, validation 3 -> 7 of 9, 0.02 USD`.
pub(super) fn progress(progress: &Progress, model: Option<&ModelName>) -> String {
    let Progress { rounds, of, front, first, best, validation, usage } = progress;
    let model = model.map(|model| format!("{model}: ")).unwrap_or_default();
    let front = if *front == 1 { "1 candidate".into() } else { format!("{front} candidates") };
    let mut text = format!(
        "{model}round {rounds} of {of}: {front} on the front, validation {} -> {} of {validation}",
        score(*first),
        score(*best)
    );
    if let Some(used) = used(*usage) {
        _ = write!(text, ", {used}");
    }
    text
}

fn score(score: f64) -> String {
    if score.fract() == 0.0 { format!("{score:.0}") } else { format!("{score:.1}") }
}

/// Formats a cost, or tokens if the cost is not known.
fn used(usage: Usage) -> Option<String> {
    match usage.cost_usd {
        Some(cost) => Some(cost.to_string()),
        None => Some(usage.total()).filter(|tokens| *tokens > 0).map(|tokens| format!("{tokens} tokens")),
    }
}

/// Formats a report.
pub(super) fn report(report: &Report, names_model: bool, paint: Paint) -> String {
    let Report { worker, cases, outcome, reason, .. } = report;
    let mut out = String::new();
    let model = report.model.as_deref().filter(|_| names_model).map(|model| format!(" [{model}]"));
    // Writing to a `String` does not fail.
    _ = writeln!(
        out,
        "{}{}: {} train, {} validation and {} test cases",
        visible::line(worker),
        model.unwrap_or_default(),
        cases.train,
        cases.validation,
        cases.test
    );
    if report.ended.is_some() {
        let refused = report.rounds.iter().filter(|round| round.is_refused()).count();
        _ = writeln!(
            out,
            "rounds      {}, {} better on their minibatch, {refused} refused",
            report.rounds.len(),
            report.candidates.saturating_sub(1)
        );
    }
    for (name, split) in [("validation", &report.validation), ("test", &report.test)] {
        match split {
            Some(split) => _ = writeln!(out, "{name:<11} {}", compared(split)),
            None if report.ended.is_some() => _ = writeln!(out, "{name:<11} not used"),
            None => {}
        }
    }
    let word = match outcome {
        Outcome::Gain => paint.green("gain"),
        Outcome::NoReliableGain => paint.bold("no reliable gain"),
        Outcome::Undecided => paint.yellow("not decided"),
    };
    _ = writeln!(out, "{word}: {}", visible::line(reason));
    for line in report.diff.lines() {
        let line = visible::line(line);
        _ = match line.chars().next() {
            Some('+') => writeln!(out, "{}", paint.green(line)),
            Some('-') => writeln!(out, "{}", paint.red(line)),
            Some('@') => writeln!(out, "{}", paint.dim(line)),
            _ => writeln!(out, "{line}"),
        };
    }
    if *outcome == Outcome::Gain && !names_model {
        let file = visible::line(&report.file);
        _ = match report.written {
            true => writeln!(out, "written:    {file}"),
            false => writeln!(out, "the same command with --write changes {file}"),
        };
    }
    if report.runs > 0 {
        let cost = used(report.usage).map(|used| format!(", {used}")).unwrap_or_default();
        _ = writeln!(out, "runs:       {}{cost}; {}", report.runs, report.runs_dir.display());
    }
    out
}

fn compared(split: &Compared) -> String {
    let Compared { before, after, better, worse, p } = split;
    let p = if *p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") };
    format!("{} -> {}; {better} better, {worse} worse, {p}", share(*before), share(*after))
}

fn share(share: Share) -> String {
    let (low, high) = share.interval;
    format!("{} of {} ({:.0} % to {:.0} %)", share.passed, share.of, low * 100.0, high * 100.0)
}

/// Formats the comparison of models.
pub(super) fn differences(differences: &[Difference]) -> String {
    let mut out = String::new();
    for Difference { models: (one, other), compared, decided } in differences {
        let word = match (decided, compared.better > compared.worse) {
            (false, _) => "no reliable difference between",
            (true, true) => "the second is better of",
            (true, false) => "the first is better of",
        };
        let (one, other) = (visible::line(one), visible::line(other));
        _ = writeln!(out, "{word} {one} and {other}: {}", self::compared(compared));
    }
    out
}
