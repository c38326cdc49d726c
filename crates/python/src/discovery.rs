//! What modules expose: found out by importing them in a confined host, and remembered as long as nothing that they read
//! has changed.

use crate::{
    explain,
    host::{self, Host},
    interpreter::{Interpreter, write_new},
    wire::{FromHost, Module, ToHost, Trouble},
};
use llm_do_core::{
    authority::Place,
    schema::sha256,
    worker::{CodePackage, ToolLevel},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long one module may take to be imported: an import that never ends must not hold a run for ever.
const IMPORT: Duration = Duration::from_secs(60);

/// A function that a module exposes, as `host/host.py` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExposedTool {
    /// Its name as a tool.
    pub name: Arc<str>,
    /// Its name in the module.
    pub function: Arc<str>,
    /// What it does, from its docstring.
    pub description: Arc<str>,
    /// JSON Schema of its arguments.
    pub input: Value,
    /// JSON Schema of its result, where its type says one.
    #[serde(default)]
    pub output: Option<Value>,
    /// Whether it is a coroutine function.
    #[serde(rename = "async", default)]
    pub is_async: bool,
    /// Whether it takes a `ToolContext`.
    #[serde(default)]
    pub context: bool,
    /// Whether JSON values can be passed as they are.
    #[serde(default)]
    pub plain: bool,
    /// The risk that its author states.
    #[serde(default)]
    pub risk: Option<String>,
    /// The rule that its author states, or `callable`.
    #[serde(default)]
    pub approval: Option<String>,
    /// Whether its author says that it may run beside others.
    #[serde(default)]
    pub parallel: Option<bool>,
    /// Parameters that are paths.
    #[serde(default)]
    pub paths: Vec<Arc<str>>,
    /// Where it is defined.
    #[serde(default)]
    pub file: Option<Arc<str>>,
    /// The line.
    #[serde(default)]
    pub line: Option<u32>,
    /// Why it can't be a tool.
    #[serde(default)]
    pub refused: Option<String>,
}

impl ExposedTool {
    /// Whether its type says that it returns one simple value, which can hold no file and no path.
    pub(crate) fn returns_scalar(&self) -> bool {
        let simple = ["integer", "number", "boolean", "null"];
        let kind = self.output.as_ref().and_then(|output| output.get("type")?.as_str());
        kind.is_some_and(|kind| simple.contains(&kind))
    }
}

/// What one module exposes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleReport {
    /// Its functions.
    pub functions: Vec<ExposedTool>,
    /// How it exposes them: `register`, `decorated`, `__all__`, `plain`, `names` or `nothing`.
    pub exposes: String,
    /// Why it can't be imported.
    pub(crate) error: Option<Trouble>,
    /// The files of its package that were read.
    files: Vec<String>,
    /// The packages that it uses, with their versions.
    packages: BTreeMap<String, String>,
}

impl ModuleReport {
    /// Whether it can't be used.
    pub(crate) fn has_problem(&self) -> bool {
        self.error.is_some()
    }

    /// Why it can't be used, for people.
    pub fn problem(&self, root: &Place, interpreter: &Interpreter) -> Option<String> {
        self.error.as_ref().map(|error| explain::import(error, root, interpreter))
    }

    /// File, line and column of what is wrong with it, and whether that is its syntax.
    pub fn place_of_problem(&self) -> Option<(Arc<str>, u32, Option<u32>, bool)> {
        let error = self.error.as_ref()?;
        let syntax = error.column.is_some();
        match (&error.file, error.line) {
            (Some(file), Some(line)) => Some((file.as_str().into(), line, error.column, syntax)),
            _ => error.frames.last().map(|frame| (frame.file.as_str().into(), frame.line, None, syntax)),
        }
    }

    /// A package that it lacks.
    pub fn missing(&self) -> Option<&str> {
        self.error.as_ref()?.missing.as_deref()
    }
}

/// What the modules of one level expose, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The modules.
    pub modules: Vec<ModuleReport>,
    /// Hashes of all files that were read.
    files: BTreeMap<String, String>,
}

/// Nothing could be found out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

/// Where the modules of a level are remembered.
pub(crate) fn file_of(cache: &Path, interpreter: &Interpreter, level: &ToolLevel) -> PathBuf {
    let facts = format!("1\0{}\0{:?}\0{:?}", interpreter.key, level.package, level.modules);
    cache.join("tools").join(format!("{}.json", &sha256(facts.as_bytes())[..32]))
}

