//! The journal of a run while it is written, through the host.
//!
//! A record is an effect that precedes, in the one ordered list of a step, every effect that follows from it. The host
//! performs the list in order and stops at a write that fails, so a record is durable before its consequences, although
//! [`RunLog::append`] returns before the write. After a failure no further record is taken, and the run ends.

use crate::{bridge::Bridge, feed::Feed};
use llm_do_core::{call_path::CallPath, journal::RecordKind, outcome::Halt, step_name::StepName};
use llm_do_host::{EventSink, RunLog, Written};
use llm_do_records::{Chain, RecordRef, Redactor, write_line};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most bytes of records and long values that one run may write.
const MOST_BYTES: usize = 512 << 20;

/// The journal of one run.
pub(crate) struct PageLog {
    bridge: Bridge,
    run: Arc<str>,
    /// The folder of the run.
    folder: String,
    redactor: Arc<Redactor>,
    /// The streams that get every record, also those that the driver shows to no listener.
    feed: Arc<Feed>,
    tail: Mutex<Tail>,
}

struct Tail {
    next: u64,
    last_ms: u64,
    seals: Chain,
    /// The long values that are stored.
    stored: HashSet<String>,
    written: usize,
}

impl PageLog {
    /// The log of a new run, or of one that continues after the records of its feed. `seals` are those up to the last record.
    pub(crate) fn new(
        bridge: Bridge,
        run: Arc<str>,
        folder: String,
        redactor: Arc<Redactor>,
        seals: Chain,
        feed: Arc<Feed>,
    ) -> Self {
        let last_ms = feed.last_ms().unwrap_or_else(|| bridge.now_ms());
        let tail = Tail { next: feed.len() as u64, last_ms, seals, stored: HashSet::new(), written: 0 };
        Self { bridge, run, folder, redactor, feed, tail: Mutex::new(tail) }
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunLog for PageLog {
    fn append(
        &self,
        path: &CallPath,
        step: &StepName,
        body: RecordKind,
        listener: Option<&dyn EventSink>,
    ) -> Result<Written, Halt> {
        if let Some(reason) = self.bridge.broken(&self.run) {
            return Err(Halt::Journal(reason));
        }
        let journal = |error: std::io::Error| Halt::Journal(error.to_string());
        let mut tail = self.tail();
        let (seq, at_ms) = (tail.next, tail.last_ms.max(self.bridge.now_ms()));
        let mut line = Vec::new();
        let mut bytes = 0;
        let record = RecordRef { seq, at_ms, path, step, body: &body };
        let recorded = write_line(&mut line, record, &self.redactor, &mut |hash, content| {
            bytes += content.len();
            if tail.stored.insert(hash.to_owned()) {
                self.bridge.store(&self.run, format!("{}/blobs/{hash}", self.folder), content);
            }
            Ok(())
        })
        .map_err(journal)?;
        tail.written += bytes + line.len();
        if tail.written > MOST_BYTES && !matches!(body, RecordKind::RunEnded { .. }) {
            return Err(Halt::Journal("the run has more records than one run may write".into()));
        }
        tail.seals.seal(&mut line, 0);
        line.push(b'\n');
        let text = String::from_utf8(line).map_err(|error| Halt::Journal(error.to_string()))?;
        self.bridge
            .append(&self.run, &format!("{}/journal.jsonl", self.folder), &text)
            .map_err(Halt::Journal)?;
        (tail.next, tail.last_ms) = (seq + 1, at_ms);
        drop(tail);
        let body = recorded.unwrap_or(body);
        self.feed.add(RecordRef { seq, at_ms, path, step, body: &body }.to_record());
        if let Some(listener) = listener {
            listener.record(RecordRef { seq, at_ms, path, step, body: &body });
        }
        Ok(Written { at_ms, body })
    }

    /// Does nothing: the bridge joins the lines of consecutive records.
    fn hold(&self) {}

    fn release(&self) -> Result<(), Halt> {
        Ok(())
    }

    /// Does nothing: every later effect follows the record in the list.
    fn flush(&self) -> Result<(), Halt> {
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.tail().last_ms.max(self.bridge.now_ms())
    }

    fn last_ms(&self) -> u64 {
        self.tail().last_ms
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }
}
