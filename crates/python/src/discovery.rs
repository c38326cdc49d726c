//! Discovery of the tools that a module exposes, and of the JSON Schemas of its classes. A confined host imports the
//! module. The result is cached by the content of the files that the host could read, which llm-do reads itself: the
//! module's code decides what the host says, so the host's own list can't be trusted.

use crate::{
    explain,
    host::{self, Host},
    interpreter::{Interpreter, write_new},
    view::Reach,
    wire::{CodeError, FromHost, Module, ToHost},
};
use llm_do_core::{
    authority::Place,
    schema::sha256,
    worker::{CodePackage, ToolLevel},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The option `untrusted` of `@tool`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Declared {
    /// The whole result: untrusted if true, trusted if false.
    Whole(bool),
    /// Fields of the result, or of each element of a list.
    Fields(Vec<Arc<str>>),
}

/// The option `parallel` of `@tool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parallel {
    /// True if the function may run beside other calls, in the process that they share.
    Beside(bool),
    /// The function runs in a process of its own.
    Process(OwnProcess),
}

/// The word `process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnProcess {
    /// The only value.
    Process,
}

/// The time limit for the import of a module. An import may never end.
const IMPORT_LIMIT: Duration = Duration::from_secs(60);

/// A function that a module exposes, as the host (`host/src`) describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExposedTool {
    /// The function's name as a tool.
    pub name: Arc<str>,
    /// The function's name in the module.
    pub function: Arc<str>,
    /// The description of the tool, from the docstring.
    pub description: Arc<str>,
    /// JSON Schema of its arguments.
    pub input: Value,
    /// JSON Schema of its result, if its return type has one.
    #[serde(default)]
    pub output: Option<Value>,
    /// True if the function is a coroutine function.
    #[serde(rename = "async", default)]
    pub is_async: bool,
    /// True if the function takes a `ToolContext`.
    #[serde(default)]
    pub context: bool,
    /// True if JSON values can be passed without conversion.
    #[serde(default)]
    pub plain: bool,
    /// The risk that its author declares.
    #[serde(default)]
    pub risk: Option<String>,
    /// The approval rule that its author declares, or `callable`.
    #[serde(default)]
    pub approval: Option<String>,
    /// True if the approval function takes the origins of the arguments.
    #[serde(default)]
    pub approval_origins: bool,
    /// The author's declaration of whether calls may run beside others.
    #[serde(default)]
    pub parallel: Option<Parallel>,
    /// The parts of the result that the author declares trusted or untrusted.
    #[serde(default)]
    pub untrusted: Option<Declared>,
    /// The parameters that hold paths.
    #[serde(default)]
    pub paths: Vec<Arc<str>>,
    /// The file of its definition.
    #[serde(default)]
    pub file: Option<Arc<str>>,
    /// The line of its definition.
    #[serde(default)]
    pub line: Option<u32>,
    /// True if its author declares no types: it can be an entry, and no tool.
    #[serde(default)]
    pub untyped: bool,
    /// The reason why the function can't be a tool, if there is one.
    #[serde(default)]
    pub refused: Option<String>,
}

/// The rule by which calls of a function run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Calls run one after another, in one process.
    InTurn,
    /// Calls run beside others in that process: `async` ones in its event loop, others in threads.
    Beside,
    /// Calls run in processes of their own.
    Own,
}

impl ExposedTool {
    /// A function of that name, without any declaration.
    pub(crate) fn named(function: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(function),
            function: Arc::clone(function),
            description: "".into(),
            input: Value::Null,
            output: None,
            is_async: false,
            context: false,
            plain: false,
            risk: None,
            approval: None,
            approval_origins: false,
            parallel: None,
            untrusted: None,
            paths: Vec::new(),
            file: None,
            line: None,
            untyped: false,
            refused: None,
        }
    }

    /// Returns the rule by which its calls run beside others.
    pub(crate) fn sharing(&self) -> Sharing {
        match self.parallel {
            None | Some(Parallel::Beside(false)) => Sharing::InTurn,
            Some(Parallel::Beside(true)) => Sharing::Beside,
            Some(Parallel::Process(OwnProcess::Process)) => Sharing::Own,
        }
    }

    /// Returns true if the return type is one simple value, which can hold no file and no path.
    pub(crate) fn returns_scalar(&self) -> bool {
        let simple = ["integer", "number", "boolean", "null"];
        let kind = self.output.as_ref().and_then(|output| output.get("type")?.as_str());
        kind.is_some_and(|kind| simple.contains(&kind))
    }
}

