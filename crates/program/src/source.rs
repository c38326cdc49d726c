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

/// Largest definition file that is read, in bytes. A prompt of a megabyte fits no model.
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

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Its bytes differ.
    Changed,
    /// It did not exist.
    New,
    /// It no longer exists.
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

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nothing is there.
    #[error("it does not exist")]
    NotFound,
    /// A symlink, or the path itself, is outside the root.
    #[error("it is outside the program's root")]
    Escapes,
    /// A folder, device, socket or FIFO.
    #[error("it is not a regular file")]
    NotAFile,
    /// Over the limit.
    #[error("it has {size} bytes; at most {limit} are read")]
    TooLarge {
        /// Its size in bytes; at least this.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of a library that differs from the lock file.
    #[error("it is {change} since `{library}` was pinned in llm-do.lock")]
    Changed {
        /// `NAME@VERSION`.
        library: String,
        /// How it differs.
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
    /// With every symlink of the part that exists resolved.
    pub place: Place,
    /// What is there; `None` if nothing.
    pub kind: Option<Kind>,
}

/// Synchronous, confined read access to the files of a program.
pub trait SourceTree: Send + Sync {
    /// The root as a real place.
    fn root(&self) -> &Place;

    /// A path for display: relative to the program's root, absolute for a file of a library.
    fn shown(&self, path: &str) -> String {
        path.to_owned()
    }

    /// The kind of entry at a path inside the root; `None` if it does not exist.
    ///
    /// # Errors
    /// [`SourceError::Escapes`], or what the system says.
    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError>;

    /// The bytes of a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError>;

    /// Names and kinds in a folder (`""` for the root), sorted by name. A symbolic link is [`Kind::Special`], so that
    /// a scan cannot loop or leave the root.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError>;

    /// The real place of a mount's root. `path` is relative to the root, absolute, or contains `..`. It does not
    /// check permissions and does not read the file.
    ///
    /// # Errors
    /// What the system says.
    fn locate(&self, path: &str) -> Result<RealPlace, SourceError>;

    /// How many files have been read so far. Tests of lazy loading use it.
    fn opened(&self) -> u64;
}

/// A relative path in its plain form: no `.`, no doubled or trailing slashes.
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

/// The folder of a file; empty for the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path below a folder; the folder is empty for the root.
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
