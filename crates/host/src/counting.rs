//! Counts of a run's records, taken on their way to the screen.

use crate::event_sink::EventSink;
use llm_do_core::{event::Event, launch::Tally};
use llm_do_records::RecordRef;
use std::sync::Arc;

/// A sink that adds each record to the run's tally, and passes all events to the listener.
pub(crate) struct Counting {
    pub(crate) tally: Arc<Tally>,
    pub(crate) next: Option<Arc<dyn EventSink>>,
}

impl EventSink for Counting {
    fn event(&self, event: Event) {
        if let Some(next) = &self.next {
            next.event(event);
        }
    }

    fn record(&self, record: RecordRef<'_>) {
        self.tally.add(record.body);
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
