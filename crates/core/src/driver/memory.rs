//! A driver without a runtime, which keeps records in memory only.
//!
//! The driver serves tests, previews and hardening, whose records do not outlive them. Deadlines are not enforced,
//! since that takes a timer; waits end at once; the random number is always the same. Runs whose records are kept use
//! the driver of `llm-do-host`.

use super::{Caller, Driver, Exchanged, Known, Step, StepEnd, StepName, Stepped};
use crate::{
    call_path::CallPath,
    call_spec::CallSpec,
    event::Event,
    journal::{Record, RecordKind},
    operator::{Operator, Recall as _, Unattended},
    origin::{UntrustedPlaces, UntrustedSet},
    outcome::{Halt, Outcome},
    question::{Question, QuestionId, Reply, Waiting},
    send::BoxFuture,
    shared::{InProcess, Shared},
};
use futures_util::future::join_all;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Records in memory.
pub struct MemoryDriver {
    records: Mutex<Vec<Record>>,
    operator: Arc<dyn Operator>,
    shared: InProcess,
    untrusted: UntrustedSet,
    start_ms: u64,
}

impl MemoryDriver {
    /// A driver whose first record is made at `start_ms` (milliseconds since 1970); each further one a millisecond
    /// later. Without an operator the answers are those of an unattended run: calls are denied, inputs are declined,
    /// and settlements wait.
    pub fn new(start_ms: u64, operator: Option<Arc<dyn Operator>>) -> Self {
        let operator = operator.unwrap_or_else(|| Arc::new(Unattended));
        Self {
            records: Mutex::default(),
            operator,
            shared: InProcess::default(),
            untrusted: UntrustedSet::default(),
            start_ms,
        }
    }

    /// The state that the calls share.
    #[cfg(test)]
    pub(crate) fn in_process(&self) -> &InProcess {
        &self.shared
    }

    /// The records so far.
    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, path: &CallPath, step: &StepName, body: RecordKind) -> u64 {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = records.len() as u64;
        let at_ms = self.start_ms + seq;
        records.push(Record { seq, at_ms, path: path.clone(), step: step.clone(), body });
        at_ms
    }
}

impl Driver for MemoryDriver {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        Box::pin(async move {
            if let Some(intent) = step.intent {
                self.push(step.path, &step.name, intent);
            }
            let body = step.run.await;
            let at_ms = self.push(step.path, &step.name, body.clone());
            Ok(Stepped { end: StepEnd::Done(body), at_ms, took: Duration::ZERO })
        })
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        self.push(path, &name, body);
        Ok(())
    }

    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        Box::pin(join_all(calls.into_iter().map(|call| caller.make(call))))
    }

    fn shared(&self) -> &dyn Shared {
        &self.shared
    }

    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        &self.untrusted
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        Box::pin(async move {
            let id = QuestionId::new(path, &name);
            let recall = self.shared.known(&known, &id);
            let (reply, asked) = match recall.recall() {
                Some(given) => (Reply::Given(given), None),
                None => {
                    self.push(path, &name, RecordKind::Asked(question.clone()));
                    let waiting = Waiting { id: id.clone(), question };
                    (self.operator.exchange(&waiting, &recall).await, Some(waiting.question))
                }
            };
            if let Reply::Given(given) = &reply {
                recall.answered(given);
                self.push(path, &name, RecordKind::Answered(given.clone()));
            }
            Ok(Exchanged { reply, asked, waited: Duration::ZERO })
        })
    }

    fn conversation_ended(&self, path: &CallPath) {
        self.operator.conversation_ended(path);
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.push(path, &name, RecordKind::Slept { ms });
        Box::pin(async { Ok(()) })
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        let value = 512;
        self.push(path, &name, RecordKind::Random { value });
        Ok(value)
    }

    fn now_ms(&self) -> u64 {
        self.start_ms + self.records.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn emit(&self, _event: Event) {}

    fn listens(&self) -> bool {
        false
    }
}
