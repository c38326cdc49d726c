//! Integers that were written as decimals.

use super::Violation;
use crate::json::INEXACT;
use serde_json::{Map, Value};

/// Greatest number of schemas that are visited. Beyond it a value passes, as the validator has already judged it.
const MOST: u32 = 100_000;

/// The first number that a schema requires to be an integer and that is a double so large that its last digits are
/// lost, such as `1e23`. The validator accepts it as an integer.
pub(super) fn inexact(schema: &Value, value: &Value) -> Option<Violation> {
    if !holds_rough(value) {
        return None;
    }
    let mut work = MOST;
    let pointer = Search { root: schema, work: &mut work }.find(schema, value)?;
    let number = value.pointer(&pointer).cloned().unwrap_or_default();
    let message = format!(
        "{number} is not exact: an integer of this size needs all its digits, and has 64 bits at most"
    );
    Some(Violation { pointer, message })
}

fn is_rough(value: &Value) -> bool {
    value.is_f64() && value.as_f64().is_some_and(|number| number.abs() >= INEXACT)
}

fn holds_rough(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_rough),
        Value::Object(members) => members.values().any(holds_rough),
        other => is_rough(other),
    }
}

struct Search<'s> {
    root: &'s Value,
    work: &'s mut u32,
}

impl<'s> Search<'s> {
    /// The pointer of the first such number, from this value on.
    fn find(&mut self, schema: &'s Value, value: &Value) -> Option<String> {
        let schema = schema.as_object()?;
        *self.work = self.work.checked_sub(1)?;
        if is_rough(value) && wants_integer(schema) {
            return Some(String::new());
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = target.strip_prefix('#')
            && let Some(target) = self.root.pointer(target)
            && let Some(found) = self.find(target, value)
        {
            return Some(found);
        }
        let listed =
            |name: &str| schema.get(name).and_then(Value::as_array).map_or(&[] as &[Value], |all| all);
        if let Some(found) = listed("allOf").iter().find_map(|part| self.find(part, value)) {
            return Some(found);
        }
        for name in ["anyOf", "oneOf"] {
            // The value passes if one alternative takes the number as it is.
            let mut found = None;
            for part in listed(name).iter().filter(|part| may_be(part, value)) {
                found = self.find(part, value);
                if found.is_none() {
                    break;
                }
            }
            if found.is_some() {
                return found;
            }
        }
        match value {
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                let inner = schema
                    .get("properties")
                    .and_then(|properties| properties.get(name))
                    .or_else(|| schema.get("additionalProperties"))?;
                let below = self.find(inner, member)?;
                Some(format!("/{}{below}", name.replace('~', "~0").replace('/', "~1")))
            }),
            Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
                let inner = listed("prefixItems").get(index).or_else(|| schema.get("items"))?;
                let below = self.find(inner, item)?;
                Some(format!("/{index}{below}"))
            }),
            _ => None,
        }
    }
}

/// Returns whether a schema allows the type of a value, as far as it names types.
fn may_be(schema: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("integer" | "number") => value.is_number(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => true,
    };
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => true,
    }
}

fn wants_integer(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "integer",
        Some(Value::Array(kinds)) => {
            let has = |name: &str| kinds.iter().any(|kind| kind == name);
            has("integer") && !has("number")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::Schema;
    use serde_json::json;

    #[test]
    fn a_rough_number_is_no_integer() {
        let schema = Schema::new(json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "x": {"type": "number"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/count"}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "$defs": {"count": {"type": ["integer", "null"]}},
            "additionalProperties": {"type": "integer"},
        }))
        .unwrap();
        for (value, pointer) in [
            (json!({"n": 1e23}), "/n"),
            (json!({"list": [1, -1e19]}), "/list/1"),
            (json!({"maybe": 1e23}), "/maybe"),
            (json!({"a/b": 1e23}), "/a~1b"),
        ] {
            let wrong = schema.validate(&value).unwrap_err();
            assert_eq!(wrong[0].pointer, pointer, "{value}: {}", wrong[0].message);
        }
        for value in [json!({"n": 5.0}), json!({"x": 1e23}), json!({"either": 1e23}), json!({"n": u64::MAX})]
        {
            assert_eq!(schema.validate(&value), Ok(()), "{value}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_left_early() {
        let schema = Schema::new(json!({"$ref": "#/$defs/a", "$defs": {
            "a": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}
        }}))
        .unwrap();
        assert_eq!(schema.validate(&json!([[1e23], [[1e23]]])), Ok(()));
    }
}
