//! The ports of a run to its host.

use crate::event_sink::EventSink;
use llm_do_core::{
    call_path::CallPath,
    journal::RecordKind,
    outcome::Halt,
    send::{BoxFuture, MaybeSend, MaybeSync},
    step_name::StepName,
};
use llm_do_records::Redactor;
use std::{sync::Arc, time::Duration};

/// A written record.
#[derive(Debug)]
pub struct Written {
    /// Time of the record, in milliseconds since 1970.
    pub at_ms: u64,
    /// The body as recorded, without secrets. The run must continue from this body: a resumed run reads the same.
    pub body: RecordKind,
}

/// The log of one run while it is written.
///
/// A record is durable before the next step with an effect begins, before an outcome leaves the run, and before it is shown to
/// a listener that wants it written. Between these moments a log may gather records ([`hold`](Self::hold)).
pub trait RunLog: MaybeSend + MaybeSync {
    /// Adds a record and shows it to the listener, in the order of the log. Without a hold, the record is durable when this
    /// returns.
    ///
    /// # Errors
    /// [`Halt::Journal`]: the record can't be written. No part of it is left in the log.
    fn append(
        &self,
        path: &CallPath,
        step: &StepName,
        body: RecordKind,
        listener: Option<&dyn EventSink>,
    ) -> Result<Written, Halt>;
    /// Gathers records from here on, until [`release`](Self::release). The holder releases before it waits.
    fn hold(&self);
    /// Ends the hold, and makes the gathered records durable.
    ///
    /// # Errors
    /// [`Halt::Journal`]: the records can't be written.
    fn release(&self) -> Result<(), Halt>;
    /// Makes the records durable that were gathered up to now.
    ///
    /// # Errors
    /// [`Halt::Journal`]: the records can't be written.
    fn flush(&self) -> Result<(), Halt>;
    /// Completes when the records are durable that were added up to now. A log that writes without waiting returns `None`:
    /// what it has flushed is durable. A log over a network returns a future. The driver awaits it before a step with an
    /// effect, before it puts a question, and before an outcome leaves the run.
    ///
    /// The future fails with [`Halt::Journal`] if the records can't be written.
    fn durable(&self) -> Option<BoxFuture<'_, Result<(), Halt>>> {
        None
    }
    /// The time of a record written now, in milliseconds since 1970. The times of records never decrease.
    fn now_ms(&self) -> u64;
    /// The time of the last record in milliseconds since 1970; before the first record, the time of the beginning.
    fn last_ms(&self) -> u64;
    /// The redactor that removes secrets from the records.
    fn redactor(&self) -> &Arc<Redactor>;
    /// Keeps the content of a file from before a call changes it, as [`Driver::keep_content`] does. The content is durable
    /// when the next [`durable`](Self::durable) completes, which is before the call changes the file.
    ///
    /// [`Driver::keep_content`]: llm_do_core::driver::Driver::keep_content
    fn keep_content(&self, _sha256: &str, _content: &[u8]) -> bool {
        false
    }
    /// The content kept under that SHA-256, if it is whole.
    fn kept_content(&self, _sha256: &str) -> Option<Vec<u8>> {
        None
    }
}

/// Time and randomness.
pub trait Ambient: MaybeSend + MaybeSync {
    /// Completes after that much time.
    fn after(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// A random number. Predictable numbers are no danger: they only spread attempts over time.
    fn random(&self) -> u64;
}
