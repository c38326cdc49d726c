//! A file system in memory: for tests, and for hosts that have no other.

use super::{Entry, EntryKind, FileSystem, FsError};
use crate::{
    authority::{Located, Place},
    send::BoxFuture,
};
use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Files and folders in memory, by real place. Behaves like one on disk, without symlinks and modification times.
#[derive(Debug, Default)]
pub struct MemoryFileSystem {
    nodes: Mutex<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes(BTreeMap<Key, Node>);

/// A place, ordered by components, so that the entries of a folder directly follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(Place);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_str().split('/').cmp(other.0.as_str().split('/'))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug)]
enum Node {
    File(Arc<[u8]>),
    Directory,
}

impl MemoryFileSystem {
    /// An empty file system, without even a root folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a file and its parent folders without any checks. For the host.
    pub fn put(&self, place: &Place, content: impl Into<Arc<[u8]>>) {
        let mut nodes = self.lock();
        nodes.make_folders_above(place);
        nodes.0.insert(Key(place.clone()), Node::File(content.into()));
    }

    /// Creates a folder and its parents without any checks. For the host.
    pub fn put_folder(&self, place: &Place) {
        let mut nodes = self.lock();
        nodes.make_folders_above(place);
        nodes.0.entry(Key(place.clone())).or_insert(Node::Directory);
    }

    /// The content of the file at that place, if it is a file.
    pub fn get(&self, place: &Place) -> Option<Arc<[u8]>> {
        match self.lock().get(place) {
            Some(Node::File(content)) => Some(Arc::clone(content)),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nodes {
    fn get(&self, place: &Place) -> Option<&Node> {
        self.0.get(&Key(place.clone()))
    }

    /// The folder and everything below it.
    fn tree<'a>(&'a self, root: &'a Place) -> impl Iterator<Item = (&'a Place, &'a Node)> {
        self.0
            .range(Key(root.clone())..)
            .map(|(key, node)| (&key.0, node))
            .take_while(|(at, _)| at.is_within(root))
    }

    fn make_folders_above(&mut self, place: &Place) {
        let mut above = place.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            self.0.entry(Key(Place::new(parent))).or_insert(Node::Directory);
            above = parent;
        }
    }

    /// Checks that a place can be created: its base exists or may be created, and no parent is a file.
    fn can_make(&self, at: &Located) -> Result<(), FsError> {
        if self.get(&at.base).is_none() && !at.may_make_base() {
            return Err(FsError::NotFound(at.mount.at.clone()));
        }
        let place = at.place();
        let mut above = place.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            let folder = Place::new(parent);
            if let Some(Node::File(_)) = self.get(&folder) {
                let path =
                    folder.rest(&at.base).map_or_else(|| at.mount.at.clone(), |rest| at.virtual_of(rest));
                return Err(FsError::WrongKind { path, is: "a file", wanted: "a folder" });
            }
            above = parent;
        }
        at.admits(&at.rest)?;
        Ok(())
    }

    fn file(&self, at: &Located) -> Result<Arc<[u8]>, FsError> {
        match self.get(&at.place()) {
            None => {
                at.admits(&at.rest)?;
                Err(FsError::NotFound(at.path.clone()))
            }
            Some(Node::Directory) => Err(not_a_file(at)),
            Some(Node::File(content)) => {
                at.admits_file(&at.rest)?;
                at.within_size(content.len() as u64)?;
                Ok(Arc::clone(content))
            }
        }
    }

    fn replace(&mut self, at: &Located, content: Vec<u8>) -> Result<(), FsError> {
        self.can_make(at)?;
        at.admits_file(&at.rest)?;
        if let Some(Node::Directory) = self.get(&at.place()) {
            return Err(not_a_file(at));
        }
        at.within_size(content.len() as u64)?;
        self.make_folders_above(&at.place());
        self.0.insert(Key(at.place()), Node::File(content.into()));
        Ok(())
    }

    fn remove(&mut self, at: &Located) -> Result<(), FsError> {
        at.admits(&at.rest)?;
        let place = at.place();
        match self.get(&place) {
            None => return Err(FsError::NotFound(at.path.clone())),
            Some(Node::File(_)) => at.admits_file(&at.rest)?,
            Some(Node::Directory) if at.rest.is_empty() => return Err(FsError::root_of_mount(at)),
            Some(Node::Directory) if self.tree(&place).nth(1).is_some() => {
                return Err(FsError::NotEmpty(at.path.clone()));
            }
            Some(Node::Directory) => {}
        }
        self.0.remove(&Key(place));
        Ok(())
    }

