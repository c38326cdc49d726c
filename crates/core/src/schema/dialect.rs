//! Translation of schemas of earlier drafts to draft 2020-12.
//!
//! A schema names its draft with `$schema`. The same text can have another meaning in another draft: a list of schemas
//! as `items` was a tuple until 2019-09, and is invalid since. llm-do reads only 2020-12, so a schema of an earlier
//! draft is translated once, before any other code reads it.

use super::subschemas::{NAMED, ONE, SEVERAL};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The draft that llm-do reads.
const CURRENT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Maximum nesting of schemas that are translated.
const DEEPEST: usize = 256;

/// A draft of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

/// Keywords that stay beside a `$ref` when a schema is translated from a draft that ignores its neighbours. Other
/// keywords would become constraints.
const BESIDE_REF: [&str; 12] = [
    "$ref",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "untrusted",
];

/// The schema in the draft that llm-do reads. `$schema` names the new draft if it was another.
///
/// # Errors
/// An unknown draft, or a part that can't be translated, with its JSON Pointer.
pub(super) fn translated(schema: &Value) -> Result<Cow<'_, Value>, String> {
    if !mentions_draft(schema) {
        return Ok(Cow::Borrowed(schema));
    }
    let mut new = schema.clone();
    translate(&mut new, Draft::D2020, "", 0)?;
    if new == *schema {
        return Ok(Cow::Borrowed(schema));
    }
    if let Some(lost) = lost_reference(schema, &new, schema) {
        return Err(format!(
            "`$ref: {lost}` leads to a place that draft 2020-12 names otherwise: put that schema under `$defs`"
        ));
    }
    if let Some(declared) = new.get_mut("$schema") {
        *declared = CURRENT.into();
    }
    Ok(Cow::Owned(new))
}

fn mentions_draft(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("$schema") || map.values().any(mentions_draft),
        Value::Array(items) => items.iter().any(mentions_draft),
        _ => false,
    }
}

impl Draft {
    fn named(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#').trim_end_matches('/');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        Some(match name.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Self::D4,
            "draft-06/schema" => Self::D6,
            "draft-07/schema" => Self::D7,
            "draft/2019-09/schema" => Self::D2019,
            "draft/2020-12/schema" | "schema" => Self::D2020,
            _ => return None,
        })
    }
}

