//! Loads a program from a source: the manifest, the libraries, the entry, and the closure of the workers that
//! allowlists and imports name exactly.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes, nearest, tidy},
    effective::{Effective, Reading, is_glob},
    front_matter::{self, Document},
    load_options::LoadOptions,
    manifest::{self, MANIFESTS, Manifest},
    migrate::{self, Cures, MOVES},
    package::{Package, Packages},
    parallel::in_parallel,
    resolve::{PackageId, WorkerFile},
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
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Workers by their global name.
pub(crate) type Workers = BTreeMap<Arc<str>, Arc<Effective>>;

/// The entry of a run, and where it is named.
pub(crate) enum Entry {
    Worker(WorkerFile, Option<Span>),
    /// A Python function, with its reference.
    Code(String, tool_reference::Function, Option<Span>),
}

/// A program before its entry is known.
pub(crate) struct Loading {
    pub(crate) host: LoadOptions,
    pub(crate) packages: Packages,
    pub(crate) model: Option<ModelName>,
    /// The workers that can be understood, also those with errors.
    pub(crate) workers: Workers,
    /// Whether every reference and every worker file was understood, so that `workers` has all calls.
    pub(crate) complete: bool,
    /// The imports of each worker, by its name.
    pub(crate) imports: BTreeMap<Arc<str>, Vec<WorkerFile>>,
    /// Files that were already found, by package.
    seen: BTreeMap<PackageId, HashSet<String>>,
    /// A cache of resolved references, by package. A thousand workers that call each other have a million references
    /// to a thousand files.
    resolved: Mutex<HashMap<PackageId, HashMap<String, Resolved>>>,
    /// The first file of each name, to detect two files with one name.
    paths: BTreeMap<Arc<str>, WorkerFile>,
    /// Names of each package's workers, scanned once, for "did you mean".
    names: BTreeMap<PackageId, Vec<String>>,
    /// What a [`Checker`](crate::Checker) loads another time without reading it. `None` where the program is loaded once.
    pub(crate) kept: Option<Kept>,
}

/// The merged workers of an earlier load, whose files are the same now.
#[derive(Default)]
pub(crate) struct Kept {
    /// By package and path. A file that can't be understood is not among them.
    merged: BTreeMap<PackageId, HashMap<String, Arc<Merged>>>,
    /// Those of the load, in their order, with the place of their findings among all.
    pub(crate) loaded: Vec<(Arc<Merged>, Range<usize>)>,
}

impl Kept {
    fn of(&self, located: &WorkerFile) -> Option<&Arc<Merged>> {
        self.merged.get(&located.package)?.get(&located.path)
    }

    pub(crate) fn keep(&mut self, merged: &Arc<Merged>) {
        let WorkerFile { package, path, .. } = &merged.located;
        self.merged.entry(*package).or_default().insert(path.clone(), Arc::clone(merged));
    }

