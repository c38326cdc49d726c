//! JSON Schemas (2020-12) of worker files, manifests and libraries, for editors and other programs: `llm-do schema`.
//! See `docs/reference/worker-files.md`.
//!
//! They are generated from the key table that the loader checks files with ([`crate::keys`]), so both have the same
//! keys. The schema accepts a file exactly if the loader finds no wrong key, type or value in it, with the following
//! exceptions. JSON Schema cannot express these, or expressing them would make an editor's suggestions worse:
//!
//! - one key under two names (`allow_workers` and `allowWorkers`), and keys that exclude each other (`parameters` and
//!   `schema_in_ref`): accepted;
//! - `5.0` where a whole number belongs: accepted, because to JSON it is one;
//! - a duration in words outside of 1 ms to 10^12 ms: accepted;
//! - a key that is not supported yet, an unknown toolset, or a toolset's rule with a null value: refused, though a null
//!   is an absent key;
//! - what takes more than a look at one value (types, templates, model names, patterns, paths, URLs, names of workers,
//!   `version: 2`): accepted.

use crate::{
    budgets, keys,
    shape::{Key, Shape},
};
use llm_do_core::toolset::{Declarations, ToolsetKind, ToolsetRegistry};
use serde_json::{Map, Value, json};

/// Returns the schema of a worker's keys: the front matter of a `.worker` file, or a YAML worker as a whole.
pub fn worker(toolsets: &ToolsetRegistry) -> Value {
    file(
        "worker",
        "A worker of llm-do: the front matter of a .worker file, or a YAML file.",
        keys::WORKER,
        toolsets,
    )
}

/// Returns the schema of a manifest, `project.yaml` or `llm-do.yaml`.
pub fn manifest(toolsets: &ToolsetRegistry) -> Value {
    file(
        "project",
        "The manifest of an llm-do project: project.yaml or llm-do.yaml.",
        keys::MANIFEST,
        toolsets,
    )
}

/// Returns the schema of a library's `lib.yaml`.
pub fn library(toolsets: &ToolsetRegistry) -> Value {
    file("lib", "A library of llm-do: lib.yaml.", keys::LIBRARY, toolsets)
}

/// Returns the schema of a file of cases: `NAME.cases.yaml`. A line of `NAME.cases.jsonl` is an item of its `cases`.
pub fn cases(toolsets: &ToolsetRegistry) -> Value {
    file("cases", "Cases of a worker of llm-do: NAME.cases.yaml.", keys::CASES, toolsets)
}

/// Returns the schema of the user's budgets over time: budgets.yaml.
pub fn budgets() -> Value {
    let about = "Budgets over time of llm-do: budgets.yaml.";
    let mut schema = file("budgets", about, budgets::KEYS, &ToolsetRegistry::default());
    for keyword in ["properties", "patternProperties"] {
        refuse_without_effect(&mut schema[keyword]);
    }
    if let Some(patterns) = schema["patternProperties"].as_object_mut() {
        patterns.remove("^x-");
    }
    schema
}

/// Removes null and the user's own keys from the values that a schema accepts.
fn refuse_without_effect(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.get("additionalProperties").is_some()
                && let Some(Value::Object(patterns)) = keywords.get_mut("patternProperties")
            {
                patterns.remove("^x-");
            }
            if let Some(Value::Array(kinds)) = keywords.get_mut("type") {
                kinds.retain(|kind| kind != "null");
            }
            if let Some(Value::Array(values)) = keywords.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            keywords.values_mut().for_each(refuse_without_effect);
        }
        Value::Array(items) => items.iter_mut().for_each(refuse_without_effect),
        _ => {}
    }
}

fn file(name: &str, about: &str, keys: &'static [Key], toolsets: &ToolsetRegistry) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:llm-do:schema:{name}"),
        "title": about,
    });
    let mut whole = record(keys, "#");
    if !keys.iter().any(|key| key.required) {
        // A file without any key is one too.
        whole["type"] = json!(["object", "null"]);
    }
    if let Some(given) = whole["properties"].get_mut("toolsets") {
        let about = given["description"].take();
        *given = nullable(toolset_map(toolsets));
        given["description"] = about;
    }
    for kind in toolsets.kinds() {
        let Some(Declarations { manifest_key, property, .. }) = kind.declarations() else { continue };
        let Some(given) = whole["properties"].get_mut(manifest_key) else { continue };
        let about = given["description"].take();
        let mut own = kind.configuration().value()["properties"][property].clone();
        own["additionalProperties"] = nullable(own["additionalProperties"].take());
        *given = nullable(own);
        given["description"] = about;
    }
    let mut definitions = Map::new();
    definitions.insert("rule".into(), rule());
    definitions.insert("duration".into(), duration());
    for name in toolsets.names() {
        if let Some(kind) = toolsets.get(name) {
            definitions.insert(format!("toolset-{name}"), toolset(kind.as_ref()));
        }
    }
    for (key, value) in whole.as_object_mut().into_iter().flat_map(std::mem::take) {
        schema[key] = value;
    }
    schema["$defs"] = definitions.into();
    schema
}

