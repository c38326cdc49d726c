//! Code that defines tools: which modules a worker's own tools come from. The core names them and opens none; the
//! toolset kind that runs code does.

use crate::{authority::Place, source::FunctionSource};
use std::sync::Arc;

/// A module of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CodeModule {
    /// A file, or a folder that is one module.
    File(Place),
    /// One that the interpreter finds by name, and its function that registers tools.
    Installed {
        /// `package.module`.
        module: Arc<str>,
        /// `register`.
        function: Arc<str>,
    },
}

/// Where code comes from: what it may import and whose authority its calls have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodePackage {
    /// The program, or a library.
    pub source: FunctionSource,
    /// Root of its files.
    pub root: Place,
    /// Files and folders outside its tool folders that its code reads: `tools.data` of the manifest.
    pub data: Vec<Place>,
}

/// Modules at one distance from a worker. Of two tools with one name the nearer level's is meant; within a level they are
/// an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLevel {
    /// For people: `the worker`, `the project`, ``the library `utils` ``.
    pub name: Arc<str>,
    /// Whose code it is.
    pub package: Arc<CodePackage>,
    /// The modules, in order: see `docs/guides/python-tools.md`.
    pub modules: Vec<ToolModule>,
}

/// A module that defines tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolModule {
    /// Where it is.
    pub module: CodeModule,
    /// Exposes exactly these names; empty means what it says itself.
    pub names: Vec<Arc<str>>,
}

/// A function of code that is a worker: it has a worker's signature, sandbox and callers, and no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeEntry {
    /// Whose code it is.
    pub package: Arc<CodePackage>,
    /// Where it is defined.
    pub module: CodeModule,
    /// Its name there.
    pub function: Arc<str>,
}
