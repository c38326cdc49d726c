//! Options of the host for loading a program.

use crate::{
    cancel::Cancel,
    code::CodeReader,
    library::{Libraries, NoLibraries},
    older_forms::OlderForms,
};
use llm_do_core::{authority::Place, toolset::ToolsetRegistry, worker::GivenLimits};
use std::sync::Arc;

/// The capabilities and permissions of the host. Definitions are checked against them.
#[derive(Clone)]
pub struct LoadOptions {
    /// The kinds of toolsets.
    pub toolsets: ToolsetRegistry,
    /// Names of providers in addition to those of the manifest. If empty, any name is valid.
    pub providers: Vec<String>,
    /// The installed libraries.
    pub libraries: Arc<dyn Libraries>,
    /// The limits of the user's configuration, which apply to every worker.
    pub limits: GivenLimits,
    /// True if Python tools may be loaded; `--no-import-tools` makes it false.
    pub import_tools: bool,
    /// True if workers may name tools by module (`--allow-module-imports`), whatever the manifest declares.
    pub module_imports: bool,
    /// The reader for Python code, if any. `check` and references to schemas use it.
    pub code: Option<Arc<dyn CodeReader>>,
    /// The converter of older forms, if any. Errors that it would fix name its command.
    pub older_forms: Option<Arc<dyn OlderForms>>,
    /// The home directories of people. A project whose root is one of them or contains one may not pre-approve writes
    /// there, and is no view for clients.
    pub homes: Vec<Place>,
    /// The end of a check before its time.
    pub cancel: Cancel,
}

impl Default for LoadOptions {
    /// Returns options with no toolsets, any provider and no libraries.
    fn default() -> Self {
        Self {
            toolsets: ToolsetRegistry::default(),
            providers: Vec::new(),
            libraries: Arc::new(NoLibraries),
            limits: GivenLimits::default(),
            import_tools: true,
            module_imports: false,
            code: None,
            older_forms: None,
            homes: Vec::new(),
            cancel: Cancel::default(),
        }
    }
}
