//! Inspects code: the tools of a Python module and the schema of a class. This crate does not run Python; a host that
//! does provides a [`CodeReader`].
//!
//! Only `check` and references to schemas use it. A program loads without it if it has no such references.

use crate::diagnostics::{Diagnostic, codes};
use llm_do_core::{
    authority::Place,
    function::Risk,
    origin::ResultOrigin,
    send::{MaybeSend, MaybeSync},
    worker::{CodeEntry, CodeModule, CodePackage, ToolLevel},
};
use serde_json::Value;
use std::sync::Arc;

/// Inspects code. It may block, because it runs an interpreter, and should cache its results.
pub trait CodeReader: MaybeSend + MaybeSync {
    /// Returns the tools of the modules of a level, in order. A name in [`llm_do_core::worker::ToolModule::names`] that
    /// the module does not define is missing from the result.
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools>;

    /// Returns the JSON Schema of a class: a Pydantic model, a dataclass, a `TypedDict`.
    ///
    /// # Errors
    /// The reason why there is no schema.
    fn schema(&self, package: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem>;

    /// Computes the SHA-256 of the source of the modules of these levels and of an entry, with everything that they can
    /// import from their packages. Runs nothing. Names are relative to the packages, so that the hash does not depend
    /// on their place.
    fn sha256(&self, levels: &[ToolLevel], entry: Option<&CodeEntry>) -> Arc<str>;
}

/// The tools of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleTools {
    /// The tools of the module, in order.
    pub tools: Vec<CodeTool>,
    /// The functions with a docstring that would be tools if none was marked with `@tool`.
    pub hidden: Vec<HiddenCode>,
    /// A problem with the whole module.
    pub problem: Option<CodeProblem>,
}

/// A function of a module that is not a tool because other functions are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenCode {
    /// The name of the function.
    pub name: Arc<str>,
    /// The file that defines it.
    pub file: Place,
    /// The line in that file, from 1.
    pub line: u32,
}

/// A tool of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeTool {
    /// The name of the tool.
    pub name: Arc<str>,
    /// A description for the model.
    pub description: Arc<str>,
    /// The file that defines it.
    pub file: Option<Place>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The reason why it can't be a tool, if there is one.
    pub refused: Option<String>,
    /// The schema of its arguments.
    pub input: Arc<Value>,
    /// True if some of its arguments are paths, which the patterns of rules are compared with.
    pub takes_paths: bool,
    /// The risk that its author states.
    pub risk: Option<Risk>,
    /// True if the tool makes calls of its own.
    pub makes_calls: bool,
    /// The author's statement about the origin of the results.
    pub results: Option<ResultOrigin>,
}

/// The reason why code could not be inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeProblem {
    /// The kind of problem.
    pub kind: CodeProblemKind,
    /// The problem, in one sentence.
    pub message: String,
    /// The file that contains the problem.
    pub file: Option<Place>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The column in that line, from 1, in characters.
    pub column: Option<u32>,
    /// A hint for the user.
    pub help: Option<String>,
}

/// The kind of a problem with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeProblemKind {
    /// A syntax error.
    Syntax,
    /// The module, or one of its imports, can't be imported.
    Import,
    /// The requested name does not exist.
    Missing,
    /// The module exposes no tools.
    Nothing,
    /// No interpreter exists, or none that can be confined.
    Interpreter,
    /// Anything else.
    Other,
}

impl CodeProblem {
    /// Returns the finding for a module that could not be inspected. `shown` is the module in messages.
    pub(crate) fn finding(&self, shown: &str) -> Diagnostic {
        let message = &self.message;
        let finding = match self.kind {
            CodeProblemKind::Syntax => {
                Diagnostic::error(codes::PYTHON_SYNTAX, format!("`{shown}` has a syntax error: {message}"))
            }
            CodeProblemKind::Nothing => {
                Diagnostic::error(codes::EXPOSES_NOTHING, format!("`{shown}` exposes no tools")).help(
                    "in Python, give a function type hints, mark it with `@tool`, list it in `__all__`, or write `register(agent)`; in \
                     TypeScript, export a function with a companion schema or with types in its comment, or a tool",
                )
                .help("to exclude a helper file, start its name with `_` or put it in a folder with `__init__.py`")
            }
            CodeProblemKind::Interpreter => Diagnostic::warning(
                codes::NOT_LOOKED_INTO,
                format!("tools were not checked: {message}"),
            ),
            CodeProblemKind::Import | CodeProblemKind::Missing | CodeProblemKind::Other => {
                Diagnostic::error(codes::PYTHON_FAILED, format!("`{shown}` cannot be loaded: {message}"))
            }
        };
        match &self.help {
            Some(help) => finding.help(help),
            None => finding,
        }
    }
}
