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

/// A language in which tools are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Python.
    Python,
    /// TypeScript or JavaScript, which Node runs.
    Script,
}

impl Language {
    /// Ends of the names of TypeScript and JavaScript modules, in the order in which they are looked for.
    pub const SCRIPTS: [&str; 4] = [".ts", ".mts", ".js", ".mjs"];

    /// Returns the language of a file, by its name. Declarations of types (`.d.ts`) are no code.
    pub fn of_file(name: &str) -> Option<Self> {
        let is_script = Self::SCRIPTS.iter().any(|end| name.ends_with(end));
        let declares = [".d.ts", ".d.mts"].iter().any(|end| name.ends_with(end));
        match name.ends_with(".py") {
            true => Some(Self::Python),
            false => (is_script && !declares).then_some(Self::Script),
        }
    }

    /// Returns the name of the language in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Script => "TypeScript",
        }
    }
}

/// Ends of the names of files that scripts import by relative paths.
const IMPORTED_BY_SCRIPTS: [&str; 9] =
    [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json", ".node", ".wasm"];

/// Returns true if scripts import files of that name by relative paths.
pub fn is_imported_by_scripts(name: &str) -> bool {
    IMPORTED_BY_SCRIPTS.iter().any(|end| name.ends_with(end))
}

/// Returns the relative paths in quotes in the text of a script, which the script may import. Node resolves these by their
/// whole names. Other texts that begin as relative paths are among them: they too name files that the script could import.
pub fn relative_imports(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(['"', '\'', '`']);
    starts.filter_map(|(at, quote)| {
        let rest = &text[at + 1..];
        let is_relative = rest.starts_with("./") || rest.starts_with("../");
        let end = rest.find([quote.chars().next()?, '\n']).filter(|_| is_relative)?;
        Some(&rest[..end])
    })
}

/// Joins a relative path to a folder, without links. `None` if it leaves the folder's root.
pub fn joined_import(folder: &str, import: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in import.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

impl CodeModule {
    /// Returns the language of the module: a folder and an installed module are Python.
    pub fn language(&self) -> Language {
        match self {
            Self::File(place) => Language::of_file(place.as_str()).unwrap_or(Language::Python),
            Self::Installed { .. } => Language::Python,
        }
    }
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

impl ToolLevel {
    /// Divides the level by language. Each part keeps the order of its modules.
    pub fn parts(&self) -> Vec<(Language, Self)> {
        let languages = [Language::Python, Language::Script];
        let part = |language| {
            let modules = self.modules.iter().filter(|module| module.module.language() == language);
            let modules: Vec<ToolModule> = modules.cloned().collect();
            (!modules.is_empty()).then(|| (language, Self { modules, ..self.clone() }))
        };
        languages.into_iter().filter_map(part).collect()
    }
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
