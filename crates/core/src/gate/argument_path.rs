//! Paths into the arguments of a call: `amount`, `recipients[*]`, `invoice.lines[0].price`.

use serde_json::Value;
use std::{fmt, str::FromStr};

/// A path to one value of a call's arguments, or with `[*]` to each element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPath {
    segments: Vec<Segment>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The value of a key of an object.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
    /// Every element of a list.
    Each,
}

/// A result of following a path in the arguments of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Found<'a> {
    /// The value at the path.
    Value(&'a Value),
    /// No value: an object has no such key, or a list no such element.
    Missing,
    /// A value that the path can't enter, such as a key of a text.
    OtherType,
}

/// A text that is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a path to an argument: {reason}")]
pub struct BadPath {
    /// The text as written.
    pub text: String,
    /// The error in the text.
    pub reason: &'static str,
}

impl ArgumentPath {
    /// The steps of the path. The first is the name of an argument.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The name of the argument.
    pub fn argument(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Key(name)) => name,
            _ => "",
        }
    }

    /// Follows the path in the arguments of a call. A list without elements gives no result.
    pub(super) fn select<'a>(&self, arguments: &'a Value) -> Vec<Found<'a>> {
        let mut found = Vec::new();
        select(arguments, &self.segments, &mut found);
        found
    }
}

fn select<'a>(value: &'a Value, segments: &[Segment], found: &mut Vec<Found<'a>>) {
    let Some((segment, rest)) = segments.split_first() else {
        found.push(Found::Value(value));
        return;
    };
    let next = match (segment, value) {
        (_, Value::Null) => None,
        (Segment::Key(key), Value::Object(map)) => map.get(key),
        (Segment::Index(index), Value::Array(items)) => items.get(*index),
        (Segment::Each, Value::Array(items)) => {
            items.iter().for_each(|item| select(item, rest, found));
            return;
        }
        _ => {
            found.push(Found::OtherType);
            return;
        }
    };
    match next {
        Some(next) => select(next, rest, found),
        None => found.push(Found::Missing),
    }
}

impl FromStr for ArgumentPath {
    type Err = BadPath;

    /// Parses `NAME`, followed by any number of `.NAME`, `["NAME"]`, `[N]` and `[*]`.
    fn from_str(text: &str) -> Result<Self, BadPath> {
        let bad = |reason| BadPath { text: text.to_owned(), reason };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() || segments.is_empty() {
            rest = if let Some(inside) = rest.strip_prefix('[') {
                let (segment, after) = bracket(inside).map_err(bad)?;
                segments.push(segment);
                after
            } else {
                let name = match (segments.is_empty(), rest.strip_prefix('.')) {
                    (true, _) => rest,
                    (false, Some(name)) => name,
                    (false, None) => return Err(bad("a `.` or `[` is missing between two names")),
                };
                let end = name.find(['.', '[', ']']).unwrap_or(name.len());
                if end == 0 {
                    return Err(bad("a name is missing"));
                }
                if !is_name(&name[..end]) {
                    return Err(bad("write a name with other characters as `[\"NAME\"]`"));
                }
                segments.push(Segment::Key(name[..end].to_owned()));
                &name[end..]
            };
        }
        match segments.first() {
            Some(Segment::Key(_)) => Ok(Self { segments }),
            _ => Err(bad("it begins with the name of an argument")),
        }
    }
}

/// Parses the content of brackets. Returns it with the text after the brackets.
fn bracket(inside: &str) -> Result<(Segment, &str), &'static str> {
    const UNCLOSED: &str = "a `]` is missing";
    if inside.starts_with('"') {
        let mut read = serde_json::Deserializer::from_str(inside).into_iter::<String>();
        let Some(Ok(key)) = read.next() else { return Err("the text in brackets does not end") };
        let after = inside[read.byte_offset()..].strip_prefix(']').ok_or(UNCLOSED)?;
        return Ok((Segment::Key(key), after));
    }
    let (index, after) = inside.split_once(']').ok_or(UNCLOSED)?;
    if index == "*" {
        return Ok((Segment::Each, after));
    }
    let digits = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let index = index.parse().ok().filter(|_| digits);
    let index = index.ok_or("write `[*]`, `[N]` with a number from 0, or `[\"NAME\"]`")?;
    Ok((Segment::Index(index), after))
}

/// Returns true if a key needs no quotes in a path.
fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | ':' | '/'))
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Key(key) if is_name(key) && at == 0 => f.write_str(key)?,
                Segment::Key(key) if is_name(key) => write!(f, ".{key}")?,
                Segment::Key(key) => write!(f, "[{}]", Value::from(key.as_str()))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Each => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> ArgumentPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_is_written_as_it_was_read() {
        for text in ["a", "a.b", "a[*].b", "a[0][1]", "größe", "a[\"odd. name]\"].b", "[\"x y\"]", "a-b.$c"]
        {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(parse("a[\"b\"]").to_string(), "a.b");
    }

    #[test]
    fn texts_that_are_no_paths_are_refused() {
        for text in [
            "", ".a", "a.", "a..b", "a[", "a[]", "a[-1]", "a[+1]", "a[x]", "a b", "[0]", "[*]", "a]b",
            "a[0]b", "a[\"b]",
        ] {
            assert!(text.parse::<ArgumentPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_element_is_found_and_a_missing_one_is_told_from_another_type() {
        let arguments = json!({"to": [{"mail": "a"}, {}, 7], "one": {"x": null}, "none": []});
        let found = |path: &str| parse(path).select(&arguments);
        assert_eq!(found("to[*].mail"), [Found::Value(&json!("a")), Found::Missing, Found::OtherType]);
        assert_eq!(found("to[1].mail"), [Found::Missing]);
        assert_eq!(found("one.x.y"), [Found::Missing], "null has nothing in it");
        assert_eq!(found("one[*]"), [Found::OtherType]);
        assert_eq!(found("none[*]"), []);
    }
}
