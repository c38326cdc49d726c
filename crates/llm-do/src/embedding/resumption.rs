//! Continuing a run that waits.

use super::{
    error::Error,
    events::{self, Events},
    operators::VIA,
    options::Options,
    running::{Completed, Running},
    worker::Worker,
};
use crate::{
    problem::Problem,
    resume::{Decisions, PastRun, ResumeError},
};
use llm_do_core::{
    journal::{Record, RecordKind},
    question::{Answer, Given, QuestionId, Waiting},
    send::BoxFuture,
};
use llm_do_host::EventSink;
use llm_do_runs::is_run_id;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A run that is about to continue, with answers to the questions that it waits for. Awaiting it continues the run and gives
/// the output. A question without an answer goes to the operator, or waits on.
#[must_use = "a run continues when this is awaited"]
pub struct Resumption<O> {
    worker: Worker<O>,
    run: String,
    answers: Vec<(QuestionId, Answer)>,
    options: Options,
}

impl<O> Resumption<O> {
    pub(super) fn new(worker: Worker<O>, run: String) -> Self {
        Self { worker, run, answers: Vec::new(), options: Options::new() }
    }

    /// Returns the questions that the run waits for.
    ///
    /// # Errors
    /// The run does not exist, or its journal can't be read.
    pub fn waiting(&self) -> Result<Vec<Waiting>, Error> {
        Ok(self.past()?.waiting())
    }

    /// Approves the call that this question is about.
    pub fn approve(self, question: &QuestionId) -> Self {
        self.answer(question, Answer::Approve { remember: false })
    }

    /// Refuses the call that this question is about. The model receives the reason.
    pub fn deny(self, question: &QuestionId, reason: impl Into<String>) -> Self {
        self.answer(question, Answer::Deny { reason: Some(reason.into()), remember: false })
    }

    /// Answers a question.
    pub fn answer(mut self, question: &QuestionId, answer: Answer) -> Self {
        self.answers.push((question.clone(), answer));
        self
    }

    /// Sets an operator and a receiver of events. The run keeps the other options that it was started with.
    pub fn options(mut self, options: Options) -> Self {
        self.options = self.options.then(options);
        self
    }

    fn past(&self) -> Result<PastRun, Problem> {
        if !is_run_id(&self.run) {
            return Err(ResumeError::Unknown(format!("`{}` is no ID of a run", self.run)).into());
        }
        let dir = self.worker.session.runs_dir().join(&self.run);
        Ok(PastRun::open(&dir, &self.worker.opened.home)?)
    }
}

impl<O: DeserializeOwned> Resumption<O> {
    /// Continues the run, and gives the output with the run's ID, its usage and its cost.
    ///
    /// # Errors
    /// The run can't be continued, or did not end with an output.
    pub async fn result(self) -> Result<Completed<O>, Error> {
        self.start()?.result().await
    }

    /// Prepares the run. It continues when the handle is awaited.
    ///
    /// # Errors
    /// The run can't be continued: an answer does not fit, the run is over, or the program has changed since.
    pub fn start(self) -> Result<Running<O>, Error> {
        self.begin(None)
    }

    /// Prepares the run, and gives its events as they happen.
    ///
    /// # Errors
    /// As [`Resumption::start`].
    pub fn stream(self) -> Result<Events<O>, Error> {
        let (sink, receiver) = events::channel();
        Ok(Events::new(self.begin(Some(sink))?, receiver))
    }

    fn begin(self, stream: Option<Arc<dyn EventSink>>) -> Result<Running<O>, Error> {
        let past = self.past()?;
        let Self { worker, answers, options, .. } = self;
        if let Some(option) = options.first_change() {
            let reason = "a run keeps the options that it was started with".into();
            return Err(Problem::Option { option, reason }.into());
        }
        let entry = &worker.session.entry().id;
        match past.records().first() {
            Some(Record { body: RecordKind::RunStarted { entry: of, .. }, .. }) if of != entry => {
                let reason = format!("it is a run of the worker `{of}`, and not of `{entry}`");
                return Err(Problem::from(ResumeError::Unknown(reason)).into());
            }
            _ => {}
        }
        let base = worker.session.options().clone();
        let options = worker.opened.options.clone().then(options);
        let can_ask = base.can_ask || options.answering().is_some();
        let run = past.options(base).map_err(Problem::Resume)?;
        let session = worker.session.with_options(crate::RunOptions { can_ask, ..run })?;
        let given = answers.into_iter().map(|(id, answer)| (id, Given::operator(answer, VIA)));
        let events = events::both(options.listening(), stream);
        let run = session.resume(past, Decisions(given.collect()), options.answering(), events)?;
        Ok(Running::new(run, options.driving(), worker.opened))
    }
}

impl<O: DeserializeOwned + 'static> IntoFuture for Resumption<O> {
    type Output = Result<O, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start()?.await })
    }
}
