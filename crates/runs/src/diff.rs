//! The difference between two texts, line by line.

use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// After which a diff of two long, unlike texts becomes coarse rather than slow.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// What a line of a diff is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine {
    /// Where the lines below it stand.
    Hunk,
    /// Only in the text before.
    Removed,
    /// Only in the text after.
    Added,
    /// In both.
    Same,
    /// A word about the line above it.
    Remark,
}

/// The lines that differ, with some around them, in the form of `diff -u` without its head. Empty if none does.
pub(crate) fn diff(before: &str, after: &str) -> Vec<(DiffLine, String)> {
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(before, after);
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