/// A function that is not a tool because other functions of its module are marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HiddenFunction {
    /// The function's name.
    pub name: Arc<str>,
    /// The file that defines it.
    pub file: String,
    /// The line in that file, from 1.
    pub line: u32,
}

/// The functions that a module exposes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleReport {
    /// The functions of the module.
    pub functions: Vec<ExposedTool>,
    /// The way in which the module exposes them: `register`, `decorated`, `__all__`, `plain`, `names` or `nothing`.
    pub exposes: String,
    /// The functions with a docstring that would be tools if none was marked with `@tool`.
    pub hidden: Vec<HiddenFunction>,
    /// The error of the module's import.
    pub(crate) error: Option<CodeError>,
}

impl ModuleReport {
    /// Returns true if the module can't be imported.
    pub(crate) fn has_problem(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the reason why the module can't be imported, as a message.
    pub fn problem(&self, root: &Place, interpreter: &Interpreter) -> Option<String> {
        self.error.as_ref().map(|error| explain::import(error, root, interpreter))
    }

    /// Returns Python's message without the place, if the error is a syntax error.
    pub fn syntax_error(&self) -> Option<&str> {
        self.error.as_ref().filter(|error| error.column.is_some()).map(|error| error.message.as_str())
    }

    /// Returns file, line and column of the error, and true if it is a syntax error.
    pub fn place_of_problem(&self) -> Option<(Arc<str>, u32, Option<u32>, bool)> {
        let error = self.error.as_ref()?;
        let syntax = error.column.is_some();
        match (&error.file, error.line) {
            (Some(file), Some(line)) => Some((file.as_str().into(), line, error.column, syntax)),
            _ => error.frames.last().map(|frame| (frame.file.as_str().into(), frame.line, None, syntax)),
        }
    }

    /// Returns the package that is not installed, if that is the error.
    pub fn missing(&self) -> Option<&str> {
        self.error.as_ref()?.missing.as_deref()
    }
}

/// The functions that the modules of a level expose, in the order of the modules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The modules.
    pub modules: Vec<ModuleReport>,
}

/// The place of a description in the cache. Its name is a hash of everything that determines the description, so an
/// existing description is valid.
pub(crate) struct CacheEntry<'a> {
    folder: PathBuf,
    facts: String,
    reach: &'a Reach,
    interpreter: &'a Interpreter,
    /// The name, or `None` if there is too much to read and nothing is cached.
    name: Option<String>,
}

impl<'a> CacheEntry<'a> {
    /// Creates the entry for the functions that `level` exposes or, with a class, for the schema of that class in its
    /// module. `installed` is the hash of the installed packages, if it is known.
    pub(crate) fn new(
        cache: &Path,
        interpreter: &'a Interpreter,
        installed: Option<&str>,
        level: &ToolLevel,
        class: Option<&str>,
        reach: &'a Reach,
    ) -> Self {
        let mut entry = Self {
            folder: cache.join("tools"),
            facts: format!("4\0{}\0{:?}\0{:?}\0{class:?}", interpreter.key, level.package, level.modules),
            reach,
            interpreter,
            name: None,
        };
        if let Some(installed) = installed {
            entry.facts.push_str(&format!("\0{installed}"));
            entry.name = entry.name_now();
        }
        entry
    }

    /// Computes the name for the current content of the files.
    fn name_now(&self) -> Option<String> {
        let content = self.reach.fingerprint(self.interpreter)?;
        Some(sha256(format!("{}\0{content}", self.facts).as_bytes())[..32].to_owned())
    }

