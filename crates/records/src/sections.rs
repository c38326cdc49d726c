//! A divergence as texts that can be compared line by line.

use crate::replay::{Difference, comparable};
use llm_do_core::{
    journal::RecordKind,
    model::{Message, Part, Role},
    rule::DecidedBy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, sync::Arc};

/// A difference between record and program, as two texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The name of the differing part: `instructions`, `message`, `tool read_file`, `arguments`.
    pub name: String,
    /// The text in the record; empty if it has none.
    pub recorded: String,
    /// The text of the program now; empty if it has none.
    pub now: String,
}

/// Returns the parts that differ.
pub fn sections(what: &Difference) -> Vec<Section> {
    match what {
        Difference::Changed { recorded, now } => {
            // Without the contents of attached files, which are not compared.
            fields(&json_of(&comparable(recorded)), &json_of(&comparable(now)))
        }
        Difference::Sent { recorded, now } => {
            vec![Section { name: "messages".into(), recorded: told(recorded), now: told(now) }]
        }
        Difference::Added { now: Some(now) } => fields(&Value::Null, &json_of(now)),
        Difference::Added { now: None } => Vec::new(),
        Difference::Gone { recorded, .. } => fields(&json_of(recorded), &Value::Null),
    }
}

fn json_of(body: &RecordKind) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

/// Returns the fields of two records that differ, each as a text.
fn fields(recorded: &Value, now: &Value) -> Vec<Section> {
    let none = Map::new();
    let one_sided = recorded.is_null() || now.is_null();
    let (recorded, now) = (recorded.as_object().unwrap_or(&none), now.as_object().unwrap_or(&none));
    let names: BTreeSet<&String> = recorded.keys().chain(now.keys()).collect();
    let mut sections = Vec::new();
    let shown = |name: &str| match name {
        // Who answers is not compared, and what a call uses follows from what it does.
        "model" | "usage" => false,
        // Of what only one side does, what it does is enough.
        "kind" | "source" | "principal" | "digest" | "head" | "idempotency_key" => !one_sided,
        _ => true,
    };
    let names = names.into_iter().filter(|name| shown(name));
    for name in names {
        let (recorded, now) = (recorded.get(name), now.get(name));
        if recorded == now {
            continue;
        }
        if name == "tools" {
            sections.extend(tools(recorded, now));
            continue;
        }
        let shown = match name.as_str() {
            "system" => "instructions",
            "input" => "arguments",
            "kind" => "what happens",
            other => other,
        };
        let show = |value: Option<&Value>| match value {
            Some(value) if name == "message" => serde_json::from_value::<Message>(value.clone())
                .map_or_else(|_| text(value), |message| told(&[Arc::new(message)])),
            Some(value) if name == "by" => {
                DecidedBy::deserialize(value).map_or_else(|_| text(value), |by| by.to_string())
            }
            Some(value) => text(value),
            None => String::new(),
        };
        sections.push(Section { name: shown.into(), recorded: show(recorded), now: show(now) });
    }
    sections
}

/// Returns the tools that differ, one by one, matched by their names.
fn tools(recorded: Option<&Value>, now: Option<&Value>) -> Vec<Section> {
    let list = |tools: Option<&Value>| tools.and_then(Value::as_array).cloned().unwrap_or_default();
    let (recorded, now) = (list(recorded), list(now));
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = recorded.iter().chain(&now).map(name).collect();
    let of = |tools: &[Value], wanted: &str| {
        tools.iter().find(|tool| name(tool) == wanted).map(text).unwrap_or_default()
    };
    let sections = names.iter().map(|name| Section {
        name: format!("tool {name}"),
        recorded: of(&recorded, name),
        now: of(&now, name),
    });
    sections.filter(|section| section.recorded != section.now).collect()
}

/// Returns a text as it is, anything else as indented JSON; with an end of line.
fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => format!("{value:#}"),
    };
    if text.ends_with('\n') { text } else { format!("{text}\n") }
}

/// Renders messages as a text that people read.
fn told(messages: &[Arc<Message>]) -> String {
    let mut out = String::new();
    for message in messages {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tools",
        };
        for part in &message.parts {
            let said = match part {
                Part::Text { .. } | Part::Attachment { .. } => part.sent().unwrap_or_default().into_owned(),
                Part::Reasoning { text } => format!("(thinks) {text}"),
                Part::Call(call) => {
                    let arguments = serde_json::to_value(&call.arguments).unwrap_or_default();
                    format!("calls {} {}", call.name, arguments.get("json").unwrap_or(&arguments))
                }
                Part::Result(result) => format!("{} gives: {}", result.name, result.content),
                Part::Blob(blob) => {
                    format!("[{}: {}, {} bytes]", blob.name, blob.media_type, blob.data.len())
                }
                Part::ServerUse(used) => format!("(provider) {used}"),
                Part::Opaque { .. } | Part::Cited { .. } => continue,
            };
            out.push_str(&format!("[{} {who}]\n{said}\n", message.id.0));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conversation(system: &str, attached: &str) -> RecordKind {
        let started = json!({
            "kind": "conversation_started", "worker": "w", "model": "script:m", "system": system, "tools": [],
            "can": {"native_schema": false, "tools": true},
            "message": {"id": 0, "role": "user", "parts": [
                {"part": "text", "text": "Sum it up."},
                {"part": "attachment", "name": "a.txt", "text": attached},
            ]},
        });
        serde_json::from_value(started).unwrap()
    }

    #[test]
    fn contents_of_attached_files_are_no_difference() {
        let what = Difference::Changed {
            recorded: conversation("Be brief.", "as it was read"),
            now: conversation("Be long.", ""),
        };
        let section =
            Section { name: "instructions".into(), recorded: "Be brief.\n".into(), now: "Be long.\n".into() };
        assert_eq!(sections(&what), [section]);
    }

    #[test]
    fn what_only_one_side_does_has_its_fields_and_no_keys() {
        let slept = RecordKind::Slept { ms: 5 };
        let gone = sections(&Difference::Gone { recorded: slept.clone(), ended: None });
        assert_eq!(gone, [Section { name: "ms".into(), recorded: "5\n".into(), now: String::new() }]);
        let added = sections(&Difference::Added { now: Some(slept) });
        assert_eq!(added, [Section { name: "ms".into(), recorded: String::new(), now: "5\n".into() }]);
        assert!(sections(&Difference::Added { now: None }).is_empty());
    }
}
