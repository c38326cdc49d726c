//! Messages for errors of the template engine: the place in the files, and a hint.

use std::error::Error as _;

use minijinja::ErrorKind;
use serde_json::Value as Json;

use super::error::{Own, Place, TemplateError, TemplateErrorKind};
use super::filters::{FILTERS, FUNCTIONS, TESTS};
use super::texts::Texts;
use super::{ROOT, Settings};

/// Converts an engine error to one for people.
pub(super) fn explain(
    error: &minijinja::Error,
    texts: &Texts,
    variables: &Json,
    settings: &Settings,
) -> TemplateError {
    let mut inner = error;
    let mut included_from = Vec::new();
    while let Some(next) = inner.source().and_then(|next| next.downcast_ref::<minijinja::Error>()) {
        // `super()` wraps as well, but includes nothing.
        if inner.kind() == ErrorKind::BadInclude {
            included_from.insert(0, place(inner, texts));
        }
        inner = next;
    }
    let own = inner.source().and_then(|source| source.downcast_ref::<Own>());
    let place = match own.and_then(|own| own.at.as_ref()) {
        Some((name, offset)) => texts.place(name, *offset),
        None => place(inner, texts),
    };
    let told = match own {
        Some(own) => Told {
            kind: own.kind,
            message: inner.detail().unwrap_or_default().to_owned(),
            hint: (own.kind == TemplateErrorKind::NotFound).then(|| ROOTS.to_owned()),
        },
        None => tell(inner, variables, settings),
    };
    told.at(place, included_from)
}

/// The longest message, and the longest hint. They may contain values, of any size and with any characters.
const LONGEST: usize = 300;

fn one_line(message: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut line: String = message.chars().take(LONGEST).map(plain).collect();
    if message.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

const ROOTS: &str = "it is looked for in the worker's templates/ and folder, then in the project's templates/ and prompts/; a \
                     library's is written lib:name";

struct Told {
    kind: TemplateErrorKind,
    message: String,
    hint: Option<String>,
}

impl Told {
    /// The error at a place. Names in it come from templates and from values, so they may hold any characters.
    fn at(self, place: Place, included_from: Vec<Place>) -> TemplateError {
        let Self { kind, message, hint } = self;
        TemplateError {
            kind,
            message: one_line(&message),
            place,
            included_from,
            hint: hint.as_deref().map(one_line),
        }
    }
}

fn tell(error: &minijinja::Error, variables: &Json, settings: &Settings) -> Told {
    let detail = error.detail().unwrap_or_default();
    let told = |kind, message: String, hint| Told { kind, message, hint };
    match error.kind() {
        ErrorKind::UndefinedError => match quoted(detail) {
            Some(expression) => undefined(expression, variables),
            None => told(TemplateErrorKind::Undefined, "an undefined value is used".to_owned(), None),
        },
        ErrorKind::UnknownFunction => undefined(detail.split(' ').next().unwrap_or_default(), variables),
        ErrorKind::UnknownFilter => unknown("filter", detail.split(' ').nth(1).unwrap_or_default(), FILTERS),
        ErrorKind::UnknownTest => unknown("test", detail.split(' ').nth(1).unwrap_or_default(), TESTS),
        ErrorKind::SyntaxError | ErrorKind::BadEscape => {
            told(TemplateErrorKind::Syntax, format!("{}: {detail}", error.kind()), None)
        }
        ErrorKind::TemplateNotFound => {
            told(TemplateErrorKind::NotFound, detail.to_owned(), Some(ROOTS.to_owned()))
        }
        ErrorKind::OutOfFuel => told(
            TemplateErrorKind::Limit,
            format!("the template takes more than {} steps", settings.steps),
            Some("a loop is endless or very long".to_owned()),
        ),
        ErrorKind::WriteFailure => told(
            TemplateErrorKind::Limit,
            format!("the rendered text grows beyond {} bytes", settings.output),
            Some("hand large texts over as files that the worker reads".to_owned()),
        ),
        ErrorKind::InvalidOperation if detail == "recursion limit exceeded" => told(
            TemplateErrorKind::Limit,
            "includes and macros nest too deeply".to_owned(),
            Some("a template includes itself, or a macro calls itself without end".to_owned()),
        ),
        // Something was undefined where the engine wanted more than a printable value.
        _ if quoted(detail).is_some() && detail.contains("` is undefined") => {
            undefined(quoted(detail).unwrap_or_default(), variables)
        }
        kind if detail.is_empty() => told(TemplateErrorKind::Failed, kind.to_string(), None),
        kind => told(TemplateErrorKind::Failed, format!("{kind}: {detail}"), None),
    }
}

fn unknown(what: &str, name: &str, names: &[&str]) -> Told {
    let hint = did_you_mean("", &nearest(name, names.iter().copied()));
    Told { kind: TemplateErrorKind::Syntax, message: format!("there is no {what} `{name}`"), hint }
}

/// The error for a filter that does not exist, found without rendering.
pub(super) fn unknown_filter(name: &str, place: Place) -> TemplateError {
    unknown("filter", name, FILTERS).at(place, Vec::new())
}

/// The error for a test that does not exist, found without rendering.
pub(super) fn unknown_test(name: &str, place: Place) -> TemplateError {
    unknown("test", name, TESTS).at(place, Vec::new())
}

/// The text between backticks before ` is undefined`.
fn quoted(detail: &str) -> Option<&str> {
    let (before, _) = detail.split_once("` is undefined")?;
    before.rsplit_once('`').map(|(_, expression)| expression)
}

fn undefined(expression: &str, variables: &Json) -> Told {
    let (parent, name) =
        expression.rsplit_once('.').map_or((None, expression), |(parent, name)| (Some(parent), name));
    let holder = match parent {
        None => Some(variables),
        Some(parent) => parent.split('.').try_fold(variables, |holder, part| holder.get(part)),
    };
    let hint = holder.and_then(Json::as_object).and_then(|members| {
        let functions = if parent.is_none() { FUNCTIONS } else { &[] };
        let names = || members.keys().map(String::as_str);
        let prefix = parent.map(|parent| format!("{parent}.")).unwrap_or_default();
        did_you_mean(&prefix, &nearest(name, names().chain(functions.iter().copied()))).or_else(|| {
            let mut known: Vec<&str> = names().take(SUGGESTED_ALL).collect();
            known.sort_unstable();
            let more = if members.len() > known.len() { ", …" } else { "" };
            (!known.is_empty()).then(|| match parent {
                Some(parent) => format!("`{parent}` has {}{more}", list("", &known)),
                None => format!("the variables are {}{more}", list("", &known)),
            })
        })
    });
    Told { kind: TemplateErrorKind::Undefined, message: format!("`{expression}` is undefined"), hint }
}

/// Maximum number of names shown if none is near.
const SUGGESTED_ALL: usize = 8;

fn did_you_mean(prefix: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("did you mean {}?", list(prefix, names)))
}

fn list(prefix: &str, names: &[&str]) -> String {
    names.iter().map(|name| format!("`{prefix}{name}`")).collect::<Vec<_>>().join(", ")
}

/// The likely intended names, nearest first.
fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut near: Vec<(f64, &str)> = names
        .map(|name| (strsim::normalized_damerau_levenshtein(wanted, name), name))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

fn place(error: &minijinja::Error, texts: &Texts) -> Place {
    let name = error.name().unwrap_or(ROOT);
    match (error.range(), error.line()) {
        (Some(range), _) => texts.place_of_engine(name, range.start),
        (None, line) => texts.line(name, line.unwrap_or(1)),
    }
}
