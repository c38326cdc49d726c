//! The program that the analyses read.

use super::exposed::Exposed;
use crate::{
    diagnostics::Diagnostic, effective::Effective, load_options::LoadOptions, loading::Workers,
    package::Packages, parallel::in_parallel, resolve::WorkerFile,
};
use llm_do_core::{authority::Place, send::MaybeSync, toolset::ToolsetKind};
use std::{collections::BTreeMap, sync::Arc};

/// A program with its workers, also those with errors.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    pub(super) packages: &'a Packages,
    pub(super) workers: &'a Workers,
    pub(super) host: &'a LoadOptions,
    /// The Python tools of its workers.
    pub(super) exposed: &'a Exposed,
    /// The names of built-in tools, each with its toolset.
    pub(super) reserved: BTreeMap<&'static str, &'a Arc<dyn ToolsetKind>>,
    /// The entry, if it loads.
    pub(super) entry: Option<&'a Arc<str>>,
    /// The workers that a service starts runs with: those that the manifest exports.
    pub(super) exported: &'a [Arc<str>],
    /// All workers of the project; empty for a single file, which is checked with its callees.
    pub(super) scanned: &'a [WorkerFile],
    /// True if `workers` has all calls: every reference and every worker file was understood.
    pub(super) complete: bool,
    /// The folder that a single file works on.
    pub(super) work: Option<&'a Place>,
}

impl<'a> Scope<'a> {
    /// Creates a scope of loaded workers, for analyses that need no entry.
    pub(crate) fn of(
        packages: &'a Packages,
        workers: &'a Workers,
        host: &'a LoadOptions,
        exposed: &'a Exposed,
    ) -> Self {
        let named = |kind: &'a Arc<dyn ToolsetKind>| {
            kind.tools().iter().chain(kind.rule_names()).map(move |name| (*name, kind))
        };
        let reserved = host.toolsets.kinds().flat_map(named).collect();
        let (entry, exported, scanned) = (None, [].as_slice(), [].as_slice());
        let (complete, work) = (true, None);
        Self { packages, workers, host, exposed, reserved, entry, exported, scanned, complete, work }
    }

    /// Returns the workers that runs start with, if they load, each once.
    pub(super) fn roots(&self) -> impl Iterator<Item = &'a Arc<str>> {
        let entry = self.entry;
        let exported = self.exported.iter().filter(move |exported| Some(*exported) != entry);
        entry.into_iter().chain(exported)
    }

    /// Runs an analysis for each worker, and collects its findings in order.
    pub(super) fn each(
        &self,
        found: &mut Vec<Diagnostic>,
        look: impl Fn(&Effective, &mut Vec<Diagnostic>) + MaybeSync,
    ) {
        let workers: Vec<&Effective> = self.workers.values().map(AsRef::as_ref).collect();
        let look = |effective| {
            let mut found = Vec::new();
            look(effective, &mut found);
            found
        };
        found.extend(in_parallel(&self.host.cancel, workers, look).into_iter().flatten());
    }
}
