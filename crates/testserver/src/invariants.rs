//! Invariants of every request, on any wire.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::seen::{Conversation, Role, Seen, Wire};

/// Notes in `wrong` everything that both services refuse in the offered tools, and in the pairing of calls and results.
pub(crate) fn check(conversation: &Conversation, wrong: &mut Vec<String>) {
    let mut names = HashSet::new();
    for tool in &conversation.tools {
        if !is_name(&tool.name, 64) {
            wrong.push(format!("tool name {:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$", tool.name));
        }
        if !names.insert(&tool.name) {
            wrong.push(format!("tool names must be unique: {:?} is offered twice", tool.name));
        }
    }
    check_pairing(conversation, wrong);
}

/// Checks that every call is answered once, in the message after it, and that every result answers such a call.
/// Anthropic requires all results of a turn in one message, so that results after an interposed message are orphans
/// there as well.
fn check_pairing(conversation: &Conversation, wrong: &mut Vec<String>) {
    let messages = &conversation.messages;
    let mut made = HashSet::new();
    for (i, message) in messages.iter().enumerate() {
        for call in &message.tool_calls {
            if !is_name(&call.name, 64) {
                wrong
                    .push(format!("message {i}: call of a tool named {:?}, which no tool can be", call.name));
            }
            if !made.insert(&call.id) {
                wrong.push(format!("message {i}: tool call id {:?} was used before", call.id));
            }
            let answers = messages
                .get(i + 1)
                .map_or(0, |next| next.tool_results.iter().filter(|result| result.id == call.id).count());
            match answers {
                0 => wrong.push(format!(
                    "message {i}: tool call {:?} ({}) has no result directly after it",
                    call.id, call.name
                )),
                1 => {}
                n => wrong.push(format!("message {i}: tool call {:?} has {n} results", call.id)),
            }
        }
        let before = i.checked_sub(1).map(|at| &messages[at]).filter(|m| m.role == Role::Assistant);
        for result in &message.tool_results {
            if !before.is_some_and(|m| m.tool_calls.iter().any(|call| call.id == result.id)) {
                wrong.push(format!(
                    "message {i}: the result for {:?} answers no call of the message before",
                    result.id
                ));
            }
        }
    }
}

/// Returns true if a text is `[A-Za-z0-9_-]{1,max}`.
pub(crate) fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Checks that a tool's schema is an object of type object, with no alternatives at its top.
pub(crate) fn object_schema(schema: &Value, at: &str, wrong: &mut Vec<String>) {
    if schema["type"] != "object" {
        wrong.push(format!("{at}: schema must have type 'object', got {}", schema["type"]));
    }
    for word in ["oneOf", "anyOf", "allOf", "enum", "not"] {
        if schema.get(word).is_some() {
            wrong.push(format!("{at}: schema must not have '{word}' at its top level"));
        }
    }
}

/// Checks the names of properties: Anthropic refuses one that is not `[a-zA-Z0-9_.-]{1,64}`.
pub(crate) fn keys_are_names(schema: &Value, at: &str, wrong: &mut Vec<String>) {
    walk(schema, at, &mut |schema, at| {
        for name in schema["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !is_name(&name.replace('.', "_"), 64) {
                let pattern = "^[a-zA-Z0-9_.-]{1,64}$";
                wrong.push(format!("{at}.properties: property key {name:?} does not match {pattern}"));
            }
        }
    });
}

/// Checks arrays: OpenAI refuses an array schema that does not define its items.
pub(crate) fn arrays_have_items(schema: &Value, at: &str, wrong: &mut Vec<String>) {
    walk(schema, at, &mut |schema, at| {
        if schema["type"] == "array" && schema.get("items").is_none() && schema.get("prefixItems").is_none() {
            wrong.push(format!("{at}: array schema missing items"));
        }
    });
}

