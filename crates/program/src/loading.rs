//! Loads a program from a source: the manifest, the libraries, the entry, and the closure of the workers that
//! allowlists and imports name exactly.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes, nearest, tidy},
    effective::{Effective, Reading},
    front_matter::{self, Definition, Document},
    load_options::LoadOptions,
    manifest::{self, MANIFESTS, Manifest},
    older_forms::{Cures, MOVES, OlderForms},
    package::{Package, Packages},
    parallel::in_parallel,
    resolve::{PackageId, WorkerFile, is_glob},
    signature::show,
    source::{Kind, SourceTree},
    span::Span,
    start::{Source, Start},
    tool_levels::no_python,
    tool_reference,
    yaml::Node,
};
use llm_do_core::model::ModelName;
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry as Slot},
    sync::{Arc, Mutex, PoisonError},
};

/// The name of the entry if none is named.
const MAIN: &str = "main";

/// Workers by their global name.
pub(crate) type Workers = BTreeMap<Arc<str>, Arc<Effective>>;

/// The entry of a run, and the place that names it.
pub(crate) enum Entry {
    Worker(WorkerFile, Option<Span>),
    /// A Python function, with its reference.
    Code(String, tool_reference::Function, Option<Span>),
}

/// A program before its entry is known.
pub(crate) struct Loading {
    pub(crate) host: LoadOptions,
    pub(crate) packages: Packages,
    pub(crate) models: Vec<ModelName>,
    /// The workers that can be understood, also those with errors.
    pub(crate) workers: Workers,
    /// The imports of each worker, by its name.
    pub(crate) imports: BTreeMap<Arc<str>, Vec<WorkerFile>>,
    /// The files that were loaded, in the order in which they were found.
    loaded: Vec<Arc<Merged>>,
    /// The place of each file in `loaded`, by package.
    seen: BTreeMap<PackageId, HashMap<String, usize>>,
    /// A cache of resolved references, by package. A thousand workers that call each other have a million references
    /// to a thousand files.
    resolved: Mutex<HashMap<PackageId, HashMap<String, Resolved>>>,
    /// The first file of each name, to detect two files with one name.
    paths: HashMap<Arc<str>, WorkerFile>,
    /// True if there are two files with one name. The first that is found is the worker.
    ambiguous: bool,
    /// Names of each package's workers, scanned once, for "did you mean".
    names: Mutex<BTreeMap<PackageId, Arc<[String]>>>,
}

impl Loading {
    /// Reads the manifest and opens the libraries.
    pub(crate) fn begin(source: &Source, host: LoadOptions, found: &mut Vec<Diagnostic>) -> Self {
        let tree = Arc::clone(&source.tree);
        if matches!(tree.kind(MOVES), Ok(Some(Kind::File))) {
            found.push(cut_off(tree.as_ref()));
        }
        let manifest = match source.manifest {
            true if manifest::is_library(tree.as_ref()) => {
                Manifest::load_library_partly(tree.as_ref(), found).unwrap_or_default()
            }
            true => Manifest::load(tree.as_ref(), found),
            false => Manifest::default(),
        };
        let program = Package::program(tree, manifest, source.work.as_ref(), &host, found);
        let packages = Packages::load(program, &host, found);
        let mut loading = Self {
            host,
            packages,
            models: Vec::new(),
            workers: Workers::new(),
            imports: BTreeMap::new(),
            loaded: Vec::new(),
            seen: BTreeMap::new(),
            resolved: Mutex::default(),
            paths: HashMap::new(),
            ambiguous: false,
            names: Mutex::default(),
        };
        let manifest = &loading.packages.program().manifest;
        let context = loading.context(PackageId::PROGRAM);
        for profile in manifest.models.values() {
            context.provider_model(&profile.model, found);
        }
        let named = manifest.model.as_ref();
        loading.models = named.map(|node| context.model_names(node, found)).unwrap_or_default();
        loading
    }

