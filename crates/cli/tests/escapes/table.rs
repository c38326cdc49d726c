//! The generated part of `docs/security.md`: a line with counts, then a section with a table for each group of attempts.

use crate::{
    attempt::{Group, Outcome},
    groups,
};
use std::{
    env,
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
};

const BEGIN: &str = "<!-- attacks:begin -->\n";
const END: &str = "<!-- attacks:end -->\n";
const HEADING: &str = "### ";

/// Compares a group's section with the outcomes of its attempts, or writes it with `UPDATE_EXPECT=1`. A machine that
/// can't make every attempt can't write the section; it compares the attempts that it made.
pub(crate) fn compare_section(group: &Group, outcomes: &[Outcome]) {
    let mut page = Page::open();
    let old = page.section(group.title).unwrap_or_default().to_owned();
    let new = section(group, outcomes, &old);
    if updates() {
        let missing: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::NotTried(_))).collect();
        assert!(missing.is_empty(), "write the table where every attempt can be made: {missing:?}");
        page.sections.retain(|section| title(section) != group.title);
        page.sections.push(new);
        page.write();
        return;
    }
    let lines = new.lines().zip(old.lines().chain(std::iter::repeat("")));
    let differs = lines.into_iter().find(|(new, old)| new != old);
    assert!(
        new == old,
        "the section `{}` of docs/security.md differs from the outcomes; run this test with UPDATE_EXPECT=1. First: {differs:#?}",
        group.title
    );
}

/// Compares the list of sections, their numbers of rows and the line with the counts, or writes the line with
/// `UPDATE_EXPECT=1` and removes sections that have no group.
pub(crate) fn compare_outline() {
    let page = Page::open();
    if updates() {
        page.write();
        return;
    }
    let expected: Vec<_> = groups().iter().map(|group| (group.title, group.attempts.len())).collect();
    let found: Vec<_> = page.sections.iter().map(|section| (title(section), rows(section).count())).collect();
    assert_eq!(found, expected, "the sections of docs/security.md; run all tests with UPDATE_EXPECT=1");
    assert_eq!(page.counts, counts(&page.sections), "the counts of docs/security.md");
}

fn updates() -> bool {
    env::var_os("UPDATE_EXPECT").is_some()
}

/// The page, locked against the tests of other groups, which may run in other threads or processes.
struct Page {
    path: PathBuf,
    before: String,
    counts: String,
    /// Each with its heading and the empty line at its end.
    sections: Vec<String>,
    after: String,
    _lock: File,
}

impl Page {
    fn open() -> Self {
        let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("security.md.lock");
        // Another user may have made it. Reading is enough for a lock.
        let lock = File::open(&lock).or_else(|_| File::create(&lock)).unwrap();
        lock.lock().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
        let text = fs::read_to_string(&path).unwrap();
        let (before, rest) =
            text.split_once(BEGIN).expect("docs/security.md has the marker of the beginning");
        let (generated, after) = rest.split_once(END).expect("docs/security.md has the marker of the end");
        let mut parts: Vec<String> = Vec::from([String::new()]);
        for line in generated.split_inclusive('\n') {
            if line.starts_with(HEADING) {
                parts.push(String::new());
            }
            parts.last_mut().expect("one part at least").push_str(line);
        }
        let counts = parts.remove(0);
        Self {
            path,
            before: before.to_owned(),
            counts,
            sections: parts,
            after: after.to_owned(),
            _lock: lock,
        }
    }

    fn section(&self, of: &str) -> Option<&str> {
        self.sections.iter().find(|section| title(section) == of).map(String::as_str)
    }

    /// Writes the sections of all groups that have one, in the order of the groups.
    fn write(&self) {
        let sections: Vec<String> =
            groups().iter().filter_map(|group| self.section(group.title)).map(str::to_owned).collect();
        let counts = counts(&sections);
        let Self { before, after, .. } = self;
        fs::write(&self.path, format!("{before}{BEGIN}{counts}{}{END}{after}", sections.concat())).unwrap();
    }
}

fn title(section: &str) -> &str {
    section.lines().next().and_then(|line| line.strip_prefix(HEADING)).unwrap_or_default()
}

fn rows(section: &str) -> impl Iterator<Item = &str> {
    section.lines().filter(|line| line.starts_with('|')).skip(2)
}

fn counts(sections: &[String]) -> String {
    let rows: Vec<&str> = sections.iter().flat_map(|section| rows(section)).collect();
    let undefended = rows.iter().filter(|row| row.contains("| **undefended**")).count();
    format!(
        "{} attempts in {} groups. Escapes: 0; any escape fails the test. Documented as undefended: {undefended}.\n\n",
        rows.len(),
        sections.len()
    )
}

/// The section of a group. A row whose attempt was not made here is taken from the old section.
fn section(group: &Group, outcomes: &[Outcome], old: &str) -> String {
    let mut out = format!("{HEADING}{}\n\n{}\n\n", group.title, group.about);
    out.push_str("| attack | by | layer | tier | mechanism | result |\n|---|---|---|---|---|---|\n");
    for (attempt, outcome) in group.attempts.iter().zip(outcomes) {
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
            if let Some(row) = rows(old).find(|row| row.starts_with(&start)) {
                let _ = writeln!(out, "{row}");
                continue;
            }
        }
        let _ = writeln!(out, "{start}{} |", cell(&outcome.to_string()));
    }
    out.push('\n');
    out
}
