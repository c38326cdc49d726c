//! URIs and ranges.

use gen_lsp_types::{Position, Range};
use llm_do::host::program::{
    line_index::{Columns, LineColumn, LineIndex, LineIndexes},
    span::Span,
};
use std::{
    fs, ops,
    path::{Path, PathBuf},
};

/// Returns the path of a `file:` URI.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    // A host other than this machine names no file here.
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = rest.split(['?', '#']).next()?;
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(left.next())?, digit(left.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(PathBuf::from(String::from_utf8(bytes).ok()?))
}

/// Returns the `file:` URI of a path.
pub(crate) fn uri_of(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// Returns a path with the links of its folder resolved. The file itself need not exist, and keeps its name.
pub(crate) fn real(path: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(name),
        Err(_) => path.to_owned(),
    }
}

/// Converts spans to ranges.
pub(crate) struct Ranges {
    columns: Columns,
    lines: LineIndexes,
}

impl Ranges {
    pub(crate) fn new(columns: Columns) -> Self {
        Self { columns, lines: LineIndexes::default() }
    }

    /// Returns the range of a span; the start of the file for the file as a whole.
    pub(crate) fn span(&mut self, span: &Span) -> Range {
        let ops::Range { start, end } = self.lines.range(span, self.columns);
        Range { start: at(start), end: at(end) }
    }
}

/// Returns the range of bytes of a text.
pub(crate) fn range(index: &LineIndex, text: &str, bytes: ops::Range<usize>, columns: Columns) -> Range {
    Range {
        start: position(index, text, bytes.start, columns),
        end: position(index, text, bytes.end, columns),
    }
}

pub(crate) fn position(index: &LineIndex, text: &str, offset: usize, columns: Columns) -> Position {
    at(index.position(text, offset, columns))
}

fn at(LineColumn { line, column }: LineColumn) -> Position {
    Position { line, character: column }
}

/// Returns the offset of a position, if the text has it.
pub(crate) fn offset(index: &LineIndex, text: &str, at: &Position, columns: Columns) -> Option<usize> {
    index.offset(text, LineColumn { line: at.line, column: at.character }, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_uris() {
        for path in ["/a b/ü/漢 %20.worker", "/x"] {
            assert_eq!(path_of(&uri_of(Path::new(path))).as_deref(), Some(Path::new(path)));
        }
        assert_eq!(path_of("file:///a%20b").as_deref(), Some(Path::new("/a b")));
        for uri in ["untitled:Untitled-1", "file://elsewhere/x", "file:///%zz", "file:///%ff", "file:///%"] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
