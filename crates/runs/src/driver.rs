//! The driver of this machine: steps run live on tokio, and each is recorded.

use crate::journal::{JournalWriter, RecordRef, Written};
use futures_util::{StreamExt, stream::FuturesOrdered};
use llm_do_core::{
    call_path::CallPath,
    driver::{Driver, Step, StepEnd, StepName, Stepped},
    engine::{Halt, Outcome},
    event::Event,
    journal::Body,
    model::Delta,
    operator::{Answered, Ask, Operator, Recall},
    send::BoxFuture,
};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};
use tokio::sync::{Mutex, watch};

/// Shows what happens in a run.
pub trait EventSink: Send + Sync {
    /// Takes one event. Records come in the order of the journal, each after it was written. Must not block for long
    /// and must not call the driver: the journal waits.
    fn event(&self, event: Event);
    /// Takes a record. Whoever only looks need not have a copy made.
    fn record(&self, record: RecordRef<'_>) {
        self.event(Event::Record { record: Arc::new(record.to_record()) });
    }
    /// Whether a record must be with the kernel before it is shown: others may act on what they see. Who only counts can
    /// do without, which spares many writes.
    fn wants_written(&self) -> bool {
        true
    }
    /// Whether it shows deltas; if not, none are made.
    fn wants_deltas(&self) -> bool {
        true
    }
}

/// Ends a run from outside, from a signal handler's task for example. Clones end the same run.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
    /// Cuts off what is under way; nothing new begins. What has been cut off is recorded.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
    /// Whether the run has been ended.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }
    async fn cancelled(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

/// Runs the steps of one run on tokio and writes its journal.
pub struct LocalDriver {
    journal: JournalWriter,
    operator: Arc<dyn Operator>,
    /// Held by the ask that the operator is looking at. Tokio's mutex is fair: the others wait in order of arrival.
    operator_turn: Mutex<()>,
    events: Option<Arc<dyn EventSink>>,
    canceller: Canceller,
}

impl LocalDriver {
    /// A driver that nobody watches.
    pub fn new(journal: JournalWriter, operator: Arc<dyn Operator>) -> Self {
        Self { journal, operator, operator_turn: Mutex::new(()), events: None, canceller: Canceller::new() }
    }

    /// Shows what happens.
    #[must_use]
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = Some(events);
        self
    }

    /// What ends the run from outside.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// The journal.
    pub fn journal(&self) -> &JournalWriter {
        &self.journal
    }

    /// Runs what calls this driver, and gathers its records: those that follow from each other while it runs without
    /// waiting go to the kernel in one write, before it begins a step, and before it waits or ends. Without this every
    /// record is a write of its own.
    ///
    /// # Errors
    /// The future's own, and [`Halt::Journal`] when records can't be written; the future is not polled any more then.
    pub async fn gathering<T>(&self, run: impl Future<Output = Result<T, Halt>>) -> Result<T, Halt> {
        let mut run = pin!(run);
        poll_fn(|context| {
            let hold = self.journal.hold();
            let polled = run.as_mut().poll(context);
            match hold.release() {
                Ok(()) => polled,
                Err(halt) => Poll::Ready(Err(halt)),
            }
        })
        .await
    }

    fn write(&self, path: &CallPath, step: &str, body: Body) -> Result<Written, Halt> {
        self.journal.append(path, step, body, self.events.as_deref())
    }

    /// The future's value, or the record that the step was cut off.
    async fn unless_cancelled<T>(
        &self,
        path: &CallPath,
        step: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        let value = tokio::select! {
            // What has come to its end counts, even if the run was ended at the same moment.
            biased;
            value = future => Some(value),
            () = self.canceller.cancelled() => None,
        };
        match value {
            Some(value) => Ok(value),
            None => {
                self.write(path, step, Body::Cancelled)?;
                Err(Halt::Cancelled)
            }
        }
    }

    fn unless_ended(&self) -> Result<(), Halt> {
        if self.canceller.is_cancelled() { Err(Halt::Cancelled) } else { Ok(()) }
    }
}

