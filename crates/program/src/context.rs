//! The context for reading a worker's file: its package, the other packages, the host.

use crate::{
    load_options::LoadOptions,
    package::{Package, Packages},
    source::SourceTree,
};

/// The context in which a worker's file is read.
pub(crate) struct Context<'a> {
    pub(crate) packages: &'a Packages,
    /// The package of the worker.
    pub(crate) package: &'a Package,
    pub(crate) host: &'a LoadOptions,
    /// The files of the worker's package, as the worker's definition reads them.
    pub(crate) tree: &'a dyn SourceTree,
}

impl Context<'_> {
    /// Returns the files of the worker's package.
    pub(crate) fn tree(&self) -> &dyn SourceTree {
        self.tree
    }
}
