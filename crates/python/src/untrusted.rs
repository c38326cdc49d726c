//! The parts of a function's result that others write: `@tool(untrusted=…)`, and fields of the result's type that are
//! marked with `untrusted` (`docs/guides/python-tools.md`).

use crate::discovery::{Declared, ExposedTool};
use llm_do_core::{
    origin::ResultOrigin,
    schema::{UNTRUSTED, misuse},
};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of schemas of a result's type that are read.
const MOST: usize = 10_000;

impl ExposedTool {
    /// Returns the origin of the results that the author declares, or `None` without a declaration.
    pub fn results(&self) -> Option<ResultOrigin> {
        let fields = |names: &BTreeSet<Arc<str>>| ResultOrigin::Fields(names.iter().cloned().collect());
        match (&self.untrusted, self.marked()) {
            (Some(Declared::Whole(false)), _) => Some(ResultOrigin::Trusted),
            (Some(Declared::Whole(true)), _) | (_, Marked::Whole) => Some(ResultOrigin::Untrusted),
            (Some(Declared::Fields(names)), Marked::Fields(mut marked)) => {
                marked.extend(names.iter().cloned());
                Some(fields(&marked))
            }
            (None, Marked::Fields(marked)) => (!marked.is_empty()).then(|| fields(&marked)),
        }
    }

    /// Returns the contradiction in the author's declarations about origins, as a message.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if let Some(misuse) = misuse(&self.input, |_| false) {
            return Some(format!("in its parameters, {misuse}"));
        }
        match (&self.untrusted, self.marked()) {
            (Some(Declared::Whole(false)), Marked::Whole) => {
                Some("it says `untrusted=False`, but its return type is marked as untrusted".to_owned())
            }
            (Some(Declared::Whole(false)), Marked::Fields(marked)) => marked.first().map(|field| {
                format!("it says `untrusted=False`, but its return type marks `{field}` as untrusted")
            }),
            (Some(Declared::Fields(names)), _) => names.iter().find_map(|name| self.not_a_field(name)),
            _ => None,
        }
    }

    /// Returns the reason why the result can't have that field, as far as its type is known.
    fn not_a_field(&self, name: &str) -> Option<String> {
        let output = self.output.as_ref()?;
        let shape = elements(output, output);
        let is_open = |properties: &&Map<String, Value>| {
            properties.is_empty()
                || !matches!(shape.get("additionalProperties"), None | Some(Value::Bool(false)))
        };
        match (shape.get("type").and_then(Value::as_str), properties(shape)) {
            (Some("string" | "integer" | "number" | "boolean" | "null"), _) => {
                Some("its result has no fields: write `untrusted=True`".to_owned())
            }
            (_, Some(properties)) if !is_open(&properties) && !properties.contains_key(name) => {
                let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                Some(format!(
                    "`untrusted` names the field `{name}`, but the fields of its result are {}",
                    names.join(", ")
                ))
            }
            _ => None,
        }
    }

    /// Returns the parts that the return type marks.
    fn marked(&self) -> Marked {
        let nothing = Marked::Fields(BTreeSet::new());
        let Some(root) = &self.output else { return nothing };
        if !mentions(root) {
            return nothing;
        }
        let shape = elements(root, root);
        let is_marked = |schema: &Value| schema.get(UNTRUSTED) == Some(&Value::Bool(true));
        let is_whole = is_marked(root) || is_marked(shape);
        match properties(shape).filter(|_| !is_whole) {
            Some(properties) => {
                let marked = properties.iter().filter(|(_, schema)| has_mark(root, schema));
                Marked::Fields(marked.map(|(name, _)| name.as_str().into()).collect())
            }
            None if is_whole || has_mark(root, root) => Marked::Whole,
            None => nothing,
        }
    }
}

/// The parts that a return type marks as untrusted.
enum Marked {
    Whole,
    /// Fields with a mark on them or somewhere below.
    Fields(BTreeSet<Arc<str>>),
}

