//! A run on this machine: a launch over a journal, and its report.

use crate::counting::Counting;
use llm_do_core::{
    driver::Driver,
    engine::{End, Halt},
    function::StandIns,
    journal::RunStatus,
    launch::{Counts, Launch, LaunchReport, Tally},
    ledger::Left,
    model::Usage,
    origin::Origins,
};
use llm_do_host::{Canceller, EventSink, Interjector, Said, Stopper};
use llm_do_runs::LocalDriver;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

/// A run that is about to start. Its journal exists.
pub struct Run {
    driver: Arc<LocalDriver>,
    launch: Launch,
    id: Arc<str>,
    dir: Arc<Path>,
}

/// A handle that takes messages for the conversation of a run's entry, and records them. It does not keep the run's
/// journal open.
pub struct Inbox(Weak<LocalDriver>);

impl Inbox {
    /// Records a message. `now`: the message is for the current answer. Returns false if the run is over.
    ///
    /// # Errors
    /// The message can't be recorded.
    pub fn queue(&self, said: Said, now: bool) -> Result<bool, Halt> {
        match self.0.upgrade() {
            Some(driver) => driver.queue(said, now).map(|()| true),
            None => Ok(false),
        }
    }
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

impl Run {
    pub(crate) fn new(driver: Arc<LocalDriver>, launch: Launch) -> Self {
        let (id, dir) = (Arc::clone(driver.log().id()), driver.log().shared_dir());
        Self { driver, launch, id, dir }
    }

    /// Returns the same run over another driver, which wraps the one that keeps its journal: for a host that makes
    /// calls in other processes, or that watches the steps.
    #[must_use]
    pub fn over(mut self, driver: impl FnOnce(Arc<LocalDriver>) -> Arc<dyn Driver>) -> Self {
        self.launch.context.driver = driver(Arc::clone(&self.driver));
        self
    }

    /// Returns the same run, which writes its first record and then waits for `until` before it does anything else. The
    /// wait is no working time.
    #[must_use]
    pub fn held(mut self, until: impl Future<Output = ()> + Send + 'static) -> Self {
        self.launch.held = Some(Box::pin(until));
        self
    }

    /// Returns the same run on another date, for templates: a test runs on the date of its recording.
    #[must_use]
    pub fn dated(mut self, date: Arc<str>) -> Self {
        self.launch.context.date = date;
        self
    }

    /// Returns the same run with replacements of functions.
    #[must_use]
    pub fn with_stand_ins(mut self, stand_ins: Arc<dyn StandIns>) -> Self {
        self.launch.context.stand_ins = Some(stand_ins);
        self
    }

    /// Returns true if the output of the entry has a type other than text.
    pub fn has_typed_output(&self) -> bool {
        self.launch.entry.returns.is_some()
    }

    /// Returns the date that templates see.
    pub fn date(&self) -> &Arc<str> {
        &self.launch.context.date
    }

    /// Returns the ID of the run.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the folder of the run's journal.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a handle that ends the run.
    pub fn canceller(&self) -> Canceller {
        self.driver.canceller()
    }

    /// Returns a handle that stops an answer of a conversation.
    pub fn stopper(&self) -> Stopper {
        self.driver.stopper()
    }

    /// Returns a handle that adds a message to a conversation while its answer is made.
    pub fn interjector(&self) -> Interjector {
        self.driver.interjector()
    }

    /// Returns a handle that takes messages for the entry's conversation.
    pub fn inbox(&self) -> Inbox {
        Inbox(Arc::downgrade(&self.driver))
    }

    /// Runs to the end, and closes the journal however the run ends.
    pub fn finish(self) -> impl Future<Output = Report> {
        let Self { driver, launch, id, dir } = self;
        let spending = launch.context.spending.clone();
        // Boxed for the sake of futures that await this one: see `Launch::run_within`.
        let running = Box::pin(launch.run_within(|call| async move { driver.gathering(call).await }));
        async move {
            let LaunchReport { status, end, origins, usage, counts, took, left, halt } = running.await;
            let dir = dir.to_path_buf();
            let over_budget = spending.and_then(|spending| spending.refusal());
            Report { run: id, dir, status, end, origins, usage, took, counts, left, halt, over_budget }
        }
    }
}

/// Makes a driver count its records before it passes them to the listener.
pub(crate) fn counted(driver: LocalDriver, events: Option<Arc<dyn EventSink>>) -> (LocalDriver, Arc<Tally>) {
    let tally = Arc::<Tally>::default();
    let counting = Counting { tally: Arc::clone(&tally), next: events };
    (driver.with_events(Arc::new(counting)), tally)
}

/// Formats an output: text as it is, anything else as JSON.
pub fn output_text(value: &Value, pretty: bool) -> String {
    match value {
        Value::String(text) => text.clone(),
        value if pretty => format!("{value:#}"),
        value => value.to_string(),
    }
}
