//! The errors of a cluster.

use std::{fmt::Write as _, io, path::PathBuf};

/// An operation on a cluster that failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The URL is wrong.
    #[error("the database URL is wrong: {0}")]
    Url(String),
    /// The database can't be reached, or the connection broke. The operation may have happened.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The database refuses the operation.
    #[error("the database refuses: {message}")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// The message.
        message: String,
    },
    /// The database has no cluster, or the role may not use it.
    #[error("the database has no cluster that this role may use")]
    NoCluster,
    /// The schema has another version.
    #[error(
        "the database has version {found} of the cluster's schema, and this llm-do knows version {known}"
    )]
    OtherSchema {
        /// The version of the database.
        found: i32,
        /// The version of this program.
        known: i32,
    },
    /// The database has another version of the engine.
    #[error("the schema `absurd` of the database has version {found}; a cluster needs version {known}")]
    OtherEngine {
        /// The version of the database.
        found: String,
        /// The version of this program.
        known: &'static str,
    },
    /// The cluster does not have this item.
    #[error("{0}")]
    Missing(String),
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A program can't be bundled.
    #[error("{0}")]
    NotPortable(String),
    /// The data of a run can't be read.
    #[error("{0}")]
    Damaged(String),
}

impl ClusterError {
    /// Returns true if a later attempt may succeed: the connection broke, or the database is restarting, full or busy.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            // Connection exceptions, serialisation and deadlocks, resources, operator intervention, read-only during failover.
            Self::Refused { code, .. } => {
                ["08", "40", "53", "57"].iter().any(|class| code.starts_with(class)) || code == "25006"
            }
            _ => false,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

impl From<tokio_postgres::Error> for ClusterError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error) => {
                let mut message = error.message().to_owned();
                if let Some(detail) = error.detail() {
                    // Writing to a `String` does not fail.
                    let _ = write!(message, " ({detail})");
                }
                Self::Refused { code: error.code().code().to_owned(), message }
            }
            None => {
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(inner) = source {
                    let _ = write!(text, ": {inner}");
                    source = inner.source();
                }
                Self::Unreachable(text)
            }
        }
    }
}
