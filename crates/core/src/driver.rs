//! The driver port: everything that can differ between two executions passes through it.
//!
//! Run live, a step executes and is recorded; resumed, a recorded step returns its record; replayed, it must match; on
//! a durable engine it is that engine's step. The core itself has no clock, no randomness, no spawning, and never
//! races two things: it hands the driver batches and deadlines.

mod memory;

pub use memory::MemoryDriver;

use crate::{
    call_path::CallPath,
    engine::{Halt, Outcome},
    event::Event,
    journal::RecordKind,
    ledger::Reserved,
    operator::{Answered, Ask, Recall},
    send::{BoxFuture, MaybeSend, MaybeSync},
};
use std::{borrow::Cow, time::Duration};

/// What a step is called within its call: with the path, its key for ever.
pub type StepName = Cow<'static, str>;

/// One unit of non-determinism.
pub struct Step<'a> {
    /// The call it belongs to.
    pub path: &'a CallPath,
    /// Its name, unique within the call: `model.3.0` (turn, attempt), `tool`, `sleep.3.0`.
    pub name: StepName,
    /// Recorded before it runs (an effect's intent), if the step has one.
    pub intent: Option<RecordKind>,
    /// Cancelled after this much time; then [`StepEnd::TimedOut`] is its recorded outcome.
    pub deadline: Option<Duration>,
    /// What the world tells of an earlier attempt, if one had begun and not ended when the run was cut off.
    pub cut_off: CutOff,
    /// Does it and gives what is recorded. Not polled at all if the record exists.
    pub run: BoxFuture<'a, RecordKind>,
}

/// What has become of a step that had begun and not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CutOff {
    /// Nobody knows but the operator, unless the intent alone tells (it only read).
    #[default]
    Unknown,
    /// Nothing: it may run again.
    Undone,
    /// All of it: this is what it would have recorded.
    Done(RecordKind),
}

/// How a step ended.
#[derive(Debug)]
pub enum StepEnd {
    /// With this record.
    Done(RecordKind),
    /// Its deadline came first.
    TimedOut,
}

/// A step's end and the recorded times around it. Only these times may influence what happens next.
#[derive(Debug)]
pub struct Stepped {
    /// How it ended.
    pub end: StepEnd,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took.
    pub took: Duration,
}

/// The host's side of a run.
pub trait Driver: MaybeSend + MaybeSync {
    /// Runs one step, or returns its record. `Err` only for the infrastructure: the run was cancelled, the journal
    /// can't be written, a replay diverged. The step begins here and now, with the record of its intent: whoever makes
    /// the future must await it.
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>>;
    /// Records something that follows from what is recorded already (a call has started, a verdict fell by a rule).
    /// Written before this returns.
    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt>;
    /// Runs calls side by side; results in the order given. All are brought to their end even if one halts.
    fn all<'a>(
        &'a self,
        batch: Vec<BoxFuture<'a, Result<Outcome, Halt>>>,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>>;
    /// Asks the operator and waits for as long as it takes. Questions are put one at a time, in order of arrival; one
    /// whose turn comes when `memory` has its answer is not put. The ask and the answer, given or recalled, are
    /// recorded.
    fn ask<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        ask: Ask,
        memory: &'a dyn Recall,
    ) -> BoxFuture<'a, Result<Answered, Halt>>;
    /// Waits; recorded. The time does not count as work.
    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>>;
    /// A random number; recorded.
    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt>;
    /// Milliseconds since 1970 of the last thing that happened. Never differs between a run and its resume where that
    /// could matter.
    fn now_ms(&self) -> u64;
    /// Whether a resumed run came past that step before: then what it found out is in the records and not in the world.
    fn recorded(&self, _path: &CallPath, _step: &str) -> bool {
        false
    }
    /// The intent of a step that had begun and not ended when the run was cut off.
    fn begun(&self, _path: &CallPath, _step: &str) -> Option<RecordKind> {
        None
    }
    /// What was reserved by the call at `path` and all below it before the run was resumed, and the record of the end of
    /// each request, if it ended.
    fn reserved_before(&self, _path: &CallPath) -> Vec<(Reserved, Option<RecordKind>)> {
        Vec::new()
    }
    /// Waits for work that is not recorded, because it is done again on a resume (what tools there are is found out), until
    /// the run is cancelled.
    fn unrecorded<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            work.await;
            Ok(())
        })
    }
    /// Whether the run has been cancelled: composites look before they begin something new.
    fn cancelled(&self) -> bool;
    /// Shows a screen something provisional. Must not block; may drop.
    fn emit(&self, event: Event);
    /// Whether anyone listens to events: if not, deltas need not be made.
    fn listens(&self) -> bool {
        true
    }
}
