//! Names for the objects in other schemas, for generators of clients.
//!
//! A generator makes a class of each object. It calls an object without a name by the place where it meets it, so that two
//! classes get one name, and it does not follow an object that contains itself. An object with a name of its own has neither
//! problem.

use serde_json::{Map, Value, json};

/// Returns the components, with a component of its own for each object inside them.
pub(super) fn components(mut components: Map<String, Value>) -> Map<String, Value> {
    let mut names: Vec<String> = components.keys().cloned().collect();
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        at += 1;
        let Some(mut schema) = components.get_mut(&name).map(Value::take) else { continue };
        let mut found = Vec::new();
        inside(&mut schema, &name, &mut |object, wanted| {
            let is_taken = |name: &str| names.iter().any(|known| known == name);
            let numbered = (2..).map(|number| format!("{wanted}{number}"));
            let name = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !is_taken(name));
            let name = name.unwrap_or_default();
            let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
            names.push(name.clone());
            found.push((name, std::mem::replace(object, reference)));
        });
        components.insert(name, schema);
        components.extend(found);
    }
    components
}

/// Gives the objects of a schema to `take`, each with a name. Objects inside these follow when they have become
/// components.
fn inside(schema: &mut Value, name: &str, take: &mut impl FnMut(&mut Value, &str)) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            ("oneOf" | "anyOf" | "allOf", Value::Array(several)) => {
                for part in several {
                    let own = format!("{name}{}", variant(part).map(camel).unwrap_or_default());
                    met(part, &own, take);
                }
            }
            ("properties", Value::Object(properties)) => {
                for (property, part) in properties {
                    met(part, &format!("{name}{}", camel(property)), take);
                }
            }
            ("items" | "additionalProperties", part) => met(part, &format!("{name}Item"), take),
            _ => {}
        }
    }
}

fn met(part: &mut Value, name: &str, take: &mut impl FnMut(&mut Value, &str)) {
    match part.get("properties").is_some() {
        true => take(part, name),
        false => inside(part, name, take),
    }
}

/// Returns the word that distinguishes an alternative from the others: the value of its tag, else its first property.
fn variant(part: &Value) -> Option<&str> {
    let properties = part.get("properties")?.as_object()?;
    let tag = properties.values().find_map(|property| property.get("const")?.as_str());
    tag.or_else(|| properties.keys().next().map(String::as_str))
}

/// Converts a word to a part of a type's name.
fn camel(word: &str) -> String {
    let parts = word.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (first, rest) = part.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_gets_a_name_of_its_own() {
        let object = |name: &str, inner: Value| json!({"type": "object", "properties": {name: inner}});
        let list = json!({
            "oneOf": [
                object("tool", object("tool", json!({"type": "string"}))),
                object("again", object("rule", json!({"$ref": "#/components/schemas/By"}))),
                {"type": "string", "const": "nothing"},
            ],
        });
        let given = [("By".to_owned(), list), ("ByTool".to_owned(), json!({"type": "string"}))];
        let named = components(given.into_iter().collect());
        let names: Vec<&String> = named.keys().collect();
        assert_eq!(names, ["By", "ByTool", "ByTool2", "ByAgain", "ByTool2Tool", "ByAgainAgain"]);
        assert_eq!(named["By"]["oneOf"][0]["$ref"], "#/components/schemas/ByTool2");
        assert_eq!(named["ByAgainAgain"]["properties"]["rule"]["$ref"], "#/components/schemas/By");
        assert_eq!(components(named.clone()), named, "nothing is left to name");
    }
}
