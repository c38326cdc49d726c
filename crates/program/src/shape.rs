//! The values that keys of a definition may have, and the check of a file against them.
//!
//! One table of [`Key`]s per kind of file ([`crate::keys`]) is the only place that lists keys. It finds unknown keys,
//! wrong types, older spellings and keys that are not supported yet, for the whole file at once.

use crate::{
    diagnostics::{Diagnostic, Fix, codes},
    yaml::{Data, Entry, Node},
};
use llm_do_core::gate::Rule;

/// A key.
#[derive(Debug)]
pub struct Key {
    /// The name of the key, in snake_case. The camelCase spelling is accepted too (`docs/reference/worker-files.md`).
    pub name: &'static str,
    /// Further older names.
    pub aliases: &'static [&'static str],
    /// The allowed values.
    pub shape: Shape,
    /// A description for documentation and editors.
    pub about: &'static str,
    /// True if the key is required.
    pub required: bool,
}

/// The allowed values of a key.
#[derive(Debug)]
pub enum Shape {
    /// Text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number with this minimum.
    Count(u64),
    /// A number between these bounds.
    Number(f64, f64),
    /// Seconds, or text with a unit: `500ms`, `90s`, `5m`, `1h`.
    Duration,
    /// `preApproved`, `ask` or `blocked`; older: `{pre_approved: true}`, `{approval_required: false}`.
    Rule,
    /// A rule; older: `true` for `ask` and `false` for `preApproved`.
    Approval,
    /// A choice from the first list; the second list has known values that are not supported yet.
    Choice(&'static [&'static str], &'static [&'static str]),
    /// A list of texts, or one text.
    Texts,
    /// A list of values of this shape.
    List(&'static Shape),
    /// Keys that the user names, each with a value of this shape.
    Map(&'static Shape),
    /// A map with these keys.
    Record(&'static [Key]),
    /// A list of maps with these keys.
    Records(&'static [Key]),
    /// Any of these shapes; the first that fits the kind of value.
    Either(&'static [Shape]),
    /// Anything; the code that uses it checks it.
    Any,
    /// A feature that is not supported yet; it is an error.
    Later,
}

impl Key {
    /// Creates a key of that name and shape.
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, aliases: &[], shape, about, required: false }
    }

    /// Adds older names.
    #[must_use]
    pub const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Makes the key required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Returns true if the key has that name, which is in snake_case.
    fn is_called(&self, snake: &str) -> bool {
        self.name == snake || self.aliases.contains(&snake)
    }
}

/// Older spellings of a rule.
pub const OLD_RULE: &[Key] = &[
    Key::new("pre_approved", Shape::Flag, "`preApproved` or `ask`"),
    Key::new("approval_required", Shape::Flag, "`ask` or `preApproved`"),
];

/// Checks the keys of a map and returns its canonical form: names as in the table, no nulls, no `x-` keys, and
/// nothing invalid. `path` names the map in messages and is empty for the whole file.
pub fn check(node: &Node, keys: &'static [Key], path: &str, found: &mut Vec<Diagnostic>) -> Node {
    let mut kept: Vec<Entry> = Vec::new();
    for entry in node.entries() {
        if entry.key.starts_with("x-") {
            continue;
        }
        let snake = snake_case(&entry.key);
        let Some(key) = keys.iter().find(|key| key.is_called(&snake)) else {
            found.push(unknown_key(entry, keys.iter().map(|key| key.name), path));
            continue;
        };
        if entry.value.data == Data::Null {
            continue;
        }
        let here = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        if let Some(other) = kept.iter().find(|other| other.key == key.name) {
            found.push(given_twice(&here, key.name, node, other, entry));
            continue;
        }
        if matches!(key.shape, Shape::Later) {
            found.push(not_supported(&format!("`{here}`"), entry));
            continue;
        }
        if let Some(value) = fit(&entry.value, &key.shape, &here, found) {
            kept.push(Entry { key: key.name.to_owned(), key_span: entry.key_span.clone(), value });
        }
    }
    for key in keys.iter().filter(|key| key.required) {
        let there = |entry: &Entry| key.is_called(&snake_case(&entry.key)) && entry.value.data != Data::Null;
        if !node.entries().iter().any(there) {
            let whole = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
            found.push(
                bad_value(node, format!("{whole} has no `{}`", key.name))
                    .help(format!("add `{}`: {}", key.name, key.about)),
            );
        }
    }
    Node { span: node.span.clone(), data: Data::Map(kept) }
}

/// Returns the finding for one key under two names. `kept` is the first in canonical form.
pub(crate) fn given_twice(here: &str, name: &str, node: &Node, kept: &Entry, second: &Entry) -> Diagnostic {
    let found =
        Diagnostic::error(codes::DUPLICATE_KEY, format!("`{here}` is given twice, once as `{}`", second.key))
            .at(&second.key_span)
            .related("it is given here too", &kept.key_span);
    let first = node.entries().iter().find(|entry| entry.key_span == kept.key_span);
    let fix = first.filter(|first| first.value.to_json() == second.value.to_json()).and_then(|first| {
        // The canonical name stays.
        let goes = if second.key == name { first } else { second };
        Fix::remove(format!("remove `{}`, which has the same value", goes.key), goes)
    });
    if fix.is_none() { found.help("keep one of them") } else { found.fix(fix) }
}

/// Returns the finding for a key that is not supported yet.
pub fn not_supported(what: &str, entry: &Entry) -> Diagnostic {
    Diagnostic::error(codes::NOT_SUPPORTED, format!("{what} is not supported yet"))
        .at(&entry.key_span)
        .help("remove it: llm-do rejects keys that have no effect")
}

/// Returns the finding for an unknown key.
pub fn unknown_key<'a>(
    entry: &Entry,
    known: impl Iterator<Item = &'a str> + Clone,
    path: &str,
) -> Diagnostic {
    let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    let found = Diagnostic::error(codes::UNKNOWN_KEY, format!("unknown key `{}`{place}", entry.key))
        .at(&entry.key_span)
        .did_you_mean(&snake_case(&entry.key), known.clone());
    if found.help.is_empty() {
        let names: Vec<&str> = known.collect();
        return found.help(format!("known keys: {}", names.join(", ")));
    }
    found
}

/// Returns the finding for a value of the wrong type.
pub fn wrong_type(node: &Node, path: &str, expected: &str) -> Diagnostic {
    let found =
        Diagnostic::error(codes::WRONG_TYPE, format!("`{path}` must be {expected}, not {}", node.kind()))
            .at(&node.span)
            .label(format!("expected {expected}"));
    match (&node.data, expected) {
        (Data::Text(text), "true or false") => {
            // The meaning of these words in YAML 1.1.
            let flag = match text.to_lowercase().as_str() {
                "yes" | "on" => "true",
                "no" | "off" => "false",
                _ => return found,
            };
            found.note("YAML 1.2 knows `true` and `false` only").fix(Fix::rewrite(
                format!("write `{flag}`"),
                &node.span,
                flag,
            ))
        }
        (Data::Number(_) | Data::Flag(_), "text" | "text or a map") => {
            let quoted = serde_json::Value::from(node.span.text()).to_string();
            found.fix(Fix::rewrite("put it in quotes", &node.span, quoted))
        }
        _ => found,
    }
}

/// Returns the value in canonical form, or `None` with a finding.
fn fit(node: &Node, shape: &'static Shape, path: &str, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let wrong = |found: &mut Vec<Diagnostic>| {
        found.push(wrong_type(node, path, &describe(shape)));
        None
    };
    match shape {
        Shape::Any => Some(node.clone()),
        Shape::Later => {
            found.push(
                Diagnostic::error(
                    codes::NOT_SUPPORTED,
                    format!("this form of `{path}` is not supported yet"),
                )
                .at(&node.span),
            );
            None
        }
        Shape::Text => match &node.data {
            Data::Text(_) => Some(node.clone()),
            _ => wrong(found),
        },
        Shape::Flag => match &node.data {
            Data::Flag(_) => Some(node.clone()),
            _ => wrong(found),
        },
        Shape::Count(least) => match node.as_count() {
            Some(count) if count >= *least => Some(node.clone()),
            Some(_) => {
                found.push(bad_value(node, format!("`{path}` must be at least {least}")));
                None
            }
            None if node.as_number().is_some_and(|number| number < 0.0) => {
                found.push(bad_value(node, format!("`{path}` must be at least {least}")));
                None
            }
            None => wrong(found),
        },
        Shape::Number(least, most) => match node.as_number() {
            Some(number) if (*least..=*most).contains(&number) => Some(node.clone()),
            Some(_) => {
                found.push(bad_value(node, format!("`{path}` must be between {least} and {most}")));
                None
            }
            None => wrong(found),
        },
        Shape::Duration => match (&node.data, milliseconds(node)) {
            (_, Some(_)) => Some(node.clone()),
            (Data::Text(_) | Data::Number(_), None) => {
                found.push(
                    bad_value(node, format!("`{path}` is not a duration"))
                        .help("write seconds, or a number with a unit: `500ms`, `90s`, `5m`, `1h`"),
                );
                None
            }
            _ => wrong(found),
        },
        Shape::Rule => rule(node, path, found),
        Shape::Approval => match node.as_flag() {
            Some(asks) => {
                let rule = if asks { Rule::Ask } else { Rule::PreApproved };
                Some(Node { span: node.span.clone(), data: Data::Text(rule.to_string()) })
            }
            None => rule(node, path, found),
        },
        Shape::Choice(now, later) => match node.as_text() {
            Some(text) if now.contains(&text) => Some(node.clone()),
            Some(text) if later.contains(&text) => {
                found.push(
                    Diagnostic::error(codes::NOT_SUPPORTED, format!("`{path}: {text}` is not supported yet"))
                        .at(&node.span),
                );
                None
            }
            Some(text) => {
                found.push(
                    bad_value(node, format!("`{path}` must be {}, not `{text}`", describe(shape)))
                        .did_you_mean(text, now.iter().copied()),
                );
                None
            }
            None => wrong(found),
        },
        Shape::Texts => match &node.data {
            Data::Text(_) => Some(Node { span: node.span.clone(), data: Data::List(vec![node.clone()]) }),
            Data::List(items) => {
                let mut texts = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    match item.as_text() {
                        Some(_) => texts.push(item.clone()),
                        None => found.push(wrong_type(item, &format!("{path}[{i}]"), "text")),
                    }
                }
                Some(Node { span: node.span.clone(), data: Data::List(texts) })
            }
            _ => wrong(found),
        },
        Shape::List(inner) => match &node.data {
            Data::List(items) => {
                let items = items.iter().enumerate();
                let kept = items.filter_map(|(i, item)| fit(item, inner, &format!("{path}[{i}]"), found));
                Some(Node { span: node.span.clone(), data: Data::List(kept.collect()) })
            }
            _ => wrong(found),
        },
        Shape::Map(inner) => match &node.data {
            Data::Map(entries) => {
                let mut kept = Vec::new();
                for entry in entries.iter().filter(|entry| entry.value.data != Data::Null) {
                    if let Some(value) = fit(&entry.value, inner, &format!("{path}.{}", entry.key), found) {
                        kept.push(Entry { value, ..entry.clone() });
                    }
                }
                Some(Node { span: node.span.clone(), data: Data::Map(kept) })
            }
            _ => wrong(found),
        },
        Shape::Record(keys) => match &node.data {
            Data::Map(_) => Some(check(node, keys, path, found)),
            _ => wrong(found),
        },
        Shape::Records(keys) => match &node.data {
            Data::List(items) => {
                let mut records = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    let here = format!("{path}[{i}]");
                    match &item.data {
                        Data::Map(_) => records.push(check(item, keys, &here, found)),
                        _ => found.push(wrong_type(item, &here, "a map")),
                    }
                }
                Some(Node { span: node.span.clone(), data: Data::List(records) })
            }
            _ => wrong(found),
        },
        Shape::Either(shapes) => match shapes.iter().find(|shape| suits(node, shape)) {
            Some(shape) => fit(node, shape, path, found),
            None => wrong(found),
        },
    }
}

