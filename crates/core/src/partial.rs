//! Partial values: the part of a typed answer that has arrived while the answer streams (`docs/reference/journal.md`).
//!
//! A partial value is provisional, like a delta. It is no part of the record. It changes only by [`Growth`], or is
//! withdrawn as a whole.

mod reader;
mod shapes;
mod tracker;

pub(crate) use tracker::{Change, Tracker};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// One step of the way to a place in a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Key {
    /// The number of an element of an array.
    Index(usize),
    /// The name of a member of an object.
    Name(Arc<str>),
}

/// One step of the growth of a partial value.
///
/// Strings grow at their end, arrays by further elements, and objects by further members. Numbers, booleans and `null`
/// appear once they are complete, and so do strings with a declared form (`enum`, `const`, `format`, `pattern`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Growth {
    /// A new element, member or, at the empty place, the value itself.
    Set {
        /// The place, from the outermost container inwards.
        at: Vec<Key>,
        /// The value, which may itself grow later.
        set: Value,
    },
    /// More text of a string.
    Append {
        /// The place of the string.
        at: Vec<Key>,
        /// The text that is added at its end.
        append: String,
    },
}

impl Growth {
    /// The place that grows.
    pub fn at(&self) -> &[Key] {
        let (Self::Set { at, .. } | Self::Append { at, .. }) = self;
        at
    }

    /// Applies the growth to the value that its place counts from. Growth of a place that does not exist changes
    /// nothing: it belongs to another value.
    pub fn apply(self, value: &mut Option<Value>) {
        self.apply_below(value, 0);
    }

    /// Applies the growth below the first `depth` steps of its place, which lead to this value.
    fn apply_below(self, value: &mut Option<Value>, depth: usize) {
        match self {
            Self::Set { mut at, set } => {
                if at.len() == depth {
                    *value = Some(set);
                    return;
                }
                let Some(last) = at.pop() else { return };
                match (value.as_mut().and_then(|value| inside(value, at.get(depth..)?)), last) {
                    (Some(Value::Array(items)), Key::Index(index)) if index == items.len() => items.push(set),
                    (Some(Value::Object(members)), Key::Name(name)) => {
                        members.insert(name.to_string(), set);
                    }
                    _ => {}
                }
            }
            Self::Append { at, append } => {
                let place = value.as_mut().and_then(|value| inside(value, at.get(depth..)?));
                if let Some(Value::String(text)) = place {
                    text.push_str(&append);
                }
            }
        }
    }

    /// Adds a growth to those of one event, of which it becomes a part of the last one where it can.
    fn add(self, grown: &mut Vec<Self>) {
        match (grown.last_mut(), self) {
            (Some(Self::Set { at, set }), growth) if growth.at().starts_with(at) => {
                let depth = at.len();
                let mut inner = Some(set.take());
                growth.apply_below(&mut inner, depth);
                *set = inner.unwrap_or_default();
            }
            (Some(Self::Append { at, append }), Self::Append { at: other, append: more }) if *at == other => {
                append.push_str(&more);
            }
            (_, growth) => grown.push(growth),
        }
    }
}

/// Returns the place inside a value, if it has such a place.
pub fn inside<'v>(value: &'v mut Value, at: &[Key]) -> Option<&'v mut Value> {
    at.iter().try_fold(value, |value, key| match (value, key) {
        (Value::Array(items), Key::Index(index)) => items.get_mut(*index),
        (Value::Object(members), Key::Name(name)) => members.get_mut(&**name),
        _ => None,
    })
}

/// Returns true if a partial value can have become that value by growth alone.
pub fn grows_into(partial: &Value, value: &Value) -> bool {
    match (partial, value) {
        (Value::String(begun), Value::String(text)) => text.starts_with(&**begun),
        (Value::Array(begun), Value::Array(items)) => {
            begun.len() <= items.len() && begun.iter().zip(items).all(|(begun, item)| grows_into(begun, item))
        }
        (Value::Object(begun), Value::Object(members)) => begun
            .iter()
            .all(|(name, begun)| members.get(name).is_some_and(|member| grows_into(begun, member))),
        (partial, value) => partial == value,
    }
}

#[cfg(test)]
mod tests;
