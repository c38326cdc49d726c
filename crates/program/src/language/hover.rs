//! Explanations of the word at a position, and values that a file inherits.

use super::{
    FileKind, Named, Symbols, Worker,
    complete::{Expected, expected, key, schema_at},
    cursor::{Step, cursor},
    named,
};
use crate::{
    shape::{Key, Shape},
    show::Setting,
    span::Span,
};
use llm_do_core::{authority::Access, gate::Rule};
use serde_json::Value;
use std::{fmt::Write as _, ops::Range};

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The bytes that it explains.
    pub range: Range<usize>,
    /// The explanation in Markdown.
    pub markdown: String,
}

/// A value that a file does not state itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The position after which it is shown.
    pub offset: usize,
    /// The value.
    pub label: String,
    /// The place where it was written.
    pub about: String,
}

/// Explains the word at a position of a file.
pub fn hover(symbols: Option<&Symbols<'_>>, path: &str, text: &str, offset: usize) -> Option<Hover> {
    let kind = FileKind::of(path)?;
    let mut of_tool = None;
    if let Some((range, named)) = symbols.and_then(|symbols| named(symbols, path, text, offset)) {
        let hover =
            symbols.and_then(|symbols| of_named(symbols, &named)).map(|markdown| Hover { range, markdown });
        match named {
            // A rule for the tool has an effect that is explained, too.
            Named::Tool { .. } => of_tool = hover,
            _ if hover.is_some() => return hover,
            _ => {}
        }
    }
    let (yaml, _) = kind.parts(text);
    if !(yaml.start..=yaml.end).contains(&offset) {
        return None;
    }
    let at = cursor(text, yaml, offset);
    if at.is_text || at.word.is_empty() {
        return of_tool;
    }
    let mut path_of_key = at.path.clone();
    let word = text[at.word.clone()].trim_matches(['"', '\'']);
    if !at.is_value && at.is_key {
        path_of_key.push(Step::Key(word.to_owned()));
    }
    let worker = symbols.and_then(|symbols| symbols.worker_of(path));
    let mut markdown = of_key(kind, &path_of_key)
        .or_else(|| of_toolset(symbols?, &path_of_key))
        .or_else(|| Some(String::new()))?;
    if let Some(verdict) = verdict(symbols, worker, &path_of_key) {
        let _ = write!(markdown, "\n\n{verdict}");
    }
    if let Some((symbols, worker)) = symbols.zip(worker) {
        markdown.push_str(&origin(symbols, worker, &path_of_key));
    }
    let markdown = markdown.trim().to_owned();
    if markdown.is_empty() {
        return of_tool;
    }
    Some(Hover { range: at.word, markdown })
}

/// Explains a key by the table of keys.
fn of_key(kind: FileKind, path: &[Step]) -> Option<String> {
    let at = path.iter().rposition(|step| matches!(step, Step::Key(_)))?;
    let Step::Key(name) = &path[at] else { return None };
    let keys = expected(kind.keys(), &path[..at]).into_iter().find_map(|one| match one {
        Expected::Keys(keys) => key(keys, name),
        Expected::Shape(_) => None,
    });
    keys.map(describe)
}

fn describe(key: &Key) -> String {
    let mut text = format!("**{}**: {}", key.name, key.about);
    let values = match &key.shape {
        Shape::Text => "text".to_owned(),
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Count(least) => format!("a whole number, at least {least}"),
        Shape::Number(..) => "a number".to_owned(),
        Shape::Duration => "seconds, or a time such as `90s` or `5m`".to_owned(),
        Shape::Rule | Shape::Approval => "`preApproved`, `ask` or `blocked`".to_owned(),
        Shape::Choice(choices, _) => format!("one of `{}`", choices.join("`, `")),
        Shape::Texts => "a text, or a list of texts".to_owned(),
        Shape::List(_) | Shape::Records(_) => "a list".to_owned(),
        Shape::Record(keys) => {
            let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
            format!("a map with the keys `{}`", names.join("`, `"))
        }
        Shape::Map(_) => "a map".to_owned(),
        Shape::Either(_) | Shape::Any | Shape::Later => String::new(),
    };
    if !values.is_empty() {
        let _ = write!(text, "\n\nValue: {values}.");
    }
    if key.required {
        text.push_str("\n\nThe key is required.");
    }
    text
}

/// Explains a key of a toolset's configuration.
fn of_toolset(symbols: &Symbols<'_>, path: &[Step]) -> Option<String> {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item => None,
        })
        .collect();
    let ["toolsets", name, below @ ..] = names.as_slice() else { return None };
    let kind = symbols.toolsets().get(name)?;
    let Some(last) = below.last() else {
        let tools = kind.tools();
        let tools =
            if tools.is_empty() { String::new() } else { format!("\n\nTools: `{}`", tools.join("`, `")) };
        return Some(format!("**{name}**: a toolset{tools}"));
    };
    let schema = kind.configuration();
    let about = schema_at(schema.value(), schema.value(), below)?.get("description")?.as_str()?.to_owned();
    Some(format!("**{last}**: {about}"))
}

