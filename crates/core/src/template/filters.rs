//! Filters, tests and functions of Jinja2 that the engine lacks, or has without the Python library's positional
//! arguments or details.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{
    Enumerator, Kwargs, Object, ObjectRepr, Rest, StringInput, Tuple, ValueKind, ValueOrKwargs,
};
use minijinja::{
    Environment, Error, ErrorKind, State, UndefinedBehavior, Value, filters, tests as engine_tests,
};

use super::arguments::arguments;
use super::budget::{Budget, holds_objects};
use super::cycler::cycler;
use super::instrument;
use super::print::{escape, pretty};
use super::widths::{check_format, width};
use super::{json, macros, urlize};

/// All filters, for suggestions.
pub(super) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "center",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
    "zip",
];

/// All tests, for suggestions.
pub(super) const TESTS: &[&str] = &[
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// All functions.
pub(super) const FUNCTIONS: &[&str] = &["cycler", "dict", "file", "joiner", "namespace", "range"];

/// Adds all of these filters, tests and functions.
pub(super) fn add(environment: &mut Environment, budget: &Arc<Budget>) {
    add_bounded(environment, budget);
    add_counted_tests(environment, budget);
    for name in ["count", "length"] {
        let budget = Arc::clone(budget);
        environment.add_filter(name, move |value: &Value| {
            budget.cut(value)?;
            filters::length(value)
        });
    }
    environment.add_filter("batch", |state: &State, value: Value, size: usize, fill: Option<Value>| {
        filters::batch(state, value, width(size)?, fill)
    });
    environment.add_test("divisibleby", divisible_by);
    environment.add_filter("d", default);
    environment.add_filter("default", default);
    environment.add_filter("center", center);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("e", escaped);
    environment.add_filter("escape", escaped);
    environment.add_filter("filesizeformat", filesizeformat);
    environment.add_filter("float", float);
    environment.add_filter("forceescape", forceescape);
    environment.add_filter("groupby", groupby);
    environment.add_filter("int", int);
    environment.add_filter("items", items);
    environment.add_filter("max", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        filters::max(state, value, arguments(&["case_sensitive", "attribute"], &rest, &named)?)
    });
    environment.add_filter("min", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        filters::min(state, value, arguments(&["case_sensitive", "attribute"], &rest, &named)?)
    });
    environment.add_filter("pprint", |value: &Value| pretty(value));
    environment.add_filter("slice", |state: &State, value: Value, size: usize, fill: Option<Value>| {
        filters::slice(state, value, width(size)?, fill)
    });
    environment.add_filter("sort", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        filters::sort(state, value, arguments(&["reverse", "case_sensitive", "attribute"], &rest, &named)?)
    });
    environment.add_filter("striptags", striptags);
    environment.add_filter("sum", sum);
    environment.add_filter(macros::FILTER, macros::gathering);
    environment.add_filter("truncate", truncate);
    environment.add_filter("unique", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        filters::unique(state, value, arguments(&["case_sensitive", "attribute"], &rest, &named)?)
    });
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("wordcount", wordcount);
    environment.add_filter("xmlattr", xmlattr);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_function("range", range);
}

