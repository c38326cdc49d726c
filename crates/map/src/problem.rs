//! Errors of a map.

use std::{
    io,
    path::{Path, PathBuf},
};

/// An error that stops a map.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The input can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The name of the input does not determine its form.
    #[error("{}: only .jsonl, .ndjson, .csv and .tsv files, and folders, are input", .0.display())]
    UnknownForm(PathBuf),
    /// The header of a table is wrong.
    #[error("{file}:1: {reason}")]
    Header {
        /// The file.
        file: String,
        /// The error in the header.
        reason: String,
    },
    /// A quote is opened in a row and never closed.
    #[error(
        "{file}:{line}: a quote is opened in this row and never closed, so that the rest of the file would be one field"
    )]
    OpenQuote {
        /// The file.
        file: String,
        /// The line on which the row begins.
        line: u64,
    },
    /// The columns don't fit the parameters.
    #[error("{what}")]
    Columns {
        /// The mismatch.
        what: String,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// The operator is declared as the author of rows that others wrote.
    #[error("--trusted: others wrote {}, or untrusted words were written to it", .0.display())]
    OfOthers(PathBuf),
    /// The input has changed since it was first read.
    #[error("{0} changed while it was read")]
    Changed(String),
    /// The state can't be read or written.
    #[error("cannot use {}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The key that seals the state does not exist.
    #[error(transparent)]
    NoKey(llm_do::NoKey),
    /// The place of the output or of the state is occupied.
    #[error("{what}")]
    Occupied {
        /// The thing that occupies the place.
        what: String,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// The output can't be written to that place.
    #[error("{what}")]
    Outputs {
        /// The reason.
        what: String,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// Another user made the state.
    #[error("the state in {} was not written by this user's llm-do, or was changed", dir.display())]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// Another process works on the same output.
    #[error("another llm-do map is writing {}", .0.display())]
    Running(PathBuf),
    /// The first request can't be rendered.
    #[error("{0}")]
    Prompt(llm_do::Problem),
    /// The worker can't be used in batches.
    #[error("--batch: {0}")]
    NoBatch(String),
    /// The model's provider refuses all requests.
    #[error("{0}")]
    Refused(String),
}

impl Problem {
    pub(crate) fn no_key(error: llm_do::NoKey) -> Self {
        Self::NoKey(error)
    }
    pub(crate) fn input(path: &Path, source: io::Error) -> Self {
        Self::Input { path: path.to_owned(), source }
    }

    pub(crate) fn state(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::State { path, source }
    }

    /// Returns the hints for the user.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Columns { hints, .. }
            | Self::Occupied { hints, .. }
            | Self::Outputs { hints, .. }
            | Self::Foreign { hints, .. } => hints.clone(),
            Self::OpenQuote { .. } => {
                vec!["close it, or write the field as \"…\" with each quote of its text doubled".into()]
            }
            Self::OfOthers(_) => vec![
                "leave out --trusted: the words of the rows are untrusted then".into(),
                "or copy what you have checked to another file yourself".into(),
            ],
            Self::Changed(_) => vec!["run the command again: what is done stays done".into()],
            Self::State { .. } => {
                vec!["run the command again when this is mended: what is done stays done".into()]
            }
            Self::Running(_) => vec!["wait for its end, or stop that process".into()],
            Self::Refused(_) => {
                vec!["run the command again when this is mended: what is done stays done".into()]
            }
            _ => Vec::new(),
        }
    }
}
