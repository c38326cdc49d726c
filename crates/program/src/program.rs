//! A program: its definitions, resolved and merged, as the engine asks for them.

use crate::{
    code::CodeReader,
    diagnostics::{Diagnostic, Diagnostics, tidy},
    effective::{Context, Effective},
    front_matter,
    library::{Libraries, NoLibraries},
    loading::{self, Loading, Workers, same_id, with_nearest},
    manifest::{Manifest, Provider},
    mounts::{RequiredGrant, Wanted},
    package::{Package, Packages, protection},
    resolve::{PackageId, WorkerFile},
    show::Shown,
    signature::{InputError, show},
    source::{RealPlace, SourceTree},
};
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    function::FunctionSource,
    gate::{Mode, Policy},
    model::ModelName,
    toolset::ToolsetRegistry,
    worker::{BoundPath, CodeModule, DefinitionError, Definitions, Delegation, WorkerDefinition},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// What the host knows and allows, which definitions are checked against.
#[derive(Clone)]
pub struct LoadOptions {
    /// The kinds of toolsets.
    pub toolsets: ToolsetRegistry,
    /// Names of providers beside those of the manifest. Empty: any name passes.
    pub providers: Vec<String>,
    /// The installed libraries.
    pub libraries: Arc<dyn Libraries>,
    /// Whether Python tools may be loaded at all (`--no-import-tools` says no).
    pub import_tools: bool,
    /// Whether workers may name tools by module (`--allow-module-imports`), whatever the manifest says.
    pub module_imports: bool,
    /// What looks into Python, if anything does: `check` and references to schemas ask it.
    pub code: Option<Arc<dyn CodeReader>>,
}

impl Default for LoadOptions {
    /// No toolsets, any provider, no libraries.
    fn default() -> Self {
        Self {
            toolsets: ToolsetRegistry::default(),
            providers: Vec::new(),
            libraries: Arc::new(NoLibraries),
            import_tools: true,
            module_imports: false,
            code: None,
        }
    }
}

/// Where a run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// In a project: at this worker, else the manifest's `entry`, else `main`.
    Entry(Option<String>),
    /// At this file, relative to the root.
    File(String),
}

/// A program to load.
#[derive(Clone)]
pub struct Source {
    /// Its files.
    pub tree: Arc<dyn SourceTree>,
    /// Where it starts.
    pub start: Start,
    /// Whether a manifest in the root counts (`--no-project` says no).
    pub manifest: bool,
    /// The current directory, for a file that belongs to no project: what it works on (SPEC §3).
    pub work: Option<Place>,
}

impl Source {
    /// The program as grants know it: the root of a project, or a lone file.
    pub fn identity(&self) -> Place {
        match (&self.start, &self.work) {
            (Start::File(file), Some(_)) => Place::new(&format!("{}/{file}", self.tree.root())),
            _ => self.tree.root().clone(),
        }
    }
}

/// Why an input can't be bound.
#[derive(Debug)]
pub enum BindError {
    /// It doesn't fit.
    Input(InputError),
    /// The manifest binds places outside the program, which nobody has granted.
    Beyond(Vec<RequiredGrant>),
}

impl From<InputError> for BindError {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

/// A program that can run.
#[derive(Debug)]
pub struct Loaded {
    /// It.
    pub program: Arc<Program>,
    /// What is worth knowing.
    pub warnings: Vec<Diagnostic>,
}

/// Resolved, merged, immutable definitions. What a run names by glob is loaded when it is called; everything else is
/// loaded already.
pub struct Program {
    host: LoadOptions,
    packages: Packages,
    work: Option<Place>,
    name: String,
    model: Option<ModelName>,
    /// Of what the manifest names and of the code of what is loaded.
    protection: Arc<Protection>,
    entry: Arc<WorkerDefinition>,
    workers: Mutex<Workers>,
    /// What each worker imports, by its name.
    imports: BTreeMap<Arc<str>, Vec<WorkerFile>>,
    listed: OnceLock<Vec<WorkerFile>>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("entry", &self.entry.id)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Loads a program: the manifest, the entry, and everything that allowlists name exactly, however far down. Opens
    /// no other file.
    ///
    /// # Errors
    /// Everything that is wrong with what was opened, warnings included, in reading order.
    pub fn load(source: Source, host: LoadOptions) -> Result<Loaded, Diagnostics> {
        let mut found = Vec::new();
        let mut loading = Loading::begin(&source, host, &mut found);
        let entry = loading
            .entry(&source.start, &mut found)
            .and_then(|entry| loading.start(entry, &mut found))
            .map(|name| Arc::clone(&loading.workers[&name].definition));
        if let (Some(entry), Start::Entry(None)) = (&entry, &source.start) {
            loading.check_bindings(entry, &mut found);
        }
        tidy(&mut found);
        let Some(entry) = entry.filter(|_| !found.iter().any(Diagnostic::is_error)) else {
            return Err(Diagnostics(found));
        };
        let Loading { host, packages, model, workers, imports, .. } = loading;
        let package = packages.program();
        let name = package.manifest.name.clone().unwrap_or_else(|| {
            let folder = package.tree.root().name();
            if folder.is_empty() { "program".to_owned() } else { folder.to_owned() }
        });
        let protection = protected(package, &workers, source.work.as_ref());
        let program = Self {
            protection: Arc::new(protection),
            host,
            packages,
            work: source.work,
            name,
            model,
            entry,
            workers: Mutex::new(workers),
            imports,
            listed: OnceLock::new(),
        };
        Ok(Loaded { program: Arc::new(program), warnings: found })
    }

