//! A driver without a runtime: records in memory, nothing else.
//!
//! For tests and for hosts that have no clock of their own (a worker in a browser tab). Deadlines are not enforced, since
//! that takes a timer; waits end at once; random numbers are a fixed sequence.

use super::{Driver, Step, StepEnd, StepName, Stepped};
use crate::{
    call_path::CallPath,
    engine::{Halt, Outcome},
    event::Event,
    journal::{Record, RecordKind},
    operator::{Answer, Answered, Ask, Operator, Recall},
    send::BoxFuture,
};
use futures_util::{future::join_all, lock::Mutex as Turn};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Records in memory.
pub struct MemoryDriver {
    records: Mutex<Vec<Record>>,
    operator: Option<Arc<dyn Operator>>,
    /// Held by the question that the operator is looking at.
    operator_turn: Turn<()>,
    start_ms: u64,
}

impl MemoryDriver {
    /// A driver whose first record is made at `start_ms` (milliseconds since 1970); each further one a millisecond
    /// later. Without an operator every question is denied.
    pub fn new(start_ms: u64, operator: Option<Arc<dyn Operator>>) -> Self {
        Self { records: Mutex::default(), operator, operator_turn: Turn::default(), start_ms }
    }

    /// What has been recorded so far.
    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, path: &CallPath, step: &str, body: RecordKind) -> u64 {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = records.len() as u64;
        let at_ms = self.start_ms + seq;
        records.push(Record { seq, at_ms, path: path.clone(), step: step.to_owned(), body });
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

    fn all<'a>(
        &'a self,
        batch: Vec<BoxFuture<'a, Result<Outcome, Halt>>>,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        Box::pin(join_all(batch))
    }

    fn ask<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        ask: Ask,
        memory: &'a dyn Recall,
    ) -> BoxFuture<'a, Result<Answered, Halt>> {
        Box::pin(async move {
            self.push(path, &name, RecordKind::Asked(ask.clone()));
            let waited = Duration::ZERO;
            let _turn = self.operator_turn.lock().await;
            if let Some(answer) = memory.recall() {
                self.push(path, &name, RecordKind::Recalled(answer.clone()));
                return Ok(Answered { answer, recalled: true, waited });
            }
            let answer = match &self.operator {
                Some(operator) => operator.answer(&ask).await,
                None => Answer::Deny { reason: None, remember: false },
            };
            if answer != Answer::Later {
                self.push(path, &name, RecordKind::Answered(answer.clone()));
            }
            Ok(Answered { answer, recalled: false, waited })
        })
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

    fn emit(&self, _event: Event) {}

    fn listens(&self) -> bool {
        false
    }
}
