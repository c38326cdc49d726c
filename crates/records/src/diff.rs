//! The difference between two texts, line by line.

use similar::{ChangeTag, TextDiff};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// The kind of a line in a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine {
    /// The position of the lines below it.
    Hunk,
    /// Only in the text before.
    Removed,
    /// Only in the text after.
    Added,
    /// In both.
    Same,
    /// A remark on the line above it.
    Remark,
}

/// The lines that differ, with context, in the form of `diff -u` without its head. Empty if none differs.
pub(crate) fn diff(before: &str, after: &str) -> Vec<(DiffLine, String)> {
    // No timeout, which would need a clock: the library bounds its search, and the diff of long, unlike texts is coarse.
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push((DiffLine::Hunk, hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let (line, sign) = match change.tag() {
                ChangeTag::Delete => (DiffLine::Removed, '-'),
                ChangeTag::Insert => (DiffLine::Added, '+'),
                ChangeTag::Equal => (DiffLine::Same, ' '),
            };
            lines.push((line, format!("{sign}{}", change.value().trim_end_matches(['\n', '\r']))));
            if change.missing_newline() {
                lines.push((DiffLine::Remark, "\\ no newline at the end".to_owned()));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_unlike_texts_have_a_diff() {
        let text = |factor: usize| -> String {
            (0..20_000_usize).map(|line| format!("{}\n", line * factor % 7919)).collect()
        };
        let lines = diff(&text(3), &text(5));
        let count = |kind| lines.iter().filter(|(line, _)| *line == kind).count();
        assert_eq!(count(DiffLine::Added), count(DiffLine::Removed));
        assert!(count(DiffLine::Removed) > 1000);
    }
}
