//! A report as JUnit's XML, which services for continuous integration read.

use crate::report::{CaseReport, SuiteReport};
use std::fmt::Write as _;

/// Formats the report as XML: a suite for each file, a test for each case.
pub fn junit(report: &SuiteReport) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let failed = report.cases.iter().filter(|case| case.fails()).count();
    // Writing to a `String` does not fail.
    let _ = writeln!(
        out,
        "<testsuites name=\"llm-do test\" tests=\"{}\" failures=\"{failed}\">",
        report.cases.len()
    );
    let mut left = report.cases.as_slice();
    while let Some(first) = left.first() {
        let end = left.iter().position(|case| case.file != first.file).unwrap_or(left.len());
        let (of_file, rest) = left.split_at(end);
        left = rest;
        let failures = of_file.iter().filter(|case| case.fails()).count();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" time=\"{}\">",
            escaped(&first.file),
            of_file.len(),
            seconds(of_file)
        );
        for case in of_file {
            test(&mut out, case);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn test(out: &mut String, case: &CaseReport) {
    let name = match &case.model {
        Some(model) => format!("{} [{model}]", case.case),
        None => case.case.clone(),
    };
    let time = seconds(std::slice::from_ref(case));
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{time}\"",
        escaped(&case.worker),
        escaped(&name)
    );
    if case.passes() {
        out.push_str("/>\n");
        return;
    }
    if !case.fails() {
        let message = format!("cut off: {} of {} repeats did not run", case.not_run, case.of + case.not_run);
        let _ = writeln!(out, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(&message));
        return;
    }
    let message = format!("{} of {} repeats passed", case.passed, case.of);
    let _ = writeln!(
        out,
        ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
        escaped(&message),
        escaped(&reasons(case))
    );
}

/// Returns the failures of a case, repeat by repeat.
fn reasons(case: &CaseReport) -> String {
    let mut out = String::new();
    for (number, run) in case.runs.iter().enumerate().filter(|(_, run)| !run.pass) {
        for failure in &run.failures {
            let _ = writeln!(out, "{}: {failure}", number + 1);
        }
        if let Some(missed) = &run.missed {
            let _ = writeln!(out, "{}", missed.place);
            missed.diffs.iter().for_each(|diff| out.push_str(diff));
        }
    }
    out
}

fn seconds(cases: &[CaseReport]) -> String {
    let ms: u64 = cases.iter().flat_map(|case| &case.runs).filter_map(|run| run.took_ms).sum();
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Escapes a text for XML 1.0, which has no way to write most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunReport;

    #[test]
    fn hostile_text_stays_text() {
        let run = RunReport { failures: vec!["<x a=\"1\">\u{1b}]]>&".into()], ..RunReport::default() };
        let case =
            CaseReport { file: "a".into(), case: "b".into(), runs: vec![run], ..CaseReport::default() };
        let xml = junit(&SuiteReport { cases: vec![case.counted()], ..SuiteReport::default() });
        assert!(xml.contains("1: &lt;x a=&quot;1&quot;&gt;\u{fffd}]]&gt;&amp;"), "{xml}");
        assert!(xml.contains("tests=\"1\" failures=\"1\""), "{xml}");
    }
}
