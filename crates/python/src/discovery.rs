//! Discovery: which tools a module exposes, and the JSON Schemas of its classes. A confined host imports the module, and the
//! result is cached until one of the files that the host could read changes.

use crate::{
    explain,
    host::{self, Host},
    interpreter::{Interpreter, write_new},
    view::Reach,
    wire::{FromHost, Module, PythonError, ToHost},
};
use llm_do_core::{
    authority::Place,
    schema::sha256,
    worker::{CodePackage, ToolLevel},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long the import of one module may take. An import may never end.
const IMPORT_LIMIT: Duration = Duration::from_secs(60);

/// A function that a module exposes, as the host (`host/src`) describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExposedTool {
    /// Its name as a tool.
    pub name: Arc<str>,
    /// Its name in the module.
    pub function: Arc<str>,
    /// Its description, from its docstring.
    pub description: Arc<str>,
    /// JSON Schema of its arguments.
    pub input: Value,
    /// JSON Schema of its result, if its return type has one.
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
    /// The risk that its author declares.
    #[serde(default)]
    pub risk: Option<String>,
    /// The approval rule that its author declares, or `callable`.
    #[serde(default)]
    pub approval: Option<String>,
    /// Whether its approval function takes the origins of the arguments.
    #[serde(default)]
    pub approval_origins: bool,
    /// Whether its author declares that it may run beside other calls.
    #[serde(default)]
    pub parallel: Option<bool>,
    /// The parameters that hold paths.
    #[serde(default)]
    pub paths: Vec<Arc<str>>,
    /// The file of its definition.
    #[serde(default)]
    pub file: Option<Arc<str>>,
    /// The line of its definition.
    #[serde(default)]
    pub line: Option<u32>,
    /// Why it can't be a tool, if it can't.
    #[serde(default)]
    pub refused: Option<String>,
}

impl ExposedTool {
    /// Whether its return type is one simple value, which can hold no file and no path.
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
    /// The error of its import.
    pub(crate) error: Option<PythonError>,
    /// The installed packages that it uses, with their versions.
    packages: BTreeMap<String, String>,
}

impl ModuleReport {
    /// Whether it can't be imported.
    pub(crate) fn has_problem(&self) -> bool {
        self.error.is_some()
    }

    /// Why it can't be imported, as a message.
    pub fn problem(&self, root: &Place, interpreter: &Interpreter) -> Option<String> {
        self.error.as_ref().map(|error| explain::import(error, root, interpreter))
    }

    /// File, line and column of the error, and whether it is a syntax error.
    pub fn place_of_problem(&self) -> Option<(Arc<str>, u32, Option<u32>, bool)> {
        let error = self.error.as_ref()?;
        let syntax = error.column.is_some();
        match (&error.file, error.line) {
            (Some(file), Some(line)) => Some((file.as_str().into(), line, error.column, syntax)),
            _ => error.frames.last().map(|frame| (frame.file.as_str().into(), frame.line, None, syntax)),
        }
    }

    /// The package that is not installed, if that is the error.
    pub fn missing(&self) -> Option<&str> {
        self.error.as_ref()?.missing.as_deref()
    }
}

/// What the modules of one level expose, in the order of the modules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The modules.
    pub modules: Vec<ModuleReport>,
}

/// A cached description: of the modules of a level, or the JSON Schema of a class.
#[derive(Serialize, Deserialize)]
struct Cached<T> {
    /// Hash of all files that its import could read.
    fingerprint: String,
    /// The installed packages that it used, with their versions.
    packages: BTreeMap<String, String>,
    description: T,
}

/// The place of a description in the cache, and what it must have been made from.
pub(crate) struct CacheEntry<'a> {
    pub(crate) file: PathBuf,
    interpreter: &'a Interpreter,
    /// `None`: there is too much to read, and nothing is cached.
    fingerprint: Option<String>,
}

