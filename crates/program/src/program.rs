//! A program: its resolved and merged definitions, as the engine requests them.

use crate::{
    check::{self, exposed::Exposed, scope::Scope},
    context::Context,
    diagnostics::{Diagnostic, Diagnostics, codes, tidy},
    effective::Effective,
    front_matter,
    load_options::LoadOptions,
    loading::{self, Loading, Workers, check_bindings, finish, same_id, with_nearest},
    manifest::{Manifest, Provider},
    mounts::{RequiredGrant, Wanted, default_mount, holds_home},
    package::{Package, Packages},
    protected::{self, Callable},
    recording_tree::RecordingTree,
    resolve::{PackageId, WorkerFile},
    rules::read_set_file,
    show::Shown,
    signature::{InputError, show},
    signatures::Signatures,
    source::{RealPlace, SourceTree, plain},
    span::Span,
    start::{Source, Start},
    yaml::Node,
};
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    gate::{Mode, Policy, RuleLine, Set, ToolSet},
    model::ModelName,
    source::{FunctionId, FunctionSource},
    worker::{BoundPath, CodeModule, DefinitionError, Definitions, Delegation, WorkerDefinition},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// The reason why an input can't be bound.
#[derive(Debug)]
pub enum BindError {
    /// The input is invalid.
    Input(InputError),
    /// The manifest binds places outside the program that are not granted.
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
    /// The program.
    pub program: Arc<Program>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Resolved, merged, immutable definitions. Workers that match only a glob are loaded when they are called; all
/// others are already loaded.
pub struct Program {
    host: LoadOptions,
    packages: Packages,
    work: Option<Place>,
    name: String,
    models: Vec<ModelName>,
    /// The protection of every file that was read while the program was loaded, and of those that could be read later.
    protection: Arc<Protection>,
    /// The workers that are loaded when they are called.
    callable: Option<Arc<Callable>>,
    entry: Arc<WorkerDefinition>,
    workers: Mutex<Workers>,
    /// The imports of each worker, by its name.
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
    /// Loads a program: the manifest, the entry, and all workers that allowlists name exactly, recursively. It opens
    /// no other file.
    ///
    /// # Errors
    /// All problems of the opened files, including warnings, in reading order.
    pub fn load(source: Source, host: LoadOptions) -> Result<Loaded, Diagnostics> {
        let mut found = Vec::new();
        let files = Arc::new(RecordingTree::new(Arc::clone(&source.tree)));
        let source = Source { tree: Arc::clone(&files) as _, ..source };
        let mut loading = Loading::begin(&source, host, &mut found);
        let entry = loading
            .entry(&source.start, &mut found)
            .and_then(|entry| loading.start(entry, &mut found))
            .map(|name| Arc::clone(&loading.workers[&name]));
        if let (Some(entry), Start::Entry(None)) = (&entry, &source.start) {
            check_bindings(&loading.packages.program().manifest.bindings, entry, &mut found);
        }
        if let Some(entry) = &entry {
            found.extend(check::before_run(&source, &loading, &entry.definition.id));
        }
        found.extend(loading.findings());
        finish(&source, &loading.host, &mut found);
        let Some(entry) = entry.filter(|_| !found.iter().any(Diagnostic::is_error)) else {
            return Err(Diagnostics(found));
        };
        let entry = Arc::clone(&entry.definition);
        let Loading { host, packages, models, workers, imports, .. } = loading;
        let package = packages.program();
        let name = package.manifest.name.clone().unwrap_or_else(|| {
            let folder = package.tree.root().name();
            if folder.is_empty() { "program".to_owned() } else { folder.to_owned() }
        });
        let protection = protected::protection(&packages, &workers, &host.toolsets, source.work.as_ref())
            .with_defining(files.places());
        let callable = Callable::of(source.clone(), &host, &workers);
        let protection = match callable.clone() {
            Some(callable) => protection.with_further(callable),
            None => protection,
        };
        let program = Self {
            protection: Arc::new(protection),
            callable,
            host,
            packages,
            work: source.work,
            name,
            models,
            entry,
            workers: Mutex::new(workers),
            imports,
            listed: OnceLock::new(),
        };
        Ok(Loaded { program: Arc::new(program), warnings: found })
    }

