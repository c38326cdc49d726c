//! The port through which displays and other programs follow a run.

use llm_do_core::{
    event::Event,
    send::{MaybeSend, MaybeSync},
};
use llm_do_records::RecordRef;
use std::sync::Arc;

/// Shows the events of a run.
pub trait EventSink: MaybeSend + MaybeSync {
    /// Takes one event. Records come in the order of the journal, each after it was written. Must not block for long
    /// and must not call the driver: the journal waits.
    fn event(&self, event: Event);
    /// Takes a record. A sink that does not keep records can avoid the copy.
    fn record(&self, record: RecordRef<'_>) {
        self.event(Event::Record { record: Arc::new(record.to_record()) });
    }
    /// Returns true if the kernel must have a record before it is shown, because other programs may act on it. A sink
    /// that only counts returns false, which saves many writes.
    fn wants_written(&self) -> bool {
        true
    }
    /// Returns true if the sink shows deltas; if not, none are made.
    fn wants_deltas(&self) -> bool {
        true
    }
}
