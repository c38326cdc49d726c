//! Servers from the configuration of another program: Claude Desktop and Cursor (`mcpServers`), VS Code (`servers`).

use super::{add::New, package::Fetched};
use crate::exit::Complaint;
use llm_do::{core::authority::variable_refused, read_regular};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, path::Path};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Shorter values of variables stay in the definition: they are switches and numbers, and no secrets.
const SHORTEST_SECRET: usize = 8;
/// Parts of names of secrets.
const SECRETS: &[&str] = &["token", "secret", "password", "passwd", "key", "credential", "auth"];

/// The servers of a file, or the one with that name.
pub(super) fn read(file: &Path, only: Option<&str>) -> Result<Vec<New>, Complaint> {
    let shown = file.display();
    let wrong = |reason: String| Complaint::wrong(format!("`{shown}`: {reason}"));
    let text = read_regular(file, LONGEST).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
    let whole: Value = serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(&text))
        .map_err(|error| wrong(format!("it is not JSON: {error}")))?;
    let section = ["mcpServers", "servers"].into_iter().find_map(|key| whole[key].as_object());
    let section = section.ok_or_else(|| wrong("it has neither `mcpServers` nor `servers`".to_owned()))?;
    let mut new = Vec::new();
    for (name, server) in section.iter().filter(|(name, _)| only.is_none_or(|only| only == name.as_str())) {
        new.push(one(name, server).map_err(|reason| wrong(format!("the server `{name}`: {reason}")))?);
    }
    if new.is_empty() {
        let names: Vec<&str> = section.keys().map(String::as_str).collect();
        let reason = match only {
            Some(only) => format!("it has no server `{only}`; it has {}", names.join(", ")),
            None => "it has no servers".to_owned(),
        };
        return Err(wrong(reason));
    }
    Ok(new)
}

fn one(name: &str, server: &Value) -> Result<New, String> {
    let server = server.as_object().ok_or("it is not an object")?;
    let mut notes = Vec::new();
    let mut definition = Map::new();
    for (key, value) in server {
        match key.as_str() {
            "command" | "url" => _ = definition.insert(key.clone(), value.clone()),
            "args" => {
                no_secret(value)?;
                definition.insert(key.clone(), value.clone());
            }
            "env" | "headers" => {
                let values = value.as_object().ok_or_else(|| format!("`{key}` is not an object"))?;
                let mut kept = Map::new();
                for (name_of_value, value) in values {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let text = match key.as_str() {
                        "env" => variable(name_of_value, &value)?,
                        _ => header(name, name_of_value, &value),
                    };
                    kept.insert(name_of_value.clone(), text.into());
                }
                if !kept.is_empty() {
                    definition.insert(key.clone(), kept.into());
                }
            }
            "type" if ["stdio", "http", "streamable-http"].contains(&value.as_str().unwrap_or_default()) => {}
            "type" => return Err(format!("the transport {value} is not supported")),
            // A server that is switched off elsewhere would be switched on here.
            "disabled" if *value == json!(true) => notes.push(format!("`{name}` is disabled in the file")),
            "disabled" => {}
            _ => notes.push(format!("`{key}` of `{name}` has no meaning here and is left out")),
        }
    }
    let words = definition.get("args").and_then(Value::as_array).into_iter().flatten();
    let words = definition.get("command").into_iter().chain(words);
    let words: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    let mut new = New { name: server_name(name), fetched: Fetched::read(&words)?, definition, notes };
    if new.name != name {
        new.notes.push(format!("`{name}` is called `{}` here", new.name));
    }
    let variables = variables(&Value::Object(new.definition.clone()));
    if !variables.is_empty() {
        let names: Vec<&str> = variables.iter().map(String::as_str).collect();
        new.notes.push(format!("values are not copied: set {} in your environment", names.join(", ")));
    }
    Ok(new)
}

/// A name of letters, digits and `-`.
fn server_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    name.trim_matches('-').chars().take(32).collect()
}

