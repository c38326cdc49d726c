//! Code that defines tools: the modules of a worker's own tools. The core names them and opens none; the toolset kind
//! that runs code opens them.

use crate::{authority::Place, source::FunctionSource};
use std::sync::Arc;

/// A module of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CodeModule {
    /// A file, or a folder that is one module.
    File(Place),
    /// A module that the interpreter finds by name, and its function that registers tools.
    Installed {
        /// `package.module`.
        module: Arc<str>,
        /// `register`.
        function: Arc<str>,
    },
}

/// The package of a piece of code. It determines the modules that the code may import and the authority of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodePackage {
    /// The program, or a library.
    pub source: FunctionSource,
    /// Root of its files.
    pub root: Place,
    /// Files and folders outside its tool folders that its code reads: `tools.data` of the manifest.
    pub data: Vec<Place>,
}

/// Modules at one distance from a worker. Of two tools with one name, the one of the nearer level is used; within a
/// level the conflict is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLevel {
    /// A name for people: `the worker`, `the project`, ``the library `utils` ``.
    pub name: Arc<str>,
    /// The package of the code.
    pub package: Arc<CodePackage>,
    /// The modules, in order: see `docs/guides/python-tools.md`.
    pub modules: Vec<ToolModule>,
}

/// A module that defines tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolModule {
    /// The module.
    pub module: CodeModule,
    /// Names to expose; if empty, the module itself determines them.
    pub names: Vec<Arc<str>>,
}

/// A function of code that acts as a worker: it has a worker's signature, sandbox and callers, and no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeEntry {
    /// The package of the code.
    pub package: Arc<CodePackage>,
    /// The module that defines the function.
    pub module: CodeModule,
    /// The function's name in the module.
    pub function: Arc<str>,
}