    fn package(&self) -> &Package {
        self.packages.program()
    }

    /// The worker that a run starts with.
    pub fn entry(&self) -> &Arc<WorkerDefinition> {
        &self.entry
    }

    /// The entry after the merge, each value with where it came from.
    pub fn shown(&self) -> Shown {
        let workers = self.lock();
        Shown::of(&workers[&self.entry.id], &self.packages, &workers)
    }

    /// The manifest, or the defaults.
    pub fn manifest(&self) -> &Manifest {
        &self.package().manifest
    }

    /// The project's default model.
    pub fn model(&self) -> Option<&ModelName> {
        self.model.as_ref()
    }

    /// `approval.mode` of the manifest: can only tighten the operator's.
    pub fn mode(&self) -> Option<Mode> {
        self.manifest().mode
    }

    /// The rest of the manifest's `approval`.
    pub fn approval(&self) -> &Policy {
        &self.manifest().approval
    }

    /// `providers` of the manifest.
    pub fn providers(&self) -> &BTreeMap<String, Provider> {
        &self.manifest().providers
    }

    /// Root of the program.
    pub fn root(&self) -> &Place {
        self.tree().root()
    }

    /// The files it is read from.
    pub fn tree(&self) -> &Arc<dyn SourceTree> {
        &self.package().tree
    }

    /// What defines the program and is protected or invisible.
    pub fn protection(&self) -> &Arc<Protection> {
        &self.protection
    }

    /// Definitions loaded so far, sorted by name.
    pub fn loaded(&self) -> Vec<Arc<WorkerDefinition>> {
        self.lock().values().map(|effective| Arc::clone(&effective.definition)).collect()
    }

    /// What the loaded workers ask for beyond the program's own tree, each once (SPEC §6.5).
    pub fn required_grants(&self) -> Vec<RequiredGrant> {
        let mut grants: Vec<RequiredGrant> = Vec::new();
        for grant in self.lock().values().flat_map(|effective| effective.grants.clone()) {
            if !grants.iter().any(|known| known.what == grant.what) {
                grants.push(grant);
            }
        }
        grants
    }

    /// Of the required grants those that `granted` and `network` don't cover.
    pub fn missing_grants(&self, granted: &[Extent], network: &Network) -> Vec<RequiredGrant> {
        let bounds = Bounds::new(granted.to_vec(), network.clone());
        let mut grants = self.required_grants();
        grants.retain(|grant| match &grant.what {
            Wanted::Place { place, access } => bounds.covering(place, *access).is_none(),
            Wanted::Network(wanted) => wanted.narrow(network) != *wanted,
        });
        grants
    }

    /// The authority that a run starts with: the program's own tree, what the operator granted, and the places that
    /// `bound` hands over, which are seen at `/PARAMETER`. The view is the one of SPEC §6.1 for programs that declare
    /// no mounts.
    pub fn authority(&self, granted: &[Extent], network: Network, bound: &[BoundPath]) -> Authority {
        let mut extents: Vec<Extent> = self
            .package()
            .own
            .iter()
            .map(|place| Extent { place: place.clone(), access: Access::Write })
            .collect();
        extents.extend(granted.iter().cloned());
        extents.extend(bound.iter().map(|b| Extent { place: b.place.clone(), access: b.access }));
        let seen = self.work.as_ref().unwrap_or_else(|| self.tree().root());
        let mut view = View::new(vec![Mount::new(VirtualPath::root(), seen.clone(), Access::Write)]);
        for b in bound {
            view = view.with(Mount::new(at_parameter(&b.parameter), b.place.clone(), b.access));
        }
        Authority::new(Bounds::new(extents, network), view, Arc::clone(self.protection()))
    }

