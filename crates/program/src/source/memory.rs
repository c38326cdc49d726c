//! A tree in memory: for browsers, embedded programs and tests.

use super::{Kind, RealPlace, SourceError, SourceTree, plain};
use llm_do_core::authority::Place;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
};

/// A tree of files by path.
#[derive(Debug)]
pub struct MemoryTree {
    root: Place,
    files: BTreeMap<String, Vec<u8>>,
    opened: AtomicU64,
}

impl MemoryTree {
    /// Creates a tree of these files at `root`. Paths are relative to it. A path outside of it is dropped, because no
    /// reader could name it.
    pub fn new<P: AsRef<str>, C: Into<Vec<u8>>>(
        root: Place,
        files: impl IntoIterator<Item = (P, C)>,
    ) -> Self {
        let files = files
            .into_iter()
            .filter_map(|(path, content)| Some((plain(path.as_ref()).ok()?, content.into())))
            .collect();
        Self { root, files, opened: AtomicU64::new(0) }
    }

    fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.files
            .range(prefix.clone()..)
            .map(|(path, _)| path.as_str())
            .take_while({
                let prefix = prefix.clone();
                move |path| path.starts_with(&prefix)
            })
            .map(move |path| &path[prefix.len()..])
    }
}

impl SourceTree for MemoryTree {
    fn root(&self) -> &Place {
        &self.root
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        let path = plain(path)?;
        if self.files.contains_key(&path) {
            return Ok(Some(Kind::File));
        }
        Ok((path.is_empty() || self.below(&path).next().is_some()).then_some(Kind::Folder))
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let path = plain(path)?;
        let Some(content) = self.files.get(&path) else {
            return Err(match self.kind(&path)? {
                Some(_) => SourceError::NotAFile,
                None => SourceError::NotFound,
            });
        };
        let size = content.len() as u64;
        if size > limit {
            return Err(SourceError::TooLarge { size, limit });
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(content.clone())
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        let path = plain(path)?;
        match self.kind(&path)? {
            Some(Kind::Folder) => {}
            Some(_) => return Err(SourceError::NotAFile),
            None => return Err(SourceError::NotFound),
        }
        let entries: BTreeSet<(String, bool)> = self
            .below(&path)
            .map(|rest| match rest.split_once('/') {
                Some((folder, _)) => (folder.to_owned(), true),
                None => (rest.to_owned(), false),
            })
            .collect();
        Ok(entries
            .into_iter()
            .map(|(name, folder)| (name, if folder { Kind::Folder } else { Kind::File }))
            .collect())
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        let place = if path.starts_with('/') {
            Place::new(path)
        } else {
            Place::new(&format!("{}/{path}", self.root))
        };
        let kind = match place.rest(&self.root) {
            Some(rest) => self.kind(rest)?,
            None => None,
        };
        Ok(RealPlace { place, kind })
    }

    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_their_files() {
        let tree = MemoryTree::new(
            Place::new("/p"),
            [("workers/a.worker", "x"), ("main.worker", "y"), ("../z", "no")],
        );
        assert_eq!(tree.kind("workers").unwrap(), Some(Kind::Folder));
        assert_eq!(tree.kind("work").unwrap(), None);
        let root = tree.list("").unwrap();
        assert_eq!(root, [("main.worker".to_owned(), Kind::File), ("workers".to_owned(), Kind::Folder)]);
        assert_eq!(tree.read("workers", 10), Err(SourceError::NotAFile));
        assert_eq!(tree.read("main.worker", 0), Err(SourceError::TooLarge { size: 1, limit: 0 }));
        assert_eq!(tree.read("./main.worker", 1).unwrap(), b"y");
        assert_eq!(tree.opened(), 1);
        assert_eq!(tree.locate("./data").unwrap(), RealPlace { place: Place::new("/p/data"), kind: None });
        assert_eq!(tree.locate("../q").unwrap().place, Place::new("/q"));
    }
}