/// What is remembered, if it is still so.
pub(crate) fn remembered(file: &Path, interpreter: &Interpreter) -> Option<Described> {
    let described: Described = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let same =
        |(path, hash): (&String, &String)| fs::read(path).is_ok_and(|content| sha256(&content) == *hash);
    let installed = Installed::of(interpreter);
    let packages = described.modules.iter().flat_map(|module| &module.packages);
    let packages_same = packages.into_iter().all(|(name, version)| installed.has(name, version));
    (described.files.iter().all(same) && packages_same).then_some(described)
}

/// Imports the modules one after another and remembers what they expose. What fails is not remembered: it may lack
/// something that is about to be installed.
pub(crate) async fn discover(
    host: &Arc<Host>,
    level: &ToolLevel,
    file: &Path,
    interpreter: &Interpreter,
) -> Result<Described, DiscoveryError> {
    let mut described = Described::default();
    for tool_module in &level.modules {
        let module = host::module(&level.package, &tool_module.module, &tool_module.names);
        let name = module.path.as_deref().map(|path| explain::shown(path, &level.package.root));
        let report = load(host, &module, name.unwrap_or(&module.key)).await?;
        for path in &report.files {
            if let Ok(content) = fs::read(path) {
                described.files.insert(path.clone(), sha256(&content));
            }
        }
        described.modules.push(report);
    }
    // A package whose files name no version can't be seen to change.
    let installed = Installed::of(interpreter);
    let known = described
        .modules
        .iter()
        .all(|m| m.error.is_none() && m.packages.iter().all(|(name, version)| installed.has(name, version)));
    if known && let Ok(text) = serde_json::to_vec(&described) {
        // Remembering is only faster: a folder that can't be written costs the next start some milliseconds.
        let _ = write_new(file, &text);
    }
    Ok(described)
}

async fn load(host: &Arc<Host>, module: &Module, name: &str) -> Result<ModuleReport, DiscoveryError> {
    let asked = ToHost::Load { modules: vec![module] };
    let answer = match tokio::time::timeout(IMPORT, host.ask(&asked)).await {
        Ok(answer) => answer.map_err(|error| {
            DiscoveryError(format!("`{name}` ended its process when it was imported: {error}"))
        })?,
        Err(_) => {
            host.kill();
            let seconds = IMPORT.as_secs();
            let what = "code that runs when it is imported does not end";
            return Err(DiscoveryError(format!("`{name}` was not imported after {seconds} s: {what}")));
        }
    };
    match answer {
        FromHost::Loaded { modules } => {
            let report = modules.into_iter().next().unwrap_or_default();
            serde_json::from_value(report).map_err(|error| {
                DiscoveryError(format!("the Python host describes `{name}` wrongly: {error}"))
            })
        }
        FromHost::Error { error, .. } => Err(DiscoveryError(error.message)),
        _ => Err(DiscoveryError("the Python host answered something else".to_owned())),
    }
}

/// The schema of a class.
pub(crate) async fn schema(
    host: &Arc<Host>,
    package: &CodePackage,
    module: &llm_do_core::worker::CodeModule,
    class: &str,
    interpreter: &Interpreter,
) -> Result<Value, DiscoveryError> {
    let module = host::module(package, module, &[]);
    let asked = ToHost::Schema { module: &module, class };
    let answer = tokio::time::timeout(IMPORT, host.ask(&asked)).await;
    match answer {
        Ok(Ok(FromHost::Schema { schema })) => Ok(schema),
        Ok(Ok(FromHost::Error { error, .. })) => {
            Err(DiscoveryError(explain::failure(&error, &package.root, interpreter, None)))
        }
        Ok(Ok(_)) => Err(DiscoveryError("the Python host answered something else".to_owned())),
        Ok(Err(error)) => Err(DiscoveryError(error.to_string())),
        Err(_) => {
            host.kill();
            Err(DiscoveryError(format!("`{class}` was not described after {} s", IMPORT.as_secs())))
        }
    }
}

/// The packages of an interpreter by their metadata folders, read without starting it.
struct Installed(Vec<String>);

impl Installed {
    fn of(interpreter: &Interpreter) -> Self {
        let entries = interpreter.sites.iter().filter_map(|site| fs::read_dir(site).ok()).flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let metadata = names.filter_map(|name| {
            let stem = name.strip_suffix(".dist-info").or_else(|| name.strip_suffix(".egg-info"))?;
            Some(normal(stem))
        });
        Self(metadata.collect())
    }

    fn has(&self, name: &str, version: &str) -> bool {
        let wanted = normal(&format!("{name}-{version}"));
        // The metadata of some Debian packages goes on with the version of Python.
        self.0.iter().any(|known| *known == wanted || known.starts_with(&format!("{wanted}_py")))
    }
}

/// Names of packages as their metadata folders are compared (PyPA, "Names and normalization").
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}