/// Adds the filters and functions that could make large values from small ones, and those that measure values in
/// rewritten templates ([`instrument`]).
fn add_bounded(environment: &mut Environment, budget: &Arc<Budget>) {
    let own = || Arc::clone(budget);
    let budget = own();
    environment.add_filter(instrument::KEPT, move |value: Value| budget.kept(value));
    let budget = own();
    environment.add_function(instrument::KEPT, move |value: Value| budget.kept(value));
    let budget = own();
    environment.add_filter(instrument::SEEN, move |value: Value| budget.seen(&value).map(|()| value));
    let budget = own();
    environment.add_function(instrument::SEEN, move |value: Value| budget.seen(&value).map(|()| value));
    let budget = own();
    environment.add_function(instrument::SOUGHT, move |value: Value| budget.sought(&value).map(|()| value));
    let budget = own();
    environment.add_function(instrument::CUT, move |value: Value| budget.cut(&value).map(|()| value));
    let budget = own();
    environment.add_function(instrument::ALL_SEEN, move |values: Rest<Value>| {
        values.iter().try_for_each(|value| budget.seen(value))?;
        Ok::<_, Error>(Value::from(values.0))
    });
    let budget = own();
    environment.add_function(instrument::STORED, move |value: Value| budget.stored(value));
    let budget = own();
    environment.add_function(instrument::RAW, move |bytes: usize| {
        budget.charge(bytes).map(|()| Value::from_safe_string(String::new()))
    });
    let budget = own();
    environment
        .add_filter(instrument::PLUS, move |state: &State, a: &Value, b: &Value| budget.plus(state, a, b));
    let budget = own();
    environment
        .add_filter(instrument::JOIN, move |state: &State, a: &Value, b: &Value| budget.join(state, a, b));
    let budget = own();
    environment
        .add_filter(instrument::TIMES, move |state: &State, a: &Value, b: &Value| budget.times(state, a, b));
    let budget = own();
    environment.add_filter(
        "format",
        move |state: &mut State, template: &Value, rest: Rest<ValueOrKwargs>| {
            format(&budget, state, template, rest)
        },
    );
    let budget = own();
    environment.add_filter(
        "indent",
        move |state: &State, value: &Value, rest: Rest<Value>, named: Kwargs| {
            indent(&budget, state, value, rest, named)
        },
    );
    let budget = own();
    environment.add_filter(
        "join",
        move |state: &mut State,
              value: &Value,
              joiner: Option<Value>,
              attribute: Option<String>,
              named: Kwargs| { join(&budget, state, value, joiner, attribute, named) },
    );
    let budget = own();
    environment.add_filter(
        "replace",
        move |state: &mut State, value: &Value, old: &Value, new: &Value, count: Option<i64>| {
            replace(&budget, state, value, old, new, count)
        },
    );
    let budget = own();
    environment.add_filter("tojson", move |value: &Value, rest: Rest<Value>, named: Kwargs| {
        json::tojson(&budget, value, &rest, &named)
    });
    let budget = own();
    environment.add_filter(
        "urlize",
        move |state: &State, value: &Value, rest: Rest<Value>, named: Kwargs| {
            urlize::filter(&budget, state, value, rest, named)
        },
    );
    let budget = own();
    environment.add_filter(
        "wordwrap",
        move |state: &State, value: &Value, rest: Rest<Value>, named: Kwargs| {
            wordwrap(&budget, state, value, rest, named)
        },
    );
    environment.add_function("cycler", |items: Rest<Value>| {
        plain("cycler", &items)?;
        cycler(items)
    });
    environment.add_function("joiner", |rest: Rest<Value>, named: Kwargs| {
        let separator = arguments(&["sep"], &rest, &named)?.get::<Option<Value>>("sep")?;
        plain("joiner", separator.as_slice())?;
        Ok::<_, Error>(minijinja_contrib::globals::joiner(separator))
    });
    let budget = own();
    environment.add_function("dict", move |value: Option<Value>, named: Kwargs| {
        budget.kept(minijinja::functions::dict(value, named)?)
    });
    let budget = own();
    environment.add_function("namespace", move |defaults: Option<ValueOrKwargs>| {
        if let Some(given) = &defaults {
            budget.stored(given.clone().into_value())?;
        }
        minijinja::functions::namespace(defaults)
    });
}

/// Adds the engine's own tests that read a whole value. `select` and other filters apply them to each item of a list.
fn add_counted_tests(environment: &mut Environment, budget: &Arc<Budget>) {
    type Comparison = fn(&Value, &Value) -> bool;
    let comparisons: [(&[&'static str], Comparison); 6] = [
        (&["eq", "equalto", "=="], engine_tests::is_eq),
        (&["ne", "!="], engine_tests::is_ne),
        (&["lt", "lessthan", "<"], engine_tests::is_lt),
        (&["le", "<="], engine_tests::is_le),
        (&["gt", "greaterthan", ">"], engine_tests::is_gt),
        (&["ge", ">="], engine_tests::is_ge),
    ];
    for (names, test) in comparisons {
        for name in names {
            let budget = Arc::clone(budget);
            environment.add_test(*name, move |value: &Value, other: &Value| {
                budget.seen(other)?;
                Ok::<_, Error>(test(value, other))
            });
        }
    }
    let own = || Arc::clone(budget);
    let budget = own();
    environment.add_test("in", move |state: &State, value: &Value, other: &Value| {
        budget.seen(value)?;
        budget.sought(other)?;
        engine_tests::is_in(state, value, other)
    });
    type Ends = fn(Cow<'_, str>, Cow<'_, str>) -> bool;
    for (name, test) in
        [("startingwith", engine_tests::is_startingwith as Ends), ("endingwith", engine_tests::is_endingwith)]
    {
        let budget = own();
        environment.add_test(name, move |value: Cow<'_, str>, other: Cow<'_, str>| {
            budget.read(other.len())?;
            Ok::<_, Error>(test(value, other))
        });
    }
    for (name, test) in
        [("lower", engine_tests::is_lower as fn(&Value) -> bool), ("upper", engine_tests::is_upper)]
    {
        let budget = own();
        environment.add_test(name, move |value: &Value| {
            budget.seen(value)?;
            Ok::<_, Error>(test(value))
        });
    }
}

/// Refuses arguments that contain objects and could nest without end.
fn plain(function: &str, arguments: &[Value]) -> Result<(), Error> {
    match arguments.iter().any(holds_objects) {
        true => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("`{function}` takes texts, numbers and lists"),
        )),
        false => Ok(()),
    }
}