    /// Loads a program for a command that starts no worker: from its entry, or, if it has none, from each worker that
    /// its manifest exports.
    ///
    /// # Errors
    /// The errors of [`Program::load`], for all of these workers.
    pub fn load_any(source: Source, host: LoadOptions) -> Result<Loaded, Diagnostics> {
        let starts = Self::starts(&source, &host);
        let mut found = Vec::new();
        let mut first = None;
        for start in starts {
            match Self::load(Source { start, ..source.clone() }, host.clone()) {
                Ok(loaded) => first = first.or(Some(loaded)),
                Err(errors) => found.extend(errors.0),
            }
        }
        tidy(&mut found);
        first.filter(|_| found.is_empty()).ok_or(Diagnostics(found))
    }

    fn starts(source: &Source, host: &LoadOptions) -> Vec<Start> {
        let loading = Loading::begin(source, host.clone(), &mut Vec::new());
        let exports = &loading.packages.program().manifest.exports;
        match loading.is_for_others(&source.start) && !exports.is_empty() {
            true => exports.iter().map(|(id, _)| Start::Entry(Some(id.clone()))).collect(),
            false => vec![source.start.clone()],
        }
    }

    fn package(&self) -> &Package {
        self.packages.program()
    }

    /// Returns the worker that a run starts with.
    pub fn entry(&self) -> &Arc<WorkerDefinition> {
        &self.entry
    }

    /// Returns the entry after the merge, each value with its origin.
    pub fn shown(&self) -> Shown {
        let workers = self.lock();
        Shown::of(&workers[&self.entry.id], &self.packages, &workers, &self.host.toolsets)
    }

    /// Returns the manifest, or the defaults.
    pub fn manifest(&self) -> &Manifest {
        &self.package().manifest
    }

    /// Returns the project's default models, in the order in which they stand in for each other.
    pub fn models(&self) -> &[ModelName] {
        &self.models
    }

    /// Returns `approval.mode` of the manifest, which can only tighten the operator's.
    pub fn mode(&self) -> Option<Mode> {
        self.manifest().mode
    }

    /// Returns the rest of the manifest's `approval`.
    pub fn approval(&self) -> &Policy {
        &self.manifest().approval
    }

    /// Checks rules of the operator. A rule that names no function of the program is an error; a rule that names no
    /// known function is a warning. See `docs/reference/approvals.md`.
    pub fn check_rules(&self, rules: &[RuleLine]) -> Vec<Diagnostic> {
        if rules.is_empty() {
            return Vec::new();
        }
        let workers = self.lock().clone();
        // Python is inspected only if a rule depends on it.
        let exposed = Exposed::default();
        check::rules::of_operator(&Scope::of(&self.packages, &workers, &self.host, &exposed), rules)
    }

    /// Returns the files that rules of the program read sets from, with their texts. They are part of the program's
    /// definition.
    pub fn set_files(&self) -> Vec<(String, String)> {
        let (package, workers) = (self.package(), self.lock());
        let files = set_files(package, &workers).into_iter();
        files
            .filter_map(|file| read_set_file(package.tree.as_ref(), &file).ok().map(|text| (file, text)))
            .collect()
    }

    /// Returns the sets that `tool_rules` of the loaded workers expect from tools.
    pub fn tool_sets(&self) -> Vec<ToolSet> {
        let mut sets: Vec<ToolSet> = Vec::new();
        for worker in self.loaded() {
            for set in worker.rules.iter().flat_map(|line| line.conditions.sets()) {
                if let Set::Tool(set) = set
                    && !sets.contains(set)
                {
                    sets.push(set.clone());
                }
            }
        }
        sets
    }

    /// Returns `providers` of the manifest.
    pub fn providers(&self) -> &BTreeMap<String, Provider> {
        &self.manifest().providers
    }

    /// Returns the root of the program.
    pub fn root(&self) -> &Place {
        self.tree().root()
    }

    /// Returns the tree from which the program is read.
    pub fn tree(&self) -> &Arc<dyn SourceTree> {
        &self.package().tree
    }

    /// Returns the protection of the files that define the program.
    pub fn protection(&self) -> &Arc<Protection> {
        &self.protection
    }

