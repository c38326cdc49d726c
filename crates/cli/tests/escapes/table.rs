//! The table of attempts in `docs/security.md`.

use crate::attempt::{Group, Outcome};
use std::{fmt::Write, fs, path::Path};

const BEGIN: &str = "<!-- attacks:begin -->\n";
const END: &str = "<!-- attacks:end -->\n";

/// Holds the page to what was found, or writes it with `UPDATE_EXPECT=1`. A machine that can't try everything can't write the
/// table, and compares what it has tried.
pub(crate) fn compare(groups: &[Group], results: &[Outcome]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/security.md has the marker of the beginning");
    let (told, after) = rest.split_once(END).expect("docs/security.md has the marker of the end");
    let rows: Vec<String> = told.lines().map(str::to_owned).collect();
    let table = written(groups, results, &rows);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let missing: Vec<&Outcome> =
            results.iter().filter(|outcome| matches!(outcome, Outcome::NotTried(_))).collect();
        assert!(missing.is_empty(), "write the table where everything can be tried: {missing:?}");
        fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    let differs =
        table.lines().zip(rows.iter().map(String::as_str).chain(std::iter::repeat(""))).find(|(a, b)| a != b);
    assert!(
        table == told,
        "docs/security.md does not hold what was found; run this test with UPDATE_EXPECT=1. First: {differs:#?}"
    );
}

fn written(groups: &[Group], results: &[Outcome], before: &[String]) -> String {
    let mut out = String::new();
    let mut results_left = results.iter();
    let count = |is: fn(&&Outcome) -> bool| results.iter().filter(is).count();
    let _ = writeln!(
        out,
        "{} attempts in {} groups. Escapes: 0; one would fail the test. Undefended, and said so: {}.\n",
        results.len(),
        groups.len(),
        count(|outcome| matches!(outcome, Outcome::Undefended(_))),
    );
    for group in groups {
        let _ = writeln!(out, "### {}\n\n{}\n", group.title, group.about);
        out.push_str("| attack | by | layer | tier | mechanism | result |\n|---|---|---|---|---|---|\n");
        for (attempt, outcome) in group.attempts.iter().zip(&mut results_left) {
            let cell = |text: &str| text.replace('|', "\\|");
            let start = format!(
                "| {} | {} | {} | {} | {} | ",
                cell(attempt.name),
                attempt.who,
                attempt.layer,
                attempt.tier,
                cell(&attempt.mechanism)
            );
            if let Outcome::NotTried(why) = outcome {
                println!("not tried: {}: {why}", attempt.name);
                // What another machine has found stands.
                if let Some(row) = before.iter().find(|row| row.starts_with(&start)) {
                    let _ = writeln!(out, "{row}");
                    continue;
                }
            }
            let _ = writeln!(out, "{start}{} |", cell(&outcome.to_string()));
        }
        out.push('\n');
    }
    out
}
