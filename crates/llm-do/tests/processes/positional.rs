//! A driver with a positional journal, as durable engines have one: within a call, the steps of every execution must come
//! in the order in which they are recorded. Calls of Python composites are the exception, since they are keyed.

use llm_do::core::{
    budget::Reserved,
    call_path::CallPath,
    call_spec::CallSpec,
    driver::{Caller, Driver, Exchanged, Known, Step, StepName, Stepped},
    engine::{Halt, Outcome},
    event::Event,
    journal::{Record, RecordKind},
    origin::UntrustedPlaces,
    question::Question,
    send::BoxFuture,
    shared::Shared,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) struct Positional {
    inner: Arc<dyn Driver>,
    /// The recorded steps of each call, in order.
    recorded: HashMap<CallPath, Vec<StepName>>,
    /// The steps that this execution has taken.
    taken: Mutex<HashMap<CallPath, Vec<StepName>>>,
}

/// The steps of each call in their order. A step that has begun and not ended holds no position yet.
pub(crate) fn order(records: &[Record]) -> HashMap<CallPath, Vec<StepName>> {
    let mut order: HashMap<CallPath, Vec<StepName>> = HashMap::new();
    let (mut seen, mut keyed) = (HashSet::new(), HashSet::new());
    for Record { path, step, body, .. } in records {
        // The end of a run is written around its call, once for each execution.
        if matches!(
            body,
            RecordKind::RunStarted { .. } | RecordKind::RunEnded { .. } | RecordKind::RunResumed { .. }
        ) {
            continue;
        }
        if matches!(step, StepName::Work(_) | StepName::Log(_)) {
            keyed.insert(path.clone());
        }
        let begins = matches!(
            body,
            RecordKind::ToolStarted { .. } | RecordKind::ModelRequested { .. } | RecordKind::Asked(_)
        );
        // A call that was suspended ends again.
        if !begins && *step != StepName::End && seen.insert((path.clone(), step.clone())) {
            order.entry(path.clone()).or_default().push(step.clone());
        }
    }
    order.retain(|path, _| !keyed.contains(path));
    order
}

impl Positional {
    pub(crate) fn new(inner: Arc<dyn Driver>, records: &[Record]) -> Self {
        Self { inner, recorded: order(records), taken: Mutex::default() }
    }

    /// The number of recorded steps that this execution has taken in their order.
    pub(crate) fn matched(&self) -> usize {
        let taken = self.taken.lock().unwrap();
        self.recorded
            .iter()
            .map(|(path, steps)| taken.get(path).map_or(0, |it| it.len().min(steps.len())))
            .sum()
    }

    fn takes(&self, path: &CallPath, step: &StepName) -> Result<(), Halt> {
        if matches!(step, StepName::Run | StepName::End) {
            return Ok(());
        }
        let Some(recorded) = self.recorded.get(path) else { return Ok(()) };
        let mut taken = self.taken.lock().unwrap();
        let taken = taken.entry(path.clone()).or_default();
        if taken.contains(step) {
            return Ok(());
        }
        let next = recorded.get(taken.len());
        taken.push(step.clone());
        match next {
            Some(next) if next != step => {
                let reason = format!("`{next}` comes next in the records");
                Err(Halt::Diverged { path: path.clone(), step: step.clone(), reason })
            }
            _ => Ok(()),
        }
    }
}

impl Driver for Positional {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        match self.takes(step.path, &step.name) {
            Ok(()) => self.inner.step(step),
            Err(halt) => Box::pin(async { Err(halt) }),
        }
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        self.takes(path, &name)?;
        self.inner.record(path, name, body)
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        match self.takes(path, &name) {
            Ok(()) => self.inner.exchange(path, name, question, known),
            Err(halt) => Box::pin(async { Err(halt) }),
        }
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        match self.takes(path, &name) {
            Ok(()) => self.inner.sleep(path, name, time),
            Err(halt) => Box::pin(async { Err(halt) }),
        }
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        self.takes(path, &name)?;
        self.inner.random(path, name)
    }

    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        self.inner.calls(calls, caller)
    }

    fn shared(&self) -> &dyn Shared {
        self.inner.shared()
    }

    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        self.inner.untrusted_places()
    }

    fn settled(&self) -> BoxFuture<'_, Result<(), Halt>> {
        self.inner.settled()
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn begun(&self, path: &CallPath, step: &StepName) -> Option<RecordKind> {
        self.inner.begun(path, step)
    }

    fn reserved_before(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        self.inner.reserved_before(path, since)
    }

    fn unrecorded<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), Halt>> {
        self.inner.unrecorded(work)
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled()
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        self.inner.cancellation()
    }

    fn emit(&self, event: Event) {
        self.inner.emit(event);
    }
}