impl Driver for LocalDriver {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        Box::pin(async move {
            self.unless_ended()?;
            let Step { path, name, intent, deadline, run } = step;
            let began_ms =
                intent.map(|body| self.write(path, &name, body)).transpose()?.map(|intent| intent.at_ms);
            self.journal.flush()?;
            let timed = async move {
                match deadline {
                    None => Ok(run.await),
                    Some(deadline) => tokio::time::timeout(deadline, run).await.map_err(|_| millis(deadline)),
                }
            };
            let (body, timed_out) = match self.unless_cancelled(path, &name, timed).await? {
                Ok(body) => (body, false),
                Err(after_ms) => (Body::TimedOut { after_ms }, true),
            };
            let Written { at_ms, body } = self.write(path, &name, body)?;
            // From the recorded times alone, so that a resumed run knows the same. A step without an intent has no
            // recorded beginning: it took no time.
            let took = Duration::from_millis(at_ms - began_ms.unwrap_or(at_ms));
            let end = if timed_out { StepEnd::TimedOut } else { StepEnd::Done(body) };
            Ok(Stepped { end, at_ms, took })
        })
    }

    fn record(&self, path: &CallPath, name: StepName, body: Body) -> Result<(), Halt> {
        self.write(path, &name, body).map(drop)
    }

    fn all<'a>(
        &'a self,
        batch: Vec<BoxFuture<'a, Result<Outcome, Halt>>>,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        // Polls only what was woken: a hundred children that each wake often must not poll each other.
        Box::pin(batch.into_iter().collect::<FuturesOrdered<_>>().collect())
    }

    fn ask<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        ask: Ask,
        memory: &'a dyn Recall,
    ) -> BoxFuture<'a, Result<Answered, Halt>> {
        Box::pin(async move {
            self.unless_ended()?;
            let asked = self.write(path, &name, Body::Asked(ask))?;
            self.journal.flush()?;
            let Body::Asked(ask) = &asked.body else {
                return Err(Halt::unexpected(path, &name, &asked.body));
            };
            let answer = async {
                // The engine remembers an answer in the same poll in which it gets it, before the next turn begins.
                let _turn = self.operator_turn.lock().await;
                match memory.recall() {
                    Some(answer) => Body::Recalled(answer),
                    None => Body::Answered(self.operator.answer(ask).await),
                }
            };
            let answer = self.unless_cancelled(path, &name, answer).await?;
            let written = self.write(path, &name, answer)?;
            let waited = Duration::from_millis(written.at_ms - asked.at_ms);
            match written.body {
                Body::Answered(answer) => Ok(Answered { answer, recalled: false, waited }),
                Body::Recalled(answer) => Ok(Answered { answer, recalled: true, waited }),
                other => Err(Halt::unexpected(path, &name, &other)),
            }
        })
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            self.unless_ended()?;
            self.unless_cancelled(path, &name, tokio::time::sleep(time)).await?;
            self.write(path, &name, Body::Slept { ms: millis(time) }).map(drop)
        })
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        let value = fastrand::u64(..);
        self.write(path, &name, Body::Random { value })?;
        Ok(value)
    }

    fn unrecorded<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = work => Ok(()),
                () = self.canceller.cancelled() => Err(Halt::Cancelled),
            }
        })
    }

    fn now_ms(&self) -> u64 {
        self.journal.last_ms()
    }

    fn cancelled(&self) -> bool {
        self.canceller.is_cancelled()
    }

    fn emit(&self, event: Event) {
        let Some(events) = &self.events else { return };
        let clean = |text: String| match self.journal.redactor().redact(&text) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(clean) => clean,
        };
        let event = match event {
            Event::Delta { path, turn, delta } => {
                let delta = match delta {
                    Delta::Text { text } => Delta::Text { text: clean(text) },
                    Delta::Reasoning { text } => Delta::Reasoning { text: clean(text) },
                    Delta::Call { name } => Delta::Call { name: clean(name) },
                };
                Event::Delta { path, turn, delta }
            }
            // Made by the journal, which has redacted them; and a discard says nothing.
            other @ (Event::Record { .. } | Event::Discard { .. }) => other,
        };
        events.event(event);
    }

    fn listens(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.wants_deltas())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
