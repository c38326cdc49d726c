//! A program that was read, with its findings, which are brought up to date when workers are edited.
//!
//! Findings are kept by what they depend on: on the files beside the workers, on one worker alone, on the calls between
//! workers, or on the program as a whole. A first check works out all of them. After an edit, those that depend on something
//! else stay. Both are the same code, so that they find the same.

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
    parallel::in_parallel,
    resolve::WorkerFile,
    start::{Source, Start},
};
use serde_json::Value;
use std::{collections::BTreeMap, mem, sync::Arc};

/// Keys of a worker that say nothing to any other worker, nor to an analysis of the whole program.
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

/// The analyses that an edit concerns, besides those of the edited worker by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    Worker,
    Program,
    /// Those of the program, and of its calls.
    Calls,
}

/// What an edit has changed.
pub(crate) struct Change {
    /// Whether keys of a worker are other ones.
    pub(crate) keys: bool,
    /// Whether the program was analysed as a whole.
    pub(crate) program: bool,
}

/// A program that was read, with its findings.
pub(crate) struct Checked {
    pub(crate) source: Source,
    pub(crate) loading: Loading,
    /// The name of the worker that a run starts with, whether it can be understood or not.
    entry: Option<Arc<str>>,
    /// The workers that a service starts runs with. Those of a library run in other programs.
    exported: Vec<Arc<str>>,
    /// Whether others start its workers, and it needs no entry.
    is_for_others: bool,
    /// The workers that belong to the program even if no worker calls them, sorted.
    roots: Vec<WorkerFile>,
    files: Files,
    exposed: Exposed,
    graph: Graph,
    of_files: Vec<Diagnostic>,
    /// What each worker has by itself, if it has anything.
    of_workers: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    of_program: Vec<Diagnostic>,
    of_calls: Vec<Diagnostic>,
    pub(crate) flow: Flow,
}

impl Checked {
    /// Reads a program and runs all analyses.
    pub(crate) fn read(source: Source, host: LoadOptions) -> Self {
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
        checked
    }

    /// Takes in other texts of files of workers. `None` where the program has to be read again; then nothing has changed.
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

    /// The analyses that may find something else after an edit, or the same at another place.
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

    /// Analyses these workers, and what else is concerned.
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
        let analysed = in_parallel(workers, |it| (Arc::clone(&it.definition.id), of_worker(&scope, &it)));
        self.of_workers.extend(analysed.into_iter().filter(|(_, found)| !found.is_empty()));
        if concern >= Concern::Program {
            self.of_program.clear();
            self.flow = of_program(&scope, &self.source, &self.files, &mut self.of_program);
        }
        if concern >= Concern::Calls {
            self.of_calls.clear();
            graph::check(&scope, &self.graph, &self.files.cases, &mut self.of_calls);
        }
    }

    /// All findings, unfinished.
    pub(crate) fn findings(&self) -> Vec<Diagnostic> {
        let mut found = self.of_files.clone();
        found.extend(self.loading.findings());
        found.extend(
            self.of_workers.values().flatten().chain(&self.of_program).chain(&self.of_calls).cloned(),
        );
        found
    }
}

/// The values of some keys of a worker.
fn values(worker: &Effective, of: impl Fn(&str) -> bool) -> Vec<(&str, Value)> {
    let entries = worker.keys.entries().iter().filter(|entry| of(&entry.key));
    entries.map(|entry| (entry.key.as_str(), entry.value.to_json())).collect()
}
