//! Fills the defaults that a schema declares into a value. See `docs/reference/worker-files.md`.

use super::{Violation, compile, subschemas};
use serde_json::{Map, Value, json};

/// Maximum nesting of subschemas. A schema may refer to itself.
const DEEPEST: usize = 64;
/// Maximum number of subschemas that one filling visits. A library's schema may expand without end.
const MOST: usize = 20_000;
/// The least cost, in visited subschemas, of testing an alternative, which compiles it. A larger alternative costs a
/// tenth of its nodes.
const ALTERNATIVE: usize = 200;

/// Returns true if a schema may declare a default anywhere.
pub(super) fn has_defaults(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("default") || map.values().any(has_defaults),
        Value::Array(items) => items.iter().any(has_defaults),
        _ => false,
    }
}

/// Fills in the default of each property that `value` leaves out: at the top, in nested objects and lists, through
/// references within the schema, in all of `allOf`, and in the first alternative of `anyOf` and `oneOf` that the value
/// fits.
pub(super) fn fill(schema: &Value, value: &mut Value) {
    Filling { root: schema, left: MOST }.visit(schema, value, 0);
}

/// The defaults that don't fit their own schema, with place and reason.
pub(super) fn unfit(schema: &Value) -> Vec<Violation> {
    let unfit = |pointer: String| {
        let subschema = schema.pointer(&pointer)?;
        let mut default = subschema.get("default")?.clone();
        let mut filling = Filling { root: schema, left: MOST };
        filling.visit(subschema, &mut default, 0);
        let validator = compile(&filling.alone(subschema)).ok()?;
        if validator.is_valid(&default) != Ok(false) {
            return None;
        }
        let message = validator.violations(&default, |error| error.to_string()).ok()?.into_iter().next()?;
        Some(Violation { pointer, message })
    };
    subschemas(schema).into_iter().filter_map(unfit).collect()
}

/// The state of one filling.
struct Filling<'s> {
    root: &'s Value,
    /// Number of subschemas that may still be visited.
    left: usize,
}

