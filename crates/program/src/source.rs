//! Read access to definition files. The loader reads all files through this trait.
//!
//! A [`SourceTree`] has a root and never reads outside of it, not even through symbolic links
//! (`docs/reference/resolution.md`). Paths are relative to the root, with `/` as the separator.

#[cfg(not(target_arch = "wasm32"))]
mod disk;
mod listed;
mod memory;
mod overlay;

#[cfg(not(target_arch = "wasm32"))]
pub use disk::DiskTree;
pub(crate) use listed::ListedTree;
pub use memory::MemoryTree;
pub use overlay::OverlayTree;

use llm_do_core::{authority::Place, os_error};
use std::{fmt, io};

/// The largest definition file that is read, in bytes. A prompt of a megabyte fits no model.
pub const LARGEST_DEFINITION: u64 = 1 << 20;

/// The kind of entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, or a symlink to one inside the root.
    File,
    /// A folder, or a symlink to one inside the root.
    Folder,
    /// Anything else: a device, a socket, a FIFO.
    Special,
}

/// The difference of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The bytes differ.
    Changed,
    /// The file did not exist.
    New,
    /// The file no longer exists.
    Missing,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::New => "new",
            Self::Missing => "missing",
        })
    }
}

/// The reason why a path could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The path does not exist.
    #[error("it does not exist")]
    NotFound,
    /// A symlink leads out of the root, or the path itself is outside.
    #[error("it is outside the program's root")]
    Escapes,
    /// The path is that of a folder, device, socket or FIFO.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file exceeds the size limit.
    #[error("it has {size} bytes; at most {limit} are read")]
    TooLarge {
        /// The size of the file in bytes, or a lower bound of it.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of a library differs from the lock file.
    #[error("it is {change} since `{library}` was pinned in llm-do.lock")]
    Changed {
        /// `NAME@VERSION`.
        library: String,
        /// The difference.
        change: Change,
    },
    /// Any other error of the operating system.
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for SourceError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound,
            // `cap-std` returns this error without an OS code if a path would leave the folder.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::Escapes,
            io::ErrorKind::PermissionDenied => Self::Io("permission denied".into()),
            _ => Self::Io(os_error::reason(&error)),
        }
    }
}

/// The real place of a path in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealPlace {
    /// The place, with all symlinks in its existing part resolved.
    pub place: Place,
    /// The kind of entry at the place, or `None` if it does not exist.
    pub kind: Option<Kind>,
}

/// The state of a file or folder on disk. It differs after each change of a file's content or of a folder's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of bytes.
    pub bytes: u64,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub modified: u128,
    /// The time of the last change of the content or the properties, and the number of the file.
    pub identity: (i64, u64),
}

/// Synchronous, confined read access to the files of a program.
pub trait SourceTree: Send + Sync {
    /// Returns the root as a real place.
    fn root(&self) -> &Place;

    /// Returns a path for display: relative to the program's root, absolute for a file of a library.
    fn shown(&self, path: &str) -> String {
        path.to_owned()
    }

    /// Returns the state of the entry at a path, or `None` if there is none or the tree has no times.
    fn stamp(&self, _path: &str) -> Option<Stamp> {
        None
    }

    /// Returns the kind of entry at a path inside the root, or `None` if it does not exist.
    ///
    /// # Errors
    /// [`SourceError::Escapes`], or an error of the operating system.
    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError>;

    /// Reads the bytes of a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError>;

    /// Lists names and kinds in a folder (`""` for the root), sorted by name. A symbolic link is [`Kind::Special`], so
    /// that a scan can't loop or leave the root.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError>;

    /// Returns the real place of a mount's root. `path` is relative to the root, absolute, or contains `..`. It does
    /// not check permissions and does not read the file.
    ///
    /// # Errors
    /// An error of the operating system.
    fn locate(&self, path: &str) -> Result<RealPlace, SourceError>;

    /// Returns the number of files that have been read so far. Tests of lazy loading use it.
    fn opened(&self) -> u64;
}

/// Converts a relative path to its plain form: no `.`, no doubled or trailing slashes.
///
/// # Errors
/// [`SourceError::Escapes`] for `..`, absolute paths, backslashes and drive letters, [`SourceError::Io`] for control
/// characters.
pub fn plain(path: &str) -> Result<String, SourceError> {
    if path.chars().any(char::is_control) {
        return Err(SourceError::Io("a path has no control characters".into()));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    // The plain form is looked at, so that `./C:/x` is not taken for something else than `C:/x`.
    let drive = matches!(parts.first().map(|part| part.as_bytes()), Some([letter, b':', ..]) if letter.is_ascii_alphabetic());
    if path.starts_with('/') || path.contains('\\') || drive || parts.contains(&"..") {
        return Err(SourceError::Escapes);
    }
    Ok(parts.join("/"))
}

/// Returns the folder of a file; empty for the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns a path below a folder; the folder is empty for the root.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_stay_inside() {
        assert_eq!(plain("./a//b/./c/").unwrap(), "a/b/c");
        assert_eq!(plain("").unwrap(), "");
        for path in ["../x", "a/../../x", "a/..", "/etc", "\\\\host\\x", "C:/x", "./C:/x", "C:\\x"] {
            assert_eq!(plain(path), Err(SourceError::Escapes), "{path}");
        }
        assert!(plain("a\0b").is_err());
    }
}