    fn rename(&mut self, from: &Located, to: &Located) -> Result<(), FsError> {
        from.admits(&from.rest)?;
        let (old, new) = (from.place(), to.place());
        let is_folder = match self.get(&old) {
            None => return Err(FsError::NotFound(from.path.clone())),
            Some(Node::Directory) if from.rest.is_empty() => return Err(FsError::root_of_mount(from)),
            Some(node) => matches!(node, Node::Directory),
        };
        self.can_make(to)?;
        if is_folder && new.is_within(&old) && new != old {
            return Err(FsError::into_itself(from));
        }
        if self.get(&new).is_some() {
            return Err(FsError::Exists(to.path.clone()));
        }
        for (place, node) in self.tree(&old) {
            let below = place.rest(&old).unwrap_or("");
            let size = match node {
                Node::File(content) => Some(content.len() as u64),
                Node::Directory => None,
            };
            from.may_move(to, &from.rest, &to.rest, below, size)?;
        }
        self.make_folders_above(&new);
        let moved: Vec<Place> = self.tree(&old).map(|(place, _)| place.clone()).collect();
        for place in moved {
            let below = new.join(place.rest(&old).unwrap_or(""));
            if let Some(node) = self.0.remove(&Key(place)) {
                self.0.insert(Key(below), node);
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Located, to: &Located) -> Result<(), FsError> {
        let content = self.file(from)?;
        self.can_make(to)?;
        if self.get(&to.place()).is_some() {
            return Err(FsError::Exists(to.path.clone()));
        }
        self.replace(to, content.to_vec())
    }

    fn stat(&self, at: &Located) -> Result<Option<Entry>, FsError> {
        at.admits(&at.rest)?;
        let Some(node) = self.get(&at.place()) else { return Ok(None) };
        if let Node::File(_) = node {
            at.admits_file(&at.rest)?;
        }
        Ok(Some(entry(at, &at.rest, node)))
    }

    fn walk(&self, at: &Located, limit: usize) -> Result<Vec<Entry>, FsError> {
        at.admits(&at.rest)?;
        let root = at.place();
        if let Some(Node::File(_)) = self.get(&root) {
            at.admits_file(&at.rest)?;
        }
        let found = self.tree(&root).filter_map(|(place, node)| {
            let rest = place.rest(&at.base)?;
            let wanted = match node {
                Node::File(_) => at.shows_file(rest),
                Node::Directory => *place != root && at.shows(rest),
            };
            wanted.then(|| entry(at, rest, node))
        });
        Ok(found.take(limit).collect())
    }

    fn make_directory(&mut self, at: &Located) -> Result<(), FsError> {
        self.can_make(at)?;
        if let Some(Node::File(_)) = self.get(&at.place()) {
            return Err(FsError::WrongKind { path: at.path.clone(), is: "a file", wanted: "a folder" });
        }
        self.make_folders_above(&at.place());
        self.0.entry(Key(at.place())).or_insert(Node::Directory);
        Ok(())
    }
}

fn not_a_file(at: &Located) -> FsError {
    FsError::WrongKind { path: at.path.clone(), is: "a folder", wanted: "a file" }
}

fn entry(at: &Located, rest: &str, node: &Node) -> Entry {
    let (kind, size) = match node {
        Node::File(content) => (EntryKind::File, content.len() as u64),
        Node::Directory => (EntryKind::Directory, 0),
    };
    Entry { path: at.virtual_of(rest), kind, size: Some(size), modified_ms: None }
}

impl FileSystem for MemoryFileSystem {
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async move {
            let content = self.lock().file(at)?;
            let size = content.len() as u64;
            // Both lie within the content's length, which is a usize.
            let from = offset.min(size) as usize;
            let to = offset.saturating_add(limit).min(size) as usize;
            Ok((content[from..to].to_vec(), size))
        })
    }

    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.lock().replace(at, content.to_vec()) })
    }

    fn append<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            let mut nodes = self.lock();
            let mut whole = match nodes.get(&at.place()) {
                Some(Node::File(old)) => old.to_vec(),
                _ => Vec::new(),
            };
            whole.extend_from_slice(content);
            nodes.replace(at, whole)
        })
    }

    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.lock().remove(at) })
    }

    fn rename<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.lock().rename(from, to) })
    }

    fn copy<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.lock().copy(from, to) })
    }

    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async move { self.lock().stat(at) })
    }

    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async move { self.lock().walk(at, limit) })
    }

    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.lock().make_directory(at) })
    }
}