/// No named arguments.
const NONE: [(String, Value); 0] = [];

/// Tests divisibility. The engine's own test divides by zero, and the smallest integer by -1, which would end the
/// process.
fn divisible_by(value: &Value, by: &Value) -> Result<bool, Error> {
    match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
        (Ok(value), Ok(by)) => match value.checked_rem(by) {
            Some(rest) => Ok(rest == 0),
            None if by == -1 => Ok(true),
            None => Err(Error::new(ErrorKind::InvalidOperation, "division by zero")),
        },
        _ => Ok(minijinja::tests::is_divisibleby(value, by)),
    }
}

/// Converts the value of a filter that takes strings: like Python's `str()`, it takes any printable value.
fn text(state: &State, value: &Value) -> Result<String, Error> {
    Ok(filters::string(state, value)?.to_string())
}

fn center(state: &State, value: &Value, columns: Option<usize>) -> Result<String, Error> {
    let text = text(state, value)?;
    let columns = width(columns.unwrap_or(80))?;
    let padding = columns.saturating_sub(text.chars().count());
    // Python puts the extra space on the left if the width is odd.
    let left = padding / 2 + (padding & columns & 1);
    Ok(format!("{}{text}{}", " ".repeat(left), " ".repeat(padding - left)))
}

fn default(value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = arguments(&["default_value", "boolean"], &rest, &named)?;
    let instead = given.get::<Option<Value>>("default_value")?.unwrap_or_else(|| Value::from(""));
    let boolean = given.get::<Option<Value>>("boolean")?.is_some_and(|boolean| boolean.is_true());
    let is_missing = value.is_undefined() || boolean && !value.is_true();
    Ok(if is_missing { instead } else { value.clone() })
}

fn dictsort(value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    filters::dictsort(value, arguments(&["case_sensitive", "by", "reverse"], &rest, &named)?)
}

fn escaped(state: &State, value: &Value) -> Result<Value, Error> {
    if value.is_safe() { Ok(value.clone()) } else { forceescape(state, value) }
}

fn forceescape(state: &State, value: &Value) -> Result<Value, Error> {
    Ok(Value::from_safe_string(escape(&text(state, value)?)))
}

fn filesizeformat(state: &State, value: &Value, binary: Option<bool>) -> Result<String, Error> {
    let bytes = f64::try_from(float(state, value, Rest(Vec::new()), Kwargs::from_iter(NONE))?)?;
    let (base, units) = if binary.unwrap_or(false) {
        (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"])
    } else {
        (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"])
    };
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc()));
    }
    let mut amount = bytes / base;
    let mut unit = units[0];
    for next in &units[1..] {
        if amount < base {
            break;
        }
        amount /= base;
        unit = next;
    }
    Ok(format!("{amount:.1} {unit}"))
}

fn float(state: &State, value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = arguments(&["default"], &rest, &named)?;
    let default = given.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(0.0));
    filters::float(state, value, Some(default), Kwargs::from_iter(NONE))
}

fn int(state: &State, value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = arguments(&["default", "base"], &rest, &named)?;
    let default = given.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(0));
    let too_large = |number: f64| !number.is_finite() || number.abs() >= 1e38;
    if value.as_str().and_then(|text| text.trim().parse().ok()).is_some_and(too_large) {
        return Ok(default);
    }
    let base = given.get::<Option<u32>>("base")?;
    filters::int(state, value, Some(default), base, Kwargs::from_iter(NONE))
}

