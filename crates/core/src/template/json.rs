//! The filter `tojson`: JSON in the format of Python's `json.dumps`, safe within HTML.

use super::budget::Budget;
use super::print::number;
use super::widths::width;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::Write as _;

/// The form of the text.
struct Form {
    /// The indentation of one level. `None`: all in one line.
    indent: Option<String>,
    /// True if characters outside of ASCII are escaped.
    ascii: bool,
    /// True if the keys of objects are sorted.
    sorted: bool,
}

/// Applies the filter. Jinja2 has the argument `indent`; the others are those of `json.dumps`, which templates for
/// models use.
pub(super) fn tojson(budget: &Budget, value: &Value, rest: &[Value], named: &Kwargs) -> Result<Value, Error> {
    let given = super::arguments::arguments(&["indent", "ensure_ascii", "sort_keys"], rest, named)?;
    let indent = match given.get::<Option<Value>>("indent")? {
        None => None,
        Some(none) if none.is_none() => None,
        Some(text) if text.as_str().is_some() => Some(text.to_string()),
        Some(columns) => {
            let columns = i64::try_from(columns)?;
            Some(" ".repeat(width(usize::try_from(columns).unwrap_or(0))?))
        }
    };
    let columns = indent.as_ref().map_or(0, String::len);
    if columns > 0 {
        budget.indented(value, columns)?;
    }
    let form = Form {
        indent,
        ascii: given.get::<Option<bool>>("ensure_ascii")?.unwrap_or(true),
        sorted: given.get::<Option<bool>>("sort_keys")?.unwrap_or(true),
    };
    let mut text = String::new();
    form.write(&mut text, value, 0)?;
    Ok(Value::from_safe_string(text))
}

impl Form {
    fn write(&self, text: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => text.push_str(&json_number(value)),
            ValueKind::String => self.write_text(text, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                self.write_all(text, ['[', ']'], &items, depth, |text, item| {
                    self.write(text, item, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut members = Vec::new();
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    members.push((json_key(&key)?, value.get_item(&key)?));
                }
                if self.sorted {
                    members.sort_by(|(one, _), (other, _)| one.cmp(other));
                }
                self.write_all(text, ['{', '}'], &members, depth, |text, (key, member)| {
                    self.write_text(text, key);
                    text.push_str(": ");
                    self.write(text, member, depth + 1)
                })?;
            }
            kind => {
                let message = format!("a value of type {kind} can't be written as JSON");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn write_all<T>(
        &self,
        text: &mut String,
        [open, close]: [char; 2],
        items: &[T],
        depth: usize,
        write: impl Fn(&mut String, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push(open);
        for (number, item) in items.iter().enumerate() {
            match &self.indent {
                Some(indent) => {
                    text.push_str(if number > 0 { ",\n" } else { "\n" });
                    (0..=depth).for_each(|_| text.push_str(indent));
                }
                None if number > 0 => text.push_str(", "),
                None => {}
            }
            write(text, item)?;
        }
        if let Some(indent) = self.indent.as_ref().filter(|_| !items.is_empty()) {
            text.push('\n');
            (0..depth).for_each(|_| text.push_str(indent));
        }
        text.push(close);
        Ok(())
    }

    fn write_text(&self, text: &mut String, value: &str) {
        let escape = |text: &mut String, unit: u32| {
            let _ = write!(text, "\\u{unit:04x}");
        };
        text.push('"');
        for character in value.chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                // Safe in scripts and attributes.
                '<' | '>' | '&' | '\'' | '\0'..='\u{1f}' => escape(text, character.into()),
                ' '..='~' => text.push(character),
                other if self.ascii => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        escape(text, (*unit).into());
                    }
                }
                other => text.push(other),
            }
        }
        text.push('"');
    }
}

/// A number in the format of `json.dumps`.
fn json_number(value: &Value) -> String {
    let text = number(value);
    match text.as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        _ => text,
    }
}

/// A key of a map as a key of an object.
fn json_key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number => Ok(json_number(key)),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        kind => {
            let message = format!("a key of type {kind} can't be written as JSON");
            Err(Error::new(ErrorKind::BadSerialization, message))
        }
    }
}