    /// Returns the definitions loaded so far, sorted by name.
    pub fn loaded(&self) -> Vec<Arc<WorkerDefinition>> {
        self.lock().values().map(|effective| Arc::clone(&effective.definition)).collect()
    }

    /// Inspects the code of the loaded workers. Reading code may run an interpreter, so a program loads without this.
    ///
    /// # Errors
    /// The errors that `check` reports in the code of these workers: a module that can't be imported or exposes
    /// nothing, a function that can't be a tool, a rule for a tool that doesn't exist.
    pub fn check_code(&self) -> Result<(), Diagnostics> {
        let workers = self.lock().clone();
        let found = check::code(&self.packages, &workers, &self.host);
        if found.is_empty() { Ok(()) } else { Err(Diagnostics(found)) }
    }

    /// Returns the grants that the loaded workers need beyond the program's own tree, each once
    /// (`docs/reference/sandbox.md`).
    pub fn required_grants(&self) -> Vec<RequiredGrant> {
        let mut grants: Vec<RequiredGrant> = Vec::new();
        for grant in self.lock().values().flat_map(|effective| effective.grants.clone()) {
            if !grants.iter().any(|known| known.what == grant.what) {
                grants.push(grant);
            }
        }
        grants
    }

    /// Returns the required grants that `granted`, `network` and the names of `variables` do not cover.
    pub fn missing_grants(
        &self,
        granted: &[Extent],
        network: &Network,
        variables: &[Arc<str>],
    ) -> Vec<RequiredGrant> {
        let bounds = Bounds::new(granted.to_vec(), network.clone());
        let mut grants = self.required_grants();
        grants.retain(|grant| match &grant.what {
            Wanted::Place { place, access } => bounds.covering(place, *access).is_none(),
            Wanted::Network(wanted) => wanted.narrow(network) != *wanted,
            Wanted::Variable(name) => !variables.contains(name),
        });
        grants
    }

    /// Returns the authority that a run starts with: the program's own tree, the operator's grants, and the places of
    /// `bound`, which appear at `/PARAMETER`. The view is that of a program without declared mounts
    /// (`docs/reference/sandbox.md`).
    pub fn authority(&self, granted: &[Extent], network: Network, bound: &[BoundPath]) -> Authority {
        self.authority_with(Some(self.default_mount()), granted, network, bound)
    }

    /// Returns the authority that a run of a client starts with. It is [`Program::authority`], except that a program
    /// without declared mounts has no view if its folder holds a home directory: a client may not look around
    /// there.
    pub fn authority_of_client(
        &self,
        granted: &[Extent],
        network: Network,
        bound: &[BoundPath],
    ) -> Authority {
        let first = self.default_mount();
        let holds_home = holds_home(&first.place, &self.host.homes);
        self.authority_with((!holds_home).then_some(first), granted, network, bound)
    }

    /// Returns the view of a program without declared mounts.
    fn default_mount(&self) -> Mount {
        let approvals = self.entry.sandbox.narrowing.approvals;
        default_mount(self.tree().root(), self.work.as_ref(), &self.host.homes, approvals)
    }

    fn authority_with(
        &self,
        first: Option<Mount>,
        granted: &[Extent],
        network: Network,
        bound: &[BoundPath],
    ) -> Authority {
        let mut extents: Vec<Extent> = self
            .package()
            .own
            .iter()
            .map(|place| Extent { place: place.clone(), access: Access::Write })
            .collect();
        extents.extend(granted.iter().cloned());
        extents.extend(bound.iter().map(|b| Extent { place: b.place.clone(), access: b.access }));
        let mut view = View::new(first.into_iter().collect());
        for b in bound {
            let plain = || Mount::new(at_parameter(&b.parameter), b.place.clone(), b.access);
            let mounts = if b.mounts.is_empty() { vec![plain()] } else { b.mounts.clone() };
            view = mounts.into_iter().fold(view, |view, mount| {
                view.with(Mount { untrusted: mount.untrusted || b.untrusted, ..mount })
            });
        }
        Authority::new(Bounds::new(extents, network), view, Arc::clone(self.protection()))
    }

