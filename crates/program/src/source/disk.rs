//! A tree on disk, confined by a directory descriptor.

use super::{Kind, RealPlace, SourceError, SourceTree, Stamp, plain};
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};
use llm_do_core::authority::Place;
use std::{
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::UNIX_EPOCH,
};

/// A folder on disk. It is opened once, and all paths are resolved from that descriptor, so that neither `..` nor a
/// symbolic link can leave it, whenever the link was created.
#[derive(Debug)]
pub struct DiskTree {
    root: Place,
    path: PathBuf,
    dir: Dir,
    opened: AtomicU64,
    /// True if its files are shown with absolute paths.
    elsewhere: bool,
}

impl DiskTree {
    /// Opens the tree below a folder.
    ///
    /// # Errors
    /// The folder does not exist or can't be opened.
    pub fn open(root: &Path) -> Result<Self, SourceError> {
        let path = std::fs::canonicalize(root)?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Self { root: place(&path)?, path, dir, opened: AtomicU64::new(0), elsewhere: false })
    }

    /// Opens the tree of a library. Its files are shown with absolute paths.
    ///
    /// # Errors
    /// The errors of [`DiskTree::open`].
    pub fn of_library(root: &Path) -> Result<Self, SourceError> {
        Ok(Self { elsewhere: true, ..Self::open(root)? })
    }
}

impl SourceTree for DiskTree {
    fn root(&self) -> &Place {
        &self.root
    }

