//! Changes of `mcp_servers` in a manifest that keep its comments and its layout. A change is offered only if parsing
//! the changed text proves that it changes that server and nothing else.

use crate::{
    diagnostics::Fix,
    keys::MCP_SERVERS,
    shape::snake_case,
    span::{SourceFile, Span},
    yaml::{self, Data, Entry, Node, scalar},
};
use serde_json::{Map, Value, json};
use std::{ops::Range, sync::Arc};

/// Indentation of new blocks.
const STEP: usize = 2;

/// The reason why a manifest can't be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEdited {
    /// The manifest already has that server.
    #[error("`{MCP_SERVERS}` has a server `{0}` already")]
    Exists(String),
    /// The manifest does not have that server.
    #[error("`{MCP_SERVERS}` has no server `{0}`")]
    Missing(String),
    /// The manifest can't be parsed, or has a layout that this module can't change.
    #[error("its layout can't be changed automatically")]
    Layout,
}

/// Returns the change that declares a server.
///
/// # Errors
/// The reason why there is no such change.
pub fn add(file: &Arc<SourceFile>, name: &str, definition: &Map<String, Value>) -> Result<Fix, NotEdited> {
    let whole = parse(file)?;
    let section = section(&whole);
    let mut expected = whole.to_json();
    if expected.is_null() {
        expected = json!({});
    }
    let key = section.map_or(MCP_SERVERS, |entry| entry.key.as_str());
    let servers = &mut expected[key];
    if servers.is_null() {
        *servers = json!({});
    }
    let Some(servers) = servers.as_object_mut() else { return Err(NotEdited::Layout) };
    if servers.contains_key(name) {
        return Err(NotEdited::Exists(name.to_owned()));
    }
    servers.insert(name.to_owned(), definition.clone().into());
    let (at, text) = insertion(file, section, name, definition).ok_or(NotEdited::Layout)?;
    let fix = Fix::replace(format!("declare `{name}`"), &at, text).ok_or(NotEdited::Layout)?;
    proved(file, fix, &expected)
}

/// Returns the change that removes a server.
///
/// # Errors
/// The reason why there is no such change.
pub fn remove(file: &Arc<SourceFile>, name: &str) -> Result<Fix, NotEdited> {
    let whole = parse(file)?;
    let section = section(&whole).ok_or_else(|| NotEdited::Missing(name.to_owned()))?;
    let entry = section.value.entry(name).ok_or_else(|| NotEdited::Missing(name.to_owned()))?;
    let mut expected = whole.to_json();
    let is_last = section.value.entries().len() == 1;
    // The last one goes with its key, but a manifest is never empty.
    let goes = if is_last && whole.entries().len() > 1 {
        expected.as_object_mut().map(|keys| keys.shift_remove(&section.key));
        section
    } else {
        let servers = expected[&section.key].as_object_mut().ok_or(NotEdited::Layout)?;
        servers.shift_remove(name);
        entry
    };
    let place =
        |key: &Entry| Some((key.key_span.range()?.start, end(&key.value)?.max(key.key_span.range()?.end)));
    let (start, end) = place(goes).ok_or(NotEdited::Layout)?;
    // No servers are the same as a key without a value.
    let mut meanings = vec![expected];
    if is_last {
        meanings.push(json!({ &section.key: null }));
    }
    let without = |range: Range<usize>| {
        let fix = Fix::replace(format!("remove `{name}`"), &Span::new(file, range), "")?;
        meanings.iter().find_map(|expected| proved(file, fix.clone(), expected).ok())
    };
    stretches(file.text(), start, end).into_iter().find_map(without).ok_or(NotEdited::Layout)
}