    fn forget(&mut self, path: &str) {
        self.merged.get_mut(&PackageId::PROGRAM).and_then(|merged| merged.remove(path));
    }
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
                Manifest::load_library(tree.as_ref(), found).unwrap_or_default()
            }
            true => Manifest::load(tree.as_ref(), found),
            false => Manifest::default(),
        };
        let program = Package::program(tree, manifest, source.work.as_ref(), &host, found);
        let packages = Packages::load(program, &host, found);
        let mut loading = Self {
            host,
            packages,
            model: None,
            workers: Workers::new(),
            complete: true,
            imports: BTreeMap::new(),
            seen: BTreeMap::new(),
            resolved: Mutex::default(),
            paths: BTreeMap::new(),
            names: BTreeMap::new(),
            kept: None,
        };
        let default = loading.packages.program().manifest.model.as_ref();
        loading.model = default.and_then(|node| loading.context(PackageId::PROGRAM).model_name(node, found));
        loading
    }

    /// Begins another time with the same manifest, libraries and list of files, where the texts of these worker files are
    /// others. Their packages may not depend on texts of workers, as those of a program without a manifest do.
    pub(crate) fn begin_again(&mut self, changed: &[String]) {
        self.workers.clear();
        self.imports.clear();
        self.seen.clear();
        self.paths.clear();
        self.complete = true;
        if let Some(kept) = &mut self.kept {
            kept.loaded.clear();
            for path in changed {
                kept.forget(path);
            }
        }
    }

    pub(crate) fn context(&self, package: PackageId) -> Context<'_> {
        let of = self.packages.get(package);
        Context { packages: &self.packages, package: of, host: &self.host, tree: of.tree.as_ref() }
    }

    /// The entry of a run.
    pub(crate) fn entry(&mut self, start: &Start, found: &mut Vec<Diagnostic>) -> Option<Entry> {
        let program = self.packages.program();
        let (reference, place) = match (start, &program.manifest.entry) {
            (Start::File(path), _) => return Some(Entry::Worker(program.layout.identify(path), None)),
            (Start::Entry(Some(reference)), _) => (reference.clone(), None),
            (Start::Entry(None), Some(entry)) => {
                (entry.as_text().unwrap_or_default().to_owned(), Some(entry.span.clone()))
            }
            (Start::Entry(None), None) => ("main".to_owned(), None),
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
            let looked = match &self.packages.program().manifest.file {
                Some(file) => format!("no `entry` in {}", file.path()),
                None => format!("no `entry` in {} or {}", MANIFESTS[0], MANIFESTS[1]),
            };
            let mut none = Diagnostic::error(codes::NO_ENTRY, "this folder has no entry").note(looked);
            none = match self.packages.program().is_library() {
                true => none.help("this is a library: select one of its workers with `--entry`"),
                false => none
                    .help("add a `main.worker`, or select a worker with `--entry`")
                    .help("`llm-do init NAME` creates a project in a new folder"),
            };
            if let Some(file) = lone_file(self.packages.program().tree.as_ref()) {
                none = none.help(format!("to run a worker file of this folder: `llm-do {file}`"));
            }
            none.notes.extend(error.notes);
            with_names(none, self.names(PackageId::PROGRAM))
        } else {
            let message = format!("the entry `{reference}` does not exist");
            let mut missing = Diagnostic::error(codes::ENTRY_MISSING, message);
            missing.notes = error.notes;
            with_nearest(missing, &reference, self.names(PackageId::PROGRAM))
        };
        found.push(missing.or_at(place.as_ref()));
        None
    }

    /// Loads the entry of a run. Returns its name if it can be understood.
    pub(crate) fn start(&mut self, entry: Entry, found: &mut Vec<Diagnostic>) -> Option<Arc<str>> {
        let (reference, function, place) = match entry {
            Entry::Worker(located, place) => return self.closure(vec![(located, place)], found).pop(),
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
        let effective = self.context(PackageId::PROGRAM).code(&located, function, place.as_ref(), found)?;
        let name = Arc::clone(&effective.definition.id);
        self.workers.insert(Arc::clone(&name), Arc::new(effective));
        Some(name)
    }

    /// Loads workers and all workers that their allowlists and imports name exactly, each file once; cycles are
    /// allowed. Returns the names of the requested workers that can be understood.
    ///
    /// It works in generations: all known workers are read and merged in parallel, and their references are the next
    /// generation. The result does not depend on the number of threads.
    pub(crate) fn closure(
        &mut self,
        wanted: Vec<(WorkerFile, Option<Span>)>,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<str>> {
        let asked: Vec<Arc<str>> = wanted.iter().map(|(located, _)| self.name_of(located)).collect();
        let mut generation = wanted;
        while !generation.is_empty() {
            let fresh: Vec<WorkerFile> = generation
                .into_iter()
                .filter(|(located, named)| self.is_new(located, named.as_ref(), found))
                .map(|(located, _)| located)
                .collect();
            let documents = in_parallel(fresh, |located| {
                if let Some(merged) = self.kept.as_ref().and_then(|kept| kept.of(&located)) {
                    return Ok(Read::Before(Arc::clone(merged)));
                }
                let tree = self.packages.get(located.package).tree.as_ref();
                front_matter::definition(tree, &located.path).map(|document| Read::Now(located, document))
            });
            let mut read = Vec::with_capacity(documents.len());
            for document in documents {
                match document {
                    Ok(document) => {
                        if let Read::Now(located, document) = &document {
                            self.admit_libraries(located.package, document, found);
                        }
                        read.push(document);
                    }
                    Err(error) => {
                        self.complete = false;
                        found.push(*error);
                    }
                }
            }
            let merged = in_parallel(read, |read| match read {
                Read::Now(located, document) => Arc::new(self.merge(located, &document)),
                Read::Before(merged) => merged,
            });
            generation = Vec::new();
            for merged in merged {
                let begin = found.len();
                found.extend(merged.found.iter().cloned());
                if let Some(kept) = &mut self.kept {
                    kept.keep(&merged);
                    kept.loaded.push((Arc::clone(&merged), begin..found.len()));
                }
                let located = &merged.located;
                let name = self.name_of(located);
                let mut known = Vec::new();
                for (import, (reference, span)) in merged.imports.iter().zip(&merged.imported) {
                    match import {
                        Ok(import) => {
                            if !self.has_seen(import) {
                                generation.push((import.clone(), Some(span.clone())));
                            }
                            known.push(import.clone());
                        }
                        Err(error) => {
                            self.unresolved(located.package, (**error).clone(), reference, span, found);
                        }
                    }
                }
                for (callee, reference, span) in &merged.callees {
                    match callee {
                        Ok(callee) if self.has_seen(callee) => {}
                        Ok(callee) => generation.push((callee.clone(), Some(span.clone()))),
                        Err(error) => {
                            self.unresolved(located.package, (**error).clone(), reference, span, found);
                        }
                    }
                }
                if !known.is_empty() {
                    self.imports.insert(Arc::clone(&name), known);
                }
                let callees = ["allow_workers", "imports", "toolsets"];
                self.complete &= merged.effective.as_ref().is_some_and(|it| !it.mistakes.concern(&callees));
                if let Some(effective) = &merged.effective {
                    self.workers.entry(name).or_insert_with(|| Arc::clone(effective));
                }
            }
        }
        asked.into_iter().filter(|name| self.workers.contains_key(name)).collect()
    }

    /// Whether a file of the program was loaded as a worker.
    pub(crate) fn has_loaded(&self, path: &str) -> bool {
        self.seen.get(&PackageId::PROGRAM).is_some_and(|seen| seen.contains(path))
    }

    fn has_seen(&self, located: &WorkerFile) -> bool {
        self.seen.get(&located.package).is_some_and(|seen| seen.contains(&located.path))
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

    /// Whether a file is new. Reports another file with the same ID.
    fn is_new(&mut self, located: &WorkerFile, named: Option<&Span>, found: &mut Vec<Diagnostic>) -> bool {
        if self.has_seen(located) {
            return false;
        }
        self.seen.entry(located.package).or_default().insert(located.path.clone());
        let name = self.name_of(located);
        match self.paths.get(&name) {
            Some(other) if other.path != located.path => {
                found.push(same_id(other, located, named, &self.packages));
                true
            }
            Some(_) => false,
            None => {
                self.paths.insert(name, located.clone());
                true
            }
        }
    }

    /// Merges one worker and resolves what it names.
    pub(crate) fn merge(&self, located: WorkerFile, document: &Document) -> Merged {
        let mut found = Vec::new();
        let Reading { effective, callees, imports: imported } =
            self.context(located.package).worker(&located, document, &mut found);
        let imports: Vec<Resolved> =
            imported.iter().map(|(reference, _)| self.resolve(located.package, reference)).collect();
        let known: Vec<WorkerFile> =
            imports.iter().filter_map(|import| import.as_ref().ok().cloned()).collect();
        let exact = callees.into_iter().enumerate().filter(|(_, (reference, _))| !is_glob(reference));
        let (mut calls, mut resolved) = (Vec::new(), Vec::new());
        for (at, (reference, span)) in exact {
            let callee = or_imported(self.resolve(located.package, &reference), &known, &reference);
            calls.extend(callee.as_ref().ok().map(|callee| (self.name_of(callee), at)));
            resolved.push((callee, reference, span));
        }
        let effective = effective.map(|effective| Arc::new(Effective { calls, ..effective }));
        Merged { located, effective, imported, imports, callees: resolved, found }
    }

    fn name_of(&self, located: &WorkerFile) -> Arc<str> {
        self.packages.get(located.package).global_id(&located.id)
    }

    /// Without a manifest, libraries cannot be declared. The libraries in imports then count as dependencies.
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

    fn unresolved(
        &mut self,
        from: PackageId,
        error: Diagnostic,
        reference: &str,
        span: &Span,
        found: &mut Vec<Diagnostic>,
    ) {
        self.complete = false;
        if self.packages.is_broken(reference) {
            return;
        }
        let error = match error.span {
            Some(_) => error.related("it is named here", span),
            None => error.at(span),
        };
        found.push(match error.code {
            codes::WORKER_NOT_FOUND if !reference.contains(':') => {
                with_nearest(error, reference, self.names(from))
            }
            _ => error,
        });
    }

    fn names(&mut self, from: PackageId) -> &[String] {
        let packages = &self.packages;
        self.names.entry(from).or_insert_with(|| packages.names(from))
    }

    /// `bindings` of the manifest are values for the entry's parameters: each must have one.
    pub(crate) fn check_bindings(&self, entry: &Effective, found: &mut Vec<Diagnostic>) {
        if entry.mistakes.concern(&["parameters", "schema_in_ref"]) {
            return;
        }
        let entry = &entry.definition;
        for (name, node) in &self.packages.program().manifest.bindings {
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
}

/// A worker file in the root that is not the entry.
fn lone_file(tree: &dyn SourceTree) -> Option<String> {
    let mut files = tree.list("").ok()?.into_iter();
    files.find(|(name, kind)| *kind == Kind::File && name.ends_with(".worker")).map(|(name, _)| name)
}

pub(crate) type Resolved = Result<WorkerFile, Box<Diagnostic>>;

/// A worker of a generation, before it is merged.
enum Read {
    Now(WorkerFile, Document),
    /// It was merged in an earlier load.
    Before(Arc<Merged>),
}

/// A worker, merged, with what it names.
pub(crate) struct Merged {
    pub(crate) located: WorkerFile,
    /// `None` if the file can't be understood as a worker at all.
    pub(crate) effective: Option<Arc<Effective>>,
    /// `imports.workers`, with places.
    imported: Vec<(String, Span)>,
    /// The result for each of them.
    imports: Vec<Resolved>,
    /// The result for each exact reference of the allowlist, with its place.
    callees: Vec<(Resolved, String, Span)>,
    pub(crate) found: Vec<Diagnostic>,
}

/// Completes the findings of a program: one that only a migration makes readable needs no others, and errors that a
/// migration cures say so.
pub(crate) fn finish(source: &Source, found: &mut Vec<Diagnostic>) {
    finish_knowing(source, Cures::Unasked, found);
}

/// The same where it is known already what a migration cures.
pub(crate) fn finish_knowing(source: &Source, cures: Cures, found: &mut Vec<Diagnostic>) -> Cures {
    if found.iter().any(|finding| finding.code == codes::OLDER_MANIFEST) {
        found.retain(|finding| [codes::CUT_OFF, codes::OLDER_MANIFEST].contains(&finding.code));
    }
    let cures = if cures == Cures::Nothing { cures } else { migrate::add_hints(source, found) };
    tidy(found);
    cures
}

/// A partly done change may lack the manifest and its restrictions.
fn cut_off(tree: &dyn SourceTree) -> Diagnostic {
    Diagnostic::error(codes::CUT_OFF, "a change to this folder was interrupted and is only partly done")
        .at(&Span::whole(&front_matter::unread(tree, MOVES)))
        .help("run `llm-do migrate --write` to finish it")
}

/// Resolves a reference by the rules of its package, else among the worker's imports.
pub(crate) fn or_imported(resolved: Resolved, imports: &[WorkerFile], reference: &str) -> Resolved {
    resolved.or_else(|error| {
        let imported = imports.iter().find(|import| import.id == reference);
        match (error.code == codes::WORKER_NOT_FOUND, imported) {
            (true, Some(import)) => Ok(import.clone()),
            _ => Err(error),
        }
    })
}

/// The finding for two files with one ID in one program.
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

/// Adds all names if there are few.
fn with_names(error: Diagnostic, names: &[String]) -> Diagnostic {
    match names {
        [] => error,
        few if few.len() <= 12 => error.help(format!("available workers: {}", few.join(", "))),
        many => error.help(format!("run `llm-do list` to see all {} workers", many.len())),
    }
}
