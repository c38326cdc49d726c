//! The origins of the parts of a value.

use super::{
    Origin, ResultOrigin,
    scalars::{push, read_number, same, scalars},
    words::{numbers, stands_in},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// One part of a value that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Mark {
    /// JSON pointer (RFC 6901) to the part, in which `*` stands for each element of a list. Empty for the whole value.
    pub at: Arc<str>,
    /// The lines of the text there, from 1. Empty for all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<u32>,
    /// Its origin: `typed` or `untrusted`.
    pub origin: Origin,
}

/// The origins of a value: the parts of it that are not trusted. Everything else is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Origins(Vec<Mark>);

impl Origins {
    /// The origins of a trusted value.
    pub const TRUSTED: Self = Self(Vec::new());

    /// The origins of a value that has a single origin.
    pub fn whole(origin: Origin) -> Self {
        Self::TRUSTED.with("", origin)
    }

    /// The origins of an untrusted value.
    pub fn untrusted() -> Self {
        Self::whole(Origin::Untrusted)
    }

    /// The origins of a text in which these lines, from 1, are untrusted.
    pub fn lines(lines: Vec<u32>) -> Self {
        match lines.is_empty() {
            true => Self::TRUSTED,
            false => Self(vec![Mark { at: "".into(), lines, origin: Origin::Untrusted }]),
        }
    }

    /// Adds a part of that origin.
    #[must_use]
    pub fn with(mut self, at: impl Into<Arc<str>>, origin: Origin) -> Self {
        if !origin.is_trusted() {
            self.0.push(Mark { at: at.into(), lines: Vec::new(), origin });
        }
        self
    }

    /// The parts that are not trusted.
    pub fn marks(&self) -> &[Mark] {
        &self.0
    }

    /// Returns true if the whole value is trusted.
    pub fn is_trusted(&self) -> bool {
        self.0.is_empty()
    }

    /// The most suspicious origin of the value's parts.
    pub fn greatest(&self) -> Origin {
        self.0.iter().map(|mark| mark.origin).max().unwrap_or_default()
    }

    /// Returns true if any part is untrusted.
    pub fn is_untrusted(&self) -> bool {
        self.greatest() == Origin::Untrusted
    }

    /// The origin of the part at that JSON pointer: the most suspicious of the marks on it, around it and in it.
    pub fn of(&self, at: &str) -> Origin {
        let on = |mark: &&Mark| overlap(&mark.at, at);
        self.0.iter().filter(on).map(|mark| mark.origin).max().unwrap_or_default()
    }

    /// The origin of each argument of a call, by its name.
    pub fn by_argument(&self, arguments: &Value) -> BTreeMap<Arc<str>, Origin> {
        let named = arguments.as_object().into_iter().flatten();
        named.map(|(name, _)| (name.as_str().into(), self.of(&pointer(name)))).collect()
    }

    /// Merges two origins of the same value.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let whole = |origins: &Self| {
            origins.0.iter().any(|m| m.at.is_empty() && m.lines.is_empty() && m.origin == Origin::Untrusted)
        };
        if whole(&self) || whole(&other) {
            return Self::untrusted();
        }
        for mark in other.0 {
            if !self.0.contains(&mark) {
                self.0.push(mark);
            }
        }
        self
    }

    /// The origins that a function states for one of its results.
    pub(crate) fn stated(result: &ResultOrigin, value: &Value) -> Self {
        match (result, value) {
            (ResultOrigin::Trusted | ResultOrigin::User, _) => Self::TRUSTED,
            (ResultOrigin::Fields(fields), Value::Object(_)) => Self::of_fields("", fields),
            (ResultOrigin::Fields(fields), Value::Array(elements))
                if elements.iter().all(Value::is_object) =>
            {
                Self::of_fields("/*", fields)
            }
            (ResultOrigin::Fields(fields), _) if fields.is_empty() => Self::TRUSTED,
            // A value without these fields is not the one that the statement describes.
            (ResultOrigin::Untrusted | ResultOrigin::Foreign | ResultOrigin::Fields(_), _) => {
                Self::untrusted()
            }
        }
    }

    fn of_fields(above: &str, fields: &[Arc<str>]) -> Self {
        fields
            .iter()
            .fold(Self::TRUSTED, |origins, field| origins.with(below(above, field), Origin::Untrusted))
    }

    /// The origins of the arguments `after` that an operator made from the arguments `before`, whose origins are
    /// `self`. Words that the operator wrote are trusted; unchanged arguments keep their origin.
    pub(crate) fn edited(&self, before: &Value, after: &Value) -> Self {
        let (Value::Object(before), Value::Object(after)) = (before, after) else { return self.clone() };
        let kept = after.iter().filter(|(name, value)| before.get(*name) == Some(*value));
        kept.fold(Self::TRUSTED, |origins, (name, _)| {
            let at = pointer(name);
            let origin = self.of(&at);
            origins.with(at, origin)
        })
    }
}