    /// Completes the entry's input by the manifest's `bindings` and mounts, and turns the places that `path`
    /// parameters name into capabilities (SPEC §2.2, §6.4). The operator's own values are relative to `here`, and are
    /// the operator's word; those of the manifest are relative to the root and, outside of it, need a grant.
    ///
    /// Afterwards a `path` parameter's value is `/PARAMETER`, which [`Program::authority`] mounts.
    ///
    /// # Errors
    /// A place that does not exist, or what the manifest binds beyond what is granted.
    pub fn bind(
        &self,
        input: &mut Value,
        here: &Place,
        granted: &[Extent],
    ) -> Result<Vec<BoundPath>, BindError> {
        let signature = &self.entry.signature;
        let fail = |message: String| InputError { message, signature: show(&self.entry.id, signature) };
        let Some(input) = input.as_object_mut() else { return Ok(Vec::new()) };
        let mut bound = Vec::new();
        let mut beyond = Vec::new();
        let granted = Bounds::new(granted.to_vec(), Network::Off);
        let bindings = &self.manifest().bindings;
        if !signature.declared
            && !input.contains_key("input")
            && let Some((_, value)) = bindings.iter().find(|(name, _)| name == "input")
        {
            input.insert("input".into(), value.to_json());
        }
        for parameter in &signature.parameters {
            let name = &*parameter.name;
            let binding = bindings.iter().find(|(known, _)| known == name).map(|(_, node)| node);
            let Some(access) = parameter.path else {
                if let (false, Some(node)) = (input.contains_key(name), binding) {
                    input.insert(name.to_owned(), node.to_json());
                }
                continue;
            };
            let given = input.get(name).filter(|value| !value.is_null());
            let place = match (given, binding) {
                (Some(Value::String(path)), _) => {
                    let whole = if path.starts_with('/') { path.clone() } else { format!("{here}/{path}") };
                    self.real(&whole, access)
                        .map_err(|reason| fail(format!("`{name}`: `{path}` {reason}")))?
                }
                // Not a path at all: the schema says so.
                (Some(_), _) => continue,
                (None, Some(node)) => {
                    let path = node.as_text().unwrap_or_default();
                    let place = self
                        .real(path, access)
                        .map_err(|reason| fail(format!("`bindings.{name}`: `{path}` {reason}")))?;
                    let own = self.package().own.iter().any(|own| place.is_within(own));
                    if !own && granted.covering(&place, access).is_none() {
                        let what = Wanted::Place { place: place.clone(), access };
                        beyond.push(RequiredGrant { what, span: node.span.clone() });
                    }
                    place
                }
                (None, None) => {
                    let mount = self.manifest_mount(&self.entry, name);
                    match mount {
                        Some(mount) if mount.access >= access => mount.place.clone(),
                        Some(_) => {
                            return Err(BindError::Input(fail(format!(
                                "the mount `{name}` is `ro`, but the worker wants to write there"
                            ))));
                        }
                        None => continue,
                    }
                }
            };
            input.insert(name.to_owned(), at_parameter(name).as_str().into());
            bound.push(BoundPath { parameter: Arc::clone(&parameter.name), place, access });
        }
        if !beyond.is_empty() {
            return Err(BindError::Beyond(beyond));
        }
        Ok(bound)
    }

