//! The expected effects of a call on files. A resumed run compares the files with them to learn whether an
//! interrupted call succeeded.

use crate::{
    authority::Located,
    schema::sha256,
    vfs::{EntryKind, FileSystem},
};
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

/// Greatest size of a file that is hashed, in bytes. For a larger file the operator is asked, in the rare case that the
/// hash is needed.
pub(crate) const HASHED: u64 = 4 * 1024 * 1024;

impl FileState {
    /// The state of a file with that content.
    pub(crate) fn of(content: &[u8]) -> Self {
        Self::File(sha256(content).into())
    }

    /// The state of the path now; `None` if it is too large to be hashed, can't be read, or is neither a file nor a folder.
    pub(crate) async fn at(files: &dyn FileSystem, at: &Located) -> Option<Self> {
        match files.stat(at).await.ok()? {
            None => Some(Self::Absent),
            Some(entry) => match entry.kind {
                EntryKind::Directory => Some(Self::Folder),
                EntryKind::File if entry.size.is_none_or(|size| size <= HASHED) => {
                    let (bytes, size) = files.read(at, 0, HASHED).await.ok()?;
                    (size <= HASHED).then(|| Self::of(&bytes))
                }
                EntryKind::File | EntryKind::Other => None,
            },
        }
    }
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
