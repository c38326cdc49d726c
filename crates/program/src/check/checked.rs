//! A program with its findings, which are updated when workers are edited.
//!
//! Findings are stored by their dependencies: the files beside the workers, one worker alone, the calls between
//! workers, or the program as a whole. A first check computes all of them. After an edit, those that do not depend on
//! the edited text stay. Both use the same code, so that they give the same findings.

use super::{
    Files, exports,
    exposed::Exposed,
    flow::Flow,
    graph::{self, Graph},
    of_program, of_worker,
    scope::Scope,
};
use crate::{
    diagnostics::Diagnostic,
    effective::Effective,
    load_options::LoadOptions,
    loading::{Edit, Entry, Loading},
    manifest::LIBRARY,
    parallel::in_parallel,
    resolve::WorkerFile,
    source::{Kind, SourceTree, Stamp, folder_of, join},
    start::{Source, Start},
};
use llm_do_core::worker::{CodeModule, Language};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

/// Keys of a worker that affect no other worker and no analysis of the whole program.
const OF_THE_WORKER_ALONE: [&str; 8] = [
    "description",
    "model",
    "compatible_models",
    "model_settings",
    "max_context_tokens",
    "limits",
    "locked",
    "instructions",
];

/// Keys that decide which workers a worker may call.
const OF_CALLS: [&str; 4] = ["allow_workers", "imports", "toolsets", "code"];

/// The analyses that an edit concerns, in addition to those of the edited worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    Worker,
    Program,
    /// The analyses of the program, and of its calls.
    Calls,
}

/// The effect of an edit.
pub(crate) struct Change {
    /// True if keys of a worker have changed.
    pub(crate) keys: bool,
    /// True if the program was analysed as a whole.
    pub(crate) program: bool,
}

/// A program with its findings.
pub(crate) struct Checked {
    pub(crate) source: Source,
    pub(crate) loading: Loading,
    /// The name of the worker that a run starts with, even if the worker has errors.
    entry: Option<Arc<str>>,
    /// The workers that a service starts runs with. Those of a library run in other programs.
    exported: Vec<Arc<str>>,
    /// True if other programs start its workers, so that it needs no entry.
    is_for_others: bool,
    /// The workers that belong to the program even if no worker calls them, sorted.
    roots: Vec<WorkerFile>,
    pub(crate) files: Files,
    pub(crate) exposed: Exposed,
    graph: Graph,
    of_files: Vec<Diagnostic>,
    /// The findings about each worker by itself.
    of_workers: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    of_program: Vec<Diagnostic>,
    of_calls: Vec<Diagnostic>,
    pub(crate) flow: Flow,
}

impl Checked {
    /// Reads a program and runs all analyses. Returns `None` if the options cancel it.
    pub(crate) fn read(source: Source, host: LoadOptions) -> Option<Self> {
        let source = source.listed();
        let mut found = Vec::new();
        let mut loading = Loading::begin(&source, host, &mut found);
        let is_for_others = loading.is_for_others(&source.start);
        let entry = if is_for_others { None } else { loading.entry(&source.start, &mut found) };
        let program = loading.packages.program();
        let scanned = if source.is_folder() { program.scan() } else { Vec::new() };
        let mut roots = scanned.clone();
        // Load the workers of a run first, so that their findings refer to the place that names them.
        let named = match &entry {
            Some(Entry::Worker(located, _)) => {
                roots.push(located.clone());
                Some(loading.name_of(located))
            }
            _ => None,
        };
        let started = entry.and_then(|entry| loading.start(entry, &mut found));
        let exported = exports(loading.packages.program(), &mut found);
        for (_, library) in loading.packages.iter().skip(1) {
            // Only the workers that the program reaches are loaded, but each must exist.
            exports(library, &mut found);
        }
        roots.extend(exported.iter().map(|(located, _)| located.clone()));
        roots.sort();
        let started_by_services =
            source.start == Start::Entry(None) && !loading.packages.program().is_library();
        let names =
            exported.iter().filter(|_| started_by_services).map(|(located, _)| loading.name_of(located));
        let names = names.collect();
        let of_scan = scanned.iter().map(|located| (located.clone(), None));
        loading.closure(exported.into_iter().chain(of_scan).collect(), &mut found);
        if loading.host.cancel.is_wanted() {
            return None;
        }
        loading.packages.compare_with_lock(&mut found);
        let files = Files::of(&source, loading.packages.program(), scanned, &mut found);
        let mut checked = Self {
            source,
            loading,
            entry: named.or(started),
            exported: names,
            is_for_others,
            roots,
            files,
            exposed: Exposed::default(),
            graph: Graph::default(),
            of_files: found,
            of_workers: BTreeMap::new(),
            of_program: Vec::new(),
            of_calls: Vec::new(),
            flow: Flow::default(),
        };
        let all = checked.loading.workers.values().cloned().collect();
        checked.analyse(all, Concern::Calls);
        // An edit of a checked program is never cut short: what it leaves out would be missing later.
        match mem::take(&mut checked.loading.host.cancel).is_wanted() {
            true => None,
            false => Some(checked),
        }
    }