    /// Completes the entry's input with the manifest's `bindings` and mounts, and turns the places of `path` parameters
    /// into capabilities (`docs/reference/sandbox.md`). The operator's own values are relative to `here` and need no
    /// grant. Those of the manifest are relative to the root and need a grant outside of it. `located` are the paths
    /// that the host has located itself; they replace those of the input.
    ///
    /// Afterwards a `path` parameter's value is `/PARAMETER`, which [`Program::authority`] mounts.
    ///
    /// # Errors
    /// A place that does not exist, or a binding that is not granted.
    pub fn bind(
        &self,
        input: &mut Value,
        here: &Place,
        granted: &[Extent],
        located: &[BoundPath],
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
            if let Some(known) = located.iter().find(|known| *known.parameter == *name) {
                input.insert(name.to_owned(), at_parameter(name).as_str().into());
                bound.push(known.clone());
                continue;
            }
            let given = input.get(name).filter(|value| !value.is_null());
            let mut mounts = Vec::new();
            let place = match (given, binding) {
                (Some(Value::String(path)), _) => {
                    let whole = if path.starts_with('/') { path.clone() } else { format!("{here}/{path}") };
                    self.real(&whole, access)
                        .map_err(|reason| fail(format!("`{name}`: `{path}` {reason}")))?
                }
                // Not a path; schema validation reports it.
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
                    match self.manifest_mount(&self.entry, name) {
                        Some(mount) if mount.access >= access => {
                            // The rules of the mount hold there under the parameter's name too.
                            mounts.push(Mount { access, ..mount.clone() });
                            mount.place.clone()
                        }
                        Some(_) => {
                            return Err(BindError::Input(fail(format!(
                                "the mount `{name}` is `ro`, but the worker writes to it"
                            ))));
                        }
                        None => continue,
                    }
                }
            };
            input.insert(name.to_owned(), at_parameter(name).as_str().into());
            let parameter = Arc::clone(&parameter.name);
            bound.push(BoundPath { parameter, place, access, mounts, untrusted: false });
        }
        if !beyond.is_empty() {
            return Err(BindError::Beyond(beyond));
        }
        Ok(bound)
    }

    /// Returns the mount of that name in a worker, if the manifest declares it.
    fn manifest_mount<'a>(&self, worker: &'a WorkerDefinition, name: &str) -> Option<&'a Mount> {
        self.manifest().sandbox.as_ref()?.get("paths")?.get(name)?;
        let at = at_parameter(name);
        worker.sandbox.narrowing.mounts.iter().find(|mount| mount.at == at)
    }

    /// Returns the real place of a path of this machine, which the caller passes on with that access.
    ///
    /// # Errors
    /// The path does not exist and is to be read, or it can't be located.
    pub fn real(&self, path: &str, access: Access) -> Result<Place, String> {
        let RealPlace { place, kind } = self.tree().locate(path).map_err(|error| error.to_string())?;
        match (kind, access) {
            // The first write creates it.
            (None, Access::Read) => Err("does not exist".into()),
            _ => Ok(place),
        }
    }

    /// Returns the definitions of the manifest that a kind of toolset may name, by name.
    pub fn declared(&self, kind: &str) -> Option<Value> {
        self.package().declared.get(kind).map(Node::to_json)
    }

    /// Returns the signatures of its entry and of its own workers, called or not.
    pub fn signatures(&self) -> Signatures {
        let mut workers = vec![Arc::clone(self.entry())];
        let mut broken = Vec::new();
        for file in self.workers() {
            match self.named_by(&FunctionSource::Program, &file.id) {
                Ok(worker) => workers.push(worker),
                Err(error) => broken.push((file.id.clone(), error.message)),
            }
        }
        Signatures { broken, ..Signatures::of_definitions(workers.iter().map(|worker| &**worker)) }
    }

    /// Returns all workers of the program, sorted by ID. Scans the program.
    pub fn workers(&self) -> &[WorkerFile] {
        self.listed.get_or_init(|| self.package().scan())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the package of a worker, and its imports.
    fn speaker(&self, from: &WorkerDefinition) -> (PackageId, &[WorkerFile]) {
        let package = self.lock().get(&from.id).map_or(PackageId::PROGRAM, |known| known.located.package);
        (package, self.imports.get(&from.id).map_or(&[], Vec::as_slice))
    }

    /// Returns the worker that a reference resolves to in a package with these imports.
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
        let of = self.packages.get(located.package);
        let files = RecordingTree::new(Arc::clone(&of.tree));
        let context = Context { packages: &self.packages, package: of, host: &self.host, tree: &files };
        let document = front_matter::definition(context.tree(), &located.path).whole()?;
        let effective = context.worker(&located, &document, &mut found).effective;
        if located.package == PackageId::PROGRAM {
            self.compare_with_start(&located, &files, effective.as_ref())?;
        }
        match effective.filter(|_| !found.iter().any(Diagnostic::is_error)) {
            Some(effective) => Ok(Arc::clone(self.lock().entry(name).or_insert_with(|| Arc::new(effective)))),
            None => {
                tidy(&mut found);
                Err(Diagnostics(found))
            }
        }
    }

    /// Refuses a worker of the program that is read now, if the run itself may have written it: a file of its
    /// definition had not been read when the run first touched a file.
    fn compare_with_start(
        &self,
        located: &WorkerFile,
        files: &RecordingTree,
        effective: Option<&Effective>,
    ) -> Result<(), Diagnostics> {
        let Some(callable) = &self.callable else { return Ok(()) };
        let levels = effective.map(|it| it.definition.tools.as_ref()).unwrap_or_default();
        let own = levels.iter().filter(|level| level.package == self.package().code);
        let modules = own.flat_map(|level| &level.modules).filter_map(|it| match &it.module {
            CodeModule::File(place) => Some(place.clone()),
            CodeModule::Installed { .. } => None,
        });
        let read: Vec<Place> = files.found().into_iter().chain(modules).collect();
        let Some(new) = callable.first_new(&read) else { return Ok(()) };
        let file = front_matter::unread(self.tree().as_ref(), &located.path);
        Err(Diagnostic::error(codes::WORKER_NOT_FOUND, format!("this run has no worker `{}`", located.id))
            .at(&Span::whole(&file))
            .note(format!(
                "`{}` was not found when the run first touched a file; the run itself may have made it",
                self.protection.relative(new)
            ))
            .help(format!("to use a worker of any place, name it in `allow_workers`: `./{}`", located.path))
            .into())
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

    fn identified(&self, worker: &FunctionId) -> Option<Arc<WorkerDefinition>> {
        let FunctionId { source, name } = worker;
        if let Some(known) = self.lock().get(name).filter(|known| known.definition.source == *source) {
            return Some(Arc::clone(&known.definition));
        }
        // Within its own package a library's worker has no prefix.
        let reference = match source {
            FunctionSource::Library(library) => name.strip_prefix(&**library)?.strip_prefix(':')?,
            _ => name,
        };
        self.named_by(source, reference).ok()
    }

    fn mount(&self, worker: &WorkerDefinition, name: &str) -> Option<Mount> {
        match worker.source {
            FunctionSource::Program => self.manifest_mount(worker, name).cloned(),
            _ => None,
        }
    }

    fn matching(&self, from: &WorkerDefinition, glob: &str) -> Vec<String> {
        // As in allowlists, `*` matches across folders.
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
            let own = self.packages.get(package).own_name();
            let of_itself: Vec<String> =
                own.into_iter().flat_map(|own| names.iter().map(move |id| format!("{own}:{id}"))).collect();
            names = self.packages.names(package);
            names.extend(of_itself);
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

/// Returns the files of the package that its rules read sets from, each once, relative to its root.
pub(crate) fn set_files(package: &Package, workers: &Workers) -> BTreeSet<String> {
    let own = workers.values().filter(|worker| worker.definition.source == package.code.source);
    let rules = own.flat_map(|worker| &worker.rules).chain(&package.manifest.approval_rules);
    let files = rules.flat_map(|rule| rule.calls.conditions.sets()).filter_map(Set::file);
    files.filter_map(|set| plain(&set.file).ok()).collect()
}

fn definition(found: Result<Arc<Effective>, Diagnostics>) -> Result<Arc<WorkerDefinition>, DefinitionError> {
    match found {
        Ok(effective) => Ok(Arc::clone(&effective.definition)),
        Err(errors) => Err(DefinitionError { message: errors.to_string() }),
    }
}

/// Returns the mount point of a bound parameter.
fn at_parameter(name: &str) -> VirtualPath {
    VirtualPath::root().join(name)
}
