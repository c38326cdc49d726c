//! The scalars of a JSON value, and their comparison.

use serde_json::{Number, Value};

/// A part of a value that is neither an object nor a list, with the JSON pointer to it (RFC 6901).
pub(super) struct Scalar<'a> {
    pub(super) at: String,
    pub(super) value: &'a Value,
}

/// All scalars of a value, in its order.
pub(super) fn scalars(value: &Value) -> Vec<Scalar<'_>> {
    let mut found = Vec::new();
    collect(value, &mut String::new(), &mut found);
    found
}

fn collect<'a>(value: &'a Value, at: &mut String, found: &mut Vec<Scalar<'a>>) {
    let length = at.len();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                push(at, name);
                collect(field, at, found);
                at.truncate(length);
            }
        }
        Value::Array(elements) => {
            for (number, element) in elements.iter().enumerate() {
                push(at, &number.to_string());
                collect(element, at, found);
                at.truncate(length);
            }
        }
        value => found.push(Scalar { at: at.clone(), value }),
    }
}

/// Adds a segment to a JSON pointer.
pub(super) fn push(at: &mut String, segment: &str) {
    at.push('/');
    if segment.contains(['~', '/']) {
        at.push_str(&segment.replace('~', "~0").replace('/', "~1"));
    } else {
        at.push_str(segment);
    }
}

/// Returns true if two scalars are the same: numbers by value, even if one of them is written as text.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Number(number), Value::String(text)) | (Value::String(text), Value::Number(number)) => {
            read_number(text.trim()).is_some_and(|read| same_number(&read, number))
        }
        (a, b) => a == b,
    }
}

/// Returns true if two numbers have the same value: `5` and `5.0` do.
pub(super) fn same_number(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

/// The number that a text consists of.
pub(super) fn read_number(text: &str) -> Option<Number> {
    match text.parse::<i64>() {
        Ok(number) => Some(number.into()),
        Err(_) if text.contains(|c: char| !matches!(c, '0'..='9' | '.' | '-')) => None,
        Err(_) => Number::from_f64(text.parse().ok()?),
    }
}
