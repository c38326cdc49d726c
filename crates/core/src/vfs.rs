//! The file system port (`docs/reference/sandbox.md`): operations on places that authority has located.

mod memory;

pub use memory::MemoryFileSystem;

use crate::{
    authority::{Located, VirtualPath},
    send::{BoxFuture, MaybeSend, MaybeSync},
};
use serde::{Deserialize, Serialize};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symlink that was not followed, a device, a socket, a FIFO: never read or written.
    Other,
}

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The virtual path.
    pub path: VirtualPath,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes; 0 for folders. `None` if it is not known before the file is read.
    pub size: Option<u64>,
    /// Time of the last change, in milliseconds since 1970, if the file system knows it.
    pub modified_ms: Option<u64>,
}

/// A file operation that failed. Messages name virtual paths only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// Authority refused the operation (also if a symlink leads to a place that may not be accessed).
    #[error(transparent)]
    Refused(#[from] crate::authority::Refusal),
    /// The path does not exist.
    #[error("`{0}` does not exist")]
    NotFound(VirtualPath),
    /// The entry is a folder in place of a file, or the reverse, or neither.
    #[error("`{path}` is {is}, not {wanted}")]
    WrongKind {
        /// The path.
        path: VirtualPath,
        /// The kind of the entry: `a folder`, `a file`, `a symbolic link that leaves the sandbox`, `a special file`.
        is: &'static str,
        /// The expected kind.
        wanted: &'static str,
    },
    /// The path exists already.
    #[error("`{0}` exists already")]
    Exists(VirtualPath),
    /// The file is larger than the mount or the operation allows.
    #[error("`{path}` has {size} bytes; at most {limit} are allowed here")]
    TooLarge {
        /// The path.
        path: VirtualPath,
        /// Size in bytes.
        size: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The folder to be removed is not empty.
    #[error("`{0}` is not empty")]
    NotEmpty(VirtualPath),
    /// The system reported another error (disk full, permission), without real paths.
    #[error("`{path}`: {reason}")]
    Io {
        /// The path.
        path: VirtualPath,
        /// The system's message.
        reason: String,
    },
}

impl FsError {
    /// The error for an attempt to remove or move a mount's own root through it.
    pub fn root_of_mount(at: &Located) -> Self {
        Self::Io { path: at.path.clone(), reason: "it is the root of a mount and stays where it is".into() }
    }

    /// The error for an attempt to move a folder below itself.
    pub fn into_itself(at: &Located) -> Self {
        Self::Io { path: at.path.clone(), reason: "a folder can't be moved into itself".into() }
    }
}

/// The checks that every [`FileSystem`] makes in addition to [`Located::admits`].
impl Located {
    /// Checks that the mount allows a file of that size.
    pub fn within_size(&self, size: u64) -> Result<(), FsError> {
        match self.mount.max_file_bytes {
            Some(limit) if size > limit => Err(FsError::TooLarge { path: self.path.clone(), size, limit }),
            _ => Ok(()),
        }
    }

    /// Checks that an entry may be moved from here to `to`; `below` is its path under the moved folder. Moving a folder
    /// changes everything in it, so each part must be allowed to leave its old place and to be at its new one. The
    /// rests are resolved, relative to their bases; `size` is given for regular files.
    pub fn may_move(
        &self,
        to: &Self,
        from_rest: &str,
        to_rest: &str,
        below: &str,
        size: Option<u64>,
    ) -> Result<(), FsError> {
        let join = |rest: &str| match (rest, below) {
            (rest, "") => rest.to_owned(),
            ("", below) => below.to_owned(),
            (rest, below) => format!("{rest}/{below}"),
        };
        let (old, new) = (join(from_rest), join(to_rest));
        if below.is_empty() {
            self.admits(&old)?;
            to.admits(&new)?;
            if size.is_some() {
                self.admits_file(&old)?;
                to.admits_file(&new)?;
            }
        } else {
            let shown =
                self.shows(&old) && to.shows(&new) && self.admits(&old).is_ok() && to.admits(&new).is_ok();
            if !shown || (size.is_some() && !(self.shows_file(&old) && to.shows_file(&new))) {
                let reason = "it holds something that may not be moved; move its files one by one".into();
                return Err(FsError::Io { path: self.path.clone(), reason });
            }
        }
        size.map_or(Ok(()), |size| to.within_size(size))
    }
}

/// Confined file operations: a directory on disk, memory, or a browser's private file system.
///
/// Every operation resolves [`Located::rest`] from [`Located::base`] without ever leaving the base, follows symlinks
/// only inside it, and asks [`Located::admits`] about the resolved path before it acts. Implementations work on
/// descriptors, so there is no race between check and use. Writes are atomic: a reader sees the old content or the
/// new, never a part.
pub trait FileSystem: MaybeSend + MaybeSync {
    /// Reads up to `limit` bytes from `offset`, and returns them with the file's size. Refuses files over the mount's
    /// `max_file_bytes`.
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>>;
    /// The path from [`Located::base`] after links on the way are resolved, including the last name if `last` is true.
    /// Components that do not exist keep their names.
    fn real<'a>(&'a self, at: &'a Located, _last: bool) -> BoxFuture<'a, Result<String, FsError>> {
        Box::pin(async { Ok(at.rest.clone()) })
    }
    /// Replaces or creates the file, with missing folders, atomically. The mode bits of an existing file are kept.
    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>>;
    /// Appends, and creates the file if it is missing. Atomic like [`FileSystem::write`].
    fn append<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>>;
    /// Removes a file or an empty folder; a symlink itself, never what it points to.
    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>>;
    /// Moves a file or folder; a symlink itself. Refuses to replace an existing destination, and to move a folder
    /// that contains an entry which may not be changed.
    fn rename<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>>;
    /// Copies a regular file; refuses to replace an existing destination.
    fn copy<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>>;
    /// The entry at the path; `None` if there is none.
    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>>;
    /// Lists everything below a folder (the folder itself excluded), depth first, each folder's names sorted, at most
    /// `limit` entries. Only entries that [`Located::shows`] and the mount's suffixes allow are listed, and no name
    /// that a [`VirtualPath`] can't have. A located file gives that one entry. Symlinks to folders are listed as
    /// [`EntryKind::Other`] and not entered. A folder that does not exist is empty (`docs/reference/sandbox.md`).
    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>>;
    /// Creates a folder and its parents.
    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>>;
    /// Saves a text for people in a place that no worker can reach: as `below` in the folder `llm-do` of the machine's
    /// temporary files, readable by this user alone. Returns the place; `None` if there is no such folder.
    ///
    /// # Errors
    /// The text was not saved; the error has the reason, for people.
    fn keep<'a>(&'a self, _below: &'a str, _text: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }
}
