//! Secrets are replaced before a value reaches a model, a screen or a record (`docs/reference/journal.md`).

use crate::send::{MaybeSend, MaybeSync};
use serde_json::Value;
use std::borrow::Cow;

/// Replaces the values of secrets.
pub trait Redact: MaybeSend + MaybeSync {
    /// The text without secrets.
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// The value without secrets in any of its strings and numbers, keys included.
    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => match self.text(&text) {
                Cow::Borrowed(_) => Value::String(text),
                Cow::Owned(clean) => Value::String(clean),
            },
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| (self.text(&key).into_owned(), self.value(value)))
                    .collect(),
            ),
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(clean) => Value::String(clean),
            },
            scalar => scalar,
        }
    }
}

/// A redactor without secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Redact for NoSecrets {
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }
    fn value(&self, value: Value) -> Value {
        value
    }
}
