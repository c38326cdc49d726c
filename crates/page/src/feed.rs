//! The events of a run that is under way, for the streams that follow it.

use crate::{
    bridge::{Bridge, Signal},
    message::{Effect, RequestId},
};
use llm_do_core::{
    call_path::CallPath,
    event::Event,
    journal::{Record, RecordKind},
    model::Delta,
    partial::Growth,
    question::QuestionId,
};
use llm_do_host::EventSink;
use llm_do_records::{RecordRef, RunChanges, RunView};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The events of a run. The records are kept while the run is under way.
pub(crate) struct Feed {
    bridge: Bridge,
    run: Arc<str>,
    state: Mutex<State>,
    /// Notified of each record.
    pub(crate) recorded: Signal,
}

#[derive(Default)]
struct State {
    records: Vec<Arc<Record>>,
    /// The questions whose answers this process has recorded.
    answered: BTreeSet<QuestionId>,
    beginnings: BTreeMap<CallPath, Beginning>,
    followers: Vec<Follower>,
}

/// An answer in progress.
struct Beginning {
    turn: u32,
    pieces: Vec<Delta>,
    partial: Option<Value>,
}

/// A stream of events.
struct Follower {
    request: RequestId,
    view: Option<Box<RunView>>,
}

/// An event with the changes that it makes to the view of its run.
#[derive(Serialize)]
struct Viewed<'a> {
    #[serde(flatten)]
    event: &'a Event,
    view: RunChanges<'a>,
}

/// Returns an event in the form of server-sent events.
fn text_of(event: &Event, view: Option<RunChanges<'_>>) -> String {
    // Events are data that serialises.
    let data = match view {
        Some(view) => serde_json::to_string(&Viewed { event, view }),
        None => serde_json::to_string(event),
    };
    let data = data.unwrap_or_default();
    match event {
        Event::Record { record } => format!("event: record\nid: {}\ndata: {data}\n\n", record.seq),
        Event::Delta { .. } => format!("event: delta\ndata: {data}\n\n"),
        Event::Partial { .. } => format!("event: partial\ndata: {data}\n\n"),
        Event::DiscardPartial { .. } => format!("event: discard_partial\ndata: {data}\n\n"),
        Event::Discard { .. } => format!("event: discard\ndata: {data}\n\n"),
    }
}

/// Returns the records after that one as server-sent events, and the view of the run after them.
pub(crate) fn texts_of(
    records: &[Arc<Record>],
    after: Option<u64>,
    view: bool,
) -> (String, Option<Box<RunView>>) {
    let mut view = view.then(|| Box::new(RunView::with_changes()));
    let mut text = String::new();
    for record in records {
        let event = Event::Record { record: Arc::clone(record) };
        if let Some(view) = &mut view {
            view.fold((&**record).into());
        }
        if after.is_none_or(|after| record.seq > after) {
            text.push_str(&text_of(&event, view.as_ref().map(|view| view.changes())));
        }
    }
    (text, view)
}

