//! A program to load, and where it starts.

use crate::source::{ListedTree, SourceTree};
use llm_do_core::authority::Place;
use std::sync::Arc;

/// Where a run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// In a project: at this worker, else the manifest's `entry`, else `main`.
    Entry(Option<String>),
    /// At this file, relative to the root.
    File(String),
}

/// A program to load.
#[derive(Clone)]
pub struct Source {
    /// Its files.
    pub tree: Arc<dyn SourceTree>,
    /// Where it starts.
    pub start: Start,
    /// Whether a manifest in the root counts (`--no-project` says no).
    pub manifest: bool,
    /// For a file without a project: the current directory, which the worker works on (`docs/guides/projects.md`).
    pub work: Option<Place>,
}

impl Source {
    /// The same for one load, which asks for the files of listed folders once.
    pub(crate) fn listed(self) -> Self {
        Self { tree: Arc::new(ListedTree::new(self.tree)), ..self }
    }

    /// Whether all workers of a folder belong to the program, called or not.
    pub(crate) fn is_folder(&self) -> bool {
        !matches!(self.start, Start::File(_))
    }

    /// The program as grants know it: the root of a project, or a lone file.
    pub fn identity(&self) -> Place {
        match (&self.start, &self.work) {
            (Start::File(file), Some(_)) => Place::new(&format!("{}/{file}", self.tree.root())),
            _ => self.tree.root().clone(),
        }
    }
}
