//! A run under way, and its result.

use super::{error::Error, opened::Opened, options::MakeDriver};
use crate::run::{Report, Run};
use llm_do_core::{model::Usage, price::Usd, send::BoxFuture};
use llm_do_host::Canceller;
use serde::de::DeserializeOwned;
use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A prepared run. It advances while it is awaited, and nothing of it runs elsewhere: to let it run in the background,
/// give it to a task of your runtime.
///
/// If it is dropped before its end, the run stops at that point. The journal shows this, and [`Worker::resume`]
/// continues the run. [`Running::canceller`] ends it in order.
///
/// [`Worker::resume`]: crate::Worker::resume
#[must_use = "a run advances while it is awaited"]
pub struct Running<O> {
    id: Arc<str>,
    journal: PathBuf,
    canceller: Canceller,
    report: BoxFuture<'static, Report>,
    /// The opened program, which keeps a temporary folder of journals.
    _opened: Arc<Opened>,
    output: PhantomData<fn() -> O>,
}

/// An output, with data about the run that made it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Completed<O> {
    /// The output.
    pub output: O,
    /// ID of the run.
    pub run: Arc<str>,
    /// The tokens that it used.
    pub usage: Usage,
    /// Cost of the tokens; `None` if the price of a model is unknown.
    pub cost: Option<Usd>,
    /// The time from its first record to its last.
    pub took: Duration,
    /// The folder of its journal.
    pub journal: PathBuf,
}

impl<O> Running<O> {
    pub(super) fn new(run: Run, driver: Option<Arc<MakeDriver>>, opened: Arc<Opened>) -> Self {
        let run = match driver {
            Some(driver) => run.over(|local| driver(local)),
            None => run,
        };
        let (id, canceller) = (Arc::clone(run.id()), run.canceller());
        let journal = run.dir().to_owned();
        Self { id, journal, canceller, report: Box::pin(run.finish()), _opened: opened, output: PhantomData }
    }

    /// Returns the ID of the run.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the folder of the run's journal.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// Returns a handle that ends the run from elsewhere, for example from another task. The run then returns
    /// [`Error::Cancelled`].
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    pub(super) fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<Report> {
        self.report.as_mut().poll(context)
    }
}

impl<O: DeserializeOwned> Running<O> {
    /// Runs it to its end, and gives the output with the run's ID, its usage and its cost.
    ///
    /// # Errors
    /// The run did not end with an output.
    pub async fn result(self) -> Result<Completed<O>, Error> {
        // The folder of the journals lives until the run has ended.
        let Self { report, _opened, .. } = self;
        completed(report.await)
    }
}

impl<O: DeserializeOwned> Future for Running<O> {
    type Output = Result<O, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = Pin::into_inner(self);
        this.poll_report(context).map(|report| completed(report).map(|completed| completed.output))
    }
}

/// Returns the result of a run.
pub(super) fn completed<O: DeserializeOwned>(report: Report) -> Result<Completed<O>, Error> {
    let (run, usage, took, journal) =
        (Arc::clone(&report.run), report.usage, report.took, report.dir.clone());
    let output = Error::output_of(report)?;
    Ok(Completed { output, run, cost: usage.cost_usd, usage, took, journal })
}