impl<'a> CacheEntry<'a> {
    /// For what `level` exposes or, with a class, for the schema of that class in its module.
    pub(crate) fn new(
        cache: &Path,
        interpreter: &'a Interpreter,
        level: &ToolLevel,
        class: Option<&str>,
        reach: &Reach,
    ) -> Self {
        let facts = format!("2\0{}\0{:?}\0{:?}\0{class:?}", interpreter.key, level.package, level.modules);
        let name = &sha256(facts.as_bytes())[..32];
        let file = cache.join("tools").join(format!("{name}.json"));
        Self { file, interpreter, fingerprint: reach.fingerprint() }
    }

    /// The description, if no file and no package has changed since.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let cached: Cached<T> = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        let same = self.fingerprint.as_ref() == Some(&cached.fingerprint);
        (same && self.are_installed(&cached.packages)).then_some(cached.description)
    }

    /// Keeps a description. Without the cache the next start is only slower.
    pub(crate) fn write<T: Serialize>(&self, description: &T, packages: BTreeMap<String, String>) {
        // A change of a package is visible only if its metadata has a version.
        let Some(fingerprint) = self.fingerprint.clone().filter(|_| self.are_installed(&packages)) else {
            return;
        };
        if let Ok(text) = serde_json::to_vec(&Cached { fingerprint, packages, description }) {
            let _ = write_new(&self.file, &text);
        }
    }

    fn are_installed(&self, packages: &BTreeMap<String, String>) -> bool {
        let installed = Installed::of(self.interpreter);
        packages.iter().all(|(name, version)| installed.has(name, version))
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
        let packages = described.modules.iter().flat_map(|module| module.packages.clone()).collect();
        cache.write(&described, packages);
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
            host.kill();
            let seconds = IMPORT_LIMIT.as_secs();
            let what = "its top-level code does not end";
            return Err(DiscoveryError(format!("`{name}` was not imported after {seconds} s: {what}")));
        }
    };
    match answer {
        FromHost::Loaded { modules } => {
            let report = modules.into_iter().next().unwrap_or_default();
            serde_json::from_value(report).map_err(|error| {
                DiscoveryError(format!("the Python host sent an invalid description of `{name}`: {error}"))
            })
        }
        FromHost::Error { error, .. } => Err(DiscoveryError(error.message)),
        _ => Err(DiscoveryError("the Python host sent an unexpected answer".to_owned())),
    }
}

/// The JSON Schema of a class, and the installed packages that its module uses.
pub(crate) async fn schema(
    host: &Arc<Host>,
    package: &CodePackage,
    module: &llm_do_core::worker::CodeModule,
    class: &str,
    interpreter: &Interpreter,
) -> Result<(Value, BTreeMap<String, String>), DiscoveryError> {
    let module = host::module(package, module, &[]);
    let asked = ToHost::Schema { module: &module, class };
    let answer = tokio::time::timeout(IMPORT_LIMIT, host.ask(&asked)).await;
    match answer {
        Ok(Ok(FromHost::Schema { schema, packages })) => Ok((schema, packages)),
        Ok(Ok(FromHost::Error { error, .. })) => {
            Err(DiscoveryError(explain::failure(&error, &package.root, interpreter, None)))
        }
        Ok(Ok(_)) => Err(DiscoveryError("the Python host sent an unexpected answer".to_owned())),
        Ok(Err(error)) => Err(DiscoveryError(error.to_string())),
        Err(_) => {
            host.kill();
            Err(DiscoveryError(format!("`{class}` was not described after {} s", IMPORT_LIMIT.as_secs())))
        }
    }
}

/// The installed packages of an interpreter, from the names of their metadata folders.
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
        // Some Debian packages append the version of Python.
        self.0.iter().any(|known| *known == wanted || known.starts_with(&format!("{wanted}_py")))
    }
}

/// The normal form of a package name (PyPA, "Names and normalization").
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}
