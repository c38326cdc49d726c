//! Matchers for outputs and files.

use super::read::{bad_case, bad_regex, bad_schema};
use crate::{
    diagnostics::{Diagnostic, codes},
    shorthand::has_unknown_keys,
    yaml::{Data, Entry, Node},
};
use llm_do_core::schema::Schema;
use regex::Regex;
use serde_json::{Value, json};
use std::{fmt, sync::Arc};

/// An expectation about a value.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// An object that has at least these keys, each with such a value.
    Subset(Vec<(String, Matcher)>),
    /// A list of exactly such items.
    Items(Vec<Matcher>),
    /// A text, number or boolean, or null. Numbers are compared by value.
    Scalar(Value),
    /// A text in which this regular expression occurs; other values are compared as JSON.
    Matches(Regex),
    /// A value of this schema.
    Schema(Arc<Schema>),
    /// Exactly this value.
    Exactly(Value),
    /// Any of these matchers.
    AnyOf(Vec<Matcher>),
}

/// The first place where a value does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The place: `items[0].price`; empty for the whole value.
    pub at: String,
    /// The expected and the actual value, as text.
    pub what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.what),
            at => write!(f, "{at}: {}", self.what),
        }
    }
}

/// The longest excerpt of a value in a mismatch, in characters.
const EXCERPT: usize = 160;

impl Matcher {
    /// Reads the matcher that a value of a file describes. A map whose only key is `matches`, `schema`, `exactly` or
    /// `any_of` is that matcher; every other value is matched as a subset.
    pub(super) fn of(node: &Node, found: &mut Vec<Diagnostic>) -> Self {
        let entries = node.entries();
        if let [only] = entries {
            match (only.key.as_str(), &only.value.data) {
                ("matches", data) if !matches!(data, Data::Text(_)) => {
                    found.push(wrong_matcher(only, "a regular expression in quotes"));
                    return Self::AnyOf(Vec::new());
                }
                ("any_of", data) if !matches!(data, Data::List(items) if !items.is_empty()) => {
                    found.push(wrong_matcher(only, "a list of alternatives"));
                    return Self::AnyOf(Vec::new());
                }
                ("matches", Data::Text(pattern)) => match Regex::new(pattern) {
                    Ok(regex) => return Self::Matches(regex),
                    Err(error) => {
                        found.push(bad_regex(&only.value, &error.to_string()));
                        return Self::AnyOf(Vec::new());
                    }
                },
                ("schema", _) => match Schema::new(only.value.to_json()) {
                    Ok(schema) => {
                        has_unknown_keys(&only.value, "schema", found);
                        return Self::Schema(Arc::new(schema));
                    }
                    Err(error) => {
                        found.push(bad_schema(&only.value, &error.to_string()));
                        return Self::AnyOf(Vec::new());
                    }
                },
                ("exactly", _) => return Self::Exactly(only.value.to_json()),
                ("any_of", Data::List(items)) => {
                    return Self::AnyOf(items.iter().map(|item| Self::of(item, found)).collect());
                }
                _ => {}
            }
        }
        match &node.data {
            Data::Map(entries) => {
                let keys = entries.iter().map(|entry| (entry.key.clone(), Self::of(&entry.value, found)));
                Self::Subset(keys.collect())
            }
            Data::List(items) => Self::Items(items.iter().map(|item| Self::of(item, found)).collect()),
            _ => Self::Scalar(node.to_json()),
        }
    }

    /// Returns true if any text could match.
    pub(super) fn can_fit_text(&self) -> bool {
        match self {
            Self::Subset(_) | Self::Items(_) => false,
            Self::Scalar(value) | Self::Exactly(value) => value.is_string(),
            Self::Matches(_) | Self::Schema(_) => true,
            Self::AnyOf(all) => all.iter().any(Self::can_fit_text),
        }
    }

    /// Returns the whole value, if only one matches.
    pub fn exact(&self) -> Option<&Value> {
        match self {
            Self::Exactly(value) | Self::Scalar(value) => Some(value),
            _ => None,
        }
    }

