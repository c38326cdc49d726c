//! The difference between two texts, line by line. All diffs of llm-do are made here, because the code of the algorithm
//! is large and is compiled once for each type that it compares.

#![expect(
    clippy::disallowed_types,
    reason = "a caller with a clock may set a deadline; no clock is read here"
)]

use similar::{
    DiffOp,
    algorithms::{Capture, Compact, Replace, myers},
    group_diff_ops,
};
use std::{collections::HashMap, fmt::Write as _, ops::Range, time::Instant};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// The remark on a line that ends without a line break.
pub(crate) const NO_NEWLINE: &str = "\\ no newline at the end";

/// The texts that have a line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only the text before has the line.
    Before,
    /// Only the text after has the line.
    After,
    /// Both texts have the line.
    Both,
}

/// A line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLine<'t> {
    /// The texts that have the line.
    pub side: Side,
    /// The line, without the line feed at its end.
    pub text: &'t str,
    /// True if the line ends with a line break. Only the last line of a text may end without.
    pub ended: bool,
    /// The line as it is.
    whole: &'t str,
}

/// Changed lines that are close together, with the lines around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk<'t> {
    /// The place in both texts, such as `@@ -1,3 +1,4 @@`.
    pub header: String,
    /// The lines of the hunk.
    pub lines: Vec<DiffLine<'t>>,
}

impl<'t> DiffLine<'t> {
    fn new(side: Side, whole: &'t str) -> Self {
        let text = whole.strip_suffix('\n').unwrap_or(whole);
        Self { side, text, ended: whole.ends_with(['\n', '\r']), whole }
    }
}

/// Returns the lines that differ, with context; empty if none differs. After the deadline the diff of the rest becomes
/// coarse. Without a deadline the search is bounded as well.
pub fn hunks<'t>(before: &'t str, after: &'t str, deadline: Option<Instant>) -> Vec<Hunk<'t>> {
    let (before, after) = (lines(before), lines(after));
    let groups = group_diff_ops(compare(&before, &after, deadline), CONTEXT);
    let hunk = |group: Vec<DiffOp>| {
        let (first, last) = (group.first()?, group.last()?);
        let old = place(first.old_range().start..last.old_range().end);
        let new = place(first.new_range().start..last.new_range().end);
        let changes = |side, lines: &[&'t str]| -> Vec<DiffLine<'t>> {
            lines.iter().map(|line| DiffLine::new(side, line)).collect()
        };
        let lines = group.iter().flat_map(|op| match op {
            DiffOp::Equal { .. } => changes(Side::Both, &before[op.old_range()]),
            _ => {
                let mut changed = changes(Side::Before, &before[op.old_range()]);
                changed.extend(changes(Side::After, &after[op.new_range()]));
                changed
            }
        });
        Some(Hunk { header: format!("@@ -{old} +{new} @@"), lines: lines.collect() })
    };
    groups.into_iter().filter_map(hunk).collect()
}

/// Returns the difference in the form of `diff -u`, between texts of these names. Empty if there is none.
pub fn unified_diff(old_name: &str, new_name: &str, before: &str, after: &str) -> String {
    let hunks = hunks(before, after, None);
    let mut text = String::new();
    if hunks.is_empty() {
        return text;
    }
    // Writing to a `String` does not fail.
    let _ = writeln!(text, "--- {old_name}\n+++ {new_name}");
    for hunk in hunks {
        let _ = writeln!(text, "{}", hunk.header);
        for line in hunk.lines {
            let sign = match line.side {
                Side::Before => '-',
                Side::After => '+',
                Side::Both => ' ',
            };
            let hint = if line.ended { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(text, "{sign}{}{hint}", line.whole);
        }
    }
    text
}

/// Returns the lines of a text, each with its line break.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { 1 };
        let (line, after) = rest.split_at(end);
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn compare(before: &[&str], after: &[&str], deadline: Option<Instant>) -> Vec<DiffOp> {
    // Equal lines have equal numbers, which are faster to compare.
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut number = |line| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(line).or_insert(next)
    };
    let old: Vec<u32> = before.iter().copied().map(&mut number).collect();
    let new: Vec<u32> = after.iter().copied().map(&mut number).collect();
    let mut captured = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let Ok(()) =
        myers::diff_deadline(&mut captured, &old[..], 0..old.len(), &new[..], 0..new.len(), deadline);
    captured.into_inner().into_inner().into_ops()
}

/// Returns a range of lines as `diff -u` writes it, from 1. An empty range is after the line with that number.
fn place(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_unlike_texts_have_a_diff() {
        let text = |factor: usize| -> String {
            (0..20_000_usize).map(|line| format!("{}\n", line * factor % 7919)).collect()
        };
        let (before, after) = (text(3), text(5));
        let hunks = hunks(&before, &after, None);
        let count = |side| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.side == side).count();
        assert_eq!(count(Side::After), count(Side::Before));
        assert!(count(Side::Before) > 1000);
    }

    #[test]
    fn the_form_is_that_of_diff() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl";
        let after = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        assert_eq!(
            unified_diff("old", "new", before, after),
            "--- old\n+++ new\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -9,4 +9,4 @@\n i\n j\n k\n-l\n\\ No newline at end of \
             file\n+l\n"
        );
        assert_eq!(
            unified_diff("old", "new", "", "a\r\nb\rc\n"),
            "--- old\n+++ new\n@@ -0,0 +1,3 @@\n+a\r\n+b\r+c\n"
        );
        assert_eq!(unified_diff("old", "new", "a\n", ""), "--- old\n+++ new\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified_diff("old", "new", "a\n", "a\n"), "");
    }
}
