//! Looking into code: what a module of Python exposes, and the schema of a class. The front end reads no Python itself;
//! a host that runs Python brings a [`CodeReader`].
//!
//! Only `check` and references to schemas ask. A program without either loads without it.

use crate::{
    diagnostics::{Diagnostic, codes},
    front_matter,
    package::Packages,
    source::Kind,
    span::{SourceFile, Span},
};
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

/// The file of a module, for people: of a folder what makes it one.
pub(crate) fn source(packages: &Packages, place: &Place) -> Arc<SourceFile> {
    let within = packages.iter().filter_map(|(_, package)| Some((package, place.rest(package.tree.root())?)));
    // Of roots within each other the nearest.
    let Some((package, path)) = within.min_by_key(|(_, path)| path.len()) else {
        return SourceFile::new(place.as_str(), "");
    };
    let tree = package.tree.as_ref();
    let path = match tree.kind(path) {
        Ok(Some(Kind::Folder)) if path.is_empty() => "__init__.py".to_owned(),
        Ok(Some(Kind::Folder)) => format!("{path}/__init__.py"),
        _ => path.to_owned(),
    };
    front_matter::read(tree, &path).unwrap_or_else(|_| front_matter::unread(tree, &path))
}

/// A place in code: a line without the blanks around it, a character of it, or the file as a whole.
pub(crate) fn span(packages: &Packages, place: &Place, line: Option<u32>, column: Option<u32>) -> Span {
    let file = source(packages, place);
    let (Some(line), false) = (line, file.text().is_empty()) else { return Span::whole(&file) };
    let line = line as usize;
    let start = Span::at(&file, line, 1).range().map_or(0, |range| range.start);
    let text = file.text()[start..].lines().next().unwrap_or_default().trim_end();
    if let Some(column) = column {
        // Python points behind the end of a line where something is missing.
        let last = text.chars().count().max(1);
        return Span::at(&file, line, (column as usize).min(last));
    }
    let start = start + text.len() - text.trim_start().len();
    Span::new(&file, start..start + text.trim_start().len())
}

impl CodeProblem {
    /// The finding for a module that could not be looked into. `shown` is how people call the module.
    pub(crate) fn finding(&self, shown: &str) -> Diagnostic {
        let message = &self.message;
        let finding = match self.kind {
            CodeProblemKind::Syntax => {
                Diagnostic::error(codes::PYTHON_SYNTAX, format!("`{shown}` is not Python: {message}"))
            }
            CodeProblemKind::Nothing => {
                Diagnostic::error(codes::EXPOSES_NOTHING, format!("`{shown}` exposes no tools")).help(
                    "give a function type hints, mark it with `@tool`, list it in `__all__`, or write `register(agent)`",
                )
                .help("a file that only helps others begins with `_`, or lies in a folder with `__init__.py`")
            }
            CodeProblemKind::Interpreter => Diagnostic::warning(
                codes::NOT_LOOKED_INTO,
                format!("Python tools were not looked into: {message}"),
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

    /// Where it is, if that is known.
    pub(crate) fn span(&self, packages: &Packages) -> Option<Span> {
        let file = self.file.as_ref()?;
        Some(span(packages, file, self.line, self.column))
    }
}
