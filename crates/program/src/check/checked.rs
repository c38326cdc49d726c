//! A program that was read, with its findings, which are brought up to date when workers are edited.
//!
//! Findings are kept by what they depend on: on the files beside the workers, on one worker alone, or on the program as a
//! whole. A first check works out all of them; after an edit, those that depend on something else stay. Both are the same
//! code, so that they find the same.

use super::{Files, exports, exposed::Exposed, flow::Flow, of_program, of_worker, scope::Scope};
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
use std::{collections::BTreeMap, sync::Arc};

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
    /// The workers that belong to the program even if no worker calls them, sorted.
    roots: Vec<WorkerFile>,
    files: Files,
    exposed: Exposed,
    of_files: Vec<Diagnostic>,
    /// What each worker has by itself, if it has anything.
    of_workers: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    of_program: Vec<Diagnostic>,
    pub(crate) flow: Flow,
}

impl Checked {
    /// Reads a program and runs all analyses.
    pub(crate) fn read(source: Source, host: LoadOptions) -> Self {
        let source = source.listed();
        let mut found = Vec::new();
        let mut loading = Loading::begin(&source, host, &mut found);
        let program = loading.packages.program();
        let entry = if program.is_library() && source.start == Start::Entry(None) {
            None // It has exports instead.
        } else {
            loading.entry(&source.start, &mut found)
        };
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
        let of_scan = scanned.iter().map(|located| (located.clone(), None));
        loading.closure(exported.into_iter().chain(of_scan).collect(), &mut found);
        loading.packages.compare_with_lock(&mut found);
        let files = Files::of(&source, loading.packages.program(), scanned, &mut found);
        let mut checked = Self {
            source,
            loading,
            entry: named.or(started),
            roots,
            files,
            exposed: Exposed::default(),
            of_files: found,
            of_workers: BTreeMap::new(),
            of_program: Vec::new(),
            flow: Flow::default(),
        };
        let all = checked.loading.workers.values().cloned().collect();
        checked.analyse(all, true);
        checked
    }

    /// Takes in other texts of files of workers. `None` where the program has to be read again; then nothing has changed.
    pub(crate) fn edit(&mut self, paths: &[String]) -> Option<Change> {
        let is_root = |file: &WorkerFile| self.roots.binary_search(file).is_ok();
        let load_again = |path: &String| self.loading.load_again(path, is_root);
        let edits: Vec<Edit> = paths.iter().map(load_again).collect::<Option<_>>()?;
        let change = Change {
            keys: edits.iter().any(|edit| !edit.has_same_keys()),
            program: edits.iter().any(|edit| self.concerns_program(edit)),
        };
        let mut edited = Vec::with_capacity(edits.len());
        for edit in &edits {
            let name = self.loading.replace(edit);
            self.of_workers.remove(&name);
            edited.extend(edit.new.effective.clone());
        }
        self.analyse(edited, change.program);
        Some(change)
    }

    /// Whether the analyses of the whole program may find something else after an edit, or the same at another place.
    fn concerns_program(&self, Edit { old, new, .. }: &Edit) -> bool {
        let is_same = match (&old.effective, &new.effective) {
            (Some(old), Some(new)) => {
                let is_code = old.definition.code.is_some() || new.definition.code.is_some();
                !is_code && old.mistakes == new.mistakes && seen_by_others(old) == seen_by_others(new)
            }
            (None, None) => true,
            _ => false,
        };
        let lies_in = |finding: &Diagnostic| {
            old.effective.as_ref().is_some_and(|old| finding.is_about(old.keys.span.file()))
        };
        !is_same || old.complete != new.complete || self.of_program.iter().any(lies_in)
    }

    /// Analyses these workers, and if asked the program as a whole.
    fn analyse(&mut self, workers: Vec<Arc<Effective>>, whole: bool) {
        let Loading { packages, workers: all, host, .. } = &self.loading;
        self.exposed.add(workers.iter().map(AsRef::as_ref), host.code.as_deref());
        let entry = self.entry.as_ref().filter(|entry| all.contains_key(*entry));
        let scope = Scope {
            entry,
            scanned: &self.files.scanned,
            complete: self.loading.is_complete() && (entry.is_some() || packages.program().is_library()),
            work: self.source.work.as_ref(),
            ..Scope::of(packages, all, host, &self.exposed)
        };
        let analysed = in_parallel(workers, |it| (Arc::clone(&it.definition.id), of_worker(&scope, &it)));
        self.of_workers.extend(analysed.into_iter().filter(|(_, found)| !found.is_empty()));
        if whole {
            self.of_program.clear();
            self.flow = of_program(&scope, &self.source, &self.files, &mut self.of_program);
        }
    }

    /// All findings, unfinished.
    pub(crate) fn findings(&self) -> Vec<Diagnostic> {
        let mut found = self.of_files.clone();
        found.extend(self.loading.findings());
        found.extend(self.of_workers.values().flatten().chain(&self.of_program).cloned());
        found
    }
}

/// The keys of a worker that other workers or the analyses of the program may depend on.
fn seen_by_others(worker: &Effective) -> Vec<(&str, Value)> {
    let entries = worker.keys.entries().iter().map(|entry| (entry.key.as_str(), entry.value.to_json()));
    entries.filter(|(key, _)| !OF_THE_WORKER_ALONE.contains(key)).collect()
}
