//! A tree that caches the listings of folders. A check lists all folders of workers, and then looks for each callee
//! under several names.

use super::{Kind, RealPlace, SourceError, SourceTree, Stamp, plain};
use llm_do_core::authority::Place;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

/// The files of one load. A folder that was listed is assumed to be unchanged.
pub(crate) struct ListedTree {
    tree: Arc<dyn SourceTree>,
    folders: RwLock<HashMap<String, Folder>>,
}

/// The entries of a folder.
struct Folder {
    /// Names and kinds, sorted by name.
    entries: Vec<(String, Kind)>,
    /// The names that differ from their lower case, in lower case. Some file systems find a file by either.
    lower: HashSet<String>,
}

impl Folder {
    fn kind(&self, name: &str) -> Option<Kind> {
        let place = self.entries.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(self.entries[place].1)
    }

    /// Returns true if a file system that ignores case may find an entry by this name.
    fn may_have(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        self.lower.contains(&lower) || self.kind(&lower).is_some()
    }
}

impl ListedTree {
    /// Wraps a tree. No folder is listed yet.
    pub(crate) fn new(tree: Arc<dyn SourceTree>) -> Self {
        Self { tree, folders: RwLock::default() }
    }

    /// Returns the kind of a plain path according to the listed folders. The outer `None` means that they do not
    /// contain the answer.
    fn known(&self, path: &str) -> Option<Option<Kind>> {
        let folders = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        let mut path = path;
        let mut below = false;
        loop {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let Some(listed) = folders.get(folder) else {
                // Nothing is in a folder that is not there.
                (path, below) = (Some(folder).filter(|folder| !folder.is_empty())?, true);
                continue;
            };
            return match listed.kind(name) {
                // A symbolic link is followed by the tree.
                Some(Kind::Special) => None,
                Some(kind) if !below => Some(Some(kind)),
                Some(_) => None,
                // A file system may find other names by this one, but none that differ in more than case.
                None if name.is_ascii() && !listed.may_have(name) => Some(None),
                None => None,
            };
        }
    }
}

impl SourceTree for ListedTree {
    fn root(&self) -> &Place {
        self.tree.root()
    }

    fn shown(&self, path: &str) -> String {
        self.tree.shown(path)
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        self.tree.stamp(path)
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        match plain(path).ok().and_then(|path| self.known(&path)) {
            Some(kind) => Ok(kind),
            None => self.tree.kind(path),
        }
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        self.tree.read(path, limit)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        let Ok(path) = plain(path) else { return self.tree.list(path) };
        let folders = || self.folders.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = folders().get(&path) {
            return Ok(listed.entries.clone());
        }
        let entries = self.tree.list(&path)?;
        let lower = entries.iter().map(|(name, _)| (name, name.to_lowercase()));
        let lower = lower.filter(|(name, lower)| *name != lower).map(|(_, lower)| lower).collect();
        let folder = Folder { entries: entries.clone(), lower };
        self.folders.write().unwrap_or_else(PoisonError::into_inner).insert(path, folder);
        Ok(entries)
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        self.tree.locate(path)
    }

    fn opened(&self) -> u64 {
        self.tree.opened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_listed_folder_says_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        std::fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
        write("sub/a.worker");
        std::os::unix::fs::symlink("a.worker", folder.path().join("sub/link")).unwrap();
        let disk = Arc::new(crate::source::DiskTree::open(folder.path()).unwrap());
        let tree = ListedTree::new(disk);
        let seen = |path: &str| tree.kind(path).unwrap();
        assert_eq!(seen("sub/new.worker"), None);
        write("sub/new.worker");
        assert_eq!(seen("sub/new.worker"), Some(Kind::File), "the folder is not listed yet");
        tree.list("sub").unwrap();
        for name in ["sub/later.worker", "sub/ünï.worker", "sub/A.worker.bak"] {
            write(name);
        }
        assert_eq!(seen("./sub//a.worker"), Some(Kind::File));
        assert_eq!(seen("sub/link"), Some(Kind::File));
        assert_eq!(seen("sub/deep"), Some(Kind::Folder));
        assert_eq!(seen("sub/deep/none"), None);
        assert_eq!(seen("sub/later.worker"), None, "it is no part of this load");
        assert_eq!(seen("sub/none/worker.worker"), None);
        assert_eq!(seen("sub/a.worker/x"), None);
        assert_eq!(
            seen("sub/ünï.worker"),
            Some(Kind::File),
            "names that a file system may compare otherwise"
        );
        assert!(tree.kind("../x").is_err());
    }
}