/// Returns the ranges that may be an entry: whole lines, or up to a neighbour's comma.
fn stretches(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    if text[line..start].trim().is_empty() {
        all.push(line..text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1));
    }
    if let Some(rest) = text[end..].trim_start_matches([' ', '\t']).strip_prefix(',') {
        all.push(start..text.len() - rest.trim_start_matches([' ', '\t']).len());
    }
    if let Some(rest) = text[..start].trim_end_matches([' ', '\t']).strip_suffix(',') {
        all.push(rest.len()..end);
    }
    all.push(start..end);
    all
}

/// Formats a server as the manifest's YAML, for adding it by hand.
pub fn as_yaml(name: &str, definition: &Map<String, Value>) -> String {
    format!("{MCP_SERVERS}:\n{}", block(name, definition, STEP))
}

fn parse(file: &Arc<SourceFile>) -> Result<Node, NotEdited> {
    yaml::parse(file, file.text().len()).map_err(|_| NotEdited::Layout)
}

fn section(whole: &Node) -> Option<&Entry> {
    whole.entries().iter().find(|entry| snake_case(&entry.key) == MCP_SERVERS)
}

/// Returns the place at which the server is inserted, and its text.
fn insertion(
    file: &Arc<SourceFile>,
    section: Option<&Entry>,
    name: &str,
    definition: &Map<String, Value>,
) -> Option<(Span, String)> {
    let text = file.text();
    let Some(section) = section else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let end = text.len();
        return Some((Span::new(file, end..end), format!("{gap}{}", as_yaml(name, definition))));
    };
    match section.value.entries() {
        [] => {
            let key = section.key_span.range()?;
            let colon = key.end + text[key.end..].find(':')? + 1;
            let end = match section.value.data {
                Data::Null => colon,
                _ => closed(text, colon + text[colon..].find('{')? + 1, '}')?,
            };
            let servers = block(name, definition, STEP);
            Some((Span::new(file, colon..end), format!("\n{}", servers.trim_end())))
        }
        [first, .., last] | [first @ last] => {
            let (start, end) =
                (first.key_span.range()?.start, end(&last.value)?.max(last.key_span.range()?.end));
            if opens(text, start, '{') {
                let server = format!(", {}: {}", word(name), flow(&definition.clone().into()));
                return Some((Span::new(file, end..end), server));
            }
            let line = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
            let gap = if text[..line].ends_with('\n') { "" } else { "\n" };
            let indent = start - text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            Some((Span::new(file, line..line), format!("{gap}{}", block(name, definition, indent))))
        }
    }
}

/// Returns the end of a value in its file. The span of a map or list ends with its last value, before a bracket.
fn end(node: &Node) -> Option<usize> {
    let text = node.span.file().text();
    let own = node.span.range()?;
    let (start, last, brackets) = match &node.data {
        Data::Map(entries) => {
            let last = entries.last().map(|entry| (&entry.value, entry.key_span.range()));
            (entries.first().map(|entry| entry.key_span.range()), last, ('{', '}'))
        }
        Data::List(items) => {
            (items.first().map(|item| item.span.range()), items.last().map(|item| (item, None)), ('[', ']'))
        }
        _ => return Some(own.end),
    };
    let (Some(start), Some((last, key))) = (start, last) else {
        return closed(text, own.start + text[own.start..].find(brackets.0)? + 1, brackets.1);
    };
    let last = end(last)?.max(key.map_or(0, |key| key.end));
    if opens(text, start?.start, brackets.0) { closed(text, last, brackets.1) } else { Some(last) }
}

/// Returns true if that bracket is before a place.
fn opens(text: &str, at: usize, bracket: char) -> bool {
    text[..at].trim_end().ends_with(bracket)
}

/// Returns the end of a bracket that closes at a place, possibly after a comma.
fn closed(text: &str, at: usize, bracket: char) -> Option<usize> {
    let rest = text[at..].trim_start();
    let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    Some(text.len() - rest.strip_prefix(bracket)?.len())
}

fn block(name: &str, definition: &Map<String, Value>, indent: usize) -> String {
    let keys = definition
        .iter()
        .map(|(key, value)| format!("{:width$}{key}: {}\n", "", flow(value), width = indent + STEP));
    format!("{:indent$}{}:\n{}", "", word(name), keys.collect::<String>())
}

