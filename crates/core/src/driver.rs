//! The driver port. Everything that can differ between two executions passes through it.
//!
//! In a live run a step executes and is recorded. In a resumed run a recorded step returns its record. In a replay
//! the step must match its record. On a durable engine it is a step of that engine. The core itself has no clock, no
//! randomness and no spawning, and it never races two futures: it passes batches and deadlines to the driver.

mod memory;

pub use memory::MemoryDriver;

use crate::{
    budget::Reserved,
    call_path::CallPath,
    call_spec::{CallSpec, FrameSpec},
    event::Event,
    journal::RecordKind,
    origin::{Origins, UntrustedPlaces},
    outcome::{Halt, Outcome},
    question::{Given, Question, Reply},
    send::{BoxFuture, MaybeSend, MaybeSync},
    shared::Shared,
};
pub use crate::{
    question::Known,
    step_name::{Attempt, StepName},
};
use std::time::Duration;

/// A unit of non-determinism.
pub struct Step<'a> {
    /// The call it belongs to.
    pub path: &'a CallPath,
    /// The step's name, unique within the call.
    pub name: StepName,
    /// The intent of an effect, if the step has one: it is recorded before the step runs.
    pub intent: Option<RecordKind>,
    /// Time limit of the step. After it the step is cancelled, and [`StepEnd::TimedOut`] is its recorded outcome.
    pub deadline: Option<Duration>,
    /// The state of an earlier attempt, if one had started and not ended when the run was interrupted.
    pub cut_off: CutOff,
    /// Executes the step and returns the record. Never polled if the record exists.
    pub run: BoxFuture<'a, RecordKind>,
}

/// A resume's treatment of a step that had started and not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CutOff {
    /// The step runs again, because it only reads or its effect did not happen.
    #[default]
    Again,
    /// The step counts as done, with the record that it would have written.
    Done(RecordKind),
}

/// The caller of a batch of calls, for the driver that starts them.
pub trait Caller: MaybeSend + MaybeSync {
    /// The frame from which the calls are made, for a driver that makes them in another process
    /// ([`worker::make_from_spec`](crate::worker::make_from_spec)).
    fn frame(&self) -> FrameSpec;
    /// Makes one of the calls in this process.
    fn make<'a>(&'a self, call: CallSpec) -> BoxFuture<'a, Result<Outcome, Halt>>;
}

/// The result of an exchange with the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchanged {
    /// The answer, or the decision to answer later.
    pub reply: Reply,
    /// The question as it is recorded; `None` if the answer was known before it was asked.
    pub asked: Option<Question>,
    /// Time from the recorded question to the recorded answer.
    pub waited: Duration,
}

/// The end of a step.
#[derive(Debug)]
pub enum StepEnd {
    /// The step has ended with this record.
    Done(RecordKind),
    /// The deadline of the step expired first.
    TimedOut,
}

/// A step's end and its recorded times. Only these times may influence later steps.
#[derive(Debug)]
pub struct Stepped {
    /// The end of the step.
    pub end: StepEnd,
    /// Time of the end, in milliseconds since 1970.
    pub at_ms: u64,
    /// Duration of the step.
    pub took: Duration,
}

/// The host's side of a run.
pub trait Driver: MaybeSend + MaybeSync {
    /// Runs one step, or returns its record. `Err` is only for the infrastructure: the run was cancelled, the journal
    /// can't be written, a replay diverged. The step starts with this call, which records its intent, so the caller
    /// must await the future.
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>>;
    /// Records something that follows from earlier records (a call has started, a rule gave a verdict). The record is
    /// written before this returns.
    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt>;
    /// Makes calls in parallel, each in this process ([`Caller::make`]) or in another one, and returns the outcomes in
    /// the given order. All calls run to their end even if one halts.
    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>>;
    /// Keeps the content of a file from before a call changes it, under its SHA-256, for the owner of the run only. It
    /// is not a record, and it is never exported. Returns false if it was not kept.
    fn keep_content(&self, _sha256: &str, _content: &[u8]) -> bool {
        false
    }
    /// The content kept under that SHA-256, if it is whole.
    fn kept_content(&self, _sha256: &str) -> Option<Vec<u8>> {
        None
    }
    /// The state that the calls of this run share.
    fn shared(&self) -> &dyn Shared;
    /// The places whose content was written from untrusted words, in this run and earlier ones.
    fn untrusted_places(&self) -> &dyn UntrustedPlaces;
    /// The origins that the arguments of the call at `path` had when the call was recorded. Code that makes calls in
    /// several threads may receive their results in another order when it runs again.
    fn recorded_origins(&self, _path: &CallPath) -> Option<Origins> {
        None
    }
    /// Returns a call directly below `path` that is recorded and that this execution has not made yet.
    fn left_out(&self, _path: &CallPath) -> Option<CallPath> {
        None
    }
    /// Puts a question to the operator and waits for the answer without a time limit. Question and answer are
    /// recorded under this step. If the answer is known at once, only the answer is recorded.
    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>>;
    /// Reports the end of the conversation with the user at `path`, whatever its result: other conversations may then
    /// ask the user. A driver with an operator passes it on
    /// ([`Operator::conversation_ended`](crate::operator::Operator::conversation_ended)).
    fn conversation_ended(&self, _path: &CallPath) {}
    /// Waits; recorded. The time does not count as work.
    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>>;
    /// A random number; recorded.
    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt>;
    /// Milliseconds since 1970 of the latest recorded event. Never differs between a run and its resume if the
    /// difference could have an effect.
    fn now_ms(&self) -> u64;
    /// The intent of a step that had started and not ended when the run was interrupted, also after this interruption
    /// was settled ([`StepName::Settle`]): each execution takes the same steps.
    fn begun(&self, _path: &CallPath, _step: &StepName) -> Option<RecordKind> {
        None
    }
    /// The reservations of the call at `path` and all calls below it before the run was resumed, each with the record
    /// of the request's end, if it ended. Reservations of turns before `since` in that call's conversation are left
    /// out.
    fn reserved_before(&self, _path: &CallPath, _since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        Vec::new()
    }
    /// Waits for work that is not recorded, until it ends or the run is cancelled. A step has recorded the end of this
    /// work in an earlier execution (such as making the tools again).
    fn unrecorded<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            work.await;
            Ok(())
        })
    }
    /// Returns true if the run has been cancelled. Composites check this before they start something new.
    fn cancelled(&self) -> bool;
    /// Completes when the run is cancelled, for code that waits for another event at the same time.
    fn cancellation(&self) -> BoxFuture<'_, ()>;
    /// Completes while the user wants to stop the answer under way: the model's answer and the calls of tools end, and
    /// the conversation continues with the user's next message. Only steps look at this, and record that they were
    /// stopped.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    /// The user's words during the answer of the conversation at `path`, if they are to be delivered before the request
    /// of that turn; recorded under [`StepName::Now`]. Nothing is delivered before a request that was sent.
    ///
    /// # Errors
    /// The journal can't be written.
    fn said_meanwhile(&self, _path: &CallPath, _turn: u32) -> Result<Option<Given>, Halt> {
        Ok(None)
    }
    /// Emits a provisional event for display. Must not block; may drop events.
    fn emit(&self, event: Event);
    /// Returns true if anything listens to events. If not, deltas need not be built.
    fn listens(&self) -> bool {
        true
    }
}
