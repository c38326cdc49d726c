//! Lines and columns of a text, in the units of editors.

use crate::span::{SourceFile, Span};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// The unit of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Bytes of UTF-8.
    Utf8,
    /// Code units of UTF-16.
    Utf16,
}

/// A line and a column, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineColumn {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Converts the spans of many files to lines and columns. The lines of each file are found once.
#[derive(Debug, Default)]
pub struct LineIndexes {
    /// The key is the address of the file, which stays alive here.
    known: HashMap<usize, (Arc<SourceFile>, LineIndex)>,
}

impl LineIndexes {
    /// Returns the start and the end of a span; the start of the file for the file as a whole.
    pub fn range(&mut self, span: &Span, columns: Columns) -> Range<LineColumn> {
        let file = span.file();
        let (_, index) = self
            .known
            .entry(Arc::as_ptr(file).addr())
            .or_insert_with(|| (Arc::clone(file), LineIndex::new(file.text())));
        index.range(file.text(), span.range().unwrap_or(0..0), columns)
    }
}

/// The lines of a text. They end at `\n`, `\r\n` or `\r`.
#[derive(Clone, Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Finds the lines of a text.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                starts.push(at + 1);
            }
        }
        Self { starts }
    }

    /// Returns the number of lines; an empty text has one.
    pub fn lines(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    /// Returns the line and column of a position in the text from which the index was made. A position after the end
    /// counts as the end, one inside a character as the start of the character.
    pub fn position(&self, text: &str, offset: usize, columns: Columns) -> LineColumn {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let before = &text[self.starts[line]..offset];
        let column = match columns {
            Columns::Utf8 => before.len(),
            Columns::Utf16 => before.encode_utf16().count(),
        };
        let fit = |number| u32::try_from(number).unwrap_or(u32::MAX);
        LineColumn { line: fit(line), column: fit(column) }
    }

    /// Returns the start and the end of a range of bytes.
    pub fn range(&self, text: &str, bytes: Range<usize>, columns: Columns) -> Range<LineColumn> {
        self.position(text, bytes.start, columns)..self.position(text, bytes.end, columns)
    }

    /// Returns the position of a line and column, or `None` if there is no such line, or the column lies inside a
    /// character. A column after the end of its line counts as the end, and so does the line after the last one.
    pub fn offset(&self, text: &str, at: LineColumn, columns: Columns) -> Option<usize> {
        if at.line == self.lines() && at.column == 0 {
            return Some(text.len());
        }
        let range = self.line(text, at.line)?;
        let line = &text[range.clone()];
        let mut left = at.column as usize;
        for (within, c) in line.char_indices() {
            if left == 0 {
                return Some(range.start + within);
            }
            let width = match columns {
                Columns::Utf8 => c.len_utf8(),
                Columns::Utf16 => c.len_utf16(),
            };
            left = left.checked_sub(width)?;
        }
        Some(range.end)
    }

    /// Returns the bytes of a line, without its end.
    pub fn line(&self, text: &str, line: u32) -> Option<Range<usize>> {
        let start = *self.starts.get(line as usize)?;
        let end = self.starts.get(line as usize + 1).copied().unwrap_or(text.len());
        let kept = text[start..end].trim_end_matches(['\n', '\r']).len();
        Some(start..start + kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> LineColumn {
        LineColumn { line, column }
    }

    #[test]
    fn columns_count_bytes_or_units_of_utf16() {
        let text = "a😀b漢\r\nx\ry\n";
        let index = LineIndex::new(text);
        assert_eq!(index.lines(), 4);
        let b = text.find('b').unwrap();
        assert_eq!(index.position(text, b, Columns::Utf16), at(0, 3));
        assert_eq!(index.position(text, b, Columns::Utf8), at(0, 5));
        assert_eq!(index.position(text, b - 1, Columns::Utf16), at(0, 1), "inside a character");
        assert_eq!(index.offset(text, at(0, 3), Columns::Utf16), Some(b));
        assert_eq!(index.offset(text, at(0, 2), Columns::Utf16), None, "inside a pair of surrogates");
        assert_eq!(index.offset(text, at(0, 99), Columns::Utf16), Some(text.find('\r').unwrap()));
        assert_eq!(index.offset(text, at(2, 0), Columns::Utf8), text.find('y'));
        assert_eq!(index.offset(text, at(4, 0), Columns::Utf8), Some(text.len()));
        assert_eq!(index.offset(text, at(4, 1), Columns::Utf8), None);
        assert_eq!(index.offset(text, at(5, 0), Columns::Utf8), None);
    }

    #[test]
    fn every_position_is_found_again() {
        let text = "---\nname: \"漢字 😀\"\n---\nÄ {{ x }}\r\n";
        let index = LineIndex::new(text);
        for columns in [Columns::Utf8, Columns::Utf16] {
            for (offset, _) in text.char_indices().filter(|(_, c)| !matches!(c, '\n' | '\r')) {
                assert_eq!(index.offset(text, index.position(text, offset, columns), columns), Some(offset));
            }
        }
    }
}