    /// Applies new texts of worker files. Returns `None` if the program must be read again; nothing has changed then.
    pub(crate) fn edit(&mut self, paths: &[String]) -> Option<Change> {
        let is_root = |file: &WorkerFile| self.roots.binary_search(file).is_ok();
        let load_again = |path: &String| self.loading.load_again(path, is_root);
        let edits: Vec<Edit> = paths.iter().map(load_again).collect::<Option<_>>()?;
        let concern = edits.iter().map(|edit| self.concern(edit)).max()?;
        let keys = edits.iter().any(|edit| !edit.has_same_keys());
        let mut edited = Vec::with_capacity(edits.len());
        for edit in &edits {
            let name = self.loading.replace(edit);
            self.of_workers.remove(&name);
            edited.extend(edit.new.effective.clone());
        }
        self.analyse(edited, concern);
        Some(Change { keys, program: concern > Concern::Worker })
    }

    /// Returns the analyses whose findings, or their places, may differ after an edit.
    fn concern(&self, Edit { old, new, .. }: &Edit) -> Concern {
        let (was, is) = match (&old.effective, &new.effective) {
            (Some(was), Some(is)) if was.mistakes == is.mistakes && old.complete == new.complete => (was, is),
            (None, None) => return Concern::Worker,
            _ => return Concern::Calls,
        };
        let file = was.keys.span.file();
        let lie_there = |found: &[Diagnostic]| found.iter().any(|finding| finding.is_about(file));
        let differ = |of: &dyn Fn(&str) -> bool| values(was, of) != values(is, of);
        if was.definition.code.is_some()
            || is.definition.code.is_some()
            || differ(&|key| OF_CALLS.contains(&key))
            || lie_there(&self.of_calls)
        {
            Concern::Calls
        } else if differ(&|key| !OF_THE_WORKER_ALONE.contains(&key)) || lie_there(&self.of_program) {
            Concern::Program
        } else {
            Concern::Worker
        }
    }

    /// Runs the analyses of these workers, and the others that are concerned.
    fn analyse(&mut self, workers: Vec<Arc<Effective>>, concern: Concern) {
        let Loading { packages, workers: all, host, .. } = &self.loading;
        self.exposed.add(workers.iter().map(AsRef::as_ref), host.code.as_deref());
        let entry = self.entry.as_ref().filter(|entry| all.contains_key(*entry));
        let exported: Vec<Arc<str>> =
            self.exported.iter().filter(|exported| all.contains_key(*exported)).cloned().collect();
        let scope = Scope {
            entry,
            exported: &exported,
            scanned: &self.files.scanned,
            complete: self.loading.is_complete() && (entry.is_some() || self.is_for_others),
            work: self.source.work.as_ref(),
            ..Scope::of(packages, all, host, &self.exposed)
        };
        if concern >= Concern::Calls {
            let graph = mem::take(&mut self.graph);
            self.graph = graph.after(&workers, all);
        }
        let analysed =
            in_parallel(&host.cancel, workers, |it| (Arc::clone(&it.definition.id), of_worker(&scope, &it)));
        self.of_workers.extend(analysed.into_iter().filter(|(_, found)| !found.is_empty()));
        if host.cancel.is_wanted() {
            return;
        }
        if concern >= Concern::Program {
            self.of_program.clear();
            self.flow = of_program(&scope, &self.source, &self.files, &mut self.of_program);
        }
        if concern >= Concern::Calls {
            self.of_calls.clear();
            graph::check(&scope, &self.graph, &self.files.cases, &mut self.of_calls);
        }
    }

    /// Returns the files of code beside those that the workers name, relative to the root: they may import each other.
    pub(crate) fn code_files(&self) -> Vec<String> {
        let program = self.loading.packages.program();
        let workers = self.loading.workers.values();
        let levels = workers.flat_map(|worker| worker.definition.tools.iter());
        let own = levels.filter(|level| level.package.root == *program.tree.root());
        let files = own.flat_map(|level| &level.modules).filter_map(|module| match &module.module {
            CodeModule::File(place) => place.rest(program.tree.root()).map(folder_of),
            CodeModule::Installed { .. } => None,
        });
        let folders: BTreeSet<&str> = files.collect();
        let listed = folders.into_iter().flat_map(|folder| {
            let entries = program.tree.list(folder).unwrap_or_default().into_iter();
            let code =
                entries.filter(|(name, kind)| *kind == Kind::File && Language::of_file(name).is_some());
            code.map(move |(name, _)| join(folder, &name)).collect::<Vec<_>>()
        });
        listed.collect()
    }

    /// Returns the manifests and workers of libraries that were read, with their states.
    pub(crate) fn files_of_libraries(&self) -> Vec<(Arc<dyn SourceTree>, String, Option<Stamp>)> {
        let packages = self.loading.packages.iter().skip(1);
        let files = packages.flat_map(|(id, package)| {
            let workers = self.loading.files_of(id).map(str::to_owned);
            let paths = workers.chain([LIBRARY.to_owned()]).collect::<Vec<_>>();
            paths.into_iter().map(|path| (Arc::clone(&package.tree), path))
        });
        files.map(|(tree, path)| (Arc::clone(&tree), path.clone(), tree.stamp(&path))).collect()
    }

    /// Returns all findings, not yet sorted or completed with hints.
    pub(crate) fn findings(&self) -> Vec<Diagnostic> {
        let mut found = self.of_files.clone();
        found.extend(self.loading.findings());
        found.extend(
            self.of_workers.values().flatten().chain(&self.of_program).chain(&self.of_calls).cloned(),
        );
        found
    }
}

/// Returns the values of some keys of a worker.
fn values(worker: &Effective, of: impl Fn(&str) -> bool) -> Vec<(&str, Value)> {
    let entries = worker.keys.entries().iter().filter(|entry| of(&entry.key));
    entries.map(|entry| (entry.key.as_str(), entry.value.to_json())).collect()
}
