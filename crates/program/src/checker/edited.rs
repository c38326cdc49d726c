//! The files of a program that is being edited.

use crate::source::{Kind, OverlayTree, RealPlace, SourceError, SourceTree, plain};
use llm_do_core::authority::Place;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// A tree in which an editor's texts replace files, and which counts the reads of each file.
pub(super) struct EditedTree {
    tree: Arc<dyn SourceTree>,
    over: RwLock<Arc<OverlayTree>>,
    reads: Mutex<HashMap<String, u32>>,
    counts: AtomicBool,
}

impl EditedTree {
    /// Creates the tree without replaced texts.
    pub(super) fn new(tree: Arc<dyn SourceTree>) -> Self {
        let over = RwLock::new(Arc::new(OverlayTree::new(Arc::clone(&tree), [])));
        Self { tree, over, reads: Mutex::default(), counts: AtomicBool::new(true) }
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

    /// Resets all counts.
    pub(super) fn forget_all(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
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

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        self.over().kind(path)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        if self.counts.load(Ordering::Relaxed) {
            // A file that can't be read is of interest too: its next text may be readable.
            if let Ok(path) = plain(path) {
                *self.reads.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default() += 1;
            }
        }
        self.over().read(path, limit)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        self.over().list(path)
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        self.tree.locate(path)
    }

    fn opened(&self) -> u64 {
        self.over().opened()
    }
}
