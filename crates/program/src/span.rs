//! Spans: places in definition files.

use std::{fmt, ops::Range, sync::Arc};

/// A definition file as it was read. Spans point into it.
#[derive(PartialEq, Eq)]
pub struct SourceFile {
    path: Arc<str>,
    text: Arc<str>,
}

impl SourceFile {
    /// Creates a file with its text. `path` is the path for display: relative to the program's root if it is inside.
    pub fn new(path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Arc<Self> {
        Arc::new(Self { path: path.into(), text: text.into() })
    }

    /// Returns the path for display.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the whole text; empty for a file that could not be read.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceFile({})", self.path)
    }
}

/// A range of bytes of a file, or the whole file.
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    file: Arc<SourceFile>,
    range: Option<Range<usize>>,
}

impl Span {
    /// Creates a span of a range of bytes. An end outside the text or inside a character is moved to fit.
    pub fn new(file: &Arc<SourceFile>, range: Range<usize>) -> Self {
        let text = file.text();
        let fit = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = fit(range.start);
        let end = fit(range.end).max(start);
        Self { file: Arc::clone(file), range: Some(start..end) }
    }

    /// Returns the span of the character at a line and column, both from 1, columns in characters.
    pub fn at(file: &Arc<SourceFile>, line: usize, column: usize) -> Self {
        let text = file.text();
        let start = match line {
            0 | 1 => 0,
            line => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(newline, _)| newline + 1),
        };
        let rest = text[start..].char_indices().map(|(at, c)| (start + at, c));
        let (at, width) = rest
            .take_while(|(_, c)| *c != '\n')
            .nth(column.saturating_sub(1))
            .map_or((start, 0), |(at, c)| (at, c.len_utf8()));
        Self::new(file, at..at + width)
    }

    /// Returns the span of the whole file.
    pub fn whole(file: &Arc<SourceFile>) -> Self {
        Self { file: Arc::clone(file), range: None }
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<SourceFile> {
        &self.file
    }

    /// Returns the range of bytes, or `None` for the file as a whole.
    pub fn range(&self) -> Option<Range<usize>> {
        self.range.clone()
    }

    /// Returns the text that the span covers.
    pub fn text(&self) -> &str {
        self.range.clone().map_or("", |range| &self.file.text()[range])
    }

    /// Returns line and column of its start, both from 1, columns in characters.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        let start = self.range.as_ref()?.start;
        let before = &self.file.text()[..start];
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        // Editors do not count a byte order mark as a column.
        let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
        Some((line, column))
    }

    /// Returns the span from the start of this one to the end of `other`, if both are in one file.
    #[must_use]
    pub fn to(&self, other: &Self) -> Self {
        match (&self.range, &other.range) {
            (Some(a), Some(b)) if Arc::ptr_eq(&self.file, &other.file) => {
                Self { file: Arc::clone(&self.file), range: Some(a.start.min(b.start)..a.end.max(b.end)) }
            }
            _ => self.clone(),
        }
    }

    /// Returns `file:line`, as in rules and journals.
    pub fn origin(&self) -> Arc<str> {
        match self.line_column() {
            Some((line, _)) => format!("{}:{line}", self.file.path).into(),
            None => Arc::clone(&self.file.path),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.file.path, self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters() {
        let file = SourceFile::new("x", "ä: 1\nüb: 2\n");
        let at = file.text().find('2').unwrap();
        assert_eq!(Span::new(&file, at..at + 1).line_column(), Some((2, 5)));
        assert_eq!(Span::new(&file, 1..1).line_column(), Some((1, 1)), "inside a character");
        assert_eq!(Span::new(&file, 500..600).text(), "");
        assert_eq!(Span::at(&file, 2, 1).text(), "ü");
        assert_eq!(Span::at(&file, 9, 9).text(), "");
    }
}
