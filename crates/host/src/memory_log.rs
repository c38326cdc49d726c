//! A log in memory.

use crate::{
    event_sink::EventSink,
    ports::{RunLog, Written},
};
use llm_do_core::{
    call_path::CallPath,
    journal::{Record, RecordKind},
    outcome::Halt,
    step_name::StepName,
};
use llm_do_records::{RecordRef, Redactor, as_recorded};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Records in memory, for hosts that keep a run only for their own lifetime, and for tests.
///
/// A clock would make two runs of a script differ. Each record is therefore a millisecond later than the previous one.
pub struct MemoryLog {
    start_ms: u64,
    redactor: Arc<Redactor>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    contents: HashMap<String, Vec<u8>>,
}

impl MemoryLog {
    /// An empty log, whose first record is made at `start_ms` (milliseconds since 1970).
    pub fn new(start_ms: u64, redactor: Arc<Redactor>) -> Self {
        Self { start_ms, redactor, kept: Mutex::default() }
    }

    /// The records so far.
    pub fn records(&self) -> Vec<Record> {
        self.kept().records.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunLog for MemoryLog {
    fn append(
        &self,
        path: &CallPath,
        step: &StepName,
        body: RecordKind,
        listener: Option<&dyn EventSink>,
    ) -> Result<Written, Halt> {
        let body = as_recorded(&self.redactor, path, step, &body)
            .map_err(|error| Halt::Journal(error.to_string()))?;
        let mut kept = self.kept();
        let seq = kept.records.len() as u64;
        let at_ms = self.start_ms + seq;
        kept.records.push(Record { seq, at_ms, path: path.clone(), step: step.clone(), body: body.clone() });
        if let Some(listener) = listener {
            listener.record(RecordRef { seq, at_ms, path, step, body: &body });
        }
        Ok(Written { at_ms, body })
    }

    fn hold(&self) {}

    fn release(&self) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&self) -> Result<(), Halt> {
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.start_ms + self.kept().records.len() as u64
    }

    fn last_ms(&self) -> u64 {
        self.start_ms + self.kept().records.len().saturating_sub(1) as u64
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn keep_content(&self, sha256: &str, content: &[u8]) -> bool {
        self.kept().contents.insert(sha256.to_owned(), content.to_vec());
        true
    }

    fn kept_content(&self, sha256: &str) -> Option<Vec<u8>> {
        self.kept().contents.get(sha256).cloned()
    }
}