/// Formats a value in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}: {}", word(key), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Formats a text as one word of YAML, or else as JSON.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@+=".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/')
        && text.chars().all(plain)
        && scalar(text) == text
    {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

/// Returns the fix, if parsing the changed text gives the expected value.
fn proved(file: &Arc<SourceFile>, fix: Fix, expected: &Value) -> Result<Fix, NotEdited> {
    let changed = fix.apply(file.text()).ok_or(NotEdited::Layout)?;
    let after = parse(&SourceFile::new(Arc::clone(file.path()), changed))?;
    if after.to_json() == *expected { Ok(fix) } else { Err(NotEdited::Layout) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Map<String, Value> {
        let definition =
            json!({"command": "node", "args": ["a.js", "it's: # \"x\"", "-v"], "env": {"T": "${T}"}});
        definition.as_object().cloned().unwrap()
    }

    fn added(text: &str) -> String {
        let file = SourceFile::new("project.yaml", text);
        add(&file, "new", &definition()).unwrap().apply(text).unwrap()
    }

    #[test]
    fn comments_and_layout_stay() {
        const NEW: &str = "  new:\n    command: node\n    args: [a.js, \"it's: # \\\"x\\\"\", \"-v\"]\n    env: {T: \"${T}\"}\n";
        assert_eq!(added(""), format!("mcp_servers:\n{NEW}"));
        assert_eq!(added("# mine\nname: x"), format!("# mine\nname: x\nmcp_servers:\n{NEW}"));
        assert_eq!(added("mcp_servers: {}  # none\n"), format!("mcp_servers:\n{}  # none\n", NEW.trim_end()));
        assert_eq!(added("mcp_servers:\nname: x\n"), format!("mcp_servers:\n{NEW}name: x\n"));
        let before = "mcp_servers:\n  # the first\n  a:\n    command: x  # why\n    args:\n      - y\n\n# then\nname: x\n";
        let at = before.find("\n# then").unwrap();
        assert_eq!(added(before), format!("{}{NEW}{}", &before[..at], &before[at..]));
        assert_eq!(
            added("mcp_servers: {a: {command: x}}\n"),
            "mcp_servers: {a: {command: x}, new: {command: node, args: [a.js, \"it's: # \\\"x\\\"\", \"-v\"], env: {T: \"${T}\"}}}\n"
        );
        let wide = "mcpServers:\n    a:\n        command: x";
        assert!(added(wide).starts_with(&format!("{wide}\n    new:\n      command: node\n")));
    }

    #[test]
    fn what_is_added_can_be_removed() {
        for text in ["name: x\n", "mcp_servers:\n  a: {command: x}\n", "mcp_servers: {a: {command: x}}\n"] {
            let changed = SourceFile::new("project.yaml", added(text));
            let fix = remove(&changed, "new").unwrap();
            assert_eq!(fix.apply(changed.text()).unwrap(), text);
        }
        let only = SourceFile::new("project.yaml", added(""));
        assert_eq!(remove(&only, "new").unwrap().apply(only.text()).unwrap(), "mcp_servers:\n");
    }

    #[test]
    fn what_can_not_be_done_is_refused() {
        let file = |text: &str| SourceFile::new("project.yaml", text);
        let of = |text: &str| add(&file(text), "new", &definition()).unwrap_err();
        assert_eq!(of("mcp_servers: {new: {command: x}}\n"), NotEdited::Exists("new".to_owned()));
        assert_eq!(of("mcp_servers: [a]\n"), NotEdited::Layout);
        assert_eq!(of("a: [\n"), NotEdited::Layout);
        assert_eq!(of("{name: x}\n"), NotEdited::Layout);
        assert_eq!(remove(&file("name: x\n"), "new").unwrap_err(), NotEdited::Missing("new".to_owned()));
    }
}
