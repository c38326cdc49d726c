//! The arguments of calls, compared with the schemas of their functions as far as the code shows them.

use super::{Callee, Check};
use crate::programs::tree::Node;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl<'a> Check<'a> {
    /// Compares the arguments of a call with the schema, as far as the code shows them. `call` has the arguments that are
    /// given by keywords.
    pub(super) fn arguments(
        &mut self,
        call: Node<'a>,
        callee: usize,
        input: Option<Node<'a>>,
        place: Node<'a>,
    ) {
        let Callee { name, input: schema } = &self.callees[callee];
        let name = Arc::clone(name);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let mut given: BTreeMap<&str, Node<'a>> = BTreeMap::new();
        let mut is_whole = true;
        match input {
            Some(dict) if dict.kind() == "Dict" => {
                for (key, value) in dict.elements("keys").zip(dict.all("values")) {
                    match key.map(Node::literal) {
                        Some(Some(key)) => drop(given.insert(key, value)),
                        _ => is_whole = false,
                    }
                }
            }
            // A value that is known only when the program runs. `None` is no input.
            Some(other) => {
                is_whole = other.kind() == "Constant" && other.constant("value") == Some(&Value::Null);
            }
            None => {}
        }
        for keyword in call.all("keywords") {
            match (keyword.text("arg"), keyword.one("value")) {
                (Some(key), Some(value)) => drop(given.insert(key, value)),
                _ => is_whole = false,
            }
        }
        let known: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (key, value) in &given {
            match properties.get(*key) {
                None if is_closed => {
                    self.find(*value, format!("`{name}` has no argument `{key}`; it takes {known}"));
                }
                None => {}
                Some(property) => {
                    if let Some(wanted) = misfit(*value, property) {
                        self.find(*value, format!("the argument `{key}` of `{name}` is {wanted}"));
                    }
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing: BTreeSet<&str> =
            required.filter_map(Value::as_str).filter(|required| !given.contains_key(required)).collect();
        if is_whole && !missing.is_empty() {
            let missing: Vec<String> = missing.into_iter().map(|name| format!("`{name}`")).collect();
            self.find(place, format!("this call of `{name}` lacks {}; it takes {known}", missing.join(", ")));
        }
    }
}

/// The items of `ctx.map` whose form the code shows.
pub(super) fn items<'a>(items: Option<Node<'a>>) -> Vec<Node<'a>> {
    let Some(items) = items else { return Vec::new() };
    let (node, field) = match items.kind() {
        "List" | "Tuple" => (items, "elts"),
        "ListComp" | "GeneratorExp" => (items, "elt"),
        // `names.map((name) => ({path: name}))`.
        "Call" if items.one("func").and_then(|function| function.text("attr")) == Some("map") => {
            match items.all("args").next() {
                Some(function) => (function, "result"),
                None => return Vec::new(),
            }
        }
        _ => return Vec::new(),
    };
    node.all(field).filter(|item| item.kind() == "Dict").collect()
}

/// Returns the type that the schema wants, if the code shows that a value has another one.
fn misfit(value: Node<'_>, schema: &Value) -> Option<String> {
    let kind = match value.kind() {
        "Constant" => match value.constant("value")? {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            _ => return None,
        },
        "JoinedStr" => "string",
        "List" | "Tuple" | "ListComp" => "array",
        "Dict" | "DictComp" => "object",
        _ => return None,
    };
    let wanted: Vec<&str> = match schema.get("type")? {
        Value::String(one) => vec![one],
        Value::Array(any) => any.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = wanted.iter().any(|wanted| *wanted == kind || (*wanted == "number" && kind == "integer"));
    (!fits && !wanted.is_empty()).then(|| format!("of type {}, and this is {kind}", wanted.join(" or ")))
}