    pub(crate) fn context(&self, package: PackageId) -> Context<'_> {
        let of = self.packages.get(package);
        Context { packages: &self.packages, package: of, host: &self.host, tree: of.tree.as_ref() }
    }

    /// Returns true if other programs start its workers, so that it needs no entry: it is a library, or it exports
    /// workers and has no entry.
    pub(crate) fn is_for_others(&self, start: &Start) -> bool {
        let program = self.packages.program();
        let has_no_main = || match self.packages.resolve(PackageId::PROGRAM, MAIN) {
            Ok(_) => false,
            Err(error) => error.code == codes::WORKER_NOT_FOUND,
        };
        *start == Start::Entry(None)
            && (program.is_library()
                || program.manifest.entry.is_none() && !program.manifest.exports.is_empty() && has_no_main())
    }

    /// Finds the entry of a run.
    pub(crate) fn entry(&self, start: &Start, found: &mut Vec<Diagnostic>) -> Option<Entry> {
        let program = self.packages.program();
        let (reference, place) = match (start, &program.manifest.entry) {
            (Start::File(path), _) => return Some(Entry::Worker(program.layout.identify(path), None)),
            (Start::Entry(Some(reference)), _) => (reference.clone(), None),
            (Start::Entry(None), Some(entry)) => {
                (entry.as_text().unwrap_or_default().to_owned(), Some(entry.span.clone()))
            }
            (Start::Entry(None), None) => (MAIN.to_owned(), None),
        };
        let policy = self.context(PackageId::PROGRAM).policy();
        if let Some(function) = tool_reference::function(&self.packages, &reference, policy) {
            let known = self.host.toolsets.code().is_some();
            return match function {
                Ok(function) if known => Some(Entry::Code(reference, function, place)),
                Ok(_) => {
                    found.push(no_python().or_at(place.as_ref()));
                    None
                }
                Err(error) => {
                    found.push(error.or_at(place.as_ref()));
                    None
                }
            };
        }
        let error = match self.packages.resolve(PackageId::PROGRAM, &reference) {
            Ok(located) => return Some(Entry::Worker(located, place)),
            Err(error) => *error,
        };
        if error.code != codes::WORKER_NOT_FOUND {
            found.push(error.or_at(place.as_ref()));
            return None;
        }
        let missing = if *start == Start::Entry(None) && place.is_none() {
            self.no_entry(error)
        } else {
            let message = format!("the entry `{reference}` does not exist");
            let mut missing = Diagnostic::error(codes::ENTRY_MISSING, message);
            missing.notes = error.notes;
            with_nearest(missing, &reference, &self.names(PackageId::PROGRAM))
        };
        found.push(missing.or_at(place.as_ref()));
        None
    }

    /// Returns the finding for a folder without an entry. `error` lists the names that were tried.
    fn no_entry(&self, error: Diagnostic) -> Diagnostic {
        let program = self.packages.program();
        let looked = match &program.manifest.file {
            Some(file) => format!("no `entry` in {}", file.path()),
            None => format!("no `entry` in {} or {}", MANIFESTS[0], MANIFESTS[1]),
        };
        let mut none = Diagnostic::error(codes::NO_ENTRY, "this folder has no entry").note(looked);
        none.notes.extend(error.notes);
        let exports = &program.manifest.exports;
        if !program.is_library() && !exports.is_empty() {
            let exported: Vec<String> = exports.iter().map(|(reference, _)| reference.clone()).collect();
            let none = none.help("add a `main.worker`, or select an exported worker with `--entry`");
            return with_names(none, &exported);
        }
        none = match program.is_library() {
            true => none.help("this is a library: select one of its workers with `--entry`"),
            false => none
                .help("add a `main.worker`, or select a worker with `--entry`")
                .help("`llm-do init NAME` creates a project in a new folder"),
        };
        if let Some(file) = lone_file(program.tree.as_ref()) {
            none = none.help(format!("to run a worker file of this folder: `llm-do {file}`"));
        }
        with_names(none, &self.names(PackageId::PROGRAM))
    }

    /// Loads the entry of a run. Returns its name if it can be understood.
    pub(crate) fn start(&mut self, entry: Entry, found: &mut Vec<Diagnostic>) -> Option<Arc<str>> {
        let (reference, function, place) = match entry {
            Entry::Worker(located, place) => {
                let name = self.name_of(&located);
                self.closure(vec![(located, place)], found);
                return self.workers.contains_key(&name).then_some(name);
            }
            Entry::Code(reference, function, place) => (reference, function, place),
        };
        let located = WorkerFile {
            package: PackageId::PROGRAM,
            id: function.name.clone(),
            path: reference,
            rooted: false,
        };
        if !self.is_new(&located, place.as_ref(), found) {
            return None;
        }
        let mut merged = Merged::of(located);
        let code = self.context(PackageId::PROGRAM);
        let effective = code.code(&merged.located, function, place.as_ref(), &mut merged.found);
        merged.effective = effective.map(Arc::new);
        merged.complete = merged.effective.is_some();
        let name = merged.effective.as_ref().map(|effective| Arc::clone(&effective.definition.id));
        self.take_in(Arc::new(merged));
        name
    }

    /// Loads workers and all workers that their allowlists and imports name exactly, each file once; cycles are
    /// allowed. [`Loading::findings`] returns the findings about the files.
    ///
    /// It works in generations: all known workers are read and merged in parallel, and their references are the next
    /// generation. The result does not depend on the number of threads.
    pub(crate) fn closure(&mut self, wanted: Vec<(WorkerFile, Option<Span>)>, found: &mut Vec<Diagnostic>) {
        let mut generation = wanted;
        while !generation.is_empty() {
            let fresh: Vec<WorkerFile> = generation
                .into_iter()
                .filter(|(located, named)| self.is_new(located, named.as_ref(), found))
                .map(|(located, _)| located)
                .collect();
            let cancel = &self.host.cancel;
            let read = in_parallel(cancel, fresh, |located| (self.read(&located), located));
            for (document, located) in &read {
                if let Some(document) = &document.document {
                    self.admit_libraries(located.package, document, found);
                }
            }
            if self.host.cancel.is_wanted() {
                return;
            }
            let merged = in_parallel(&self.host.cancel, read, |(document, located)| {
                Arc::new(self.merge(located, document))
            });
            let unseen = |(to, span): (&WorkerFile, &Span)| {
                (!self.has_seen(to)).then(|| (to.clone(), Some(span.clone())))
            };
            generation = merged.iter().flat_map(|merged| merged.links().filter_map(unseen)).collect();
            merged.into_iter().for_each(|merged| self.take_in(merged));
        }
    }

    /// Adds a loaded file, which is the next one of those in `seen`.
    fn take_in(&mut self, merged: Arc<Merged>) {
        let imports: Vec<WorkerFile> = merged.imports.iter().map(|(import, _)| import.clone()).collect();
        if !imports.is_empty() {
            self.imports.insert(self.name_of(&merged.located), imports);
        }
        if let Some(effective) = &merged.effective {
            let name = Arc::clone(&effective.definition.id);
            self.workers.entry(name).or_insert_with(|| Arc::clone(effective));
        }
        self.loaded.push(merged);
    }

    /// Loads a file of the program again after its text has changed. Returns `None` if the whole program must be loaded
    /// again, because other files would belong to it, or because their order would matter; nothing has changed then.
    pub(crate) fn load_again(&self, path: &str, is_root: impl Fn(&WorkerFile) -> bool) -> Option<Edit> {
        if self.ambiguous {
            return None;
        }
        let at = *self.seen.get(&PackageId::PROGRAM)?.get(path)?;
        let old = Arc::clone(&self.loaded[at]);
        let new = Arc::new(self.merge(old.located.clone(), self.read(&old.located)));
        let stays = |(to, _): (&WorkerFile, &Span)| is_root(to) || new.links().any(|(kept, _)| kept == to);
        let is_same_program = new.links().all(|(to, _)| self.has_seen(to)) && old.links().all(stays);
        is_same_program.then_some(Edit { at, old, new })
    }

    /// Replaces a file by its new version. Returns the worker's name.
    pub(crate) fn replace(&mut self, Edit { at, new, .. }: &Edit) -> Arc<str> {
        let name = self.name_of(&new.located);
        self.imports.remove(&name);
        self.workers.remove(&name);
        self.take_in(Arc::clone(new));
        self.loaded.swap_remove(*at);
        name
    }

    /// Returns the findings about each loaded file by itself, in the order of the files.
    pub(crate) fn findings(&self) -> impl Iterator<Item = Diagnostic> {
        let mut with: Vec<&Merged> =
            self.loaded.iter().map(AsRef::as_ref).filter(|merged| !merged.found.is_empty()).collect();
        with.sort_by_key(|merged| &merged.located);
        with.into_iter().flat_map(|merged| merged.found.iter().cloned())
    }

    /// Returns true if every reference and every worker file was understood, so that `workers` has all calls.
    pub(crate) fn is_complete(&self) -> bool {
        self.loaded.iter().all(|merged| merged.complete)
    }

    /// Returns true if a file of the program was loaded as a worker.
    pub(crate) fn has_loaded(&self, path: &str) -> bool {
        self.seen.get(&PackageId::PROGRAM).is_some_and(|seen| seen.contains_key(path))
    }

    /// Returns the files of a package that were loaded as workers.
    pub(crate) fn files_of(&self, package: PackageId) -> impl Iterator<Item = &str> {
        self.seen.get(&package).into_iter().flat_map(|seen| seen.keys().map(String::as_str))
    }

    /// Returns the worker files of the program in the order in which they were found, with their links.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&WorkerFile, &WorkerFile, &Span)> {
        self.loaded.iter().flat_map(|merged| merged.links().map(|(to, span)| (&merged.located, to, span)))
    }

    fn has_seen(&self, located: &WorkerFile) -> bool {
        self.seen.get(&located.package).is_some_and(|seen| seen.contains_key(&located.path))
    }

    /// Resolves a reference in a package.
    fn resolve(&self, from: PackageId, reference: &str) -> Resolved {
        let known = |all: &HashMap<PackageId, HashMap<String, Resolved>>| {
            all.get(&from).and_then(|of_package| of_package.get(reference).cloned())
        };
        let lock = || self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&lock()) {
            return known;
        }
        // Not under the lock, because it reads the disk.
        let resolved = self.packages.resolve(from, reference);
        lock().entry(from).or_default().insert(reference.to_owned(), resolved.clone());
        resolved
    }

    /// Returns true if a file is new. Reports another file with the same ID.
    fn is_new(&mut self, located: &WorkerFile, named: Option<&Span>, found: &mut Vec<Diagnostic>) -> bool {
        if self.has_seen(located) {
            return false;
        }
        let place = self.seen.values().map(HashMap::len).sum();
        self.seen.entry(located.package).or_default().insert(located.path.clone(), place);
        match self.paths.entry(self.name_of(located)) {
            Slot::Occupied(other) => {
                self.ambiguous = true;
                found.push(same_id(other.get(), located, named, &self.packages));
            }
            Slot::Vacant(place) => {
                place.insert(located.clone());
            }
        }
        true
    }

    fn read(&self, located: &WorkerFile) -> Definition {
        front_matter::definition(self.packages.get(located.package).tree.as_ref(), &located.path)
    }

    /// Merges one worker and resolves its references.
    fn merge(&self, located: WorkerFile, Definition { document, found }: Definition) -> Merged {
        let package = located.package;
        let mut merged = Merged::of(located);
        merged.found = found;
        let Some(document) = document else { return merged };
        merged.instructions = document.body.as_ref().map(|body| body.range.start);
        let Reading { effective, callees, imports } =
            self.context(package).worker(&merged.located, &document, &mut merged.found);
        let named_well = ["allow_workers", "imports", "toolsets"];
        merged.complete = effective.as_ref().is_some_and(|it| !it.mistakes.concern(&named_well));
        for (reference, span) in imports {
            match self.resolve(package, &reference) {
                Ok(import) => merged.imports.push((import, span)),
                Err(error) => merged.unresolved(self.unresolved(package, *error, &reference, &span)),
            }
        }
        let mut calls = Vec::new();
        for (at, (reference, span)) in callees.into_iter().enumerate() {
            if is_glob(&reference) {
                continue;
            }
            let imports = merged.imports.iter().map(|(import, _)| import);
            match or_imported(self.resolve(package, &reference), imports, &reference) {
                Ok(callee) => {
                    calls.push((self.name_of(&callee), at));
                    merged.callees.push((callee, span));
                }
                Err(error) => merged.unresolved(self.unresolved(package, *error, &reference, &span)),
            }
        }
        merged.effective = effective.map(|effective| Arc::new(Effective { calls, ..effective }));
        merged
    }

    pub(crate) fn name_of(&self, located: &WorkerFile) -> Arc<str> {
        self.packages.get(located.package).global_id(&located.id)
    }

    /// Adds the libraries of imports as dependencies if there is no manifest, which could declare them.
    fn admit_libraries(&mut self, package: PackageId, document: &Document, found: &mut Vec<Diagnostic>) {
        if package != PackageId::PROGRAM || self.packages.program().manifest.file.is_some() {
            return;
        }
        let imports = document.keys.get("imports").and_then(|imports| imports.get("workers"));
        for (reference, span) in imports.into_iter().flat_map(Node::texts) {
            if let Some((library, _)) = reference.split_once(':') {
                self.packages.import(library, span, &self.host, found);
            }
        }
    }

    /// Returns the finding for a reference that can't be resolved, unless its library was reported already.
    fn unresolved(
        &self,
        from: PackageId,
        error: Diagnostic,
        reference: &str,
        span: &Span,
    ) -> Option<Diagnostic> {
        if self.packages.is_broken(reference) {
            return None;
        }
        let error = match error.span {
            Some(_) => error.related("it is named here", span),
            None => error.at(span),
        };
        Some(match error.code {
            codes::WORKER_NOT_FOUND if !reference.contains(':') => {
                with_nearest(error, reference, &self.names(from))
            }
            _ => error,
        })
    }

    fn names(&self, from: PackageId) -> Arc<[String]> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(names.entry(from).or_insert_with(|| self.packages.names(from).into()))
    }
}

