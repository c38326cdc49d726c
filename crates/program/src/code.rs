//! Looking into code: what a module of Python exposes, and the schema of a class. The front end reads no Python itself;
//! a host that runs Python brings a [`CodeReader`].
//!
//! Only `check` and references to schemas ask. A program without either loads without it.

use llm_do_core::{
    authority::Place,
    send::{MaybeSend, MaybeSync},
    worker::{CodeModule, CodePackage, ToolLevel},
};
use serde_json::Value;
use std::sync::Arc;

/// Looks into code. It may block, since it runs an interpreter, and is expected to remember what it saw.
pub trait CodeReader: MaybeSend + MaybeSync {
    /// What the modules of a level expose, in their order. A name that a module is said to expose
    /// ([`llm_do_core::worker::ToolModule::names`]) and does not have is absent from its tools.
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools>;

    /// The JSON Schema of a class: a Pydantic model, a dataclass, a `TypedDict`.
    ///
    /// # Errors
    /// Why there is none.
    fn schema(&self, package: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem>;
}

/// What a module exposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleTools {
    /// Its tools, in order.
    pub tools: Vec<CodeTool>,
    /// What is wrong with the module as a whole.
    pub problem: Option<CodeProblem>,
}

/// A tool of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeTool {
    /// Its name.
    pub name: Arc<str>,
    /// What it does, for a model.
    pub description: Arc<str>,
    /// The file that defines it.
    pub file: Option<Place>,
    /// The line there, from 1.
    pub line: Option<u32>,
    /// Why it can't be a tool, if it can't.
    pub refused: Option<String>,
}

/// Why code could not be looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeProblem {
    /// Which kind of problem.
    pub kind: CodeProblemKind,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The file it is in.
    pub file: Option<Place>,
    /// The line there, from 1.
    pub line: Option<u32>,
    /// The column there, from 1, in characters.
    pub column: Option<u32>,
    /// What to do.
    pub help: Option<String>,
}

/// The kind of a problem with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeProblemKind {
    /// It is no Python.
    Syntax,
    /// It, or something that it imports, can't be imported.
    Import,
    /// What was asked for is not in it.
    Missing,
    /// It exposes nothing.
    Nothing,
    /// There is no interpreter, or none that can be confined.
    Interpreter,
    /// Anything else.
    Other,
}