impl Feed {
    /// The feed of a run that has these records.
    pub(crate) fn new(bridge: Bridge, run: Arc<str>, before: Vec<Record>) -> Self {
        let records = before.into_iter().map(Arc::new).collect();
        let state = State { records, ..State::default() };
        Self { bridge, run, state: Mutex::new(state), recorded: Signal::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.state().records.len()
    }

    /// The time of the last record.
    pub(crate) fn last_ms(&self) -> Option<u64> {
        self.state().records.last().map(|record| record.at_ms)
    }

    /// Adds a record, which the log has written.
    pub(crate) fn add(&self, record: Record) {
        self.show(&Event::Record { record: Arc::new(record) });
        self.recorded.notify();
    }

    /// The records so far.
    pub(crate) fn records(&self) -> Vec<Arc<Record>> {
        self.state().records.clone()
    }

    /// Returns true if the answer to that question is recorded.
    pub(crate) fn has_answer(&self, id: &QuestionId) -> bool {
        self.state().answered.contains(id)
    }

    /// Streams the events after that record to the app, until the run ends.
    pub(crate) fn follow(&self, request: RequestId, after: Option<u64>, view: bool) {
        let mut state = self.state();
        let (mut text, view) = texts_of(&state.records, after, view);
        for (path, Beginning { turn, pieces, partial }) in &state.beginnings {
            let (path, turn) = (path.clone(), *turn);
            text.push_str(&text_of(&Event::Discard { path: path.clone(), turn }, None));
            for delta in pieces {
                let delta = delta.clone();
                text.push_str(&text_of(&Event::Delta { path: path.clone(), turn, delta }, None));
            }
            if let Some(value) = partial {
                let growth = vec![Growth::Set { at: Vec::new(), set: value.clone() }];
                text.push_str(&text_of(&Event::Partial { path, turn, growth }, None));
            }
        }
        state.followers.push(Follower { request, view });
        self.bridge.stream(request, Some(Arc::clone(&self.run)));
        self.send(request, text);
    }

    fn send(&self, request: RequestId, text: String) {
        if !text.is_empty() {
            self.bridge.emit(Effect::Piece { request, run: Some(Arc::clone(&self.run)), text });
        }
    }

    /// Ends a stream that the app does not read any more. Returns true if it was one of this run.
    pub(crate) fn leave(&self, request: RequestId) -> bool {
        let followers = &mut self.state().followers;
        let before = followers.len();
        followers.retain(|follower| follower.request != request);
        followers.len() < before
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        for Follower { request, .. } in self.state().followers.drain(..) {
            self.bridge.emit(Effect::End { request });
        }
    }

    fn note(state: &mut State, event: &Event) {
        let mut begun = |path: &CallPath, turn: u32, change: &mut dyn FnMut(&mut Beginning)| {
            let new = || Beginning { turn, pieces: Vec::new(), partial: None };
            let beginning = state.beginnings.entry(path.clone()).or_insert_with(new);
            if beginning.turn != turn {
                *beginning = new();
            }
            change(beginning);
        };
        match event {
            Event::Delta { path, turn, delta } => {
                begun(path, *turn, &mut |beginning| match (beginning.pieces.last_mut(), delta) {
                    (Some(Delta::Text { text: last }), Delta::Text { text })
                    | (Some(Delta::Reasoning { text: last }), Delta::Reasoning { text }) => {
                        last.push_str(text)
                    }
                    _ => beginning.pieces.push(delta.clone()),
                });
            }
            Event::Partial { path, turn, growth } => begun(path, *turn, &mut |beginning| {
                growth.iter().cloned().for_each(|growth| growth.apply(&mut beginning.partial));
            }),
            Event::DiscardPartial { path, .. } => {
                if let Some(beginning) = state.beginnings.get_mut(path) {
                    beginning.partial = None;
                }
            }
            Event::Discard { path, .. } => drop(state.beginnings.remove(path)),
            Event::Record { record } => {
                if matches!(record.body, RecordKind::ModelAnswered { .. } | RecordKind::CallEnded { .. }) {
                    state.beginnings.remove(&record.path);
                }
            }
        }
    }
}

impl Feed {
    /// Shows an event to all streams.
    fn show(&self, event: &Event) {
        let mut texts = Vec::new();
        {
            let mut state = self.state();
            Self::note(&mut state, event);
            if let Event::Record { record } = event {
                if let RecordKind::Answered(_) = record.body {
                    state.answered.insert(QuestionId::new(&record.path, &record.step));
                }
                state.records.push(Arc::clone(record));
            }
            for Follower { request, view } in &mut state.followers {
                let changes = match (event, view) {
                    (Event::Record { record }, Some(view)) => {
                        view.fold(RecordRef::from(&**record));
                        Some(view.changes())
                    }
                    _ => None,
                };
                texts.push((*request, text_of(event, changes)));
            }
        }
        for (request, text) in texts {
            self.send(request, text);
        }
    }
}

impl EventSink for Feed {
    fn event(&self, event: Event) {
        self.show(&event);
    }

    /// Does nothing: the log adds its records.
    fn record(&self, _: RecordRef<'_>) {}
}