/// Returns the schema of a map with these keys. `at` is its place in the schema, a JSON Pointer.
fn record(keys: &'static [Key], at: &str) -> Value {
    let mut properties = Map::new();
    let mut patterns = Map::new();
    let mut required = Vec::new();
    for key in keys.iter().filter(|key| !matches!(key.shape, Shape::Later)) {
        let place = format!("{at}/properties/{}", key.name);
        let mut schema = nullable(value(&key.shape, &place, false));
        schema["description"] = key.about.into();
        properties.insert(key.name.into(), schema);
        for alias in key.aliases {
            properties.insert((*alias).into(), json!({ "$ref": place, "deprecated": true }));
        }
        patterns.insert(other_spellings(key.name), json!({ "$ref": place }));
        if key.required {
            // Some spelling of it is there and not null: not all that are there are null.
            let all_null =
                json!({ "type": "object", "patternProperties": { spellings(key.name): { "type": "null" } } });
            required.push(json!({ "not": all_null }));
        }
    }
    let mut schema = closed(properties, patterns);
    if !required.is_empty() {
        schema["allOf"] = required.into();
    }
    schema
}

/// Returns the schema of a map that takes these keys and the user's own `x-` keys, and no others.
fn closed(properties: Map<String, Value>, mut patterns: Map<String, Value>) -> Value {
    patterns.insert("^x-".into(), true.into());
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": false,
    })
}

/// Returns the schema of the values of a shape. `one_of_several` is true in [`Shape::Either`], where the kind of value
/// decides: an older form of a rule (a map) is then not accepted.
fn value(shape: &'static Shape, at: &str, one_of_several: bool) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count(least) => json!({ "type": "integer", "minimum": least }),
        Shape::Number(least, most) => {
            let mut schema = json!({ "type": "number" });
            if *least > f64::MIN {
                schema["minimum"] = number(*least);
            }
            if *most < f64::MAX {
                schema["maximum"] = number(*most);
            }
            schema
        }
        Shape::Duration => json!({ "$ref": "#/$defs/duration" }),
        Shape::Rule if one_of_several => {
            json!({ "type": "string", "enum": ["preApproved", "ask", "blocked"] })
        }
        Shape::Rule => json!({ "$ref": "#/$defs/rule" }),
        Shape::Approval => json!({ "anyOf": [
            { "$ref": "#/$defs/rule" },
            { "type": "boolean", "description": "`ask` or `preApproved`", "deprecated": true },
        ] }),
        Shape::Choice(now, _) => json!({ "type": "string", "enum": now }),
        Shape::Texts => json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ] }),
        Shape::List(inner) => {
            json!({ "type": "array", "items": value(inner, &format!("{at}/items"), false) })
        }
        Shape::Map(inner) => {
            let inner = nullable(value(inner, &format!("{at}/additionalProperties"), false));
            json!({ "type": "object", "additionalProperties": inner })
        }
        Shape::Record(keys) => record(keys, at),
        Shape::Records(keys) => json!({ "type": "array", "items": record(keys, &format!("{at}/items")) }),
        Shape::Either(shapes) => {
            let several = shapes.iter().enumerate();
            json!({ "anyOf": several.map(|(i, one)| value(one, &format!("{at}/anyOf/{i}"), true)).collect::<Vec<_>>() })
        }
        Shape::Any => json!({}),
        Shape::Later => json!(false),
    }
}

/// Makes a schema accept null too: a null value is the same as an absent key (`docs/reference/worker-files.md`).
/// References into the schema remain valid.
fn nullable(mut schema: Value) -> Value {
    let nothing = json!({ "type": "null" });
    if let Some(several) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        several.push(nothing);
        return schema;
    }
    if schema.get("$ref").is_some() {
        return json!({ "anyOf": [schema, nothing] });
    }
    if let Some(kind) = schema.get("type").filter(|kind| kind.is_string()).cloned() {
        schema["type"] = json!([kind, "null"]);
        if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
    }
    schema
}

fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

fn rule() -> Value {
    let old = record(keys::OLD_RULE, "#/$defs/rule/anyOf/1");
    json!({ "anyOf": [{ "type": "string", "enum": ["preApproved", "ask", "blocked"] }, old] })
}

fn duration() -> Value {
    json!({
        "description": "seconds, or a number with a unit: `500ms`, `90s`, `5m`, `1h`",
        "anyOf": [
            { "type": "number", "minimum": 0.001, "maximum": 1_000_000_000 },
            { "type": "string", "pattern": r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|h)\s*$" },
        ],
    })
}

/// Returns the schema of `toolsets`: a map of name to configuration, or names.
fn toolset_map(registry: &ToolsetRegistry) -> Value {
    let mut names = Vec::new();
    let mut properties = Map::new();
    for name in registry.names() {
        let definition = json!({ "$ref": format!("#/$defs/toolset-{name}") });
        properties.insert(name.into(), nullable(definition.clone()));
        names.push(name);
        for alias in registry.get(name).into_iter().flat_map(|kind| kind.aliases()) {
            let mut old = nullable(definition.clone());
            old["deprecated"] = true.into();
            properties.insert((*alias).into(), old);
            names.push(alias);
        }
    }
    let name = json!({ "type": "string", "enum": names });
    json!({ "anyOf": [
        { "type": "object", "properties": properties, "additionalProperties": false },
        { "type": "array", "items": name },
        name,
    ] })
}

/// Returns the schema of a kind's configuration: its own schema, and the keys that every toolset takes.
fn toolset(kind: &dyn ToolsetKind) -> Value {
    let own = kind.configuration();
    let at = format!("#/$defs/toolset-{}", kind.name());
    let shared = record(keys::TOOLSET, &at);
    let (mut properties, mut patterns) = (Map::new(), Map::new());
    let mut add = |name: &str, schema: Value| {
        if !properties.contains_key(name) {
            let place = json!({ "$ref": format!("{at}/properties/{name}") });
            patterns.entry(other_spellings(name)).or_insert(place);
            properties.insert(name.to_owned(), schema);
        }
    };
    for (name, schema) in own.value().get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(name, nullable(named(schema, &format!("{at}/properties/{name}"))));
    }
    for (alias, name) in kind.old_keys() {
        add(alias, json!({ "$ref": format!("{at}/properties/{name}"), "deprecated": true }));
    }
    for (name, schema) in shared["properties"].as_object().into_iter().flatten() {
        add(name, schema.clone());
    }
    for key in keys::OLD_RULE {
        let schema = json!({ "type": ["boolean", "null"], "description": key.about, "deprecated": true });
        add(key.name, schema);
    }
    for old in kind.old_approvals() {
        let about = format!("`ask` or `preApproved` for {}", old.ask.join(", "));
        add(old.key, json!({ "type": ["boolean", "null"], "description": about, "deprecated": true }));
    }
    let mut schema = closed(properties, patterns);
    for (keyword, value) in own.value().as_object().into_iter().flatten() {
        match keyword.as_str() {
            "type" | "properties" => {}
            "additionalProperties" => {
                schema[keyword] = nullable(named(value, &format!("{at}/additionalProperties")));
            }
            _ => schema[keyword] = value.clone(),
        }
    }
    if let Some(Declarations { property, .. }) = kind.declarations() {
        accept_names(&mut schema["properties"][property]);
        accept_names(&mut schema);
    }
    schema
}

/// Makes a schema accept a list of names, of definitions in the manifest.
fn accept_names(schema: &mut Value) {
    let mut types = match schema["type"].take() {
        Value::Array(types) => types,
        one => vec![one],
    };
    types.push("array".into());
    schema["type"] = types.into();
    schema["items"] = json!({ "type": "string" });
}

/// Returns a part of the schema of a kind's configuration. Keys that the kind defines within it have their other
/// spellings.
fn named(schema: &Value, at: &str) -> Value {
    let mut whole = schema.clone();
    if let Some(items) = schema.get("items") {
        whole["items"] = named(items, &format!("{at}/items"));
    }
    let Some(own) = schema.get("properties").and_then(Value::as_object) else { return whole };
    let (mut properties, mut patterns) = (Map::new(), Map::new());
    for (name, value) in own {
        let place = format!("{at}/properties/{name}");
        patterns.insert(other_spellings(name), json!({ "$ref": place }));
        properties.insert(name.clone(), nullable(named(value, &place)));
    }
    whole["properties"] = properties.into();
    whole["patternProperties"] = patterns.into();
    whole
}

