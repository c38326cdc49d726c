//! Converts values to text as Python prints them.

use std::fmt::Write as _;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{AutoEscape, Error, Output, State, Value};

use super::budget::Budget;

/// Prints one value. The engine would print a value of any size into memory. This function stops at the limit, and
/// counts the bytes in captures (macros, `set` blocks), which the limit of the result does not cover.
pub(super) fn write(
    out: &mut Output,
    state: &mut State,
    value: &Value,
    budget: &Budget,
) -> Result<(), Error> {
    let printed;
    let text = match value.as_str() {
        Some(text) => text,
        None if matches!(value.kind(), ValueKind::Number | ValueKind::Bool | ValueKind::None) => {
            return Ok(out.write_str(&number(value))?);
        }
        None => {
            printed = budget.printed(value)?;
            &printed
        }
    };
    budget.charge(text.len())?;
    match state.auto_escape() {
        AutoEscape::Html if !value.is_safe() => out.write_str(&escape(text))?,
        _ => out.write_str(text)?,
    }
    Ok(())
}

/// A number (or bool, or none) as Python's `repr` writes it: floats with an exponent where they are very large or
/// very small.
pub(super) fn number(value: &Value) -> String {
    if !value.is_number() || value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    if !float.is_finite() {
        return (if float.is_nan() {
            "nan"
        } else if float > 0.0 {
            "inf"
        } else {
            "-inf"
        })
        .to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a number there");
    if float == 0.0 || (-4..16).contains(&exponent) {
        return format!("{float:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Text for HTML, with the Python library's entities.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Formats a value like Python's `pprint`: on one line if it fits into 80 columns, else one item a line.
pub(super) fn pretty(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    pretty_into(&mut text, &sorted(value)?, 0, 0)?;
    Ok(text)
}

/// The value with all maps in the order of their keys.
fn sorted(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Map => {
            let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
            keys.sort();
            let members = keys.into_iter().map(|key| Ok((key.clone(), sorted(&value.get_item(&key)?)?)));
            Ok(Value::from_pairs(members.collect::<Result<Vec<_>, Error>>()?))
        }
        ValueKind::Seq => {
            let items = value.try_iter()?.checked().map(|item| sorted(&item?));
            let items = items.collect::<Result<Vec<_>, Error>>()?;
            Ok(if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
        }
        _ => Ok(value.clone()),
    }
}

/// The columns `pprint` fills.
const COLUMNS: usize = 80;

fn pretty_into(text: &mut String, value: &Value, indent: usize, after: usize) -> Result<(), Error> {
    let line = repr(value);
    let pairs = value.kind() == ValueKind::Map;
    let (open, close) = match value.kind() {
        ValueKind::Map => ('{', '}'),
        ValueKind::Seq if value.is_tuple() => ('(', ')'),
        ValueKind::Seq => ('[', ']'),
        _ => ('\0', '\0'),
    };
    if open == '\0' || indent + after + line.chars().count() <= COLUMNS || indent > COLUMNS {
        text.push_str(&line);
        return Ok(());
    }
    let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
    text.push(open);
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            write!(text, ",\n{}", " ".repeat(indent + 1))?;
        }
        let after = if number + 1 == items.len() { after + 1 } else { 1 };
        if pairs {
            let key = format!("{}: ", repr(item));
            text.push_str(&key);
            pretty_into(text, &value.get_item(item)?, indent + 1 + key.chars().count(), after)?;
        } else {
            pretty_into(text, item, indent + 1, after)?;
        }
    }
    if items.len() == 1 && open == '(' {
        text.push(',');
    }
    text.push(close);
    Ok(())
}

/// A value in the form that Python prints inside a list.
pub(super) fn repr(value: &Value) -> String {
    let listed = Value::from(vec![value.clone()]).to_string();
    listed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&listed).to_owned()
}