fn format(
    budget: &Budget,
    state: &mut State,
    template: &Value,
    rest: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let arguments: Vec<Value> = rest.iter().cloned().map(ValueOrKwargs::into_value).collect();
    let text = template.as_str().unwrap_or_default();
    check_format(text, false, &arguments)?;
    budget.repeated(text, text.matches('%').count(), &arguments)?;
    filters::format(state, template, rest)
}

fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() { Ok(Value::from(Vec::<Value>::new())) } else { filters::items(value) }
}

fn join(
    budget: &Budget,
    state: &mut State,
    value: &Value,
    joiner: Option<Value>,
    attribute: Option<String>,
    named: Kwargs,
) -> Result<Value, Error> {
    // The engine's own joins an undefined variable to an empty text.
    if value.is_undefined() && state.env().undefined_behavior() == UndefinedBehavior::Strict {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let joiner = joiner.map_or(Ok(None), |joiner| text(state, &joiner).map(Some))?.map(Value::from);
    let between = joiner.as_ref().and_then(Value::as_str).unwrap_or_default();
    match &attribute {
        None if value.as_str().is_none() => budget.joined(between, value)?,
        Some(path) => {
            let items = value.try_iter()?.map(|item| at_path(&item, path)).collect::<Vec<_>>();
            budget.joined(between, &Value::from(items))?;
        }
        None => {
            let letters = value.as_str().unwrap_or_default().chars().count();
            budget.lines(value.as_str().unwrap_or_default(), letters, between.len())?;
        }
    }
    let joiner = joiner.as_ref().map(|joiner| StringInput::new(state, joiner)).transpose()?;
    filters::join(state, value, joiner, attribute.as_deref(), named)
}

fn indent(
    budget: &Budget,
    state: &State,
    value: &Value,
    rest: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let given = arguments(&["width", "first", "blank"], &rest, &named)?;
    let text = text(state, value)?;
    let margin = match given.get::<Option<Value>>("width")? {
        Some(margin) if margin.as_str().is_some() => margin.to_string(),
        Some(columns) => " ".repeat(width(usize::try_from(columns)?)?),
        None => " ".repeat(4),
    };
    let first = given.get::<Option<bool>>("first")?.unwrap_or(false);
    let blank = given.get::<Option<bool>>("blank")?.unwrap_or(false);
    budget.lines(&text, text.matches('\n').count() + 1, margin.len())?;
    let mut indented = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            indented.push('\n');
        }
        if if number == 0 { first } else { blank || !line.is_empty() } {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

fn replace(
    budget: &Budget,
    state: &mut State,
    value: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
) -> Result<Value, Error> {
    let (value, old, new) = (text(state, value)?, text(state, old)?, text(state, new)?);
    let count = count.and_then(|count| usize::try_from(count).ok());
    budget.replaced(&value, &old, &new, count)?;
    Ok(Value::from(match count {
        Some(count) => value.replacen(&old, &new, count),
        None => value.replace(&old, &new),
    }))
}

fn striptags(state: &State, value: &Value) -> Result<String, Error> {
    Ok(minijinja_contrib::filters::striptags(text(state, value)?).trim().to_owned())
}

/// Adds the items of a list. The engine's own filter adds lists pair by pair, which takes quadratic time.
fn sum(state: &State, value: Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = arguments(&["attribute", "start"], &rest, &named)?;
    let attribute = given.get::<Option<Value>>("attribute")?.filter(|attribute| !attribute.is_none());
    let attribute = attribute.map(|attribute| attribute.to_string());
    let start = given.get::<Option<Value>>("start")?.unwrap_or_else(|| Value::from(0));
    if start.kind() != ValueKind::Seq {
        return filters::sum(state, value, attribute.as_deref(), Some(start), Kwargs::from_iter(NONE));
    }
    let mut joined = start.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
    for item in value.try_iter()?.checked() {
        let item = item?;
        let item = attribute.as_ref().map(|path| at_path(&item, path)).unwrap_or(item);
        joined.extend(item.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(Value::from(joined))
}

fn truncate(state: &State, value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let given = arguments(&["length", "killwords", "end", "leeway"], &rest, &named)?;
    let text = text(state, value)?;
    let length = given.get::<Option<usize>>("length")?.unwrap_or(255);
    let end = given.get::<Option<String>>("end")?.unwrap_or_else(|| "...".to_owned());
    let leeway = given.get::<Option<usize>>("leeway")?.unwrap_or(5);
    let Some(kept) = length.checked_sub(end.chars().count()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("`{end}` is longer than {length}")));
    };
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let cut = text.char_indices().nth(kept).map_or(text.len(), |(offset, _)| offset);
    let words = if given.get::<Option<bool>>("killwords")?.unwrap_or(false) {
        &text[..cut]
    } else {
        text[..cut].rsplit_once(' ').map_or(&text[..cut], |(words, _)| words)
    };
    Ok(format!("{words}{end}"))
}

/// Percent-encodes a text as a path, a map or a list of pairs as a query. The engine's own filter encodes `~`, and
/// blanks of a query as in a path.
fn urlencode(value: &Value) -> Result<String, Error> {
    let of_pair = |name: &Value, value: &Value| {
        format!("{}={}", quoted_for_url(&name.to_string(), true), quoted_for_url(&value.to_string(), true))
    };
    match value.kind() {
        ValueKind::Map => {
            let keys = value.try_iter()?.checked();
            let pairs = keys.map(|key| key.and_then(|key| Ok(of_pair(&key, &value.get_item(&key)?))));
            Ok(pairs.collect::<Result<Vec<_>, _>>()?.join("&"))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let pairs = value.try_iter()?.checked().map(|pair| {
                let pair = pair?.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                match pair.as_slice() {
                    [name, value] => Ok(of_pair(name, value)),
                    _ => Err(Error::new(ErrorKind::CannotUnpack, "a query is made of pairs")),
                }
            });
            Ok(pairs.collect::<Result<Vec<_>, _>>()?.join("&"))
        }
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Ok(quoted_for_url(&value.to_string(), false)),
    }
}

/// A text with percent-encoding. In a query, a blank is `+`, and `/` is encoded.
fn quoted_for_url(text: &str, is_query: bool) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => quoted.push(byte.into()),
            b'/' if !is_query => quoted.push('/'),
            b' ' if is_query => quoted.push('+'),
            _ => quoted.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted
}

fn wordcount(state: &State, value: &Value) -> Result<usize, Error> {
    let letter = |character: char| character.is_alphanumeric() || character == '_';
    Ok(text(state, value)?.split(|character| !letter(character)).filter(|word| !word.is_empty()).count())
}

fn wordwrap(
    budget: &Budget,
    state: &State,
    value: &Value,
    rest: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let given = arguments(&["width", "break_long_words", "wrapstring", "break_on_hyphens"], &rest, &named)?;
    let text = text(state, value)?;
    let columns = given.get::<Option<usize>>("width")?.unwrap_or(79).max(1);
    let long = given.get::<Option<bool>>("break_long_words")?.unwrap_or(true);
    let separator = given.get::<Option<String>>("wrapstring")?.unwrap_or_else(|| "\n".to_owned());
    let hyphens = given.get::<Option<bool>>("break_on_hyphens")?.unwrap_or(true);
    // A line takes memory of its own, besides its text.
    budget.charge((text.len() / columns).saturating_mul(std::mem::size_of::<String>()))?;
    let paragraphs: Vec<Vec<String>> = text.lines().map(|line| wrap(line, columns, long, hyphens)).collect();
    // An empty paragraph is a line, too.
    budget.lines(&text, paragraphs.iter().map(|lines| lines.len().max(1)).sum(), separator.len())?;
    let paragraphs: Vec<String> = paragraphs.iter().map(|lines| lines.join(&separator)).collect();
    Ok(paragraphs.join(&separator))
}

/// Wraps a paragraph greedily. White space inside a line is kept; at a break it is dropped.
fn wrap(paragraph: &str, columns: usize, break_long_words: bool, break_on_hyphens: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for chunk in chunks(paragraph, break_on_hyphens) {
        let blank = chunk.starts_with(char::is_whitespace);
        let mut rest = chunk;
        loop {
            let wide = rest.chars().count();
            if used + wide <= columns {
                if !(blank && used == 0 && !lines.is_empty()) {
                    line.push_str(rest);
                    used += wide;
                }
                break;
            }
            if !blank && wide > columns && break_long_words && used < columns {
                let cut = rest.char_indices().nth(columns - used).map_or(rest.len(), |(offset, _)| offset);
                line.push_str(&rest[..cut]);
                rest = &rest[cut..];
            } else if used == 0 {
                line.push_str(rest);
                used = wide;
                break;
            }
            lines.push(line.trim_end().to_owned());
            line.clear();
            used = 0;
            if blank {
                break;
            }
        }
    }
    if !line.trim_end().is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Words and the white space between them; with `break_on_hyphens`, a word also ends after a hyphen between two
/// letters.
fn chunks(text: &str, break_on_hyphens: bool) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut before = [None; 2];
    for (offset, character) in text.char_indices() {
        let space = character.is_whitespace();
        let turn = before[1].is_some_and(|last: char| last.is_whitespace() != space);
        let hyphen = break_on_hyphens
            && before[1] == Some('-')
            && before[0].is_some_and(char::is_alphanumeric)
            && character.is_alphabetic();
        if turn || hyphen {
            chunks.push(&text[start..offset]);
            start = offset;
        }
        before = [before[1], Some(character)];
    }
    if start < text.len() {
        chunks.push(&text[start..]);
    }
    chunks
}

fn xmlattr(value: &Value, autospace: Option<bool>) -> Result<Value, Error> {
    let mut attributes = Vec::new();
    for key in value.try_iter()?.checked() {
        let key = key?;
        let name = key.to_string();
        let inner = value.get_item(&key)?;
        if inner.is_none() || inner.is_undefined() {
            continue;
        }
        if name.chars().any(|character| character.is_whitespace() || matches!(character, '/' | '>' | '=')) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("`{name}` is not an attribute name"),
            ));
        }
        attributes.push(format!("{}=\"{}\"", escape(&name), escape(&inner.to_string())));
    }
    let space = if autospace.unwrap_or(true) && !attributes.is_empty() { " " } else { "" };
    Ok(Value::from_safe_string(format!("{space}{}", attributes.join(" "))))
}

