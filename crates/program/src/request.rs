//! The request that names a program, as runs record it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The parts of a command line that select the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The positional arguments, at most two: `[TARGET] [MESSAGE]`.
    pub positionals: Vec<String>,
    /// `--project DIR`.
    pub project: Option<PathBuf>,
    /// `--entry ID`.
    pub entry: Option<String>,
    /// `--no-project`.
    pub no_project: bool,
    /// `--lib`: roots of libraries that are searched first.
    pub libraries: Vec<PathBuf>,
    /// `--no-import-tools`.
    pub no_import_tools: bool,
    /// `--allow-module-imports`.
    pub module_imports: bool,
}
