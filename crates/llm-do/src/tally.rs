//! Counting what a run did, for its summary: SPEC §3 wants refusals and limits further down told.

use llm_do_core::{
    engine::FailureKind,
    event::Event,
    gate::Rule,
    journal::{Ending, RecordKind},
    model::Usage,
};
use llm_do_runs::{EventSink, RecordRef};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// What a run's records add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that a rule, the operator or authority refused.
    pub refused: u32,
    /// Limits that were reached.
    pub limits: u32,
    /// Model requests that were sent.
    pub sent: u32,
    /// Model requests that were answered.
    pub requests: u32,
    /// Tools that ran.
    pub tools: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// Notices for the operator, in order.
    pub notes: Vec<Arc<str>>,
}

/// Counts records on their way to whoever listens.
pub(crate) struct Tally {
    next: Option<Arc<dyn EventSink>>,
    refused: AtomicU32,
    limits: AtomicU32,
    sent: AtomicU32,
    requests: AtomicU32,
    tools: AtomicU32,
    rest: Mutex<(Usage, Vec<Arc<str>>)>,
}

impl Tally {
    pub(crate) fn new(next: Option<Arc<dyn EventSink>>) -> Self {
        Self {
            next,
            refused: AtomicU32::new(0),
            limits: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            tools: AtomicU32::new(0),
            rest: Mutex::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (usage, notes) = self.rest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Counts {
            refused: self.refused.load(Ordering::Relaxed),
            limits: self.limits.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            tools: self.tools.load(Ordering::Relaxed),
            usage,
            notes,
        }
    }

    fn count(&self, body: &RecordKind) {
        let add = |counter: &AtomicU32| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match body {
            RecordKind::Verdict { rule: Rule::Blocked, .. } => add(&self.refused),
            RecordKind::CallEnded { ending: Ending::Failure(failure), .. }
                if failure.kind == FailureKind::Authority =>
            {
                add(&self.refused);
            }
            RecordKind::Limit { .. } => add(&self.limits),
            RecordKind::ToolStarted { .. } => add(&self.tools),
            RecordKind::ModelRequested { .. } => add(&self.sent),
            RecordKind::ModelAnswered { usage, .. } => {
                add(&self.requests);
                let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
                rest.0 = rest.0.plus(*usage);
            }
            RecordKind::Note { text } => {
                self.rest.lock().unwrap_or_else(PoisonError::into_inner).1.push(Arc::clone(text));
            }
            _ => {}
        }
    }
}

impl EventSink for Tally {
    fn event(&self, event: Event) {
        if let Some(next) = &self.next {
            next.event(event);
        }
    }

    fn record(&self, record: RecordRef<'_>) {
        self.count(record.body);
        if let Some(next) = &self.next {
            next.record(record);
        }
    }

    fn wants_written(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_written())
    }

    fn wants_deltas(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_deltas())
    }
}
