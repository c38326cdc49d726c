//! A tree in which other texts replace some files: the unsaved texts of an editor.

use super::{Kind, MemoryTree, RealPlace, SourceError, SourceTree, Stamp};
use llm_do_core::authority::Place;
use std::sync::Arc;

/// A tree in which some files have other texts, or which has further files.
pub struct OverlayTree {
    tree: Arc<dyn SourceTree>,
    over: MemoryTree,
}

impl OverlayTree {
    /// Creates the tree with these texts by path, relative to its root. A path outside of it is dropped, because no
    /// reader could name it.
    pub fn new(tree: Arc<dyn SourceTree>, texts: impl IntoIterator<Item = (String, String)>) -> Self {
        let over = MemoryTree::new(tree.root().clone(), texts);
        Self { tree, over }
    }

    /// Returns the kind of the path if it, or a path below it, has a text.
    fn has(&self, path: &str) -> Option<Kind> {
        let kind = self.over.kind(path).ok().flatten()?;
        // The root is a folder of every tree.
        (kind == Kind::File || !self.over.list(path).ok()?.is_empty()).then_some(kind)
    }
}

impl SourceTree for OverlayTree {
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
        match self.has(path) {
            Some(kind) => Ok(Some(kind)),
            None => self.tree.kind(path),
        }
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        match self.has(path) {
            Some(Kind::File) => self.over.read(path, limit),
            _ => self.tree.read(path, limit),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        let over = self.over.list(path).unwrap_or_default();
        let below = match self.tree.list(path) {
            Err(_) if !over.is_empty() => Vec::new(),
            listed => listed?,
        };
        let mut entries: Vec<(String, Kind)> =
            below.into_iter().filter(|(name, _)| over.iter().all(|(other, _)| other != name)).collect();
        entries.extend(over);
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        self.tree.locate(path)
    }

    fn opened(&self) -> u64 {
        self.tree.opened() + self.over.opened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_replace_files_and_add_others() {
        let below = MemoryTree::new(Place::new("/p"), [("a.worker", "old"), ("sub/b.worker", "b")]);
        let texts = [("a.worker".to_owned(), "new".to_owned()), ("new/c.worker".into(), "c".into())];
        let tree = OverlayTree::new(Arc::new(below), texts);
        assert_eq!(tree.read("a.worker", 10).unwrap(), b"new");
        assert_eq!(tree.read("./sub//b.worker", 10).unwrap(), b"b");
        assert_eq!(tree.read("new/c.worker", 10).unwrap(), b"c");
        assert!(tree.read("none", 10).is_err() && tree.read("../a.worker", 10).is_err());
        let names: Vec<String> = tree.list("").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a.worker", "new", "sub"]);
        assert_eq!(tree.kind("new"), Ok(Some(Kind::Folder)));
        assert_eq!(tree.kind("x"), Ok(None));
    }
}