/// Checks that each value in `bindings` of the manifest belongs to a parameter of the entry.
pub(crate) fn check_bindings(bindings: &[(String, Node)], entry: &Effective, found: &mut Vec<Diagnostic>) {
    if entry.mistakes.concern(&["parameters", "schema_in_ref"]) {
        return;
    }
    let entry = &entry.definition;
    for (name, node) in bindings {
        let signature = &entry.signature;
        let known = signature.parameters.iter().any(|p| *p.name == **name);
        if !known && (signature.declared || name != "input") {
            let names: Vec<&str> = signature.parameters.iter().map(|p| &*p.name).collect();
            found.push(
                Diagnostic::error(
                    codes::UNKNOWN_KEY,
                    format!("the entry `{}` has no parameter `{name}`", entry.id),
                )
                .at(&node.span)
                .did_you_mean(name, names)
                .note(format!("its signature: {}", show(&entry.id, signature))),
            );
        }
    }
}

/// Returns a worker file in the root that is not the entry.
fn lone_file(tree: &dyn SourceTree) -> Option<String> {
    let mut files = tree.list("").ok()?.into_iter();
    files.find(|(name, kind)| *kind == Kind::File && name.ends_with(".worker")).map(|(name, _)| name)
}

pub(crate) type Resolved = Result<WorkerFile, Box<Diagnostic>>;

