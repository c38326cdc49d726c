//! The expected effects of a call on files. A resumed run compares the files with them to learn whether an
//! interrupted call succeeded.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The state of a path, in enough detail to distinguish before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A folder.
    Folder,
    /// A file with this content: SHA-256 in hexadecimal.
    File(Arc<str>),
}

/// The state of a path before and after a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct FileChange {
    /// Virtual path.
    pub path: Arc<str>,
    /// Before.
    pub before: FileState,
    /// After.
    pub after: FileState,
}

/// The expected effects of a call that succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Foreseen {
    /// The paths that it changes.
    pub changes: Vec<FileChange>,
    /// Its result.
    pub result: Arc<str>,
}
