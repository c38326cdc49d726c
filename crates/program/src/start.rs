//! A program to load, and its start.

use crate::source::{ListedTree, SourceTree};
use llm_do_core::authority::Place;
use std::sync::Arc;

/// The start of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A worker of a project: this one, else the manifest's `entry`, else `main`.
    Entry(Option<String>),
    /// A file, relative to the root.
    File(String),
}

/// A program to load.
#[derive(Clone)]
pub struct Source {
    /// The files of the program.
    pub tree: Arc<dyn SourceTree>,
    /// The start of a run.
    pub start: Start,
    /// True if a manifest in the root counts; `--no-project` makes it false.
    pub manifest: bool,
    /// The current directory, for a file without a project, on which the worker works (`docs/guides/projects.md`).
    pub work: Option<Place>,
}

impl Source {
    /// Wraps the tree for one load, so that each folder is listed only once.
    pub(crate) fn listed(self) -> Self {
        Self { tree: Arc::new(ListedTree::new(self.tree)), ..self }
    }

    /// Returns true if all workers of a folder belong to the program, called or not.
    pub(crate) fn is_folder(&self) -> bool {
        !matches!(self.start, Start::File(_))
    }

    /// Returns the identity of the program for grants: the root of a project, or a single file.
    pub fn identity(&self) -> Place {
        match (&self.start, &self.work) {
            (Start::File(file), Some(_)) => Place::new(&format!("{}/{file}", self.tree.root())),
            _ => self.tree.root().clone(),
        }
    }
}