/// A worker's file, merged, with its references resolved.
pub(crate) struct Merged {
    pub(crate) located: WorkerFile,
    /// The merged worker, or `None` if the file can't be understood as a worker at all.
    pub(crate) effective: Option<Arc<Effective>>,
    /// The files of `imports.workers`, with the places that name them.
    imports: Vec<(WorkerFile, Span)>,
    /// The files of the exact references of the allowlist.
    callees: Vec<(WorkerFile, Span)>,
    /// The position of its instructions, below the keys.
    instructions: Option<usize>,
    /// True if the file and all of its references were understood.
    pub(crate) complete: bool,
    found: Vec<Diagnostic>,
}

impl Merged {
    /// Creates the value for a file of which nothing is understood yet.
    fn of(located: WorkerFile) -> Self {
        Self {
            located,
            effective: None,
            imports: Vec::new(),
            callees: Vec::new(),
            instructions: None,
            complete: false,
            found: Vec::new(),
        }
    }

    /// Returns the files to which it refers.
    fn links(&self) -> impl Iterator<Item = (&WorkerFile, &Span)> {
        self.imports.iter().chain(&self.callees).map(|(to, span)| (to, span))
    }

    fn unresolved(&mut self, found: Option<Diagnostic>) {
        self.complete = false;
        self.found.extend(found);
    }
}

