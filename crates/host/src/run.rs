//! A run: a launch over a driver that records, and its report.

use crate::{
    interjector::{Interjector, Said},
    recording::Recording,
    switches::{Canceller, Stopper},
};
use llm_do_core::{
    driver::Driver,
    engine::Halt,
    function::StandIns,
    launch::{Launch, LaunchReport},
    send::MaybeSend,
};
use serde_json::Value;
use std::sync::{Arc, Weak};

/// A run that is about to start. Its log exists.
pub struct Run {
    driver: Arc<dyn Recording>,
    launch: Launch,
}

/// A handle that takes messages for the conversation of a run's entry, and records them. It does not keep the run's
/// journal open.
pub struct Inbox(Weak<dyn Recording>);

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
pub struct RunEnd {
    /// ID of the run.
    pub run: Arc<str>,
    /// The report of the launch.
    pub report: LaunchReport,
    /// The message of the last request that a budget over time refused. The run says little about its program then,
    /// whether it has ended with that failure or a worker has handled it.
    pub over_budget: Option<Arc<str>>,
}

impl Run {
    /// A run whose records this driver keeps. The launch may have another driver, which wraps it.
    pub fn new(driver: Arc<dyn Recording>, launch: Launch) -> Self {
        Self { driver, launch }
    }

    /// Returns the same run over a driver that wraps the one that keeps its records: for a host that makes calls in other
    /// processes, or that watches the steps.
    #[must_use]
    pub fn over(mut self, driver: Arc<dyn Driver>) -> Self {
        self.launch.context.driver = driver;
        self
    }

    /// Returns the same run, which writes its first record and then waits for `until` before it does anything else. The
    /// wait is no working time.
    #[must_use]
    pub fn held(mut self, until: impl Future<Output = ()> + MaybeSend + 'static) -> Self {
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
        &self.launch.context.run
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

    /// Runs to the end, and closes the log however the run ends.
    pub fn finish(self) -> impl Future<Output = RunEnd> {
        let Self { driver, launch } = self;
        let (run, spending) = (Arc::clone(&launch.context.run), launch.context.spending.clone());
        // Boxed for the sake of futures that await this one: see `Launch::run_within`.
        let running = Box::pin(launch.run_within(|call| async move { driver.gathered(call).await }));
        async move {
            let report = running.await;
            let over_budget = spending.and_then(|spending| spending.refusal());
            RunEnd { run, report, over_budget }
        }
    }
}

/// Formats an output: text as it is, anything else as JSON.
pub fn output_text(value: &Value, pretty: bool) -> String {
    match value {
        Value::String(text) => text.clone(),
        value if pretty => format!("{value:#}"),
        value => value.to_string(),
    }
}
