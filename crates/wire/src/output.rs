//! Output schemas in OpenAI's form.

use llm_do_core::json;
use serde_json::{Map, Value, json};

/// The key for an answer that is not an object.
const WRAPPER: &str = "result";

/// A schema in the form in which it is sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Output {
    schema: Value,
    /// The schema fits OpenAI's strict mode. Other schemas are sent too, but only as a strong hint.
    strict: bool,
}

impl Output {
    /// Returns the form for this schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let schema = if wraps(schema) { wrap(schema) } else { schema.clone() };
        Self { strict: fits_strict(&schema, 0), schema }
    }

    /// Makes `response_format` of chat completions.
    pub(crate) fn response_format(self) -> Value {
        json!({
            "type": "json_schema",
            "json_schema": { "name": "answer", "strict": self.strict, "schema": self.schema },
        })
    }

    /// Makes `text.format` of responses.
    pub(crate) fn text_format(self) -> Value {
        json!({ "type": "json_schema", "name": "answer", "strict": self.strict, "schema": self.schema })
    }
}

/// Returns true if the answer arrives as `{"result": …}`, because the top level must be an object. [`unwrap`] must be
/// used on it.
pub(crate) fn wraps(schema: &Value) -> bool {
    !is_object_schema(schema)
}

/// Returns the answer inside the wrapper. Text that isn't such an object is unchanged; the engine decides whether it is
/// a valid answer.
pub(crate) fn unwrap(text: &str) -> Option<String> {
    match json::read(text).ok()? {
        Value::Object(mut map) if map.len() == 1 => map.shift_remove(WRAPPER).map(|value| value.to_string()),
        _ => None,
    }
}

fn is_object_schema(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object") && schema.get("anyOf").is_none()
}

/// Definitions move to the new top, where the references to them still point.
fn wrap(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut outer = Map::new();
    if let Value::Object(map) = &mut inner {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = map.shift_remove(key) {
                outer.insert(key.into(), definitions);
            }
        }
        map.shift_remove("$schema");
    }
    outer.insert("type".into(), "object".into());
    outer.insert("properties".into(), json!({ WRAPPER: inner }));
    outer.insert("required".into(), json!([WRAPPER]));
    outer.insert("additionalProperties".into(), Value::Bool(false));
    Value::Object(outer)
}

/// Returns true if strict mode accepts the schema unchanged: every object is closed, all its properties are required,
/// and it has no keyword that the mode rejects. Unknown keywords count as rejected, since a rejected schema fails the
/// run.
fn fits_strict(schema: &Value, depth: usize) -> bool {
    // Strict mode's own limit is five levels of objects; a level here is also an array or an alternative.
    let Value::Object(map) = schema else { return false };
    if depth > 10 {
        return false;
    }
    let all = |schemas: &Value| match schemas {
        Value::Object(map) => map.values().all(|schema| fits_strict(schema, depth + 1)),
        Value::Array(items) => items.iter().all(|schema| fits_strict(schema, depth + 1)),
        _ => false,
    };
    let words = map.iter().all(|(word, value)| match word.as_str() {
        "type" | "description" | "title" | "enum" | "const" | "$ref" | "required" | "pattern" | "format"
        | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
        | "maxItems" | "$schema" => true,
        "additionalProperties" => *value == Value::Bool(false),
        "properties" | "$defs" | "definitions" | "anyOf" => all(value),
        "items" => fits_strict(value, depth + 1),
        _ => false,
    });
    words && (!says_object(map) || is_closed(map))
}

fn says_object(map: &Map<String, Value>) -> bool {
    map.contains_key("properties")
        || match map.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => false,
        }
}

fn is_closed(map: &Map<String, Value>) -> bool {
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    map.get("additionalProperties") == Some(&Value::Bool(false))
        && map
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|properties| properties.keys().all(|name| required.contains(&name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_only_where_nothing_about_the_schema_must_change() {
        let closed = json!({
            "type": "object",
            "properties": { "n": { "type": "integer", "minimum": 1 }, "tags": { "type": "array", "items": { "type": "string" } } },
            "required": ["n", "tags"],
            "additionalProperties": false,
        });
        assert!(Output::of(&closed).strict);
        let mut optional = closed.clone();
        optional["required"] = json!(["n"]);
        let mut open = closed.clone();
        open["additionalProperties"] = json!(true);
        let mut map = closed.clone();
        map["properties"]["n"] = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
        let mut one_of = closed.clone();
        one_of["properties"]["n"] = json!({ "oneOf": [{ "type": "integer" }] });
        for schema in [optional, open, map, one_of] {
            let output = Output::of(&schema);
            assert!(!output.strict, "{schema}");
            assert!(!wraps(&schema));
            assert_eq!(output.schema, schema, "sent as it is");
        }
    }

    #[test]
    fn what_is_no_object_is_wrapped_and_unwrapped() {
        let list = json!({ "type": "array", "items": { "$ref": "#/$defs/N" }, "$defs": { "N": { "type": "integer" } } });
        let output = Output::of(&list);
        assert!(wraps(&list) && output.strict);
        assert_eq!(output.schema["$defs"]["N"]["type"], "integer");
        assert_eq!(output.schema["properties"]["result"]["type"], "array");
        assert_eq!(output.schema["type"], "object");
        assert_eq!(unwrap(r#"{"result": [1, 2]}"#).as_deref(), Some("[1,2]"));
        assert_eq!(unwrap("[1]"), None);
        assert_eq!(unwrap(r#"{"result": 1, "more": 2}"#), None);
    }

    #[test]
    fn endless_schemas_end() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..100 {
            schema = json!({ "type": "array", "items": schema });
        }
        assert!(!Output::of(&schema).strict);
    }
}
