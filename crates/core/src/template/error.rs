//! Template errors: the problem, its place in a file, and a hint.

use std::fmt;

use minijinja::ErrorKind;

use super::Origin;

/// A problem in a template, with its place and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The kind of error.
    pub kind: TemplateErrorKind,
    /// The problem, for people.
    pub message: String,
    /// The place that failed.
    pub place: Place,
    /// The places that included it, the nearest first.
    pub included_from: Vec<Place>,
    /// A hint, if known: usually the nearest existing names.
    pub hint: Option<String>,
}

/// A place in a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file name given by its source.
    pub file: String,
    /// The line, from 1, with the front matter counted.
    pub line: usize,
    /// The column, from 1, in characters; 1 if only the line is known.
    pub column: usize,
}

/// The kind of a [`TemplateError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// The template is not well-formed, or names a filter or a test that does not exist.
    Syntax,
    /// A variable, attribute or function does not exist.
    Undefined,
    /// No root has the template or file.
    NotFound,
    /// The template or file may not or cannot be read.
    Refused,
    /// The rendering takes too many steps, nests too deeply or grows too large.
    Limit,
    /// An operation failed: wrong types, wrong arguments.
    Failed,
}

impl std::error::Error for TemplateError {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        for place in self.included_from.iter().take(SHOWN_INCLUDES) {
            write!(f, " (included from {place})")?;
        }
        match self.included_from.len().saturating_sub(SHOWN_INCLUDES) {
            0 => Ok(()),
            more => write!(f, " (and {more} more includes)"),
        }
    }
}

/// Maximum number of includes in the one-line form of an error.
const SHOWN_INCLUDES: usize = 3;

/// Our own error while it passes through the engine, which carries it as a source.
#[derive(Debug, thiserror::Error)]
#[error("{kind:?}")]
pub(super) struct Own {
    pub(super) kind: TemplateErrorKind,
    /// The template and the offset in it, if the engine could not determine the place.
    pub(super) at: Option<(String, usize)>,
}

/// An engine error that is one of ours.
pub(super) fn own(kind: TemplateErrorKind, message: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, message).with_source(Own { kind, at: None })
}

/// The place of an offset in a text with that `origin`.
pub(super) fn place_in(text: &str, origin: &Origin, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
    Place {
        file: origin.file.clone(),
        line: origin.line + before.matches('\n').count(),
        column: line.chars().count() + 1,
    }
}
