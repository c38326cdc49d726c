//! The files of a program that is being edited.

use crate::source::{Kind, OverlayTree, RealPlace, SourceError, SourceTree, Stamp, plain};
use llm_do_core::authority::Place;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// A tree in which an editor's texts replace files, and which counts the reads of each file.
pub(super) struct EditedTree {
    tree: Arc<dyn SourceTree>,
    over: RwLock<Arc<OverlayTree>>,
    reads: Mutex<HashMap<String, u32>>,
    counts: AtomicBool,
    /// The state of each file and folder when it was looked at last.
    stamps: Mutex<HashMap<String, Option<Stamp>>>,
}

impl EditedTree {
    /// Creates the tree without replaced texts.
    pub(super) fn new(tree: Arc<dyn SourceTree>) -> Self {
        let over = RwLock::new(Arc::new(OverlayTree::new(Arc::clone(&tree), [])));
        let (reads, stamps) = (Mutex::default(), Mutex::default());
        Self { tree, over, reads, counts: AtomicBool::new(true), stamps }
    }

    /// Puts these texts over files, and removes those that were there.
    pub(super) fn put(&self, texts: &BTreeMap<String, String>) {
        let over = Arc::new(OverlayTree::new(Arc::clone(&self.tree), texts.clone()));
        *self.over.write().unwrap_or_else(PoisonError::into_inner) = over;
    }

    /// Returns the number of reads of a file. `path` is plain.
    pub(super) fn reads(&self, path: &str) -> u32 {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied().unwrap_or(0)
    }

    /// Resets the counts of these files.
    pub(super) fn forget(&self, paths: &[String]) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            reads.remove(path);
        }
    }

    /// Resets all counts, and forgets the states of the files.
    pub(super) fn forget_all(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.stamps().clear();
    }

    /// Returns the files and folders that are no longer as they were when they were looked at last.
    pub(super) fn changed(&self) -> Vec<String> {
        let mut stamps = self.stamps();
        let mut changed = Vec::new();
        for (path, known) in stamps.iter_mut() {
            let stamp = self.tree.stamp(path);
            if *known != stamp {
                *known = stamp;
                changed.push(path.clone());
            }
        }
        changed
    }

    /// Remembers the state of a file or folder before it is read.
    pub(super) fn watch(&self, path: &str) {
        if let Ok(path) = plain(path) {
            let stamp = self.tree.stamp(&path);
            self.stamps().insert(path, stamp);
        }
    }

    fn stamps(&self) -> MutexGuard<'_, HashMap<String, Option<Stamp>>> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads files without counting.
    pub(super) fn uncounted<T>(&self, read: impl FnOnce() -> T) -> T {
        self.counts.store(false, Ordering::Relaxed);
        let done = read();
        self.counts.store(true, Ordering::Relaxed);
        done
    }

    fn over(&self) -> Arc<OverlayTree> {
        Arc::clone(&self.over.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SourceTree for EditedTree {
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
        self.watch(path);
        self.over().kind(path)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        if self.counts.load(Ordering::Relaxed) {
            // A file that can't be read is of interest too: its next text may be readable.
            if let Ok(path) = plain(path) {
                *self.reads.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default() += 1;
            }
        }
        self.watch(path);
        self.over().read(path, limit)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        self.watch(path);
        self.over().list(path)
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        self.tree.locate(path)
    }

    fn opened(&self) -> u64 {
        self.over().opened()
    }
}
