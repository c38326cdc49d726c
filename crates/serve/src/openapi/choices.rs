//! Choices among texts as one `enum`, for generators of clients: they try the alternatives of `oneOf` one after the other only
//! where these are enumerations or objects, and not where they are single values.

use serde_json::{Map, Value, json};

/// Makes the single texts among the alternatives of a schema, and of all schemas in it, one enumeration.
pub(super) fn joined(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            join(keywords);
            keywords.values_mut().for_each(joined);
        }
        Value::Array(items) => items.iter_mut().for_each(joined),
        _ => {}
    }
}

fn join(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = keywords.get_mut("oneOf") else { return };
    let (mut texts, mut about) = (Vec::new(), Vec::new());
    alternatives.retain(|alternative| {
        let Some(own) = texts_of(alternative) else { return true };
        if let (Some(description), [Value::String(text)]) =
            (alternative["description"].as_str(), own.as_slice())
        {
            about.push(format!("`{text}`: {}", description.replace('\n', " ")));
        }
        texts.extend(own);
        false
    });
    if texts.is_empty() {
        return;
    }
    let about = about.join("\n");
    if alternatives.is_empty() {
        keywords.remove("oneOf");
        let description = keywords.get("description").and_then(Value::as_str).unwrap_or_default();
        let whole = [description, &about].map(str::to_owned).into_iter().filter(|part| !part.is_empty());
        let whole = whole.collect::<Vec<_>>().join("\n\n");
        keywords.insert("type".into(), "string".into());
        keywords.insert("enum".into(), texts.into());
        if !whole.is_empty() {
            keywords.insert("description".into(), whole.into());
        }
    } else {
        let mut choice = json!({"type": "string", "enum": texts});
        if !about.is_empty() {
            choice["description"] = about.into();
        }
        alternatives.push(choice);
    }
}

/// Returns the texts that a schema consists of.
fn texts_of(schema: &Value) -> Option<Vec<Value>> {
    if schema["type"] != "string" {
        return None;
    }
    match (&schema["const"], &schema["enum"]) {
        (text @ Value::String(_), _) => Some(vec![text.clone()]),
        (_, Value::Array(texts)) => Some(texts.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_texts_become_one_enumeration() {
        let done = json!({"type": "string", "const": "done", "description": "It has\nan output."});
        let more = json!({"type": "string", "enum": ["failed", "limit"]});
        let mut alone = json!({"description": "A state.", "oneOf": [done, more]});
        joined(&mut alone);
        assert_eq!(
            alone,
            json!({"description": "A state.\n\n`done`: It has an output.", "type": "string", "enum": ["done", "failed", "limit"]})
        );
        let object = json!({"type": "object", "properties": {"kind": {"type": "string", "const": "x"}, "by": {"oneOf": [done]}}});
        let mut mixed = json!({"oneOf": [done, object]});
        joined(&mut mixed);
        assert_eq!(mixed["oneOf"][1]["enum"], json!(["done"]));
        assert_eq!(mixed["oneOf"][0]["properties"]["kind"]["const"], "x");
        assert_eq!(mixed["oneOf"][0]["properties"]["by"]["enum"], json!(["done"]));
    }
}