/// A file of the program whose text has changed.
pub(crate) struct Edit {
    at: usize,
    pub(crate) old: Arc<Merged>,
    pub(crate) new: Arc<Merged>,
}

impl Edit {
    /// Returns true if only the instructions have changed: all text before them is the same, and they are not empty if
    /// and only if they were not empty before.
    pub(crate) fn has_same_keys(&self) -> bool {
        let parts = |merged: &Merged| {
            let file = Arc::clone(merged.effective.as_ref()?.keys.span.file());
            let (keys, instructions) = file.text().split_at_checked(merged.instructions?)?;
            Some((keys.to_owned(), instructions.trim().is_empty()))
        };
        parts(&self.old).is_some_and(|old| Some(old) == parts(&self.new))
    }
}

/// Completes the findings of a program. If only a migration makes the program readable, other findings are removed.
/// Errors that a migration would fix get a hint.
pub(crate) fn finish(source: &Source, host: &LoadOptions, found: &mut Vec<Diagnostic>) {
    finish_knowing(source, host.older_forms.as_deref(), Cures::Unasked, found);
}

/// Completes the findings like [`finish`], if the result of a migration is known.
pub(crate) fn finish_knowing(
    source: &Source,
    older_forms: Option<&dyn OlderForms>,
    cures: Cures,
    found: &mut Vec<Diagnostic>,
) -> Cures {
    if found.iter().any(|finding| finding.code == codes::OLDER_MANIFEST) {
        found.retain(|finding| [codes::CUT_OFF, codes::OLDER_MANIFEST].contains(&finding.code));
    }
    let cures = match older_forms {
        Some(older_forms) if cures != Cures::Nothing => older_forms.add_hints(source, found),
        _ => cures,
    };
    tidy(found);
    cures
}

