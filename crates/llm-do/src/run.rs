//! A run on this machine: its records are a journal in a folder.

use llm_do_core::{
    driver::Driver,
    engine::{End, Halt},
    function::StandIns,
    journal::RunStatus,
    launch::{Counts, LaunchReport},
    ledger::Left,
    model::Usage,
    origin::Origins,
};
use llm_do_host::RunEnd;
use llm_do_runs::LocalDriver;
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A run that is about to start. Its journal exists.
pub struct Run {
    run: llm_do_host::Run,
    /// The driver that keeps the journal, for those that wrap it.
    local: Arc<LocalDriver>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// ID of the run.
    pub run: Arc<str>,
    /// Folder of its journal.
    pub dir: PathBuf,
    /// The status of the run.
    pub status: RunStatus,
    /// The output or the failure; for a suspended run the questions it waits for.
    pub end: End,
    /// The origins of the output or the failure.
    pub origins: Origins,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// The time from the first record to the last.
    pub took: Duration,
    /// Counts from the journal.
    pub counts: Counts,
    /// The rest of the operator's budget, if there is one.
    pub left: Option<Left>,
    /// The journal could not be written to its end, or the run was interrupted.
    pub halt: Option<Halt>,
    /// The message of the last request that a budget over time refused. The run says little about its program then,
    /// whether it has ended with that failure or a worker has handled it.
    pub over_budget: Option<Arc<str>>,
}

impl Report {
    /// The report of a run whose journal is in that folder.
    pub(crate) fn of(end: RunEnd, dir: &Path) -> Self {
        let RunEnd { run, report, over_budget } = end;
        let LaunchReport { status, end, origins, usage, counts, took, left, halt } = report;
        let dir = dir.to_path_buf();
        Self { run, dir, status, end, origins, usage, took, counts, left, halt, over_budget }
    }
}

impl Deref for Run {
    type Target = llm_do_host::Run;

    fn deref(&self) -> &Self::Target {
        &self.run
    }
}

impl Run {
    pub(crate) fn new(run: llm_do_host::Run, local: Arc<LocalDriver>) -> Self {
        Self { run, local }
    }

    /// Returns the same run over another driver, which wraps the one that keeps its journal: for a host that makes
    /// calls in other processes, or that watches the steps.
    #[must_use]
    pub fn over(self, driver: impl FnOnce(Arc<LocalDriver>) -> Arc<dyn Driver>) -> Self {
        let driver = driver(Arc::clone(&self.local));
        Self { run: self.run.over(driver), ..self }
    }

    /// Returns the same run, which writes its first record and then waits for `until` before it does anything else. The
    /// wait is no working time.
    #[must_use]
    pub fn held(self, until: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { run: self.run.held(until), ..self }
    }

    /// Returns the same run on another date, for templates: a test runs on the date of its recording.
    #[must_use]
    pub fn dated(self, date: Arc<str>) -> Self {
        Self { run: self.run.dated(date), ..self }
    }

    /// Returns the same run with replacements of functions.
    #[must_use]
    pub fn with_stand_ins(self, stand_ins: Arc<dyn StandIns>) -> Self {
        Self { run: self.run.with_stand_ins(stand_ins), ..self }
    }

    /// Returns the folder of the run's journal.
    pub fn dir(&self) -> &Path {
        self.local.log().dir()
    }

    /// Runs to the end, and closes the journal however the run ends.
    pub fn finish(self) -> impl Future<Output = Report> {
        let dir = self.local.log().shared_dir();
        drop(self.local);
        let running = self.run.finish();
        async move { Report::of(running.await, &dir) }
    }
}
