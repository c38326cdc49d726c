//! The events of a run as a stream, from any record on.

use crate::{live::LiveRun, streams::Place};
use futures_util::{Stream, stream::unfold};
use llm_do::{
    core::{event::Event, journal::Record},
    runs::{Follow, ReadError},
};
use std::{collections::VecDeque, path::Path, sync::Arc};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::spawn_blocking,
};

/// What one who follows a run hears.
#[derive(Clone, Debug)]
pub(crate) enum Followed {
    /// An event of the run.
    Event(Arc<Event>),
    /// The journal can't be read, with the reason. Nothing follows.
    Broken(String),
}

impl Followed {
    /// Its kind, as the name of an event.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Event(event) => match &**event {
                Event::Record { .. } => "record",
                Event::Delta { .. } => "delta",
                Event::Discard { .. } => "discard",
            },
            Self::Broken(_) => "error",
        }
    }

    /// The number of the record, if it is one.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Event(event) => match &**event {
                Event::Record { record } => Some(record.seq),
                Event::Delta { .. } | Event::Discard { .. } => None,
            },
            Self::Broken(_) => None,
        }
    }

    /// Its data: JSON of the event, or the reason.
    pub(crate) fn data(&self) -> String {
        match self {
            // Events are data that serialises.
            Self::Event(event) => serde_json::to_string(&**event).unwrap_or_default(),
            Self::Broken(reason) => reason.clone(),
        }
    }
}

/// One who follows a run. Records come from the journal until they are caught up with, then from the run; a reader that
/// falls behind reads the journal again, and has missed deltas.
struct Reader {
    journal: Option<Follow>,
    live: Option<Receiver<Arc<Event>>>,
    /// The number of the record that comes next.
    next: u64,
    ready: VecDeque<Followed>,
    behind: bool,
    _place: Place,
}

/// The events of the run in that folder after the record with that number, or from the first on. They end with the run.
pub(crate) fn stream(
    dir: &Path,
    live: Option<&LiveRun>,
    after: Option<u64>,
    place: Place,
) -> impl Stream<Item = Followed> + use<> {
    let reader = Reader {
        journal: Some(Follow::new(dir)),
        live: live.and_then(LiveRun::subscribe),
        next: after.map_or(0, |after| after.saturating_add(1)),
        ready: VecDeque::new(),
        behind: true,
        _place: place,
    };
    unfold(reader, |mut reader| async move { Some((reader.event().await?, reader)) })
}

impl Reader {
    async fn event(&mut self) -> Option<Followed> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.behind {
                self.behind = false;
                if let Err(error) = self.catch_up().await {
                    self.live = None;
                    return Some(Followed::Broken(error));
                }
                continue;
            }
            match self.live.as_mut()?.recv().await {
                Ok(event) => self.take(event),
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => {
                    // The last records may have come between the last look into the journal and this.
                    self.live = None;
                    self.behind = true;
                }
            }
        }
    }

    fn take(&mut self, event: Arc<Event>) {
        match &*event {
            Event::Record { record } if record.seq < self.next => {}
            Event::Record { record } if record.seq > self.next => self.behind = true,
            Event::Record { record } => {
                self.next = record.seq + 1;
                self.ready.push_back(Followed::Event(event));
            }
            Event::Delta { .. } | Event::Discard { .. } => self.ready.push_back(Followed::Event(event)),
        }
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
                self.take(Arc::new(Event::Record { record: Arc::new(record) }));
            }
        }
        Ok(())
    }
}