/// Returns a range of integers. The engine's own function counts steps without overflow checks.
fn range(lower: i64, upper: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let small = |number: i64| i32::try_from(number).map(|number| number as isize);
    match (small(lower), upper.map(small).transpose(), step.map(small).transpose()) {
        (Ok(lower), Ok(upper), Ok(step)) => minijinja::functions::range(lower, upper, step),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "range has too many elements")),
    }
}

/// A group of `groupby`: a pair, with names.
#[derive(Debug)]
struct Group {
    grouper: Value,
    list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(0), _) | (_, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1), _) | (_, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&Value::from(Tuple::from([self.grouper.clone(), self.list.clone()])), f)
    }
}

/// The value at a path such as `a.b.0`, or undefined.
fn at_path(value: &Value, path: &str) -> Value {
    path.split('.').fold(value.clone(), |value, part| {
        match part.parse() {
            Ok(index) => value.get_item_by_index(index),
            Err(_) => value.get_attr(part),
        }
        .unwrap_or_default()
    })
}

/// Groups items. The engine's own filter names a group by its last value, the Python library by its first. It also
/// takes an index.
fn groupby(value: Value, rest: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = arguments(&["attribute", "default", "case_sensitive"], &rest, &named)?;
    let attribute = given.get::<Value>("attribute")?.to_string();
    let default = given.get::<Option<Value>>("default")?.unwrap_or_default();
    let mut options = vec![("default".to_owned(), default.clone())];
    if let Some(case_sensitive) = given.get::<Option<Value>>("case_sensitive")? {
        options.push(("case_sensitive".to_owned(), case_sensitive));
    }
    let groups = filters::groupby(value, Some(&attribute), Kwargs::from_iter(options))?;
    let mut named_by_first = Vec::new();
    for group in groups.try_iter()?.checked() {
        let list =
            Value::from(group?.get_item_by_index(1)?.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?);
        let mut grouper = at_path(&list.get_item_by_index(0)?, &attribute);
        if grouper.is_undefined() {
            grouper = default.clone();
        }
        named_by_first.push(Value::from_object(Group { grouper, list }));
    }
    Ok(Value::from(named_by_first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_suggested_exists() {
        let mut environment = Environment::new();
        add(&mut environment, &Arc::new(Budget::new(1 << 20)));
        let is = |what: &str, name: &str| {
            environment.render_str(&format!("{{{{ '{name}' is {what} }}}}"), ()).unwrap()
        };
        for name in FILTERS {
            assert_eq!(is("filter", name), "True", "{name}");
        }
        for name in TESTS {
            assert_eq!(is("test", name), "True", "{name}");
        }
        let functions: Vec<&str> = environment.globals().map(|(name, _)| name).collect();
        for name in FUNCTIONS.iter().filter(|name| **name != "file") {
            assert!(functions.contains(name), "{name}");
        }
    }
}