    /// The mount of that name as a worker has it, if it is the manifest's and not the worker's alone.
    fn manifest_mount<'a>(&self, worker: &'a WorkerDefinition, name: &str) -> Option<&'a Mount> {
        self.manifest().sandbox.as_ref()?.get("paths")?.get(name)?;
        let at = at_parameter(name);
        worker.sandbox.narrowing.mounts.iter().find(|mount| mount.at == at)
    }

    fn real(&self, path: &str, access: Access) -> Result<Place, String> {
        let RealPlace { place, kind } = self.tree().locate(path).map_err(|error| error.to_string())?;
        match (kind, access) {
            // Made at the first write.
            (None, Access::Read) => Err("does not exist".into()),
            _ => Ok(place),
        }
    }

    /// All workers of the program, sorted by ID: scans.
    pub fn workers(&self) -> &[WorkerFile] {
        self.listed.get_or_init(|| self.package().scan())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The package of whoever says something, and what it imports.
    fn speaker(&self, from: &WorkerDefinition) -> (PackageId, &[WorkerFile]) {
        let package = self.lock().get(&from.id).map_or(PackageId::PROGRAM, |known| known.located.package);
        (package, self.imports.get(&from.id).map_or(&[], Vec::as_slice))
    }

    /// The worker that a reference means to those who say it in a package and import that.
    fn find(
        &self,
        package: PackageId,
        imports: &[WorkerFile],
        reference: &str,
    ) -> Result<Arc<Effective>, Diagnostics> {
        let located = loading::or_imported(self.packages.resolve(package, reference), imports, reference)
            .map_err(|error| match package {
                _ if reference.contains(':') => *error,
                PackageId::PROGRAM => {
                    let ids: Vec<String> = self.workers().iter().map(|worker| worker.id.clone()).collect();
                    with_nearest(*error, reference, &ids)
                }
                package => with_nearest(*error, reference, &self.packages.names(package)),
            })?;
        let name = self.packages.get(located.package).global_id(&located.id);
        let mut found = Vec::new();
        if let Some(known) = self.lock().get(&name) {
            if known.located == located {
                return Ok(Arc::clone(known));
            }
            return Err(same_id(&known.located, &located, None, &self.packages).into());
        }
        let context = Context {
            packages: &self.packages,
            package: self.packages.get(located.package),
            host: &self.host,
        };
        let document = front_matter::definition(context.package.tree.as_ref(), &located.path)?;
        match context.worker(&located, &document, &mut found).effective {
            Some(effective) => Ok(Arc::clone(self.lock().entry(name).or_insert_with(|| Arc::new(effective)))),
            None => {
                tidy(&mut found);
                Err(Diagnostics(found))
            }
        }
    }
}

impl Definitions for Program {
    fn worker(
        &self,
        from: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        let (package, imports) = self.speaker(from);
        definition(self.find(package, imports, reference))
    }

    fn named_by(
        &self,
        package: &FunctionSource,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        let package = match package {
            FunctionSource::Library(name) => self.packages.library(name).ok_or_else(|| DefinitionError {
                message: format!("there is no library `{name}` in this program"),
            })?,
            FunctionSource::Toolset(_) | FunctionSource::Program | FunctionSource::Generated => {
                PackageId::PROGRAM
            }
        };
        definition(self.find(package, &[], reference))
    }

    fn mount(&self, worker: &WorkerDefinition, name: &str) -> Option<Mount> {
        match worker.source {
            FunctionSource::Program => self.manifest_mount(worker, name).cloned(),
            _ => None,
        }
    }

    fn matching(&self, from: &WorkerDefinition, glob: &str) -> Vec<String> {
        // The same reading of a glob as the allowlist's: `*` crosses folders.
        let Ok(glob) = globset::GlobBuilder::new(glob).literal_separator(false).build() else {
            return Vec::new();
        };
        let matcher = glob.compile_matcher();
        let (package, _) = self.speaker(from);
        let mut names: Vec<String> = match package {
            PackageId::PROGRAM => self.workers().iter().map(|worker| worker.id.clone()).collect(),
            package => self.packages.get(package).scan().into_iter().map(|worker| worker.id).collect(),
        };
        if glob.glob().contains(':') {
            names = self.packages.names(package);
        }
        names.retain(|name| matcher.is_match(name));
        names
    }

    fn project_name(&self) -> &str {
        &self.name
    }

    fn delegation(&self) -> Delegation {
        self.manifest().delegation
    }
}

/// What defines the program: what its manifest names, and the modules of code that its workers name, wherever they lie.
fn protected(package: &Package, workers: &Workers, work: Option<&Place>) -> Protection {
    let root = package.tree.root();
    let own = workers.values().map(|effective| &effective.definition);
    let named = own.flat_map(|definition| {
        let levels = definition.tools.iter().flat_map(|level| level.modules.iter().map(|it| &it.module));
        levels.chain(definition.code.iter().map(|code| &code.module))
    });
    let mut defining = package.manifest.defining();
    for module in named {
        let CodeModule::File(place) = module else { continue };
        if let Some(path) = place.rest(root).filter(|path| !path.is_empty())
            && !defining.iter().any(|known| known == path)
        {
            defining.push(path.to_owned());
        }
    }
    protection(root, work, defining)
}

fn definition(found: Result<Arc<Effective>, Diagnostics>) -> Result<Arc<WorkerDefinition>, DefinitionError> {
    match found {
        Ok(effective) => Ok(Arc::clone(&effective.definition)),
        Err(errors) => Err(DefinitionError { message: errors.to_string() }),
    }
}

/// Where a bound parameter is seen.
fn at_parameter(name: &str) -> VirtualPath {
    VirtualPath::root().join(name)
}