/// Returns true if a value has the type of a shape.
fn suits(node: &Node, shape: &Shape) -> bool {
    match (shape, &node.data) {
        (Shape::Any | Shape::Later, _) => true,
        (Shape::Text | Shape::Choice(..), Data::Text(_)) => true,
        (Shape::Flag, Data::Flag(_)) => true,
        (Shape::Count(_) | Shape::Number(..), Data::Number(_)) => true,
        (Shape::Duration, Data::Number(_) | Data::Text(_)) => true,
        (Shape::Rule, Data::Text(_)) => true,
        (Shape::Approval, Data::Text(_) | Data::Flag(_)) => true,
        (Shape::Texts, Data::List(_) | Data::Text(_)) => true,
        (Shape::List(_), Data::List(_)) => true,
        (Shape::Map(_) | Shape::Record(_), Data::Map(_)) => true,
        (Shape::Records(_), Data::List(_)) => true,
        (Shape::Either(shapes), _) => shapes.iter().any(|shape| suits(node, shape)),
        _ => false,
    }
}

/// Returns a description of the values of a shape.
pub fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".into(),
        Shape::Flag => "true or false".into(),
        Shape::Count(_) => "a whole number".into(),
        Shape::Number(..) => "a number".into(),
        Shape::Duration => "a duration".into(),
        Shape::Rule | Shape::Approval => "`preApproved`, `ask` or `blocked`".into(),
        Shape::Choice(now, _) => {
            let names: Vec<String> = now.iter().map(|name| format!("`{name}`")).collect();
            names.join(" or ")
        }
        Shape::Texts => "a list of texts".into(),
        Shape::List(_) => "a list".into(),
        Shape::Map(_) | Shape::Record(_) => "a map".into(),
        Shape::Records(_) => "a list of maps".into(),
        Shape::Either(shapes) => shapes.iter().map(describe).collect::<Vec<_>>().join(" or "),
        Shape::Any | Shape::Later => "a value".into(),
    }
}

