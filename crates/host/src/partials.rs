//! Removal of secrets from partial values. A secret may begin in one growth of a string and end in the next.

use llm_do_core::{
    call_path::CallPath,
    event::Event,
    partial::{Growth, Key, inside},
    redact::Redact as _,
};
use llm_do_records::{Redactor, Stream};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The partial values of a run.
#[derive(Default)]
pub(crate) struct Partials {
    open: Mutex<BTreeMap<CallPath, Open>>,
}

/// The string of a partial value that may grow.
struct Open {
    turn: u32,
    at: Vec<Key>,
    stream: Stream,
}

impl Partials {
    /// The event for the growth, without secrets. The end of a string is held back while it may be the beginning of a
    /// secret. A member whose name has a secret is left out.
    pub(crate) fn push(
        &self,
        redactor: &Redactor,
        path: &CallPath,
        turn: u32,
        growth: Vec<Growth>,
    ) -> Option<Event> {
        let mut shown = Vec::new();
        let mut open = self.open();
        for growth in growth {
            let continues = |open: &Open| open.turn == turn && open.at == growth.at();
            if !open.get(path).is_some_and(continues) {
                shown.extend(
                    open.remove(path).filter(|open| open.turn == turn).and_then(|it| it.rest(redactor)),
                );
            }
            let is_secret =
                |key: &Key| matches!(key, Key::Name(name) if matches!(redactor.redact(name), Cow::Owned(_)));
            if growth.at().iter().any(is_secret) {
                continue;
            }
            match growth {
                Growth::Set { at, mut set } => {
                    let (mut place, text) = take_end(&mut set);
                    set = redactor.value(set);
                    if let Some(text) = text
                        && let Some(Value::String(end)) = inside(&mut set, &place)
                    {
                        let mut stream = Stream::default();
                        *end = stream.push(redactor, &text);
                        place.splice(0..0, at.iter().cloned());
                        open.insert(path.clone(), Open { turn, at: place, stream });
                    }
                    shown.push(Growth::Set { at, set });
                }
                Growth::Append { at, append } => {
                    // Without it, a string in a member that is left out.
                    let Some(open) = open.get_mut(path) else { continue };
                    let append = open.stream.push(redactor, &append);
                    if !append.is_empty() {
                        shown.push(Growth::Append { at, append });
                    }
                }
            }
        }
        event(path, turn, shown)
    }

    /// The event for the text that is held back, after the end of this call's answer.
    pub(crate) fn finish(&self, redactor: &Redactor, path: &CallPath) -> Option<Event> {
        let open = self.open().remove(path)?;
        let turn = open.turn;
        event(path, turn, open.rest(redactor).into_iter().collect())
    }

    /// Drops the text that is held back of this call's answer, which is discarded.
    pub(crate) fn discard(&self, path: &CallPath) {
        self.open().remove(path);
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<CallPath, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn rest(self, redactor: &Redactor) -> Option<Growth> {
        let append = self.stream.finish(redactor);
        (!append.is_empty()).then_some(Growth::Append { at: self.at, append })
    }
}

fn event(path: &CallPath, turn: u32, growth: Vec<Growth>) -> Option<Event> {
    (!growth.is_empty()).then(|| Event::Partial { path: path.clone(), turn, growth })
}

/// Takes the string that a value ends with, and returns it with its place. Only this string may grow.
fn take_end(value: &mut Value) -> (Vec<Key>, Option<String>) {
    let mut at = Vec::new();
    let mut end = value;
    loop {
        end = match end {
            Value::String(text) => return (at, Some(mem::take(text))),
            Value::Array(items) if !items.is_empty() => {
                at.push(Key::Index(items.len() - 1));
                let Some(last) = items.last_mut() else { return (at, None) };
                last
            }
            Value::Object(members) => {
                let Some((name, last)) = members.iter_mut().next_back() else { return (at, None) };
                at.push(Key::Name(name.as_str().into()));
                last
            }
            _ => return (at, None),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "sk-live-1234567890";

    /// Returns the value that a client has at the end, and all text that it was sent.
    fn shown(growth: impl IntoIterator<Item = Vec<Growth>>) -> (Option<Value>, String) {
        let redactor = Redactor::new([
            ("KEY".to_owned(), SECRET.to_owned()),
            ("PIN".to_owned(), "1234567890".to_owned()),
        ]);
        let (partials, path) = (Partials::default(), CallPath::root());
        let (mut value, mut sent) = (None, String::new());
        let mut take = |event: Option<Event>| {
            let Some(Event::Partial { growth, .. }) = event else { return };
            sent.push_str(&serde_json::to_string(&growth).unwrap());
            growth.into_iter().for_each(|growth| growth.apply(&mut value));
        };
        for growth in growth {
            take(partials.push(&redactor, &path, 0, growth));
        }
        take(partials.finish(&redactor, &path));
        assert!(partials.open().is_empty());
        (value, sent)
    }

    fn name(name: &str) -> Key {
        Key::Name(name.into())
    }

    #[test]
    fn a_secret_in_pieces_of_a_string_is_replaced_wherever_it_is_cut() {
        for cut in 0..=SECRET.len() {
            let (before, after) = SECRET.split_at(cut);
            let set = |at: Vec<Key>, set: Value| Growth::Set { at, set };
            let more = |at: Vec<Key>, append: String| Growth::Append { at, append };
            let (value, sent) = shown([
                vec![set(vec![], json!({"a": ["x", format!("it is {before}")]}))],
                vec![
                    more(vec![name("a"), Key::Index(1)], format!("{after}.")),
                    set(vec![name("b")], json!("sk-li")),
                ],
                vec![set(vec![name("c")], json!(""))],
                vec![more(vec![name("c")], before.to_owned())],
                vec![more(vec![name("c")], after.to_owned())],
                vec![set(vec![name("d")], json!([SECRET, 1_234_567_890, {SECRET: "z"}]))],
            ]);
            let expected = json!({
                "a": ["x", "it is [secret KEY]."],
                "b": "sk-li",
                "c": "[secret KEY]",
                "d": ["[secret KEY]", "[secret PIN]", {"[secret KEY]": ""}],
            });
            assert_eq!(value, Some(expected), "cut at {cut}");
            assert!(!sent.contains(SECRET) && !sent.contains("1234567890"), "{sent}");
        }
    }

    #[test]
    fn a_member_named_by_a_secret_is_left_out() {
        let at = || vec![name(SECRET)];
        let (value, sent) = shown([
            vec![Growth::Set { at: vec![], set: json!({"a": 1}) }],
            vec![Growth::Set { at: at(), set: json!("") }],
            vec![Growth::Append { at: at(), append: "text".into() }],
            vec![Growth::Set { at: vec![name("b")], set: json!(2) }],
        ]);
        assert_eq!(value, Some(json!({"a": 1, "b": 2})));
        assert!(!sent.contains("text"), "{sent}");
    }
}
