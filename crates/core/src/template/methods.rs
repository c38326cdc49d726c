//! Methods of Python's values that templates call, in addition to those of `minijinja-contrib`.

use minijinja::value::{Rest, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::Budget;
use super::percent;
use super::widths::{check_format, width};

/// Calls `value.method(arguments)`.
pub(super) fn call(
    budget: &Budget,
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    budget.cut(value)?;
    arguments.iter().try_for_each(|argument| budget.cut(argument))?;
    if matches!(method, "count" | "index") {
        budget.seen(value)?;
    }
    match (method, value.as_str()) {
        ("format", Some(text)) => {
            check_format(text, true, arguments)?;
            budget.repeated(text, text.matches('{').count(), arguments)?;
            if let Some((text, arguments)) = percent::without(text, arguments)? {
                return unknown_method_callback(state, &Value::from(text), method, &arguments);
            }
        }
        ("replace", Some(text)) => {
            if let [old, new, count @ ..] = arguments {
                let most = count.first().and_then(Value::as_usize);
                budget.replaced(text, &budget.printed(old)?, &budget.printed(new)?, most)?;
            }
        }
        ("join", Some(text)) => {
            if let [list] = arguments {
                budget.joined(text, list)?;
            }
        }
        _ => {}
    }
    let called = match (value.as_str(), value.kind()) {
        (Some(text), _) => of_text(text, method, arguments)?,
        (None, ValueKind::Seq | ValueKind::Iterable) => of_list(value, method, arguments)?,
        (None, ValueKind::Map) if CHANGING.contains(&method) => {
            return Err(unchanging("map", "dict(old, key=value)"));
        }
        _ => None,
    };
    budget.kept(match called {
        Some(result) => result,
        None => unknown_method_callback(state, value, method, arguments)?,
    })
}

/// Methods that would change a value in place.
const CHANGING: &[&str] = &[
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

fn unchanging(what: &str, instead: &str) -> Error {
    let detail = format!("a {what} does not change in a template; make a new one, as in `{instead}`");
    Error::new(ErrorKind::InvalidOperation, detail)
}

fn of_text(text: &str, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let length = || text.chars().count();
    let pad = |columns: usize| Ok::<_, Error>(width(columns)?.saturating_sub(length()));
    Ok(Some(match method {
        "casefold" => {
            let () = from_args(arguments)?;
            Value::from(text.to_lowercase())
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            let parts = text
                .split_once(separator)
                .map_or([text, "", ""], |(before, after)| [before, separator, after]);
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            let parts = text
                .rsplit_once(separator)
                .map_or(["", "", text], |(before, after)| [before, separator, after]);
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "ljust" | "rjust" | "center" => {
            let (columns, fill): (usize, Option<char>) = from_args(arguments)?;
            let padding = pad(columns)?;
            let left = match method {
                "ljust" => 0,
                "rjust" => padding,
                _ => padding / 2 + (padding & columns & 1),
            };
            let fill = |count: usize| fill.unwrap_or(' ').to_string().repeat(count);
            Value::from(format!("{}{text}{}", fill(left), fill(padding - left)))
        }
        "zfill" => {
            let (columns,): (usize,) = from_args(arguments)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Value::from(format!("{sign}{}{digits}", "0".repeat(pad(columns)?)))
        }
        "swapcase" => {
            let () = from_args(arguments)?;
            let swapped = text.chars().flat_map(|letter| -> Box<dyn Iterator<Item = char>> {
                if letter.is_uppercase() {
                    Box::new(letter.to_lowercase())
                } else {
                    Box::new(letter.to_uppercase())
                }
            });
            Value::from(swapped.collect::<String>())
        }
        "rsplit" => {
            let (separator, most): (Option<Value>, Option<i64>) = from_args(arguments)?;
            let most = most
                .and_then(|most| usize::try_from(most).ok())
                .map_or(usize::MAX, |most| most.saturating_add(1));
            let separator = separator.as_ref().filter(|separator| !separator.is_none());
            let mut parts: Vec<Value> = match separator
                .map(|separator| separator.as_str().unwrap_or_default())
            {
                Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "the separator is empty")),
                Some(separator) => text.rsplitn(most, separator).map(Value::from).collect(),
                None => words_from_end(text, most).into_iter().map(Value::from).collect(),
            };
            parts.reverse();
            Value::from(parts)
        }
        "index" => {
            let (part,): (&str,) = from_args(arguments)?;
            let Some(offset) = text.find(part) else {
                return Err(Error::new(ErrorKind::InvalidOperation, "the text does not contain that"));
            };
            Value::from(text[..offset].chars().count())
        }
        _ => return Ok(None),
    }))
}

/// The words of a text from its end, at most `most` parts.
fn words_from_end(text: &str, most: usize) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim_end());
    while !rest.is_empty() {
        if words.len() + 1 >= most {
            words.push(rest);
            break;
        }
        let start = rest
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + rest[at..].chars().next().map_or(0, char::len_utf8));
        words.push(&rest[start..]);
        rest = rest[..start].trim_end();
    }
    words
}

fn of_list(value: &Value, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (wanted, _): (Value, Rest<Value>) = from_args(arguments)?;
            for (index, item) in value.try_iter()?.checked().enumerate() {
                if item? == wanted {
                    return Ok(Some(Value::from(index)));
                }
            }
            Err(Error::new(ErrorKind::InvalidOperation, "the list does not contain that"))
        }
        _ if CHANGING.contains(&method) => Err(unchanging("list", "old + [item]")),
        _ => Ok(None),
    }
}
