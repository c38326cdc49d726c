//! The places of schemas within a schema.

use serde_json::Value;

/// Maximum nesting of the places that are found.
const DEEPEST: usize = 64;

/// Keywords whose value is a schema, a list of schemas, or a map of names to schemas.
pub(super) const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
pub(super) const SEVERAL: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
pub(super) const NAMED: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// The JSON Pointers of a schema and of all schemas within it. The value of a keyword such as `const` or `default` is
/// not a schema, and neither is a property that is named like a keyword.
pub fn subschemas(schema: &Value) -> Vec<String> {
    let mut places = Vec::new();
    find(schema, String::new(), 0, &mut places);
    places
}

fn find(schema: &Value, pointer: String, depth: usize, places: &mut Vec<String>) {
    let Some(keywords) = schema.as_object().filter(|_| depth < DEEPEST) else { return };
    places.push(pointer.clone());
    for (keyword, value) in keywords {
        let name = keyword.as_str();
        match value {
            Value::Object(named) if NAMED.contains(&name) => {
                for (key, schema) in named {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    find(schema, format!("{pointer}/{name}/{key}"), depth + 1, places);
                }
            }
            Value::Array(several) if SEVERAL.contains(&name) => {
                for (i, schema) in several.iter().enumerate() {
                    find(schema, format!("{pointer}/{name}/{i}"), depth + 1, places);
                }
            }
            one if ONE.contains(&name) => find(one, format!("{pointer}/{name}"), depth + 1, places),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_schemas_are_found() {
        let schema = json!({
            "properties": {"a/b": {"items": {"const": {"items": {}}}}, "items": true},
            "anyOf": [{"default": {"not": {}}}],
            "$defs": {"x": {}},
        });
        let places = subschemas(&schema);
        assert_eq!(places, ["", "/properties/a~1b", "/properties/a~1b/items", "/anyOf/0", "/$defs/x"]);
    }
}
