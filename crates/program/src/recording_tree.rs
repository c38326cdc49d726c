//! A tree that remembers which files were read, so that they can be protected (`docs/reference/sandbox.md`).

use crate::source::{Kind, RealPlace, SourceError, SourceTree, plain};
use llm_do_core::authority::Place;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The files of a program, and the paths of those that were read.
pub(crate) struct RecordingTree {
    tree: Arc<dyn SourceTree>,
    read: Mutex<BTreeSet<String>>,
}

impl RecordingTree {
    /// The same files; none of them has been read yet.
    pub(crate) fn new(tree: Arc<dyn SourceTree>) -> Self {
        Self { tree, read: Mutex::default() }
    }

    /// The places of the files that were read so far: the path by which each was read, and its real place, if links
    /// lead there.
    pub(crate) fn read_places(&self) -> Vec<Place> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut places = Vec::new();
        for path in read {
            let named = self.tree.root().join(&path);
            // A file that has gone since then has no real place.
            places.extend(self.tree.locate(&path).ok().map(|real| real.place).filter(|real| *real != named));
            places.push(named);
        }
        places
    }
}

impl SourceTree for RecordingTree {
    fn root(&self) -> &Place {
        self.tree.root()
    }

    fn shown(&self, path: &str) -> String {
        self.tree.shown(path)
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        self.tree.kind(path)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let path = plain(path)?;
        let bytes = self.tree.read(&path, limit)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
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

    #[test]
    fn the_files_that_were_read_are_known() {
        let files = [("a.worker", "a"), ("sub/b.yaml", "b"), ("c", "c")];
        let tree = RecordingTree::new(Arc::new(MemoryTree::new(Place::new("/p"), files)));
        tree.read("./sub//b.yaml", 10).unwrap();
        tree.read("a.worker", 10).unwrap();
        assert!(tree.read("a.worker", 0).is_err() && tree.read("none", 10).is_err());
        assert!(tree.kind("c").is_ok());
        assert_eq!(tree.read_places(), [Place::new("/p/a.worker"), Place::new("/p/sub/b.yaml")]);
    }
}