/// Returns the finding for an interrupted change. A partly done change may lack the manifest and its restrictions.
fn cut_off(tree: &dyn SourceTree) -> Diagnostic {
    Diagnostic::error(codes::CUT_OFF, "a change to this folder was interrupted and is only partly done")
        .at(&Span::whole(&front_matter::unread(tree, MOVES)))
        .help("run `llm-do migrate --write` to finish it")
}

/// Resolves a reference by the rules of its package, else among the worker's imports.
pub(crate) fn or_imported<'a>(
    resolved: Resolved,
    imports: impl IntoIterator<Item = &'a WorkerFile>,
    reference: &str,
) -> Resolved {
    resolved.or_else(|error| {
        let imported = imports.into_iter().find(|import| import.id == reference);
        match (error.code == codes::WORKER_NOT_FOUND, imported) {
            (true, Some(import)) => Ok(import.clone()),
            _ => Err(error),
        }
    })
}

/// Returns the finding for two files with one ID in one program.
pub(crate) fn same_id(
    other: &WorkerFile,
    located: &WorkerFile,
    named: Option<&Span>,
    packages: &Packages,
) -> Diagnostic {
    let tree = &packages.get(located.package).tree;
    Diagnostic::error(
        codes::SAME_ID,
        format!("`{}` and `{}` both define the worker `{}`", other.path, located.path, located.id),
    )
    .or_at(named)
    .or_at(Some(&Span::whole(&front_matter::unread(tree.as_ref(), &located.path))))
    .help("rename one of them")
}

pub(crate) fn with_nearest(error: Diagnostic, reference: &str, names: &[String]) -> Diagnostic {
    if ![codes::WORKER_NOT_FOUND, codes::ENTRY_MISSING].contains(&error.code) {
        return error;
    }
    let wanted = reference.trim_start_matches("./");
    let names_of = || names.iter().map(String::as_str);
    if nearest(wanted, names_of()).is_empty() {
        return with_names(error, names);
    }
    error.did_you_mean(wanted, names_of())
}

/// Adds all names to the error if there are few.
fn with_names(error: Diagnostic, names: &[String]) -> Diagnostic {
    match names {
        [] => error,
        few if few.len() <= 12 => error.help(format!("available workers: {}", few.join(", "))),
        many => error.help(format!("run `llm-do list` to see all {} workers", many.len())),
    }
}