/// The value of a variable in the manifest: a reference to the variable of the user's environment, except for short values
/// that no secret has.
fn variable(name: &str, value: &str) -> Result<String, String> {
    if let Some(reason) = variable_refused(name) {
        return Err(format!("`env` can't set {name}: {reason}"));
    }
    // `${env:NAME}` is VS Code's form of a reference.
    if let Some(named) = value.strip_prefix("${env:").and_then(|rest| rest.strip_suffix('}')) {
        return Ok(format!("${{{named}}}"));
    }
    let is_secret = is_secret(name) || value.len() >= SHORTEST_SECRET || value.contains("${");
    Ok(if is_secret { format!("${{{name}}}") } else { value.to_owned() })
}

/// The value of a header, whose secret is a variable: `Bearer ${TICKETS_AUTHORIZATION}`.
fn header(server: &str, name: &str, value: &str) -> String {
    let upper = |text: &str| server_name(text).to_uppercase().replace('-', "_");
    let scheme = value.split_once(' ').map_or("", |(scheme, _)| scheme);
    let scheme =
        if ["Bearer", "Basic", "Token"].contains(&scheme) { format!("{scheme} ") } else { String::new() };
    format!("{scheme}${{{}_{}}}", upper(server), upper(name))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Refuses arguments that hold a secret: they would be in the manifest, and in the list of processes.
fn no_secret(args: &Value) -> Result<(), String> {
    let words: Vec<&str> =
        args.as_array().ok_or("`args` is not a list")?.iter().filter_map(Value::as_str).collect();
    let held = words.iter().enumerate().find(|(at, word)| {
        let (option, value) =
            word.split_once('=').unwrap_or((word, words.get(at + 1).copied().unwrap_or_default()));
        option.starts_with('-') && is_secret(option) && !value.is_empty() && !value.starts_with('-')
    });
    match held {
        Some((_, word)) => {
            let option = word.split('=').next().unwrap_or_default();
            Err(format!(
                "`args` hold the value of `{option}`, which must not be in a file; give it as a variable in `env`"
            ))
        }
        None => Ok(()),
    }
}

/// The variables that a definition refers to.
fn variables(definition: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    match definition {
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some((name, after)) = rest.split_once("${").and_then(|(_, rest)| rest.split_once('}')) {
                names.insert(name.to_owned());
                rest = after;
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names.extend(variables(item))),
        Value::Object(map) => map.values().for_each(|value| names.extend(variables(value))),
        _ => {}
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(server: Value) -> Result<(String, Vec<String>), String> {
        let new = one("My Tickets", &server)?;
        Ok((Value::Object(new.definition).to_string(), new.notes))
    }

    #[test]
    fn no_value_of_a_secret_is_copied() {
        let (definition, notes) = imported(json!({
            "command": "node", "args": ["a.js"], "type": "stdio",
            "env": {"API_TOKEN": "x", "URL": "https://user:pw@a.example", "DEBUG": "1", "OTHER": "${env:MINE}", "IN": "${input:pw}"},
        }))
        .expect("a server");
        assert_eq!(
            definition,
            r#"{"command":"node","args":["a.js"],"env":{"API_TOKEN":"${API_TOKEN}","URL":"${URL}","DEBUG":"1","OTHER":"${MINE}","IN":"${IN}"}}"#
        );
        assert!(notes.iter().any(|note| note.contains("set API_TOKEN, IN, MINE, URL")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("`My-Tickets`")), "{notes:?}");
        let (definition, _) =
            imported(json!({"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer abc"}}))
                .expect("a server");
        assert!(definition.contains(r#""Bearer ${MY_TICKETS_AUTHORIZATION}""#), "{definition}");
        for args in [json!(["--api-key", "abc"]), json!(["--token=abc"])] {
            let refused = imported(json!({"command": "x", "args": args})).expect_err("a secret");
            assert!(refused.contains("must not be in a file") && !refused.contains("abc"), "{refused}");
        }
        assert!(imported(json!({"command": "x", "env": {"LD_PRELOAD": "x.so"}})).is_err());
        assert!(imported(json!({"url": "https://a.example", "type": "sse"})).is_err());
    }
}
