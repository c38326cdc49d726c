//! Reads definition files and splits them into front matter and instructions. See `docs/reference/worker-files.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    fence::{Lines, is_blank, is_fence},
    source::{LARGEST_DEFINITION, SourceError, SourceTree},
    span::{SourceFile, Span},
    yaml::{self, Node},
};
use std::{ops::Range, sync::Arc};

/// A definition file as far as it can be understood, and its syntax errors.
#[derive(Debug)]
pub struct Definition {
    /// The document; `None` if the file can't be read or has no front matter.
    pub document: Option<Document>,
    /// The errors. A document without errors is complete.
    pub found: Vec<Diagnostic>,
}

/// A worker file in its two parts.
#[derive(Debug)]
pub struct Document {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The keys of the worker.
    pub keys: Node,
    /// The instructions; `None` in a file that is YAML only.
    pub body: Option<Body>,
    /// True if the keys have a syntax error: values that it concerns are missing.
    pub is_partial: bool,
}

impl From<Result<Document, Box<Diagnostic>>> for Definition {
    fn from(read: Result<Document, Box<Diagnostic>>) -> Self {
        match read {
            Ok(document) => Self { document: Some(document), found: Vec::new() },
            Err(error) => Self { document: None, found: vec![*error] },
        }
    }
}

impl Definition {
    /// Returns the document if it is complete.
    ///
    /// # Errors
    /// The first error.
    pub fn whole(self) -> Result<Document, Box<Diagnostic>> {
        match (self.found.into_iter().next(), self.document) {
            (Some(error), _) => Err(error.into()),
            (None, Some(document)) => Ok(document),
            (None, None) => unreachable!("a definition has a document or an error"),
        }
    }
}

/// The text after the front matter.
#[derive(Debug)]
pub struct Body {
    /// The bytes of the text in the file.
    pub range: Range<usize>,
    /// The number of lines before the text.
    pub lines_before: u32,
}

/// Reads a definition file: bounded, UTF-8.
///
/// # Errors
/// One finding that names the file. [`SourceError::NotFound`] is reported like other errors; callers that want to
/// check for existence first use [`SourceTree::kind`].
pub fn read(tree: &dyn SourceTree, path: &str) -> Result<Arc<SourceFile>, Box<Diagnostic>> {
    read_within(tree, path, &DEFINITION)
}

/// The size limit for a kind of file.
pub(crate) struct Largest {
    /// The kind: `a definition file`.
    pub(crate) what: &'static str,
    /// The limit in bytes.
    pub(crate) bytes: u64,
    /// The hint for a larger file.
    pub(crate) help: &'static str,
}

const DEFINITION: Largest = Largest {
    what: "a definition file",
    bytes: LARGEST_DEFINITION,
    help: "move long material to a separate file that the worker reads with a tool",
};

/// Reads a file of another kind in the same way.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_within(
    tree: &dyn SourceTree,
    path: &str,
    largest: &Largest,
) -> Result<Arc<SourceFile>, Box<Diagnostic>> {
    let unread = || unread(tree, path);
    let bytes = tree.read(path, largest.bytes).map_err(|error| match error {
        SourceError::TooLarge { size, limit } => too_large(&unread(), size, limit, largest),
        error => unreadable(&unread(), &error),
    })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(SourceFile::new(tree.shown(path), text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let before = &error.as_bytes()[..at];
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            let byte = error.as_bytes()[at];
            Err(Diagnostic::error(codes::NOT_UTF8, format!("`{}` is not UTF-8 text", tree.shown(path)))
                .at(&Span::whole(&unread()))
                .note(format!("the first invalid byte is 0x{byte:02x} at offset {at}, on line {line}"))
                .help("save the file as UTF-8")
                .into())
        }
    }
}

/// Reads a worker's file of either form.
pub fn definition(tree: &dyn SourceTree, path: &str) -> Definition {
    match read(tree, path) {
        Ok(file) => definition_of(file, path.ends_with(".worker")),
        Err(error) => Err(error).into(),
    }
}

/// Parses the text of a definition file, with front matter or of YAML only. A syntax error in one key loses that key and
/// no other.
pub fn definition_of(file: Arc<SourceFile>, has_front_matter: bool) -> Definition {
    let split = match has_front_matter {
        true => split(&file),
        false if is_blank(file.text()) => Err(empty(&file).into()),
        false => Ok((file.text().len(), None)),
    };
    match split {
        Ok((end, body)) => {
            let (keys, found) = yaml::parse_partly(&file, end);
            let found: Vec<Diagnostic> = found.into_iter().map(|error| *error).collect();
            Definition { document: Some(Document { file, keys, body, is_partial: !found.is_empty() }), found }
        }
        Err(error) => Err(error).into(),
    }
}

/// Returns a file of a tree without its text, for findings about the whole file.
pub fn unread(tree: &dyn SourceTree, path: &str) -> Arc<SourceFile> {
    SourceFile::new(tree.shown(path), "")
}