/// Formats the origins: `untrusted`, or `typed: /amount` if only parts are not trusted; `trusted` for a trusted value.
impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let greatest = self.greatest();
        let marks: Vec<&Mark> = self.0.iter().filter(|mark| mark.origin == greatest).collect();
        write!(f, "{greatest}")?;
        if marks.iter().any(|mark| mark.at.is_empty() && mark.lines.is_empty()) {
            return Ok(());
        }
        for (number, mark) in marks.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { ", " })?;
            f.write_str(&mark.at)?;
            if !mark.lines.is_empty() {
                let lines: Vec<String> = mark.lines.iter().map(u32::to_string).collect();
                write!(f, "{}lines {}", if mark.at.is_empty() { "" } else { " " }, lines.join(", "))?;
            }
        }
        Ok(())
    }
}

/// The pointer to a field of a value.
pub(crate) fn pointer(name: &str) -> String {
    below("", name)
}

/// The pointer to a field below another pointer.
fn below(above: &str, name: &str) -> String {
    let mut at = above.to_owned();
    push(&mut at, name);
    at
}

/// Returns true if two pointers lead to the same value, or one of them to a part of the other's.
fn overlap(a: &str, b: &str) -> bool {
    a.split('/').zip(b.split('/')).all(|(a, b)| a == b || a == "*" || b == "*")
}

/// The parts of a result that occur in the arguments of its call, with the origins that they had there. A text that
/// contains words of an argument, or is a part of one, counts as occurring.
pub(crate) fn echoed(arguments: &Value, origins: &Origins, result: &Value) -> Origins {
    if origins.is_trusted() {
        return Origins::TRUSTED;
    }
    let mut given = scalars(arguments);
    given.retain(|scalar| !origins.of(&scalar.at).is_trusted());
    scalars(result).iter().fold(Origins::TRUSTED, |echo, part| {
        let from = given.iter().filter(|given| repeats(part.value, given.value));
        let origin = from.map(|given| origins.of(&given.at)).max().unwrap_or_default();
        echo.with(part.at.as_str(), origin)
    })
}

/// Returns true if a part of a result repeats an argument, or a piece of it.
pub(super) fn repeats(part: &Value, argument: &Value) -> bool {
    match (part, argument) {
        (Value::Null | Value::Bool(_), _) | (_, Value::Null | Value::Bool(_)) => false,
        (Value::String(part_text), Value::String(text)) => {
            part == argument || stands_in(argument, part_text) || stands_in(part, text)
        }
        (Value::Number(_), Value::String(text)) => {
            stands_in(part, text) || read_number(text).is_some_and(|_| same(part, argument))
        }
        (Value::String(text), Value::Number(_)) => {
            numbers(text).next().is_some() && stands_in(argument, text)
        }
        (part, argument) => same(part, argument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(names: &[&str]) -> ResultOrigin {
        ResultOrigin::Fields(names.iter().map(|&name| name.into()).collect())
    }

    #[test]
    fn fields_of_an_object_and_of_the_elements_of_a_list_are_marked() {
        let one = Origins::stated(&fields(&["body"]), &json!({"id": 1, "body": "x"}));
        assert_eq!((one.of("/id"), one.of("/body")), (Origin::Trusted, Origin::Untrusted));
        let many = Origins::stated(&fields(&["body"]), &json!([{"id": 1, "body": "x"}]));
        assert_eq!((many.of("/0/id"), many.of("/0/body/a")), (Origin::Trusted, Origin::Untrusted));
        assert_eq!(Origins::stated(&fields(&["body"]), &json!("text")), Origins::untrusted());
        assert!(Origins::stated(&fields(&[]), &json!("text")).is_trusted());
    }

    #[test]
    fn a_part_has_the_origin_of_what_it_lies_in_and_of_what_lies_in_it() {
        let origins = Origins::TRUSTED.with("/a/b", Origin::Untrusted).with("/c", Origin::Typed);
        for (at, origin) in [
            ("", Origin::Untrusted),
            ("/a", Origin::Untrusted),
            ("/a/b/0", Origin::Untrusted),
            ("/a/x", Origin::Trusted),
            ("/ab", Origin::Trusted),
            ("/c", Origin::Typed),
        ] {
            assert_eq!(origins.of(at), origin, "{at}");
        }
    }

    #[test]
    fn a_result_repeats_what_stood_in_the_arguments() {
        let arguments = json!({"query": "send to DE89-evil", "limit": 5});
        let echo = |result: Value| echoed(&arguments, &Origins::untrusted(), &result);
        let found = echo(
            json!({"iban": "DE89-evil", "text": "no match for: send to DE89-evil", "mine": "DE11-good"}),
        );
        assert_eq!(found.of("/iban"), Origin::Untrusted);
        assert_eq!(found.of("/text"), Origin::Untrusted);
        assert_eq!(found.of("/mine"), Origin::Trusted);
        assert!(echoed(&arguments, &Origins::TRUSTED, &json!("DE89-evil")).is_trusted());
    }

    #[test]
    fn an_edit_by_the_operator_is_trusted_and_the_rest_is_not() {
        let (before, after) = (json!({"to": "evil", "text": "words"}), json!({"to": "bob", "text": "words"}));
        let edited = Origins::untrusted().edited(&before, &after);
        assert_eq!((edited.of("/to"), edited.of("/text")), (Origin::Trusted, Origin::Untrusted));
        let named = edited.by_argument(&after);
        assert_eq!((named["to"], named["text"]), (Origin::Trusted, Origin::Untrusted));
    }
}