/// Returns the finding for a value of the right type that is invalid.
pub fn bad_value(node: &Node, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::BAD_VALUE, message).at(&node.span)
}

/// Converts a rule, older spellings included (`docs/reference/approvals.md`), to its canonical text.
fn rule(node: &Node, path: &str, found: &mut Vec<Diagnostic>) -> Option<Node> {
    const RULES: [&str; 3] = ["preApproved", "ask", "blocked"];
    let canonical = |rule: Rule| Some(Node { span: node.span.clone(), data: Data::Text(rule.to_string()) });
    match &node.data {
        Data::Text(text) if RULES.contains(&text.as_str()) => Some(node.clone()),
        Data::Text(text) => {
            let help = bad_value(node, format!("`{path}` must be {}, not `{text}`", describe(&Shape::Rule)));
            found.push(help.did_you_mean(text, RULES));
            None
        }
        Data::Map(_) => {
            let keys = check(node, OLD_RULE, path, found);
            let pre_approved = keys.get("pre_approved").and_then(Node::as_flag);
            let required = keys.get("approval_required").and_then(Node::as_flag);
            match (pre_approved, required) {
                (Some(first), Some(second)) => {
                    let conflict = Diagnostic::error(
                        codes::CONFLICT,
                        format!("`{path}` has both `pre_approved` and `approval_required`"),
                    )
                    .at(&node.span);
                    let old =
                        node.entries().iter().find(|entry| snake_case(&entry.key) == "approval_required");
                    let fix = old.filter(|_| first != second).and_then(|old| {
                        Fix::remove(format!("remove `{}`, which has the same value", old.key), old)
                    });
                    let open = fix.is_none();
                    let conflict = conflict.fix(fix);
                    found.push(if open { conflict.help("keep one of them") } else { conflict });
                    None
                }
                (Some(true), None) | (None, Some(false)) => canonical(Rule::PreApproved),
                (Some(false), None) | (None, Some(true)) => canonical(Rule::Ask),
                (None, None) => None,
            }
        }
        _ => {
            found.push(wrong_type(node, path, &describe(&Shape::Rule)));
            None
        }
    }
}

