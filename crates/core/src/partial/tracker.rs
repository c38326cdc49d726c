//! The partial value of one answer, from its deltas.

use super::{
    Growth,
    reader::{Reader, Wrapper},
    shapes::Shapes,
};
use crate::{
    conversation::{Beginning, Begun, OutputContract},
    model::Delta,
    schema::Schema,
};
use serde_json::Value;
use std::sync::Arc;

/// Follows an answer as it arrives. Nothing is read of it before somebody listens.
#[derive(Debug)]
pub(crate) struct Tracker {
    schema: Arc<Schema>,
    final_tool: Option<&'static str>,
    with_user: bool,
    /// The deltas that came while the run had no listener.
    unheard: Vec<Delta>,
    answer: Option<Answer>,
}

/// An answer of which somebody gets the partial value.
#[derive(Debug)]
struct Answer {
    shapes: Arc<Shapes>,
    final_tool: Option<&'static str>,
    /// The wrapper in the arguments of the final-result tool.
    wrapper: Wrapper,
    place: Place,
    /// The number of calls that the answer has begun.
    calls: u32,
    /// The value so far.
    value: Option<Value>,
}

/// The place of the answer in which its value is.
#[derive(Debug)]
enum Place {
    /// The place is not known yet.
    Unknown(Beginning),
    Text(Reader),
    Call(Reader),
    /// The answer has no value that can be shown early.
    Nowhere,
}

/// The change that a delta makes.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    None,
    /// The value has grown.
    Grown(Vec<Growth>),
    /// The text that was shown is not the answer.
    Withdrawn,
}

impl Tracker {
    /// Returns `None` for a contract without a type. `with_user`: the text of the answers is for the user.
    pub(crate) fn new(contract: &OutputContract, with_user: bool) -> Option<Self> {
        let (schema, final_tool) = (Arc::clone(contract.schema()?), contract.final_tool_name());
        Some(Self { schema, final_tool, with_user, unheard: Vec::new(), answer: None })
    }

    /// Takes a delta without a listener. A listener that comes later gets the value so far.
    pub(crate) fn miss(&mut self, delta: &Delta) {
        match (self.unheard.last_mut(), delta) {
            (Some(Delta::Text { text }), Delta::Text { text: more }) => text.push_str(more),
            (Some(Delta::Arguments { call, text }), Delta::Arguments { call: of, text: more })
                if call == of =>
            {
                text.push_str(more);
            }
            (_, Delta::Reasoning { .. }) => {}
            _ => self.unheard.push(delta.clone()),
        }
    }

    /// Takes a delta of the answer.
    pub(crate) fn take(&mut self, delta: &Delta) -> Change {
        let answer =
            self.answer.get_or_insert_with(|| Answer::new(&self.schema, self.final_tool, self.with_user));
        if self.unheard.is_empty() {
            return answer.take(delta);
        }
        let was_shown = answer.value.is_some();
        for missed in std::mem::take(&mut self.unheard).iter().chain([delta]) {
            answer.take(missed);
        }
        match &answer.value {
            Some(value) => Change::Grown(vec![Growth::Set { at: Vec::new(), set: value.clone() }]),
            None if was_shown => Change::Withdrawn,
            None => Change::None,
        }
    }

    /// The value so far, if any part of it was shown.
    pub(crate) fn into_value(self) -> Option<Value> {
        self.answer?.value
    }
}

impl Answer {
    fn new(schema: &Schema, final_tool: Option<&'static str>, with_user: bool) -> Self {
        let is_object = !OutputContract::is_wrapped(schema);
        Self {
            shapes: Arc::new(Shapes::of(schema.value())),
            final_tool,
            wrapper: if is_object { Wrapper::None } else { Wrapper::Present },
            place: if with_user { Place::Nowhere } else { Place::Unknown(Beginning::new()) },
            calls: 0,
            value: None,
        }
    }

    fn take(&mut self, delta: &Delta) -> Change {
        let mut grown = Vec::new();
        match delta {
            Delta::Reasoning { .. } => {}
            Delta::Text { text } => self.text(text, &mut grown),
            Delta::Call { name } => {
                self.calls += 1;
                // The result counts only if it is given alone.
                let is_final = self.calls == 1 && self.final_tool == Some(name.as_str());
                self.place = match is_final {
                    true => Place::Call(Reader::new(Arc::clone(&self.shapes), self.wrapper)),
                    false => Place::Nowhere,
                };
                return if self.value.take().is_some() { Change::Withdrawn } else { Change::None };
            }
            Delta::Arguments { text, .. } => {
                if let Place::Call(reader) = &mut self.place {
                    reader.push(text, &mut grown);
                }
            }
        }
        if grown.is_empty() {
            return Change::None;
        }
        for growth in &grown {
            growth.clone().apply(&mut self.value);
        }
        Change::Grown(grown)
    }

    /// Takes text of the answer.
    fn text(&mut self, text: &str, grown: &mut Vec<Growth>) {
        match &mut self.place {
            Place::Unknown(beginning) => match beginning.push(text) {
                Begun::Not => {}
                Begun::Prose => self.place = Place::Nowhere,
                Begun::Value(text) => {
                    let wrapper = match self.wrapper {
                        Wrapper::None => Wrapper::None,
                        _ => Wrapper::Possible,
                    };
                    let mut reader = Reader::new(Arc::clone(&self.shapes), wrapper);
                    reader.push(&text, grown);
                    self.place = Place::Text(reader);
                }
            },
            Place::Text(reader) => reader.push(text, grown),
            Place::Call(_) | Place::Nowhere => {}
        }
    }
}
