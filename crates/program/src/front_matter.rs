//! Definition files as text: reading, and telling front matter from instructions (SPEC §2.1).

use crate::{
    diagnostics::{Diagnostic, codes},
    lock,
    source::{LARGEST_DEFINITION, SourceError, SourceTree},
    span::{SourceFile, Span},
    yaml::{self, Node},
};
use std::{ops::Range, sync::Arc};

/// A worker file in its two parts.
#[derive(Debug)]
pub struct Document {
    /// The file.
    pub file: Arc<SourceFile>,
    /// Its keys.
    pub keys: Node,
    /// Its instructions; `None` in a file that is YAML only.
    pub body: Option<Body>,
}

/// The text after the front matter.
#[derive(Debug)]
pub struct Body {
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// How many lines stand before it.
    pub lines_before: u32,
}

/// Reads a definition file: bounded, UTF-8.
///
/// # Errors
/// One finding that names the file. [`SourceError::NotFound`] is reported like any other; callers that mean to look
/// first ask [`SourceTree::kind`].
pub fn read(tree: &dyn SourceTree, path: &str) -> Result<Arc<SourceFile>, Box<Diagnostic>> {
    let unread = || unread(tree, path);
    let bytes = tree.read(path, LARGEST_DEFINITION).map_err(|error| unreadable(&unread(), &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(SourceFile::new(tree.shown(path), text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let before = &error.as_bytes()[..at];
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            let byte = error.as_bytes()[at];
            Err(Diagnostic::error(codes::NOT_UTF8, format!("`{}` is not UTF-8 text", tree.shown(path)))
                .at(&Span::whole(&unread()))
                .note(format!(
                    "the first byte that does not fit is 0x{byte:02x} at offset {at}, on line {line}"
                ))
                .help("save the file as UTF-8")
                .into())
        }
    }
}

/// Reads a worker's file of either form.
///
/// # Errors
/// One finding.
pub fn definition(tree: &dyn SourceTree, path: &str) -> Result<Document, Box<Diagnostic>> {
    let file = read(tree, path)?;
    if path.ends_with(".worker") { worker(file) } else { yaml_only(file) }
}

/// A file of a tree that was not read, for findings about it as a whole.
pub fn unread(tree: &dyn SourceTree, path: &str) -> Arc<SourceFile> {
    SourceFile::new(tree.shown(path), "")
}

/// The finding for a file that could not be read.
pub fn unreadable(file: &Arc<SourceFile>, error: &SourceError) -> Diagnostic {
    let path = file.path();
    match error {
        SourceError::TooLarge { size, limit } => Diagnostic::error(
            codes::TOO_LARGE,
            format!("`{path}` has {size} bytes; a definition file has at most {limit}"),
        )
        .help("put long material into a file of its own that the worker reads with a tool"),
        SourceError::Escapes => {
            Diagnostic::error(codes::ESCAPES_ROOT, format!("`{path}` leads out of the program's root"))
                .help("definitions are read only from below the root, symbolic links included")
        }
        SourceError::Changed { library, change } => Diagnostic::error(
            codes::LIBRARY_CHANGED,
            format!(
                "`{path}` of the library `{library}` is not what `{}` pinned: it is {change}",
                lock::LOCK_FILE
            ),
        )
        .note(format!("`llm-do lib info {library}` shows all that differs"))
        .help("if that is meant to be so, `llm-do lib install` pins what is there now")
        .help("if not, install the library again, with `--force`"),
        error => Diagnostic::error(codes::UNREADABLE, format!("`{path}` cannot be read: {error}")),
    }
    .at(&Span::whole(file))
}

/// Splits a `.worker` file and parses its front matter.
///
/// # Errors
/// An empty file, one without front matter or whose front matter has no end, and what [`yaml::parse`] finds.
pub fn worker(file: Arc<SourceFile>) -> Result<Document, Box<Diagnostic>> {
    let text = file.text();
    if is_blank(text) {
        return Err(empty(&file).into());
    }
    let mut lines = Lines { text, at: 0, number: 0 };
    let opening = loop {
        match lines.next() {
            Some(line) if is_blank(&text[line.clone()]) => {}
            Some(line) if is_fence(text, &line) => break line,
            first => {
                let line = first.unwrap_or(0..0);
                let end = text[line.clone()].trim_end().len() + line.start;
                return Err(Diagnostic::error(
                    codes::NO_FRONT_MATTER,
                    format!("`{}` does not begin with front matter", file.path()),
                )
                .at(&Span::new(&file, line.start..end))
                .label("expected a line `---`")
                .help("a worker file is YAML between two lines `---`, then the instructions; without any keys: two lines `---`")
                .into());
            }
        }
    };
    let closing = lines.find(|line| is_fence(text, line));
    let Some(closing) = closing else {
        let fence = opening.start..opening.start + text[opening.clone()].trim_end().len();
        return Err(Diagnostic::error(
            codes::UNTERMINATED,
            format!("the front matter of `{}` has no end", file.path()),
        )
        .at(&Span::new(&file, fence))
        .label("it begins here")
        .help("end it with a line `---`, before the instructions")
        .into());
    };
    let keys = yaml::parse(&file, closing.start)?;
    let body = Body { range: closing.end..text.len(), lines_before: lines.number };
    Ok(Document { file, keys, body: Some(body) })
}

/// Parses a file that is YAML only: a `.yaml` worker or a manifest.
///
/// # Errors
/// An empty file, and what [`yaml::parse`] finds.
pub fn yaml_only(file: Arc<SourceFile>) -> Result<Document, Box<Diagnostic>> {
    if is_blank(file.text()) {
        return Err(empty(&file).into());
    }
    let keys = yaml::parse(&file, file.text().len())?;
    Ok(Document { file, keys, body: None })
}

/// Where the keys of a `.worker` file end, if they do.
pub(crate) fn keys_end(text: &str) -> Option<usize> {
    let mut lines = Lines { text, at: 0, number: 0 };
    let opening = lines.find(|line| !is_blank(&text[line.clone()]))?;
    is_fence(text, &opening).then(|| lines.find(|line| is_fence(text, line)))?.map(|closing| closing.start)
}

fn empty(file: &Arc<SourceFile>) -> Diagnostic {
    Diagnostic::error(codes::EMPTY_FILE, format!("`{}` is empty", file.path())).at(&Span::whole(file))
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

fn is_fence(text: &str, line: &Range<usize>) -> bool {
    let line = text[line.clone()].trim_end();
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    line == "---"
}

/// Lines with their ends, by position.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u32,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<(String, String, u32), Box<Diagnostic>> {
        let document = worker(SourceFile::new("x.worker", text))?;
        let body = document.body.unwrap();
        let text = document.file.text()[body.range].to_owned();
        Ok((document.keys.to_json().to_string(), text, body.lines_before))
    }

    #[test]
    fn both_parts_are_found_whatever_the_line_ends() {
        let expected = ("{\"a\":1}".to_owned(), "Hi\n---\nthere".to_owned(), 3);
        assert_eq!(split("---\na: 1\n---\nHi\n---\nthere").unwrap(), expected);
        assert_eq!(split("\u{feff}---\na: 1\n---\nHi\n---\nthere").unwrap(), expected);
        let (keys, body, _) = split("\u{feff}---\r\na: 1\r\n---\r\nHi\r\n").unwrap();
        assert_eq!((keys.as_str(), body.as_str()), ("{\"a\":1}", "Hi\r\n"));
        assert_eq!(split("\n---\n---\n").unwrap(), ("null".into(), String::new(), 3));
        assert_eq!(split("---\na: 1\n---").unwrap().1, "");
    }

    #[test]
    fn what_is_no_worker_file_is_said() {
        let code = |text: &str| split(text).unwrap_err().code;
        assert_eq!(code(""), codes::EMPTY_FILE);
        assert_eq!(code("\u{feff} \r\n"), codes::EMPTY_FILE);
        assert_eq!(code("---\na: 1\n"), codes::UNTERMINATED);
        assert_eq!(code("---"), codes::UNTERMINATED);
        assert_eq!(code("You are a greeter.\n"), codes::NO_FRONT_MATTER);
        assert_eq!(code("---- \na: 1\n---\n"), codes::NO_FRONT_MATTER);
    }
}
