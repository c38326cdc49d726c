//! Removal of secrets from streamed answers. A secret may begin in one delta and end in the next.

use llm_do_core::{call_path::CallPath, event::Event, model::Delta};
use llm_do_records::{Redactor, Stream};
use std::{
    collections::BTreeMap,
    mem::discriminant,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The streamed answers of a run.
#[derive(Default)]
pub(crate) struct Deltas {
    open: Mutex<BTreeMap<CallPath, Open>>,
}

/// An answer that may have further deltas.
struct Open {
    turn: u32,
    /// The last delta. The next one of its kind continues it.
    last: Delta,
    stream: Stream,
}

impl Deltas {
    /// The events for a delta, without secrets. The end of a text is held back while it may be the beginning of a
    /// secret.
    pub(crate) fn push(&self, redactor: &Redactor, path: &CallPath, turn: u32, delta: Delta) -> Vec<Event> {
        let mut events = Vec::new();
        let mut open = self.open();
        let continues = |open: &Open| open.turn == turn && discriminant(&open.last) == discriminant(&delta);
        if !open.get(path).is_some_and(continues) {
            events.extend(open.remove(path).and_then(|open| open.finish(redactor, path)));
        }
        let (Delta::Text { text }
        | Delta::Reasoning { text }
        | Delta::Call { name: text }
        | Delta::Arguments { text, .. }) = &delta;
        if matches!(delta, Delta::Call { .. } | Delta::Arguments { .. }) {
            events.extend(event(path, turn, &delta, redactor.redact(text).into_owned()));
            return events;
        }
        let text = text.clone();
        let open =
            open.entry(path.clone()).or_insert_with(|| Open { turn, last: delta, stream: Stream::default() });
        let ready = open.stream.push(redactor, &text);
        events.extend(event(path, turn, &open.last, ready));
        events
    }

    /// The event for the held-back text of this call's answer, which has ended.
    pub(crate) fn finish(&self, redactor: &Redactor, path: &CallPath) -> Option<Event> {
        self.open().remove(path)?.finish(redactor, path)
    }

    /// Drops the held-back text of this call's answer, which is discarded.
    pub(crate) fn discard(&self, path: &CallPath) {
        self.open().remove(path);
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<CallPath, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn finish(self, redactor: &Redactor, path: &CallPath) -> Option<Event> {
        event(path, self.turn, &self.last, self.stream.finish(redactor))
    }
}

/// An event with a delta of that kind; `None` for an empty text.
fn event(path: &CallPath, turn: u32, kind: &Delta, text: String) -> Option<Event> {
    let delta = match kind {
        _ if text.is_empty() => return None,
        Delta::Text { .. } => Delta::Text { text },
        Delta::Reasoning { .. } => Delta::Reasoning { text },
        Delta::Call { .. } => Delta::Call { name: text },
        Delta::Arguments { .. } => return None,
    };
    Some(Event::Delta { path: path.clone(), turn, delta })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_two_deltas_is_replaced_and_nothing_is_lost() {
        let redactor = Redactor::new([("KEY".to_owned(), "sk-live-1234567890".to_owned())]);
        let (deltas, path) = (Deltas::default(), CallPath::root());
        let text = |text: &str| Delta::Text { text: text.to_owned() };
        let mut shown = String::new();
        let mut take = |events: Vec<Event>| {
            for event in events {
                match event {
                    Event::Delta { delta: Delta::Text { text } | Delta::Reasoning { text }, .. } => {
                        shown.push_str(&text);
                    }
                    Event::Delta { delta: Delta::Call { name }, .. } => shown.push_str(&format!("<{name}>")),
                    other => panic!("{other:?}"),
                }
            }
        };
        for delta in [
            text("it is sk-li"),
            text("ve-1234567890, and sk-"),
            Delta::Reasoning { text: "sk-live-1234".to_owned() },
            Delta::Call { name: "send".to_owned() },
            text("sk-live"),
        ] {
            take(deltas.push(&redactor, &path, 0, delta));
        }
        take(deltas.finish(&redactor, &path).into_iter().collect());
        assert_eq!(shown, "it is [secret KEY], and sk-sk-live-1234<send>sk-live");
        assert!(deltas.open().is_empty());
    }
}
