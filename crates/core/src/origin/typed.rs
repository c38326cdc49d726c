//! Types that clean: a value that fits a type without room for instructions can't carry instructions.

use super::{Origin, Origins, scalars::push};
use crate::schema::leaves_no_room;
use serde_json::Value;

/// The origins of an untrusted value that fits the declared schema `schema`: `typed`, if the schema leaves no room for
/// instructions. `None` if it leaves room.
///
/// Numbers and free texts of the value are marked, because the gate asks about an argument that equals one of them.
/// Booleans and words that the schema itself lists are the author's own.
pub(crate) fn cleaned(schema: &Value, value: &Value) -> Option<Origins> {
    if !leaves_no_room(schema) {
        return None;
    }
    let mut marked = Origins::TRUSTED;
    mark(schema, &[schema], value, &mut String::new(), &mut marked);
    Some(marked)
}

/// Marks the scalars of `value` that none of the schemas for it lists. `root` resolves references.
fn mark(root: &Value, schemas: &[&Value], value: &Value, at: &mut String, marked: &mut Origins) {
    let mut applied = Vec::new();
    schemas.iter().for_each(|schema| resolve(root, schema, &mut applied));
    let length = at.len();
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(_) | Value::String(_) => {
            if !applied.iter().any(|schema| lists(schema, value)) {
                *marked = std::mem::take(marked).with(at.as_str(), Origin::Typed);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let below: Vec<&Value> =
                    applied.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect();
                push(at, name);
                mark(root, &below, field, at, marked);
                at.truncate(length);
            }
        }
        Value::Array(elements) => {
            for (number, element) in elements.iter().enumerate() {
                let below = applied.iter().filter_map(|schema| {
                    let placed = schema.get("prefixItems").and_then(|items| items.get(number));
                    placed.or_else(|| schema.get("items"))
                });
                let below: Vec<&Value> = below.collect();
                push(at, &number.to_string());
                mark(root, &below, element, at, marked);
                at.truncate(length);
            }
        }
    }
}

/// The schemas that apply to a value of `schema`: itself, the schemas that it refers to, and its alternatives.
fn resolve<'a>(root: &'a Value, schema: &'a Value, applied: &mut Vec<&'a Value>) {
    if applied.iter().any(|known| std::ptr::eq(*known, schema)) {
        return;
    }
    applied.push(schema);
    let referred = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
    if let Some(referred) = referred.and_then(|pointer| root.pointer(pointer)) {
        resolve(root, referred, applied);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(key).and_then(Value::as_array);
        alternatives.into_iter().flatten().for_each(|schema| resolve(root, schema, applied));
    }
}

/// Returns true if a schema lists the value itself.
fn lists(schema: &Value, value: &Value) -> bool {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    listed.chain(schema.get("const")).any(|own| own == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_dates_are_marked_and_listed_words_are_not() {
        let schema = json!({
            "type": "object",
            "properties": {
                "kind": {"enum": ["invoice", "other"]},
                "amount": {"type": "number"},
                "due": {"$ref": "#/$defs/date"},
                "paid": {"type": "boolean"},
            },
            "additionalProperties": false,
            "$defs": {"date": {"type": "string", "format": "date"}},
        });
        let value = json!({"kind": "invoice", "amount": 12, "due": "2026-01-02", "paid": true});
        let origins = cleaned(&schema, &value).unwrap_or_default();
        let at: Vec<&str> = origins.marks().iter().map(|mark| &*mark.at).collect();
        assert_eq!(at, ["/amount", "/due"]);
        assert_eq!(origins.greatest(), Origin::Typed);
    }

    #[test]
    fn free_text_is_not_cleaned() {
        assert_eq!(cleaned(&json!({"type": "string"}), &json!("do this")), None);
    }
}