    /// Returns the key that identifies the description in this process.
    pub(crate) fn key(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.facts.clone())
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.folder.join(format!("{}.json", self.name.as_ref()?)))
    }

    /// Reads the description, if one was made from these files.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file()?).ok()?).ok()
    }

    /// Stores a description, unless a file has changed while it was made. If the cache can't be written, only the next
    /// start is slower.
    pub(crate) fn write<T: Serialize>(&self, description: &T) {
        let Some(file) = self.file().filter(|_| self.name_now() == self.name) else { return };
        if let Ok(text) = serde_json::to_vec(description) {
            let _ = write_new(&file, &text);
            remove_oldest(&self.folder);
        }
    }
}

/// The largest number of descriptions that are kept. Each is a few kilobytes.
const MOST_DESCRIPTIONS: usize = 512;

/// Removes the oldest descriptions, if there are too many.
fn remove_oldest(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    if let Some(surplus) = found.len().checked_sub(MOST_DESCRIPTIONS) {
        found.sort();
        for (_, path) in &found[..surplus] {
            let _ = fs::remove_file(path);
        }
    }
}

/// Discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

/// Imports the modules one after another and caches what they expose. A failure is not cached: the user may be about to
/// install a missing package.
pub(crate) async fn discover(
    host: &Arc<Host>,
    level: &ToolLevel,
    cache: &CacheEntry<'_>,
) -> Result<Described, DiscoveryError> {
    let mut described = Described::default();
    for tool_module in &level.modules {
        let module = host::module(&level.package, &tool_module.module, &tool_module.names);
        let name = module.path.as_deref().map(|path| explain::shown(path, &level.package.root));
        let report = load(host, &module, name.unwrap_or(&module.key)).await?;
        described.modules.push(report);
    }
    if described.modules.iter().all(|module| module.error.is_none()) {
        cache.write(&described);
    }
    Ok(described)
}

async fn load(host: &Arc<Host>, module: &Module, name: &str) -> Result<ModuleReport, DiscoveryError> {
    let asked = ToHost::Load { modules: vec![module] };
    let answer = match tokio::time::timeout(IMPORT_LIMIT, host.ask(&asked)).await {
        Ok(answer) => answer.map_err(|error| {
            DiscoveryError(format!("`{name}` ended its process when it was imported: {error}"))
        })?,
        Err(_) => {
            host.kill("an import did not end");
            let seconds = IMPORT_LIMIT.as_secs();
            let what = "its top-level code does not end";
            return Err(DiscoveryError(format!("`{name}` was not imported after {seconds} s: {what}")));
        }
    };
    match answer {
        FromHost::Loaded { modules } => {
            let report = modules.into_iter().next().unwrap_or_default();
            let mut report: ModuleReport = serde_json::from_value(report).map_err(|error| {
                DiscoveryError(format!("the host sent an invalid description of `{name}`: {error}"))
            })?;
            for tool in &mut report.functions {
                tool.refused = tool.refused.take().or_else(|| tool.contradiction());
            }
            Ok(report)
        }
        FromHost::Error { error, .. } => Err(DiscoveryError(error.message)),
        _ => Err(DiscoveryError("the host sent an unexpected answer".to_owned())),
    }
}

/// Returns the JSON Schema of a class.
pub(crate) async fn schema(
    host: &Arc<Host>,
    package: &CodePackage,
    module: &llm_do_core::worker::CodeModule,
    class: &str,
    interpreter: &Interpreter,
) -> Result<Value, DiscoveryError> {
    let module = host::module(package, module, &[]);
    let asked = ToHost::Schema { module: &module, class };
    let answer = tokio::time::timeout(IMPORT_LIMIT, host.ask(&asked)).await;
    match answer {
        Ok(Ok(FromHost::Schema { schema })) => Ok(schema),
        Ok(Ok(FromHost::Error { error, .. })) => {
            Err(DiscoveryError(explain::failure(&error, &package.root, interpreter, None)))
        }
        Ok(Ok(_)) => Err(DiscoveryError("the host sent an unexpected answer".to_owned())),
        Ok(Err(error)) => Err(DiscoveryError(error.to_string())),
        Err(_) => {
            host.kill("an import did not end");
            Err(DiscoveryError(format!("`{class}` was not described after {} s", IMPORT_LIMIT.as_secs())))
        }
    }
}
