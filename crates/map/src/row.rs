//! One row of the input, as read.

use serde_json::{Map, Value};
use std::{fmt, path::PathBuf, sync::Arc};

/// A row, before its columns are matched with parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Where it stands.
    pub(crate) place: Place,
    /// Its content, or why it has none.
    pub(crate) content: Result<Content, Broken>,
}

/// What a row holds.
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
    /// Its path.
    pub(crate) path: String,
    /// Its name.
    pub(crate) name: String,
    /// Its text, if it is wanted.
    pub(crate) text: Option<String>,
    /// The file itself, after links are followed. It lies in the folder.
    pub(crate) real: PathBuf,
    /// The hash of its content.
    pub(crate) sha256: String,
}

/// A row that can't be read as one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Broken {
    /// What is wrong.
    pub(crate) reason: String,
    /// What stands there, to be mended.
    pub(crate) raw: Raw,
}

/// What stands in the place of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// A line.
    Line(String),
    /// The fields of a line.
    Fields(Vec<String>),
    /// A value that is no input.
    Json(Value),
    /// The line of an earlier map's failures about a row that it could not read, without the failure itself.
    Earlier(Map<String, Value>),
}

impl Raw {
    /// As JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Line(line) => line.as_str().into(),
            Self::Fields(fields) => fields.iter().map(String::as_str).collect(),
            Self::Json(value) => value.clone(),
            Self::Earlier(object) => object.clone().into(),
        }
    }
}

/// Where a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: Arc<str>,
    /// The number of the row, from 1.
    pub(crate) row: u64,
    /// The line on which it begins, from 1. A file of a folder has none.
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

/// The key that the failures of an earlier map have beside their input. It is no column.
pub(crate) const FAILURE: &str = "$failure";
/// The key of a row that could not be read, in the failures of an earlier map.
pub(crate) const ROW: &str = "$row";

/// The keys of a JSON object that are columns.
pub(crate) fn without_failure(mut object: Map<String, Value>) -> Map<String, Value> {
    object.shift_remove(FAILURE);
    object
}
