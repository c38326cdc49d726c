//! The events of a run as a stream, from any record on.

use crate::live::LiveRun;
use axum::response::sse;
use futures_util::{Stream, stream::unfold};
use llm_do::{
    core::{event::Event, journal::Record},
    runs::{Follow, ReadError},
};
use std::{collections::VecDeque, convert::Infallible, path::Path, sync::Arc};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::spawn_blocking,
};

/// One who follows a run. Records come from the journal until they are caught up with, then from the run; a reader that
/// falls behind reads the journal again, and has missed deltas.
pub(crate) struct Reader {
    journal: Option<Follow>,
    live: Option<Receiver<Arc<Event>>>,
    /// The number of the record that comes next.
    next: u64,
    ready: VecDeque<Event>,
    behind: bool,
}

/// The events of a run. They end with the run.
pub(crate) fn stream(reader: Reader) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
    unfold(reader, |mut reader| async move {
        let event = match reader.event().await? {
            Ok(event) => message(&event),
            Err(error) => sse::Event::default().event("error").data(error),
        };
        Some((Ok(event), reader))
    })
}

impl Reader {
    /// One who follows the run in that folder after the record with that number, or from the first on.
    pub(crate) fn new(dir: &Path, live: Option<&LiveRun>, after: Option<u64>) -> Self {
        Self {
            journal: Some(Follow::new(dir)),
            live: live.and_then(LiveRun::subscribe),
            next: after.map_or(0, |after| after.saturating_add(1)),
            ready: VecDeque::new(),
            behind: true,
        }
    }

    /// The next event, or why there is none. `None` at the end of the run.
    pub(crate) async fn event(&mut self) -> Option<Result<Event, String>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.behind {
                self.behind = false;
                if let Err(error) = self.catch_up().await {
                    self.live = None;
                    return Some(Err(error));
                }
                continue;
            }
            match self.live.as_mut()?.recv().await {
                Ok(event) => self.take(&event),
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => {
                    // The last records may have come between the last look into the journal and this.
                    self.live = None;
                    self.behind = true;
                }
            }
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Record { record } if record.seq < self.next => {}
            Event::Record { record } if record.seq > self.next => self.behind = true,
            Event::Record { record } => self.record(record),
            Event::Delta { .. } | Event::Discard { .. } => self.ready.push_back(event.clone()),
        }
    }

    fn record(&mut self, record: &Arc<Record>) {
        self.next = record.seq + 1;
        self.ready.push_back(Event::Record { record: Arc::clone(record) });
    }

    /// Takes what the journal has more.
    async fn catch_up(&mut self) -> Result<(), String> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        let read = spawn_blocking(move || {
            let more = journal.more();
            (journal, more)
        });
        let (journal, more): (Follow, Result<Vec<Record>, ReadError>) =
            read.await.map_err(|error| error.to_string())?;
        self.journal = Some(journal);
        for record in more.map_err(|error| error.to_string())? {
            if record.seq >= self.next {
                self.record(&Arc::new(record));
            }
        }
        Ok(())
    }
}

fn message(event: &Event) -> sse::Event {
    // Events are data that serialises.
    let message = sse::Event::default().data(serde_json::to_string(event).unwrap_or_default());
    match event {
        Event::Record { record } => message.event("record").id(record.seq.to_string()),
        Event::Delta { .. } => message.event("delta"),
        Event::Discard { .. } => message.event("discard"),
    }
}