fn translate(schema: &mut Value, outer: Draft, pointer: &str, depth: usize) -> Result<(), String> {
    let Some(keywords) = schema.as_object_mut() else { return Ok(()) };
    if depth == DEEPEST {
        return Err(format!("`{pointer}` is nested too deeply"));
    }
    let draft = match keywords.get("$schema") {
        None => outer,
        Some(Value::String(name)) => Draft::named(name).ok_or_else(|| {
            format!(
                "`{pointer}/$schema` is `{name}`, which llm-do does not know: it reads the drafts 4, 6, 7, 2019-09 and 2020-12"
            )
        })?,
        Some(_) => return Err(format!("`{pointer}/$schema` is no text")),
    };
    if draft < Draft::D2020 {
        keywords_of(keywords, draft, pointer)?;
    }
    for (keyword, value) in keywords.iter_mut() {
        let name = keyword.as_str();
        match value {
            Value::Object(named) if NAMED.contains(&name) => {
                for (key, schema) in named.iter_mut() {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    translate(schema, draft, &format!("{pointer}/{name}/{key}"), depth + 1)?;
                }
            }
            Value::Array(several) if SEVERAL.contains(&name) => {
                for (i, schema) in several.iter_mut().enumerate() {
                    translate(schema, draft, &format!("{pointer}/{name}/{i}"), depth + 1)?;
                }
            }
            one if ONE.contains(&name) => {
                translate(one, draft, &format!("{pointer}/{name}"), depth + 1)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Translates the keywords of one schema.
fn keywords_of(keywords: &mut Map<String, Value>, draft: Draft, pointer: &str) -> Result<(), String> {
    if draft == Draft::D4 {
        if let Some(id) = keywords.shift_remove("id") {
            // A property that is called `id` is no keyword; those are not read here.
            keywords.entry("$id").or_insert(id);
        }
        for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if let Some(Value::Bool(excludes)) = keywords.get(exclusive).cloned() {
                keywords.shift_remove(exclusive);
                if let Some(limit) = keywords.get(limit).cloned().filter(|_| excludes) {
                    keywords.insert(exclusive.to_owned(), limit);
                }
            }
        }
    }
    if draft <= Draft::D7 {
        let anchor = keywords.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'));
        if let Some(anchor) = anchor.map(str::to_owned) {
            keywords.shift_remove("$id");
            keywords.insert("$anchor".to_owned(), anchor.into());
        }
        if keywords.get("$ref").is_some_and(Value::is_string) {
            keywords.retain(|keyword, _| BESIDE_REF.contains(&keyword.as_str()));
        }
    }
    if draft == Draft::D2019 {
        if keywords.shift_remove("$recursiveAnchor") == Some(Value::Bool(true)) {
            keywords.insert("$dynamicAnchor".to_owned(), "recursive".into());
        }
        if keywords.shift_remove("$recursiveRef").is_some() {
            keywords.insert("$dynamicRef".to_owned(), "#recursive".into());
        }
    }
    if keywords.get("items").is_some_and(Value::is_array) {
        if keywords.contains_key("prefixItems") {
            return Err(format!("`{pointer}/items` is a list beside `prefixItems`"));
        }
        let rest = keywords.shift_remove("additionalItems");
        let first = keywords.shift_remove("items").unwrap_or_default();
        // An empty list of `prefixItems` is invalid.
        if first.as_array().is_some_and(|first| !first.is_empty()) {
            keywords.insert("prefixItems".to_owned(), first);
        }
        if let Some(rest) = rest {
            keywords.insert("items".to_owned(), rest);
        }
    } else {
        keywords.shift_remove("additionalItems");
    }
    if let Some(Value::Object(all)) = keywords.shift_remove("dependencies") {
        for (name, needs) in all {
            let needs = if needs.is_string() { Value::Array(vec![needs]) } else { needs };
            let keyword = if needs.is_array() { "dependentRequired" } else { "dependentSchemas" };
            let of = keywords.entry(keyword).or_insert_with(|| Value::Object(Map::new()));
            if let Some(of) = of.as_object_mut() {
                of.insert(name, needs);
            }
        }
    }
    Ok(())
}

/// A reference that resolved before the translation and no longer does.
fn lost_reference<'s>(before: &Value, after: &Value, part: &'s Value) -> Option<&'s str> {
    match part {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str);
            let lost = target.filter(|target| {
                let place = target.strip_prefix('#');
                place.is_some_and(|place| before.pointer(place).is_some() && after.pointer(place).is_none())
            });
            lost.or_else(|| map.values().find_map(|part| lost_reference(before, after, part)))
        }
        Value::Array(items) => items.iter().find_map(|part| lost_reference(before, after, part)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::Schema;
    use serde_json::{Value, json};

    const D4: &str = "http://json-schema.org/draft-04/schema#";
    const D7: &str = "http://json-schema.org/draft-07/schema#";
    const D2019: &str = "https://json-schema.org/draft/2019-09/schema";

    fn of(draft: &str, schema: Value) -> Schema {
        let mut schema = schema;
        schema["$schema"] = draft.into();
        Schema::new(schema).unwrap()
    }

    #[track_caller]
    fn judges(schema: &Schema, fits: &[Value], unfit: &[Value]) {
        for value in fits {
            assert_eq!(schema.validate(value), Ok(()), "{schema:?} {value}");
        }
        for value in unfit {
            assert!(schema.validate(value).is_err(), "{schema:?} {value}");
        }
    }

    #[test]
    fn a_schema_is_judged_by_the_draft_that_it_declares() {
        let tuple =
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}});
        for draft in [D4, "https://json-schema.org/draft-06/schema", D7, D2019] {
            judges(
                &of(draft, tuple.clone()),
                &[json!(["a", 1]), json!([])],
                &[json!([1]), json!(["a", "b"])],
            );
        }
        judges(
            &of(D4, json!({"minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false})),
            &[json!(1.5), json!(9)],
            &[json!(1), json!(10)],
        );
        judges(
            &of(D7, json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})),
            &[json!({"a": 1, "b": 2}), json!({"c": 1, "d": 2})],
            &[json!({"a": 1}), json!({"c": 1})],
        );
        judges(
            &of(
                D7,
                json!({
                    "properties": {"x": {"$ref": "#/definitions/s", "maxLength": 1, "description": "A text."}},
                    "definitions": {"s": {"type": "string"}, "named": {"$id": "#n", "type": "integer"}},
                    "additionalProperties": {"$ref": "#n"},
                }),
            ),
            &[json!({"x": "long", "n": 1})],
            &[json!({"x": 1}), json!({"n": "x"})],
        );
        judges(
            &of(
                D2019,
                json!({"$recursiveAnchor": true, "properties": {"next": {"$recursiveRef": "#"}, "n": {"type": "integer"}}}),
            ),
            &[json!({"next": {"n": 1}})],
            &[json!({"next": {"n": "x"}})],
        );
    }

    #[test]
    fn a_schema_without_changes_stays_as_it_is() {
        let schema =
            json!({"$schema": D7, "type": "object", "properties": {"items": {"type": "array", "items": {}}}});
        assert_eq!(**Schema::new(schema.clone()).unwrap().value(), schema);
        let tuple = of(D7, json!({"items": [{}], "const": {"items": [1]}}));
        let translated = json!({
            "$schema": super::CURRENT, "prefixItems": [{}], "const": {"items": [1]},
        });
        assert_eq!(**tuple.value(), translated);
    }

    #[test]
    fn what_cannot_be_judged_is_refused_with_its_place() {
        for (schema, says) in [
            (json!({"$schema": "https://example.org/own"}), "`/$schema` is `https://example.org/own`"),
            (json!({"$schema": 7}), "`/$schema` is no text"),
            (
                json!({"$schema": D7, "items": [{}], "properties": {"a": {"$ref": "#/items/0"}}}),
                "put that schema under `$defs`",
            ),
            (json!({"properties": {"a": {"items": [{}]}}}), "`/properties/a/items` is a list"),
            (json!({"items": [{}]}), "write `prefixItems`"),
            (
                json!({"properties": {"a": {"$ref": "https://example.org/a.json#/x"}}}),
                "`/properties/a/$ref` leads to `https://example.org/a.json#/x`",
            ),
            (json!({"$ref": "other.json"}), "under `$defs`"),
        ] {
            let refused = Schema::new(schema.clone()).unwrap_err().to_string();
            assert!(refused.contains(says), "{schema}: {refused}");
        }
    }
}