impl<'s> Filling<'s> {
    fn visit(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        let Some(schema) = schema.as_object() else { return };
        if depth == DEEPEST || self.left == 0 || !(value.is_object() || value.is_array()) {
            return;
        }
        self.left -= 1;
        if let Some(target) = self.referred(schema) {
            self.visit(target, value, depth + 1);
        }
        for part in list(schema, "allOf") {
            self.visit(part, value, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            for alternative in list(schema, keyword) {
                let mut filled = value.clone();
                self.visit(alternative, &mut filled, depth + 1);
                if self.fits(alternative, &filled) {
                    *value = filled;
                    break;
                }
            }
        }
        match value {
            Value::Object(members) => self.object(schema, members, depth),
            Value::Array(items) => self.array(schema, items, depth),
            _ => {}
        }
    }

    fn object(&mut self, schema: &'s Map<String, Value>, members: &mut Map<String, Value>, depth: usize) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(member) = members.get_mut(name) {
                self.visit(property, member, depth + 1);
            } else if let Some(default) = self.default(property) {
                let mut member = default.clone();
                self.visit(property, &mut member, depth + 1);
                members.insert(name.clone(), member);
            }
        }
        if let Some(rest) = schema.get("additionalProperties") {
            let declared = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
            for (_, member) in members.iter_mut().filter(|(name, _)| !declared(name)) {
                self.visit(rest, member, depth + 1);
            }
        }
    }

    fn array(&mut self, schema: &'s Map<String, Value>, items: &mut [Value], depth: usize) {
        let mut first = list(schema, "prefixItems").iter();
        let rest = schema.get("items");
        for item in items {
            if let Some(schema) = first.next().or(rest) {
                self.visit(schema, item, depth + 1);
            }
        }
    }

    /// The default of a property, its own or that of the schema that it refers to.
    fn default(&self, mut property: &'s Value) -> Option<&'s Value> {
        for _ in 0..DEEPEST {
            if let Some(default) = property.get("default") {
                return Some(default);
            }
            property = self.referred(property.as_object()?)?;
        }
        None
    }

    /// The schema that `$ref` names, if it is within the whole.
    fn referred(&self, schema: &'s Map<String, Value>) -> Option<&'s Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    /// Returns true if a value fits an alternative.
    fn fits(&mut self, alternative: &Value, value: &Value) -> bool {
        let alone = self.alone(alternative);
        self.left = self.left.saturating_sub(ALTERNATIVE.max(nodes(&alone) / 10));
        compile(&alone).is_ok_and(|validator| validator.is_valid(value) == Ok(true))
    }

    /// A subschema as a schema of its own, with the definitions that it may refer to.
    fn alone(&self, subschema: &Value) -> Value {
        let mut alone = json!({ "allOf": [subschema] });
        for keyword in DEFINITIONS {
            if let Some(definitions) = self.root.get(keyword) {
                alone[keyword] = definitions.clone();
            }
        }
        alone
    }
}

/// Number of nodes of a value.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(nodes).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> &'s [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(schema: &Value, mut value: Value) -> Value {
        fill(schema, &mut value);
        value
    }

    #[test]
    fn a_default_is_filled_in_wherever_a_property_is_left_out() {
        let line = json!({"type": "object", "properties": {"n": {"default": 1}}});
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 3},
                "b": {"type": "object", "properties": {"c": {"default": "x"}, "d": {}}},
                "e": {"default": {}, "$ref": "#/$defs/line"},
                "f": {"type": "array", "items": {"$ref": "#/$defs/line"}},
                "g": {"additionalProperties": line},
                "h": {"$ref": "#/$defs/named"},
            },
            "allOf": [{"properties": {"i": {"default": null}}}],
            "$defs": {"line": line, "named": {"type": "string", "default": "h"}},
        });
        assert_eq!(
            filled(&schema, json!({"a": null, "b": {"d": 1}, "f": [{}, {"n": 2}, 7], "g": {"k": {}}})),
            json!({
                "a": null, "b": {"d": 1, "c": "x"}, "f": [{"n": 1}, {"n": 2}, 7], "g": {"k": {"n": 1}},
                "e": {"n": 1}, "h": "h", "i": null,
            })
        );
        // An object that is left out and has no default stays out.
        assert_eq!(filled(&schema, json!({})), json!({"a": 3, "e": {"n": 1}, "h": "h", "i": null}));
    }

    #[test]
    fn the_first_alternative_that_fits_has_the_defaults() {
        let of = |kind: &str| json!({"properties": {"kind": {"const": kind}, kind: {"default": 1}}, "required": ["kind"]});
        let schema = json!({"properties": {"x": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}, of("b")]}}, "$defs": {"a": of("a")}});
        for (given, expected) in [
            (json!({"kind": "a"}), json!({"kind": "a", "a": 1})),
            (json!({"kind": "b"}), json!({"kind": "b", "b": 1})),
            (json!({"kind": "c"}), json!({"kind": "c"})),
            (json!(null), json!(null)),
        ] {
            assert_eq!(filled(&schema, json!({"x": given})), json!({ "x": expected }));
        }
    }

    #[test]
    fn a_schema_without_an_end_fills_a_value_with_one() {
        let child = json!({"$ref": "#", "default": {}});
        let schema = json!({"properties": {"a": child, "b": child}, "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert!(filled(&schema, json!({})).is_object());
    }

    #[test]
    fn a_default_that_does_not_fit_is_found_with_its_place() {
        let schema = json!({
            "properties": {
                "a/b": {"type": "integer", "default": "x"},
                "c": {"items": {"$ref": "#/$defs/d", "default": 1}},
                "e": {"type": "object", "properties": {"f": {"default": 1}}, "required": ["f"], "default": {}},
                "default": {"type": "string"},
            },
            "$defs": {"d": {"type": "string"}},
        });
        let places: Vec<String> = unfit(&schema).into_iter().map(|wrong| wrong.pointer).collect();
        assert_eq!(places, ["/properties/a~1b", "/properties/c/items"]);
    }
}
