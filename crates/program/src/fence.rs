//! The lines `---` around the front matter of a worker file.

use std::ops::Range;

/// Returns the position at which the keys of a `.worker` file end, if they do.
pub(crate) fn keys_end(text: &str) -> Option<usize> {
    let mut lines = Lines::of(text);
    let opening = lines.find(|line| !is_blank(&text[line.clone()]))?;
    is_fence(text, &opening).then(|| lines.find(|line| is_fence(text, line)))?.map(|closing| closing.start)
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

pub(crate) fn is_fence(text: &str, line: &Range<usize>) -> bool {
    let line = text[line.clone()].trim_end();
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    line == "---"
}

/// Lines with their ends, by position.
pub(crate) struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, at: 0, number: 0 }
    }

    /// Returns the number of lines that were read so far.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;
    fn next(&mut self) -> Option<Range<usize>> {
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        self.at = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline + 1);
        self.number += 1;
        Some(start..self.at)
    }
}