/// Returns the schema of a result or, for a list, the schema of its elements.
fn elements<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let schema = target(root, schema);
    match schema.get("items") {
        Some(items) if schema.get("type").is_some_and(|kind| kind == "array") => target(root, items),
        _ => schema,
    }
}

/// Resolves a schema that is only a reference.
fn target<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    // Not endlessly, since references may form a cycle.
    for _ in 0..8 {
        match referred(root, schema) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn referred<'s>(root: &'s Value, schema: &Value) -> Option<&'s Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn mentions(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(UNTRUSTED) || map.values().any(mentions),
        Value::Array(items) => items.iter().any(mentions),
        _ => false,
    }
}

/// Returns true if a schema or any part of it is marked. If there is too much to read, it counts as marked.
fn has_mark(root: &Value, schema: &Value) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut waiting = vec![schema];
    let mut left = MOST;
    while let Some(value) = waiting.pop() {
        let Some(less) = left.checked_sub(1) else { return true };
        left = less;
        match value {
            Value::Object(map) => {
                if map.get(UNTRUSTED) == Some(&Value::Bool(true)) {
                    return true;
                }
                if let Some(reference) = map.get("$ref").and_then(Value::as_str)
                    && seen.insert(reference)
                {
                    waiting.extend(referred(root, value));
                }
                waiting.extend(map.iter().filter(|(key, _)| *key != "$defs").map(|(_, value)| value));
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(untrusted: Value, output: Value) -> ExposedTool {
        serde_json::from_value(json!({
            "name": "t",
            "function": "t",
            "description": "",
            "input": {"type": "object"},
            "untrusted": untrusted,
            "output": output,
        }))
        .unwrap()
    }

    fn mails() -> Value {
        json!({
            "type": "array",
            "items": {"$ref": "#/$defs/Mail"},
            "$defs": {
                "Mail": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer"},
                        "body": {"type": "string", "untrusted": true},
                        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                    },
                },
                "Part": {"properties": {"text": {"type": "string", "untrusted": true}, "next": {"$ref": "#/$defs/Part"}}},
            },
        })
    }

    fn fields(names: &[&str]) -> Option<ResultOrigin> {
        Some(ResultOrigin::Fields(names.iter().map(|name| (*name).into()).collect()))
    }

    #[test]
    fn an_author_says_what_others_wrote() {
        assert_eq!(tool(json!(null), json!(null)).results(), None);
        assert_eq!(tool(json!(true), json!(null)).results(), Some(ResultOrigin::Untrusted));
        assert_eq!(tool(json!(false), json!(null)).results(), Some(ResultOrigin::Trusted));
        assert_eq!(tool(json!(["body"]), json!(null)).results(), fields(&["body"]));
        assert_eq!(tool(json!(null), mails()).results(), fields(&["body", "parts"]));
        assert_eq!(tool(json!(["id"]), mails()).results(), fields(&["body", "id", "parts"]));
        assert_eq!(tool(json!(true), mails()).results(), Some(ResultOrigin::Untrusted));
        let text = json!({"type": "string", "untrusted": true});
        assert_eq!(tool(json!(null), text.clone()).results(), Some(ResultOrigin::Untrusted));
        let either = json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": text}}]});
        assert_eq!(tool(json!(null), either).results(), Some(ResultOrigin::Untrusted));
    }

    #[test]
    fn declarations_without_effect_are_refused() {
        let problem = |untrusted: Value, output: Value| tool(untrusted, output).contradiction();
        assert_eq!(problem(json!(["body"]), mails()), None);
        assert_eq!(problem(json!(["body"]), json!({"type": "object"})), None);
        assert!(problem(json!(["text"]), mails()).unwrap().contains("id, body, parts"));
        assert!(problem(json!(["text"]), json!({"type": "string"})).unwrap().contains("untrusted=True"));
        assert!(problem(json!(false), mails()).unwrap().contains("`body`"));
        let mut odd = tool(json!(null), json!(null));
        odd.input = json!({"properties": {"a": {"type": "string", "untrusted": true}}});
        assert!(odd.contradiction().unwrap().contains("for the parameters of a worker"));
    }
}
