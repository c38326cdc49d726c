//! The program that the analyses look at.

use super::exposed::Exposed;
use crate::{
    diagnostics::Diagnostic, effective::Effective, load_options::LoadOptions, loading::Workers,
    package::Packages, parallel::in_parallel, resolve::WorkerFile,
};
use llm_do_core::{authority::Place, send::MaybeSync};
use std::sync::Arc;

/// A program with its workers, also those with errors.
pub(crate) struct Scope<'a> {
    pub(super) packages: &'a Packages,
    pub(super) workers: &'a Workers,
    pub(super) host: &'a LoadOptions,
    /// The Python tools of its workers.
    pub(super) exposed: Exposed,
    /// The entry, if it loads.
    pub(super) entry: Option<&'a Arc<str>>,
    /// All workers of the project; empty for a single file, which is checked with its callees.
    pub(super) scanned: &'a [WorkerFile],
    /// Whether `workers` has all calls: every reference and every worker file was understood.
    pub(super) complete: bool,
    /// For a single file: the folder that it works on.
    pub(super) work: Option<&'a Place>,
}

impl<'a> Scope<'a> {
    /// The workers of a run, whose Python is not inspected yet.
    pub(crate) fn of_run(
        packages: &'a Packages,
        workers: &'a Workers,
        host: &'a LoadOptions,
        entry: &'a Arc<str>,
        work: Option<&'a Place>,
    ) -> Self {
        let exposed = Exposed::by(workers.values(), None);
        Self { packages, workers, host, exposed, entry: Some(entry), scanned: &[], complete: true, work }
    }

    /// Loaded workers with their inspected Python.
    pub(crate) fn of_code(packages: &'a Packages, workers: &'a Workers, host: &'a LoadOptions) -> Self {
        let exposed = Exposed::by(workers.values(), host.code.as_deref());
        Self { packages, workers, host, exposed, entry: None, scanned: &[], complete: true, work: None }
    }

    /// Loaded workers, whose Python is not inspected.
    pub(crate) fn of_prompts(packages: &'a Packages, workers: &'a Workers, host: &'a LoadOptions) -> Self {
        let exposed = Exposed::by(workers.values(), None);
        Self { packages, workers, host, exposed, entry: None, scanned: &[], complete: true, work: None }
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
        found.extend(in_parallel(workers, look).into_iter().flatten());
    }
}
