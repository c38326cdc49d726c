//! A tree that remembers which files were read or looked for, so that they can be protected
//! (`docs/reference/sandbox.md`).

use crate::source::{Kind, RealPlace, SourceError, SourceTree, Stamp, plain};
use llm_do_core::authority::Place;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A tree of a program's files that records the paths that were read or looked for.
pub(crate) struct RecordingTree {
    tree: Arc<dyn SourceTree>,
    /// The paths that were looked for; true for those that existed.
    sought: Mutex<BTreeMap<String, bool>>,
}

impl RecordingTree {
    /// Wraps a tree. No path has been looked for yet.
    pub(crate) fn new(tree: Arc<dyn SourceTree>) -> Self {
        Self { tree, sought: Mutex::default() }
    }

    /// Returns the places of the files that were read or looked for so far, each by its path and by its real place, if
    /// links lead there. They include places without a file: a file that is made there would be read the next time.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.located(|_| true)
    }

    /// Returns the places of the files that existed.
    pub(crate) fn found(&self) -> Vec<Place> {
        self.located(|found| found)
    }

    fn located(&self, wanted: impl Fn(bool) -> bool) -> Vec<Place> {
        let sought = self.sought.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut places = Vec::new();
        for (path, _) in sought.into_iter().filter(|(_, found)| wanted(*found)) {
            let named = self.tree.root().join(&path);
            // A file that has gone since then has no real place.
            places.extend(self.tree.locate(&path).ok().map(|real| real.place).filter(|real| *real != named));
            places.push(named);
        }
        places
    }

    fn is_known_absent(&self, path: &str) -> bool {
        let sought = self.sought.lock().unwrap_or_else(PoisonError::into_inner);
        plain(path).is_ok_and(|path| sought.get(&path) == Some(&false))
    }

    fn note(&self, path: &str, found: bool) {
        // A name that is no path of this tree is not read either.
        if let Ok(path) = plain(path) {
            self.sought.lock().unwrap_or_else(PoisonError::into_inner).insert(path, found);
        }
    }
}

impl SourceTree for RecordingTree {
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
        // A process of the run may make it meanwhile. It is no part of this program.
        if self.is_known_absent(path) {
            return Ok(None);
        }
        let kind = self.tree.kind(path)?;
        // A folder is looked for as the place of other files, which are looked for themselves.
        if kind != Some(Kind::Folder) {
            self.note(path, kind.is_some());
        }
        Ok(kind)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let bytes = self.tree.read(path, limit)?;
        self.note(path, true);
        Ok(bytes)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        self.tree.list(path)
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
    use crate::source::MemoryTree;

    #[cfg(unix)]
    #[test]
    fn what_was_not_there_stays_absent() {
        let folder = tempfile::tempdir().unwrap();
        let tree = RecordingTree::new(Arc::new(crate::source::DiskTree::open(folder.path()).unwrap()));
        assert_eq!(tree.kind("a.txt"), Ok(None));
        for name in ["a.txt", "b.txt"] {
            std::fs::write(folder.path().join(name), "planted").unwrap();
        }
        assert_eq!(tree.kind("./a.txt"), Ok(None));
        assert_eq!(tree.kind("b.txt"), Ok(Some(Kind::File)));
    }

    #[test]
    fn the_files_that_were_read_or_looked_for_are_known() {
        let files = [("a.worker", "a"), ("sub/b.yaml", "b"), ("c", "c"), ("d", "d")];
        let tree = RecordingTree::new(Arc::new(MemoryTree::new(Place::new("/p"), files)));
        tree.read("./sub//b.yaml", 10).unwrap();
        tree.read("a.worker", 10).unwrap();
        assert!(tree.read("a.worker", 0).is_err() && tree.read("none", 10).is_err());
        assert_eq!(tree.kind("sub"), Ok(Some(Kind::Folder)));
        assert_eq!(tree.kind("./c"), Ok(Some(Kind::File)));
        assert_eq!(tree.kind("missing/x.json"), Ok(None));
        let expected = ["/p/a.worker", "/p/c", "/p/missing/x.json", "/p/sub/b.yaml"].map(Place::new);
        assert_eq!(tree.places(), expected);
        assert_eq!(tree.found(), ["/p/a.worker", "/p/c", "/p/sub/b.yaml"].map(Place::new));
    }
}
