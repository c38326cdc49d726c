//! A library's tree whose files are checked against the lock file. See `docs/guides/libraries.md`.

use crate::{
    lock::Pinned,
    source::{Change, Kind, RealPlace, SourceError, SourceTree, Stamp, plain},
};
use llm_do_core::{authority::Place, schema::sha256};
use std::sync::Arc;

/// A tree that checks each file against its pinned hash when it is read, and returns exactly the bytes that it checked.
/// The tree never opens files that are not requested.
///
/// Processes and mounts that read the files without this tree are not checked. Their caller must first compare the
/// whole library with [`Pinned::compare`].
pub struct LockedTree {
    tree: Arc<dyn SourceTree>,
    pinned: Arc<Pinned>,
}

impl LockedTree {
    /// Creates the tree of a library, checked against its pin.
    pub fn new(tree: Arc<dyn SourceTree>, pinned: Arc<Pinned>) -> Self {
        Self { tree, pinned }
    }

    fn changed(&self, change: Change) -> SourceError {
        SourceError::Changed { library: self.pinned.label(), change }
    }
}

impl SourceTree for LockedTree {
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
        let kind = self.tree.kind(path)?;
        // If a pinned file is missing, another candidate must not replace it.
        if kind != Some(Kind::File) && self.pinned.contents.get(&plain(path)?).is_some() {
            return Err(self.changed(Change::Missing));
        }
        Ok(kind)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let path = plain(path)?;
        let pinned = self.pinned.contents.get(&path);
        let bytes = match self.tree.read(&path, limit) {
            Err(SourceError::NotFound | SourceError::NotAFile) if pinned.is_some() => {
                return Err(self.changed(Change::Missing));
            }
            other => other?,
        };
        match pinned {
            None => Err(self.changed(Change::New)),
            Some(hash) if hash != sha256(&bytes) => Err(self.changed(Change::Changed)),
            Some(_) => Ok(bytes),
        }
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
    use crate::{contents::Contents, source::MemoryTree};

    fn tree(files: &[(&str, &str)]) -> Arc<dyn SourceTree> {
        Arc::new(MemoryTree::new(Place::new("/l"), files.iter().copied()))
    }

    #[test]
    fn only_what_was_pinned_is_read() {
        let before = tree(&[("lib.yaml", "name: l"), ("workers/a.worker", "a"), ("workers/b.worker", "b")]);
        let contents = Contents::of(&*before).unwrap();
        let pinned = Arc::new(Pinned::new("l", "1.0", contents));
        let same = LockedTree::new(before, Arc::clone(&pinned));
        assert_eq!(same.read("./workers//a.worker", 10).unwrap(), b"a");
        let after =
            tree(&[("workers/a.worker", "x"), ("workers/c.worker", "c"), ("workers/b.worker/b", "b")]);
        let locked = LockedTree::new(after, pinned);
        let error = |change| SourceError::Changed { library: "l@1.0".into(), change };
        assert_eq!(locked.read("workers/a.worker", 10), Err(error(Change::Changed)));
        assert_eq!(locked.read("workers/c.worker", 10), Err(error(Change::New)));
        assert_eq!(locked.read("lib.yaml", 10), Err(error(Change::Missing)));
        assert_eq!(locked.read("workers/b.worker", 10), Err(error(Change::Missing)));
        assert_eq!(locked.kind("./lib.yaml"), Err(error(Change::Missing)));
        assert_eq!(locked.kind("workers/b.worker"), Err(error(Change::Missing)));
        assert_eq!(locked.kind("none"), Ok(None));
        assert_eq!(locked.read("none", 10), Err(SourceError::NotFound));
        assert_eq!(locked.read("workers/a.worker", 0), Err(SourceError::TooLarge { size: 1, limit: 0 }));
    }
}