/// Explains what a rule does to the calls that it matches.
fn verdict(symbols: Option<&Symbols<'_>>, worker: Option<Worker<'_>>, path: &[Step]) -> Option<String> {
    let [Step::Key(first), Step::Key(pattern), ..] = path else { return None };
    if first != "tool_rules" {
        return None;
    }
    let worker = worker?;
    let rule =
        worker.effective.rules.iter().find(|rule| rule.span.text().trim_matches(['"', '\'']) == pattern)?;
    let does = match rule.rule? {
        Rule::PreApproved => "run without a question",
        Rule::Ask => "are asked about, or refused where no one can be asked",
        Rule::Blocked => "are refused",
    };
    let name = pattern.split('(').next().unwrap_or(pattern);
    let of = symbols?.tools(Some(worker)).into_iter().find(|(tool, _)| tool == name).map(|(_, about)| about);
    let of = of.map(|about| format!("\n\n`{name}`: {about}")).unwrap_or_default();
    Some(format!(
        "Calls that match `{pattern}` {does}, unless a stricter rule of the project or the operator matches.{of}"
    ))
}

/// Returns the value of a key after the merge, and the place where it was written.
fn origin(symbols: &Symbols<'_>, worker: Worker<'_>, path: &[Step]) -> String {
    let mut names = Vec::new();
    for step in path {
        if let Step::Key(key) = step {
            names.push(crate::shape::snake_case(key));
        }
    }
    let mut text = String::new();
    let shown = symbols.shown(worker);
    let below = |setting: &&Setting| setting.path.starts_with(&names) || (setting.path == names);
    for setting in shown.settings.iter().filter(below).take(12) {
        let from = setting.from.as_deref().unwrap_or("the default");
        let head = if text.is_empty() { "\n\nEffective:\n" } else { "" };
        let _ =
            write!(text, "{head}\n- `{}`: `{}` (from {from})", setting.path.join("."), short(&setting.value));
    }
    text
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn of_named(symbols: &Symbols<'_>, named: &Named) -> Option<String> {
    match named {
        Named::Worker(name) => {
            let worker = symbols.worker(name)?;
            let mut text = format!("```\n{}", worker.signature());
            if let Some(returns) = &worker.definition().returns {
                let _ = write!(text, " -> {}", crate::shorthand::shown(returns.value()));
            }
            text.push_str("\n```");
            if let Some(description) = &worker.definition().description {
                let _ = write!(text, "\n\n{description}");
            }
            let _ = write!(text, "\n\n`{}`", worker.file().path());
            Some(text)
        }
        Named::Parameter { worker, name } => {
            let worker = symbols.worker(worker)?;
            let parameter = worker.definition().signature.parameters.iter().find(|it| *it.name == **name)?;
            let need = if parameter.required { "required" } else { "optional" };
            let origin =
                match (&parameter.path, worker.definition().untrusted.parameters.contains(name.as_str())) {
                    (Some(Access::Write), _) => "\n\nA path, for writing.",
                    (Some(Access::Read), _) => "\n\nA path, for reading.",
                    (None, true) => "\n\nIts value is untrusted.",
                    (None, false) => "",
                };
            Some(format!(
                "`{name}: {}` ({need}): a parameter of `{}`{origin}",
                parameter.shown_type,
                worker.name()
            ))
        }
        Named::Tool { worker, name } => {
            let worker = symbols.worker(worker);
            let about = symbols.tools(worker).into_iter().find(|(tool, _)| tool == name)?.1;
            Some(format!("**{name}**: {about}"))
        }
        Named::File(_) | Named::Code { .. } => None,
    }
}

/// Returns the values that a worker inherits: its model, its mode and its mounts.
pub fn hints(symbols: &Symbols<'_>, path: &str, text: &str) -> Vec<Hint> {
    let Some(worker) = symbols.worker_of(path) else { return Vec::new() };
    let Some(kind @ (FileKind::Worker | FileKind::YamlWorker)) = FileKind::of(path) else {
        return Vec::new();
    };
    let (yaml, _) = kind.parts(text);
    let shown = symbols.shown(worker);
    let own = |setting: &Setting| {
        let prefix = format!("{}:", worker.file().path());
        setting.from.as_deref().is_some_and(|from| from.starts_with(&prefix))
    };
    let first_line = match kind {
        FileKind::Worker => yaml.start.saturating_sub(1),
        _ => return Vec::new(),
    };
    let offset = text[..first_line].trim_end_matches('\r').len();
    let mut hints = Vec::new();
    for setting in shown.settings.iter().filter(|setting| !own(setting)) {
        let label = match setting.path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["model"] => format!("model: {}", short(&setting.value)),
            ["mode"] => format!("mode: {}", short(&setting.value)),
            ["sandbox", "paths", name] => {
                let mode = setting.value.get("mode").and_then(Value::as_str).unwrap_or("ro");
                format!("{name}: {mode}")
            }
            _ => continue,
        };
        let from = setting.from.as_deref().unwrap_or("the default");
        hints.push(Hint { offset, label, about: format!("from {from}") });
    }
    hints
}

/// Returns the bytes of a span in the text of its file.
pub(super) fn bytes(span: &Span) -> Option<Range<usize>> {
    span.range()
}
