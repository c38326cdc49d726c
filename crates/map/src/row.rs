//! A row of the input, as read.

use serde_json::{Map, Value};
use std::{fmt, path::PathBuf, sync::Arc};

/// A row, before its columns are matched with parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The place of the row.
    pub(crate) place: Place,
    /// The content of the row, or the reason why it can't be read.
    pub(crate) content: Result<Content, Broken>,
}

/// The content of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// The fields of a line of CSV or TSV, as many as there are columns.
    Fields(Vec<String>),
    /// A line of JSON.
    Json(Value),
    /// A file of a folder.
    File(FileRow),
}

/// A file of a folder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileRow {
    /// The path of the file.
    pub(crate) path: String,
    /// The name of the file.
    pub(crate) name: String,
    /// The text of the file, if it is wanted.
    pub(crate) text: Option<String>,
    /// The real path of the file, after links are followed. It lies in the folder.
    pub(crate) real: PathBuf,
    /// The hash of the file's content.
    pub(crate) sha256: String,
}

/// A row that can't be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Broken {
    /// The reason.
    pub(crate) reason: String,
    /// The unreadable content, for the user to repair.
    pub(crate) raw: Raw,
}

/// The content in the place of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// A line.
    Line(String),
    /// The fields of a line.
    Fields(Vec<String>),
    /// A value that is not a valid input.
    Json(Value),
    /// A line in the failures of an earlier map about a row that it could not read, without the failure itself.
    Earlier(Map<String, Value>),
}

impl Raw {
    /// Converts the content to JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Line(line) => line.as_str().into(),
            Self::Fields(fields) => fields.iter().map(String::as_str).collect(),
            Self::Json(value) => value.clone(),
            Self::Earlier(object) => object.clone().into(),
        }
    }
}

/// The place of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: Arc<str>,
    /// The number of the row, from 1.
    pub(crate) row: u64,
    /// The line on which the row begins, from 1. A file of a folder has none.
    pub(crate) line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line} (row {})", self.file, self.row),
            None => write!(f, "{} (row {})", self.file, self.row),
        }
    }
}

/// The key under which the failures of an earlier map have the failure beside the input. It is not a column.
pub(crate) const FAILURE: &str = "$failure";
/// The key of a row that could not be read, in the failures of an earlier map.
pub(crate) const ROW: &str = "$row";

/// Returns the keys of a JSON object that are columns.
pub(crate) fn without_failure(mut object: Map<String, Value>) -> Map<String, Value> {
    object.shift_remove(FAILURE);
    object
}