/// Returns the finding for a file that could not be read.
pub fn unreadable(file: &Arc<SourceFile>, error: &SourceError) -> Diagnostic {
    let path = file.path();
    match error {
        SourceError::TooLarge { size, limit } => return too_large(file, *size, *limit, &DEFINITION),
        SourceError::Escapes => {
            Diagnostic::error(codes::ESCAPES_ROOT, format!("`{path}` is outside the program's root"))
                .help("llm-do reads definitions only from below the root, also through symbolic links")
        }
        SourceError::Changed { library, change } => Diagnostic::error(
            codes::LIBRARY_CHANGED,
            format!("`{path}` of the library `{library}` differs from `llm-do.lock`: it is {change}"),
        )
        .note(format!("`llm-do lib info {library}` shows all differences"))
        .help("if you made the change, run `llm-do lib install` to pin the current files")
        .help("otherwise, install the library again with `llm-do lib install --force`"),
        error => Diagnostic::error(codes::UNREADABLE, format!("`{path}` cannot be read: {error}")),
    }
    .at(&Span::whole(file))
}

fn too_large(file: &Arc<SourceFile>, size: u64, limit: u64, largest: &Largest) -> Diagnostic {
    let (path, what) = (file.path(), largest.what);
    Diagnostic::error(codes::TOO_LARGE, format!("`{path}` has {size} bytes; {what} has at most {limit}"))
        .help(largest.help)
        .at(&Span::whole(file))
}

/// Splits a `.worker` file and parses its front matter.
///
/// # Errors
/// An empty file, a file without front matter, front matter that is not closed, or an error of [`yaml::parse`].
pub fn worker(file: Arc<SourceFile>) -> Result<Document, Box<Diagnostic>> {
    let (end, body) = split(&file)?;
    let keys = yaml::parse(&file, end)?;
    Ok(Document { file, keys, body, is_partial: false })
}

/// Returns the end of the front matter of a `.worker` file, and the text after it.
fn split(file: &Arc<SourceFile>) -> Result<(usize, Option<Body>), Box<Diagnostic>> {
    let text = file.text();
    if is_blank(text) {
        return Err(empty(file).into());
    }
    let mut lines = Lines::of(text);
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
                .at(&Span::new(file, line.start..end))
                .label("expected a line `---`")
                .help("start the file with two lines `---`, with the keys between them, and write the instructions after the second line")
                .into());
            }
        }
    };
    let closing = lines.find(|line| is_fence(text, line));
    let Some(closing) = closing else {
        let fence = opening.start..opening.start + text[opening.clone()].trim_end().len();
        return Err(Diagnostic::error(
            codes::UNTERMINATED,
            format!("the front matter of `{}` is not closed", file.path()),
        )
        .at(&Span::new(file, fence))
        .label("it begins here")
        .help("close it with a line `---` before the instructions")
        .into());
    };
    let body = Body { range: closing.end..text.len(), lines_before: lines.number() };
    Ok((closing.start, Some(body)))
}

/// Parses a file that is YAML only: a `.yaml` worker or a manifest.
///
/// # Errors
/// An empty file, or an error of [`yaml::parse`].
pub fn yaml_only(file: Arc<SourceFile>) -> Result<Document, Box<Diagnostic>> {
    if is_blank(file.text()) {
        return Err(empty(&file).into());
    }
    let keys = yaml::parse(&file, file.text().len())?;
    Ok(Document { file, keys, body: None, is_partial: false })
}

fn empty(file: &Arc<SourceFile>) -> Diagnostic {
    Diagnostic::error(codes::EMPTY_FILE, format!("`{}` is empty", file.path())).at(&Span::whole(file))
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
    fn a_syntax_error_loses_one_key() {
        let read = |text: &str| {
            let Definition { document, found } = definition_of(SourceFile::new("x.worker", text), true);
            assert_eq!(found.len(), 1, "{text}");
            let document = document.expect(text);
            assert!(document.is_partial);
            (document.keys.to_json().to_string(), document.body.is_some())
        };
        let kept = |text: &str, expected: &str| assert_eq!(read(text), (expected.to_owned(), true), "{text}");
        kept("---\nmodel: a:b\ntools\nmode: chat\n---\nHi", r#"{"model":"a:b","mode":"chat"}"#);
        kept("---\nmodel: [\nmode: chat\n---\nHi", r#"{"model":null,"mode":"chat"}"#);
        kept("---\nmode: chat\nmode: chat\n---\nHi", r#"{"mode":"chat"}"#);
        kept(
            "---\nlimits:\n  max_turns: 3\n  timeo\nmode: chat\n---\n",
            r#"{"limits":{"max_turns":3},"mode":"chat"}"#,
        );
        kept(
            "---\nallow_workers:\n- a\n- [b\nlimits:\n  max_turns: 007\n  timeout: 3s\n---\n",
            r#"{"allow_workers":null,"limits":{"max_turns":null,"timeout":"3s"}}"#,
        );
    }

    #[test]
    fn places_in_a_partial_document_hold() {
        let text = "\u{feff}---\nm: [\nlimits:\n  a: ü\n  b\n---\nHi";
        let document = definition_of(SourceFile::new("x.worker", text), true).document.unwrap();
        let limits = document.keys.entry("limits").unwrap();
        assert_eq!(limits.key_span.text(), "limits");
        assert_eq!(limits.value.get("a").unwrap().span.text(), "ü");
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