/// Checks the rules of OpenAI's strict mode: every object closed, every property of it required.
pub(crate) fn strict_schema(schema: &Value, at: &str, wrong: &mut Vec<String>) {
    walk(schema, at, &mut |schema, at| {
        if schema["type"] != "object" {
            return;
        }
        if schema["additionalProperties"] != false {
            wrong.push(format!("{at}: 'additionalProperties' must be false in strict mode"));
        }
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for name in schema["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !required.iter().any(|key| key == name) {
                wrong.push(format!("{at}: 'required' must list {name:?} in strict mode"));
            }
        }
    });
}

/// Visits a schema and every schema in it.
fn walk(schema: &Value, at: &str, visit: &mut impl FnMut(&Value, &str)) {
    if !schema.is_object() {
        return;
    }
    visit(schema, at);
    for group in ["properties", "$defs", "definitions"] {
        for (name, inner) in schema[group].as_object().into_iter().flatten() {
            walk(inner, &format!("{at}.{group}.{name}"), visit);
        }
    }
    for group in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for (i, inner) in schema[group].as_array().into_iter().flatten().enumerate() {
            walk(inner, &format!("{at}.{group}[{i}]"), visit);
        }
    }
    for single in ["items", "additionalProperties"] {
        walk(&schema[single], &format!("{at}.{single}"), visit);
    }
}

/// The histories seen so far, for the check that a conversation only grows.
///
/// A provider's prompt cache serves a request whose beginning it has seen, so request n+1 must be request n, then the
/// answer to it, then more. The beginning of a request identifies its conversation: a request that has an earlier
/// request's beginning, and continues from a point where none stopped, has rewritten the history.
#[derive(Default)]
pub(crate) struct Histories {
    /// Hashes of whole requests.
    asked: HashSet<u64>,
    /// Hashes of every beginning of every request.
    prefixes: HashSet<u64>,
}

impl Histories {
    /// Records a request. Returns the contradiction to earlier requests, if there is one.
    pub(crate) fn check(&mut self, seen: &Seen) -> Option<String> {
        let messages = seen.body["messages"].as_array()?;
        let system = (seen.wire == Wire::Anthropic).then(|| plain(&seen.body["system"]).to_string());
        // chain[i] stands for the system text and the first i messages.
        let mut chain = vec![hash(&system)];
        for message in messages {
            chain.push(hash(&(chain[chain.len() - 1], plain(message).to_string())));
        }
        let is = |i: usize, role: &str| messages[i]["role"] == role;
        let first_user = (0..messages.len()).find(|&i| is(i, "user")).unwrap_or(0);
        let last_answer = (0..messages.len()).rfind(|&i| is(i, "assistant"));
        let grows = last_answer.is_none_or(|mut at| {
            // Answers in a row (a continuation after a length limit) are one answer.
            while at > 0 && !self.asked.contains(&chain[at]) && is(at - 1, "assistant") {
                at -= 1;
            }
            self.asked.contains(&chain[at])
        });
        let known = self.prefixes.contains(&chain[first_user + 1]);
        if known && !grows && !self.asked.contains(&chain[messages.len()]) {
            let same = chain.iter().take_while(|prefix| self.prefixes.contains(prefix)).count() - 1;
            return Some(match messages.get(same) {
                Some(message) if Some(same) <= last_answer => format!(
                    "history rewritten: message {same} ({}) is not what this conversation's earlier \
                     requests had there",
                    message["role"].as_str().unwrap_or_default()
                ),
                _ => "history rewritten: it continues from a point at which nothing was asked".into(),
            });
        }
        self.asked.insert(chain[messages.len()]);
        self.prefixes.extend(chain);
        None
    }
}

pub(crate) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns a message without the parts that may change from request to request: cache marks, which move with the
/// conversation and turn a string into a list of one text block.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => (map.iter())
            .filter(|(key, _)| *key != "cache_control")
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect(),
        Value::Array(list) => match list.as_slice() {
            [block] if block["type"] == "text" => block["text"].clone(),
            list => list.iter().map(plain).collect(),
        },
        other => other.clone(),
    }
}