    /// Compares a value.
    ///
    /// # Errors
    /// The first place where the value does not match.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.check_at("", value)
    }

    /// A value that shows what is expected: `value`, with each part that does not match replaced. A matcher that no single
    /// value meets stands as in the file.
    pub fn expected(&self, value: &Value) -> Value {
        if self.check(value).is_ok() {
            return value.clone();
        }
        match (self, value) {
            (Self::Subset(keys), _) => {
                let mut map = value.as_object().cloned().unwrap_or_default();
                for (key, matcher) in keys {
                    let expected = matcher.expected(map.get(key).unwrap_or(&Value::Null));
                    map.insert(key.clone(), expected);
                }
                map.into()
            }
            (Self::Items(items), _) => {
                let found = |at: usize| value.get(at).unwrap_or(&Value::Null);
                items.iter().enumerate().map(|(at, item)| item.expected(found(at))).collect()
            }
            (Self::Scalar(expected) | Self::Exactly(expected), _) => expected.clone(),
            (Self::Matches(regex), _) => json!({"matches": regex.as_str()}),
            (Self::Schema(schema), _) => json!({"schema": &**schema.value()}),
            (Self::AnyOf(all), _) => {
                let all: Vec<Value> = all.iter().map(|matcher| matcher.expected(value)).collect();
                json!({"any_of": all})
            }
        }
    }

    fn check_at(&self, at: &str, value: &Value) -> Result<(), Mismatch> {
        let differs = |what: String| Err(Mismatch { at: at.to_owned(), what });
        match self {
            Self::Subset(keys) => {
                let Value::Object(map) = value else {
                    return differs(format!("expected an object, found {}", short(value)));
                };
                for (key, matcher) in keys {
                    let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                    match map.get(key) {
                        Some(value) => matcher.check_at(&below, value)?,
                        None => return Err(Mismatch { at: below, what: "it is missing".into() }),
                    }
                }
                Ok(())
            }
            Self::Items(items) => {
                let Value::Array(values) = value else {
                    return differs(format!("expected a list, found {}", short(value)));
                };
                if values.len() != items.len() {
                    let count = match items.len() {
                        1 => "1 item".to_owned(),
                        count => format!("{count} items"),
                    };
                    return differs(format!("expected {count}, found {}", values.len()));
                }
                let mut pairs = items.iter().zip(values).enumerate();
                pairs.try_for_each(|(index, (item, value))| item.check_at(&format!("{at}[{index}]"), value))
            }
            Self::Scalar(expected) | Self::Exactly(expected) if !same(expected, value) => {
                differs(format!("expected {}, found {}", short(expected), short(value)))
            }
            Self::Scalar(_) | Self::Exactly(_) => Ok(()),
            Self::Matches(regex) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if regex.is_match(&text) {
                    return Ok(());
                }
                differs(format!("expected a match of `{regex}`, found {}", short(value)))
            }
            Self::Schema(schema) => schema.validate(value).or_else(|violations| {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                differs(format!("it does not fit the schema: {}", reasons.join("; ")))
            }),
            Self::AnyOf(all) => {
                let mut reasons = Vec::new();
                for matcher in all {
                    match matcher.check_at(at, value) {
                        Ok(()) => return Ok(()),
                        Err(mismatch) => reasons.push(mismatch.to_string()),
                    }
                }
                differs(format!("none of the {} alternatives fits: {}", all.len(), reasons.join("; or ")))
            }
        }
    }
}

/// Returns the finding for a matcher whose value has another type.
fn wrong_matcher(entry: &Entry, takes: &str) -> Diagnostic {
    let key = &entry.key;
    bad_case(codes::BAD_EXPECTATION, &entry.value.span, format!("`{key}` takes {takes}"))
        .help(format!("if the output has a key `{key}`, write `{{exactly: …}}` for the whole of its object"))
}

/// Returns true if two values are equal; numbers are compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || (x.as_f64() == y.as_f64() && x.is_f64() != y.is_f64())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        (a, b) => a == b,
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{span::SourceFile, yaml};
    use serde_json::json;

    fn matcher(text: &str) -> Matcher {
        let mut found = Vec::new();
        let node = yaml::parse(&SourceFile::new("x", text), text.len()).expect("YAML");
        let matcher = Matcher::of(&node, &mut found);
        assert_eq!(found, []);
        matcher
    }

    fn told(text: &str, value: Value) -> Option<String> {
        matcher(text).check(&value).err().map(|mismatch| mismatch.to_string())
    }

    #[test]
    fn an_output_is_compared_as_a_subset() {
        assert_eq!(told("{total: 1.5}", json!({"total": 1.5, "note": "x"})), None);
        assert_eq!(told("{total: 2}", json!({"total": 2.0})), None);
        assert_eq!(told("{a: {b: 1}}", json!({"a": {"b": 2}})).as_deref(), Some("a.b: expected 1, found 2"));
        assert_eq!(told("{a: 1}", json!({})).as_deref(), Some("a: it is missing"));
        assert_eq!(told("[{a: 1}]", json!([{"a": 1, "b": 2}])), None);
        assert_eq!(told("[1]", json!([1, 2])).as_deref(), Some("expected 1 item, found 2"));
        assert_eq!(told("{a: 1}", json!("x")).as_deref(), Some("expected an object, found \"x\""));
    }

    #[test]
    fn what_is_expected_differs_from_a_value_where_the_value_does_not_match() {
        let expected = |text: &str, value: Value| matcher(text).expected(&value);
        let value = json!({"total": 2, "note": "x", "rows": [1, 2]});
        assert_eq!(
            expected("{total: 3, rows: [1, 5, 6], who: {matches: '^A'}}", value.clone()),
            json!({"total": 3, "note": "x", "rows": [1, 5, 6], "who": {"matches": "^A"}})
        );
        assert_eq!(expected("{total: 2}", value.clone()), value);
        assert_eq!(expected("{any_of: [{exactly: 1}, two]}", json!("three")), json!({"any_of": [1, "two"]}));
        assert_eq!(expected("{a: {b: 1}}", json!("text")), json!({"a": {"b": 1}}));
    }

    #[test]
    fn a_map_with_one_special_key_is_another_matcher() {
        assert_eq!(told("{matches: '^a+$'}", json!("aa")), None);
        assert!(told("{matches: '^a+$'}", json!("ab")).is_some());
        assert_eq!(told("{t: {schema: {type: integer}}}", json!({"t": 3})), None);
        assert!(told("{t: {schema: {type: integer}}}", json!({"t": "3"})).is_some());
        assert!(told("{exactly: {a: 1}}", json!({"a": 1, "b": 2})).is_some());
        assert_eq!(told("{any_of: [a, {matches: b}]}", json!("xbx")), None);
        assert!(told("{any_of: [a, {matches: b}]}", json!("c")).is_some());
        // With another key beside it, it is a key like any other.
        assert_eq!(told("{matches: x, n: 1}", json!({"matches": "x", "n": 1})), None);
    }
}
