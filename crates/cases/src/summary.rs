//! A report as Markdown, for the summary of a build or a comment on a change.

use crate::{
    baseline::{Change, Comparison},
    report::SuiteReport,
};
use std::fmt::Write as _;

/// Formats the report as Markdown, with the differences from the baseline.
pub fn markdown(report: &SuiteReport, comparison: Option<&Comparison>) -> String {
    let mut out = format!("## llm-do test: {} of {} cases pass\n\n", report.passed(), report.cases.len());
    out.push_str("| case | passed | 95 % interval |\n|---|---|---|\n");
    for case in &report.cases {
        let (low, high) = case.interval;
        // Writing to a `String` does not fail.
        let _ = writeln!(
            out,
            "| {} {} | {} of {} | {:.0} % to {:.0} % |",
            match (case.passes(), case.fails()) {
                (true, _) => "✅",
                (false, true) => "❌",
                (false, false) => "✂️",
            },
            cell(&case.title()),
            case.passed,
            case.of,
            low * 100.0,
            high * 100.0
        );
    }
    let failing = report.cases.iter().filter(|case| case.fails());
    for case in failing {
        let _ = writeln!(out, "\n### {}\n", cell(&case.title()));
        for (number, run) in case.runs.iter().enumerate().filter(|(_, run)| !run.pass) {
            for failure in &run.failures {
                let _ = writeln!(out, "- repeat {}: {}", number + 1, cell(failure));
            }
        }
    }
    if let Some(comparison) = comparison {
        out.push_str("\n### Since the baseline\n\n");
        let told = comparison.cases.iter().filter(|case| case.change != Change::Same);
        let mut any = false;
        for case in told {
            any = true;
            let _ = writeln!(out, "- {}", cell(&sentence(case)));
        }
        if !any {
            out.push_str("No case passes more or less often than before.\n");
        }
    }
    out
}

/// Describes in a sentence how a case has changed since the baseline.
pub fn sentence(case: &crate::baseline::Compared) -> String {
    let title = match &case.model {
        Some(model) => format!("{}: {} [{model}]", case.file, case.case),
        None => format!("{}: {}", case.file, case.case),
    };
    let share = |share: Option<(u64, u64)>| share.map_or_else(String::new, |(k, n)| format!("{k} of {n}"));
    let (before, now) = (share(case.before), share(case.now));
    let p = case.p.map(|p| format!(", {}", probability(p))).unwrap_or_default();
    match case.change {
        Change::Worse => format!("worse: {title}: {before} before, {now} now{p}"),
        Change::Better => format!("better: {title}: {before} before, {now} now{p}"),
        Change::Same => format!("same: {title}: {before} before, {now} now"),
        Change::Undecided => {
            format!("not decidable with so few repeats: {title}: {before} before, {now} now{p}")
        }
        Change::New => format!("new: {title}: {now}"),
        Change::Gone => format!("gone: {title}: {before} before"),
    }
}

/// Formats a probability.
pub fn probability(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// Escapes a text so that it stays in its table cell or list item and contains no markup.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