/// Returns a pattern of all spellings that the loader accepts for this name: `max_turns`, `maxTurns`, `MaxTurns`,
/// `max_Turns`.
fn spellings(name: &str) -> String {
    let words: Vec<&str> = name.split('_').collect();
    let (initial, tail) = initial(words[0]);
    format!("^[{initial}{}]{tail}{}$", initial.to_uppercase(), rest(&words[1..]))
}

/// Returns a pattern of all spellings except the canonical one, so that a validator reports each place only once.
fn other_spellings(name: &str) -> String {
    let words: Vec<&str> = name.split('_').collect();
    // Each alternative has its first capital in another word; the canonical spelling has none. A look-ahead would be
    // shorter, but some validators do not support it.
    let alternatives: Vec<String> = (0..words.len())
        .map(|i| {
            let before = words[..i].join("_");
            let capital = if i == 0 { capitalized(words[i]) } else { format!("_?{}", capitalized(words[i])) };
            format!("{before}{capital}{}", rest(&words[i + 1..]))
        })
        .collect();
    format!("^(?:{})$", alternatives.join("|"))
}

fn rest(words: &[&str]) -> String {
    let word = |word: &&str| {
        let (initial, tail) = initial(word);
        let capital = initial.to_uppercase();
        format!("(?:_[{initial}{capital}]|{capital}){tail}")
    };
    words.iter().map(word).collect()
}

fn capitalized(word: &str) -> String {
    let (initial, tail) = initial(word);
    initial.to_uppercase() + tail
}

fn initial(word: &str) -> (&str, &str) {
    word.split_at(word.chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::snake_case;

    #[test]
    fn spellings_are_those_that_the_loader_reads() {
        let matches = |pattern: &str, text: &str| {
            let schema = json!({ "patternProperties": { pattern: false } });
            let schema = llm_do_core::schema::Schema::new(schema).unwrap();
            schema.validate(&json!({ text: 1 })).is_err()
        };
        for text in [
            "max_tool_calls",
            "maxToolCalls",
            "MaxToolCalls",
            "max_Tool_calls",
            "Max_tool_calls",
            "maxTool_calls",
            "max_toolcalls",
            "MAX_TOOL_CALLS",
            "max__tool_calls",
            "maxtool_calls",
            "amax_tool_calls",
            "maxToolCallS",
        ] {
            let read = snake_case(text) == "max_tool_calls";
            assert_eq!(matches(&spellings("max_tool_calls"), text), read, "{text}");
            assert_eq!(
                matches(&other_spellings("max_tool_calls"), text),
                read && text != "max_tool_calls",
                "{text}"
            );
        }
    }

    #[test]
    fn a_toolset_says_no_more_than_is_carried_over() {
        // Any other keyword may mean something else within the whole, `$ref` above all.
        for name in ToolsetRegistry::built_in().names() {
            let schema = ToolsetRegistry::built_in().get(name).unwrap().configuration();
            for keyword in schema.value().as_object().unwrap().keys() {
                assert!(
                    ["type", "properties", "additionalProperties", "description"].contains(&keyword.as_str()),
                    "{name}: {keyword}"
                );
            }
            assert!(!schema.value().to_string().contains("$ref"), "{name}");
        }
    }

    #[test]
    fn they_are_schemas_and_every_reference_leads_somewhere() {
        fn references(value: &Value, out: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    out.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, out));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, out)),
                _ => {}
            }
        }
        for schema in [worker(&ToolsetRegistry::built_in()), manifest(&ToolsetRegistry::built_in())] {
            llm_do_core::schema::Schema::new(schema.clone()).unwrap();
            let mut all = Vec::new();
            references(&schema, &mut all);
            assert!(all.len() > 50);
            for reference in all {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(schema.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn what_comes_later_is_not_offered() {
        let schema = worker(&ToolsetRegistry::built_in());
        for key in keys::WORKER {
            let offered = schema["properties"].get(key.name).is_some();
            assert_eq!(offered, !matches!(key.shape, Shape::Later), "{}", key.name);
        }
    }
}
