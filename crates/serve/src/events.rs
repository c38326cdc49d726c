//! The events of a run, from any record on.

use crate::{live::Joined, meter::Share};
use llm_do::{
    core::{event::Event, journal::Record},
    records::{RunChanges, RunView},
    runs::{Follow, Part, ReadError},
};
use std::{collections::VecDeque, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::{
    sync::broadcast::error::RecvError,
    task::{JoinHandle, spawn_blocking},
};

/// Most bytes of a journal that a reader takes at once. For a client that does not read, the server keeps these and one
/// event.
const AT_ONCE: u64 = 128 << 10;

/// A reader of the events of a run. It takes records from the journal until it has caught up, then from the run. A
/// reader that falls behind reads the journal again, and the answers in progress from their beginning.
pub(crate) struct Reader {
    journal: Journal,
    live: Option<Joined>,
    /// The number of the record that comes next.
    next: u64,
    ready: VecDeque<Arc<Event>>,
    behind: bool,
    view: Option<Box<Folded>>,
    /// The folder of the journal, if it is only there for this reader.
    _folder: Option<TempDir>,
    _place: Share,
}

/// The view of the run up to the last record that was read.
struct Folded {
    run: RunView,
    /// The number of the record that the view takes next.
    next: u64,
}

impl Folded {
    fn fold(&mut self, record: &Record) {
        if record.seq == self.next {
            self.next += 1;
            self.run.fold(record.into());
        }
    }
}

/// The journal, or the thread that reads it. A reader that stops waiting for the thread finds it again.
enum Journal {
    Idle(Follow),
    Reading(JoinHandle<(Follow, Result<Part, ReadError>)>),
    Lost,
}

impl Reader {
    /// A reader of the run in that folder, from the record with the number `next` on. The events end with the run.
    pub(crate) fn new(dir: &Path, live: Option<Joined>, next: u64, place: Share) -> Self {
        let journal = Journal::Idle(Follow::new(dir));
        Self {
            journal,
            live,
            next,
            ready: VecDeque::new(),
            behind: true,
            view: None,
            _folder: None,
            _place: place,
        }
    }

    /// A reader of a run that has not begun. It gets each event, the deltas of an answer before the record of the
    /// answer.
    pub(crate) fn of_new(dir: &Path, live: Option<Joined>, place: Share) -> Self {
        let behind = live.is_none();
        Self { behind, ..Self::new(dir, live, 0, place) }
    }

    /// The same reader, which removes the folder of the journal at its end.
    pub(crate) fn with_folder(self, folder: TempDir) -> Self {
        Self { _folder: Some(folder), ..self }
    }

    /// The same reader, which also folds the records into the view of the run.
    pub(crate) fn with_view(self) -> Self {
        Self { view: Some(Box::new(Folded { run: RunView::with_changes(), next: 0 })), ..self }
    }

    /// The changes that the record of the last event makes to the view, if there is a view. Must be called for each
    /// event.
    pub(crate) fn changes(&mut self, event: &Event) -> Option<RunChanges<'_>> {
        let (Some(view), Event::Record { record }) = (&mut self.view, event) else { return None };
        view.fold(record);
        Some(view.run.changes())
    }

    /// Returns the next event, or `None` after the last one. A call that is dropped before it completes loses no
    /// record.
    ///
    /// # Errors
    /// The journal can't be read. No further event follows.
    pub(crate) async fn event(&mut self) -> Option<Result<Arc<Event>, String>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.behind {
                match self.catch_up().await {
                    Ok(is_last) => self.behind = !is_last,
                    Err(error) => {
                        self.behind = false;
                        self.live = None;
                        return Some(Err(error));
                    }
                }
                continue;
            }
            match self.live.as_mut()?.recv().await {
                Ok(event) => self.take(event),
                // The answers in progress are read again from their beginning.
                Err(RecvError::Lagged(_)) => {
                    self.live = self.live.take().and_then(Joined::again);
                    self.behind = true;
                }
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
                self.ready.push_back(event);
            }
            _ => self.ready.push_back(event),
        }
    }

    /// Takes the next part of the journal. Returns true if the journal has no more.
    async fn catch_up(&mut self) -> Result<bool, String> {
        self.journal = match std::mem::replace(&mut self.journal, Journal::Lost) {
            Journal::Idle(mut journal) => Journal::Reading(spawn_blocking(move || {
                let more = journal.part(AT_ONCE);
                (journal, more)
            })),
            other => other,
        };
        let Journal::Reading(reading) = &mut self.journal else { return Ok(true) };
        let read = reading.await;
        self.journal = Journal::Lost;
        let (journal, more) = read.map_err(|error| error.to_string())?;
        self.journal = Journal::Idle(journal);
        let Part { records, is_last } = more.map_err(|error| error.to_string())?;
        for record in records {
            if record.seq >= self.next {
                self.next = record.seq + 1;
                self.ready.push_back(Arc::new(Event::Record { record: Arc::new(record) }));
            } else if let Some(view) = &mut self.view {
                view.fold(&record);
            }
        }
        if !is_last {
            // Deltas of what the journal has long recorded would come too late.
            self.live = self.live.take().and_then(Joined::again);
        } else if let Some(live) = &mut self.live {
            // Pieces of answers in progress follow the records that they belong to.
            self.ready.extend(live.take_beginnings());
        }
        Ok(is_last)
    }
}