    fn shown(&self, path: &str) -> String {
        if self.elsewhere { self.root.join(path).to_string() } else { path.to_owned() }
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        // Only times are compared, so links need not be confined.
        let metadata = std::fs::metadata(self.path.join(plain(path).ok()?)).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(), metadata.ino())
        };
        #[cfg(not(unix))]
        let identity = (0, 0);
        // The size of a folder says nothing.
        let bytes = if metadata.is_file() { metadata.len() } else { 0 };
        Some(Stamp { bytes, modified, identity })
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        let path = plain(path)?;
        if path.is_empty() {
            return Ok(Some(Kind::Folder));
        }
        match self.dir.metadata(&path) {
            Ok(metadata) => Ok(Some(kind(metadata.is_file(), metadata.is_dir()))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let path = plain(path)?;
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::custom_flags(&mut options, without_waiting());
        let file = match self.dir.open_with(&path, &options) {
            Ok(file) => file,
            // A socket, or on some systems a folder, can't be opened.
            Err(error) => {
                return Err(match self.kind(&path)? {
                    Some(Kind::File) => error.into(),
                    Some(_) => SourceError::NotAFile,
                    None => SourceError::NotFound,
                });
            }
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(SourceError::NotAFile);
        }
        if metadata.len() > limit {
            return Err(SourceError::TooLarge { size: metadata.len(), limit });
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // Files in /proc report a size of zero, so limit the bytes that are read.
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(SourceError::TooLarge { size: bytes.len() as u64, limit });
        }
        Ok(bytes)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        let path = plain(path)?;
        let folder = if path.is_empty() { "." } else { &path };
        let mut entries = Vec::new();
        for entry in self.dir.read_dir(folder)? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            // A name that is not UTF-8 can't be written in a definition.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, kind(file_type.is_file(), file_type.is_dir())));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        let whole = self.path.join(path);
        // The operating system resolves the longest existing prefix. The missing rest has no symbolic links.
        let mut existing = whole.as_path();
        let mut missing: Vec<String> = Vec::new();
        loop {
            match std::fs::canonicalize(existing) {
                Ok(real) => {
                    let metadata = std::fs::metadata(&real)?;
                    let found = missing.is_empty().then(|| kind(metadata.is_file(), metadata.is_dir()));
                    let mut real = place(&real)?.as_str().to_owned();
                    for part in missing.iter().rev() {
                        real.push('/');
                        real.push_str(part);
                    }
                    return Ok(RealPlace { place: Place::new(&real), kind: found });
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    // Creating the missing part would follow a dangling symbolic link.
                    if std::fs::symlink_metadata(existing).is_ok_and(|m| m.file_type().is_symlink()) {
                        return Err(SourceError::Io("a symbolic link in it leads nowhere".into()));
                    }
                    let parent = existing.parent();
                    match (existing.components().next_back(), parent) {
                        (Some(std::path::Component::Normal(name)), Some(parent)) => {
                            missing.push(name.to_string_lossy().into_owned());
                            existing = parent;
                        }
                        (Some(std::path::Component::ParentDir), Some(_)) => {
                            // The operating system rejects `missing/..`, so reject it here too.
                            return Err(SourceError::NotFound);
                        }
                        _ => return Err(SourceError::NotFound),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

/// Returns the flags for opening: a FIFO must not wait for a writer, and a terminal must not become the controlling
/// one.
#[cfg(unix)]
fn without_waiting() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

fn kind(is_file: bool, is_folder: bool) -> Kind {
    match (is_file, is_folder) {
        (true, _) => Kind::File,
        (_, true) => Kind::Folder,
        _ => Kind::Special,
    }
}

/// Converts a canonical path to a place.
fn place(path: &Path) -> Result<Place, SourceError> {
    path.to_str().map(Place::new).ok_or_else(|| SourceError::Io("its path is not UTF-8".into()))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    fn tree() -> (tempfile::TempDir, DiskTree) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("project");
        fs::create_dir_all(root.join("workers")).unwrap();
        fs::write(outer.path().join("secret.txt"), "secret").unwrap();
        fs::write(root.join("workers/a.worker"), "a").unwrap();
        symlink("workers/a.worker", root.join("inside.worker")).unwrap();
        symlink("../secret.txt", root.join("outside.worker")).unwrap();
        symlink(outer.path(), root.join("up")).unwrap();
        let tree = DiskTree::open(&root).unwrap();
        (outer, tree)
    }

    #[test]
    fn symlinks_lead_nowhere_outside() {
        let (_outer, tree) = tree();
        assert_eq!(tree.read("inside.worker", 10).unwrap(), b"a");
        assert_eq!(tree.read("outside.worker", 10), Err(SourceError::Escapes));
        assert_eq!(tree.kind("outside.worker"), Err(SourceError::Escapes));
        assert_eq!(tree.read("up/secret.txt", 10), Err(SourceError::Escapes));
        assert_eq!(tree.read("../secret.txt", 10), Err(SourceError::Escapes));
        assert!(tree.list("up").is_err());
        assert_eq!(tree.opened(), 1);
    }

    #[test]
    fn limits_and_kinds_are_checked() {
        let (_outer, tree) = tree();
        assert_eq!(tree.read("workers/a.worker", 0), Err(SourceError::TooLarge { size: 1, limit: 0 }));
        for folder in ["workers", ""] {
            assert_eq!(tree.read(folder, 10), Err(SourceError::NotAFile));
        }
        for (name, kind) in [("fifo", rustix::fs::FileType::Fifo), ("socket", rustix::fs::FileType::Socket)] {
            let path = tree.path.join(name);
            rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
            assert_eq!(tree.read(name, 10), Err(SourceError::NotAFile), "{name}");
        }
        assert_eq!(tree.read("none", 10), Err(SourceError::NotFound));
        assert_eq!(tree.read("workers/a.worker/x", 10), Err(SourceError::NotFound));
        let names: Vec<(String, Kind)> = tree.list("").unwrap();
        assert!(names.contains(&("up".to_owned(), Kind::Special)));
    }

    #[test]
    fn mounts_are_located_where_they_really_lie() {
        let (outer, tree) = tree();
        let real = fs::canonicalize(outer.path()).unwrap();
        assert_eq!(tree.locate("./new/deep").unwrap().place, tree.root().join("new/deep"));
        assert_eq!(tree.locate("up").unwrap().place.as_str(), real.to_str().unwrap());
        assert_eq!(tree.locate("up/x").unwrap().place.as_str(), real.join("x").to_str().unwrap());
        assert_eq!(tree.locate("..").unwrap().place.as_str(), real.to_str().unwrap());
        assert!(tree.locate("new/../../x").is_err());
    }
}
