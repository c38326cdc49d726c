//! The Python tools that were found in the folders of a package.

use crate::diagnostics::Diagnostic;
use llm_do_core::worker::ToolLevel;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};

/// The tools found in folders, and the problems.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) levels: Arc<[ToolLevel]>,
    pub(crate) problems: Vec<Diagnostic>,
}

/// The tools in the folders of a package.
#[derive(Default)]
pub(crate) struct ToolFolders {
    /// The levels beyond a worker's own.
    pub(crate) far: OnceLock<Looked>,
    /// All levels of the workers in a folder that name no tools themselves.
    pub(crate) by_folder: Mutex<HashMap<String, Arc<Looked>>>,
}