/// Returns the rule that a canonical node names.
pub fn rule_of(node: &Node) -> Option<Rule> {
    match node.as_text()? {
        "preApproved" => Some(Rule::PreApproved),
        "ask" => Some(Rule::Ask),
        "blocked" => Some(Rule::Blocked),
        _ => None,
    }
}

/// Returns a duration in milliseconds.
pub fn milliseconds(node: &Node) -> Option<u64> {
    let scaled = |number: f64, unit: f64| {
        let ms = number * unit;
        (1.0..=1e12).contains(&ms).then_some(ms as u64)
    };
    match &node.data {
        Data::Number(number) => scaled(number.as_f64()?, 1_000.0),
        Data::Text(text) => {
            let text = text.trim();
            let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
            let unit = match text[digits..].trim() {
                "ms" => 1.0,
                "s" => 1_000.0,
                "m" => 60_000.0,
                "h" => 3_600_000.0,
                _ => return None,
            };
            scaled(text[..digits].parse().ok()?, unit)
        }
        _ => None,
    }
}

/// Converts `allowWorkers` to `allow_workers`.
pub fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 && !out.ends_with('_') {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys, span::SourceFile, yaml};

    fn worker(text: &str) -> (Node, Vec<Diagnostic>) {
        let node = yaml::parse(&SourceFile::new("x.worker", text), text.len()).unwrap();
        let mut found = Vec::new();
        let checked = check(&node, keys::WORKER, "", &mut found);
        (checked, found)
    }

    #[test]
    fn older_spellings_become_canonical() {
        let (node, found) =
            worker("allowWorkers: [a]\noutputSchemaRef: x.json\nmaxContextTokens: ~\nx-mine: 1\n");
        assert_eq!(found, []);
        assert_eq!(node.to_json().to_string(), r#"{"allow_workers":["a"],"schema_out_ref":"x.json"}"#);
    }

    #[test]
    fn everything_wrong_is_found_at_once() {
        let (_, found) = worker(
            "modle: x\nlocked: yes\nlimits: {max_turns: 0, max_trns: 1}\nserver_side_tools: [image_generation]\nmode: talk\n",
        );
        let codes: Vec<&str> = found.iter().map(|d| d.code.id).collect();
        assert_eq!(codes, ["E0201", "E0202", "E0203", "E0201", "E0204", "E0203"]);
        assert_eq!(found[0].nearest[0], "model");
        assert_eq!(found[3].message, "unknown key `max_trns` in `limits`");
    }

    #[test]
    fn one_key_under_two_names_is_given_twice() {
        let (_, found) = worker("allow_workers: [a]\nallowWorkers: [b]\n");
        assert_eq!(found[0].code, codes::DUPLICATE_KEY);
    }

    #[test]
    fn durations_have_units() {
        let ms = |text: &str| {
            let node = yaml::parse(&SourceFile::new("x", text), text.len()).unwrap();
            milliseconds(&node)
        };
        assert_eq!(ms("2"), Some(2_000));
        assert_eq!(ms("1.5h"), Some(5_400_000));
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!((ms("0"), ms("5 weeks"), ms("-1"), ms("1e300")), (None, None, None, None));
    }
}
