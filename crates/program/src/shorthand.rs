//! Type shorthand and its JSON Schema. See `docs/reference/worker-files.md`.
//!
//! `string`, `integer`, `number`, `boolean`, `path`, `any`, `object`, `array<T>`, `T?`, `[a, b]` (one of these; as text
//! it may be part of a type: `'[a, b]?'`), a map of fields (all required but those with `?`; in text too:
//! `'array<{a: string}>'`), or JSON Schema as it is.

use crate::{
    diagnostics::{Diagnostic, Fix, codes, nearest},
    schema_keys::{self, KEYWORDS, TELLING},
    span::SourceFile,
    yaml::{self, Data, Entry, Node},
};
use llm_do_core::schema;
use serde_json::{Map, Value, json};

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The JSON Schema of the type.
    pub schema: Value,
    /// True if the value may be left out (`T?`, or a JSON Schema with a `default`).
    pub optional: bool,
    /// The type as written in a file.
    pub shown: String,
    /// True for `path`: a capability, which is a text in JSON.
    pub path: bool,
}

const NAMES: [&str; 7] = ["string", "integer", "number", "boolean", "path", "any", "object"];
/// The longest shorthand, in bytes.
const LONGEST: usize = 1000;
/// The deepest nesting of `array<…>` and maps in a shorthand.
const DEEPEST: usize = 20;

/// Reads the type in a node. `name` names its owner in messages.
pub fn read(node: &Node, name: &str, found: &mut Vec<Diagnostic>) -> Option<Type> {
    match &node.data {
        Data::Text(text) => match word(text.trim()) {
            Ok(typed) => Some(typed),
            Err(part) => {
                found.push(bad_type(node, name, &part));
                None
            }
        },
        Data::List(items) => {
            let typed = choice(items);
            if typed.is_none() {
                found.push(
                    Diagnostic::error(
                        codes::BAD_TYPE,
                        format!("the type of `{name}` has no values to choose from"),
                    )
                    .at(&node.span),
                );
            }
            typed
        }
        Data::Map(_) if is_json_schema(node) => {
            if has_unknown_keys(node, name, found) {
                return None;
            }
            let typed = json_schema(node);
            if let Some(default) = node.entry("default").filter(|_| typed.path) {
                found.push(
                    Diagnostic::error(codes::BAD_TYPE, format!("the path `{name}` cannot have a default"))
                        .at(&default.key_span)
                        .note("a file hands over no path: only the caller does")
                        .help(
                            "remove the default; for the entry, `bindings` in the manifest can set the path",
                        ),
                );
                return None;
            }
            Some(typed)
        }
        Data::Map(_) if has_json_type(node) && schema_keys::has_misspelled(node, name, found) => None,
        Data::Map(_) => fields(node, name, found).map(|(schema, shown)| Type {
            schema,
            optional: false,
            shown,
            path: false,
        }),
        _ => {
            let written = plain(&node.to_json());
            found.push(bad_type(node, name, &written));
            None
        }
    }
}

/// Returns the type of a choice of these values, or `None` if there are none.
fn choice(items: &[Node]) -> Option<Type> {
    let values: Vec<Value> = items.iter().map(Node::to_json).collect();
    if values.is_empty() {
        return None;
    }
    let shown: Vec<String> = values.iter().map(plain).collect();
    let schema = match values.iter().all(Value::is_string) {
        true => json!({ "type": "string", "enum": values }),
        false => json!({ "enum": values }),
    };
    Some(Type { schema, optional: false, shown: format!("[{}]", shown.join(", ")), path: false })
}

/// Returns the object schema of a map of fields, and its text for people.
fn fields(node: &Node, name: &str, found: &mut Vec<Diagnostic>) -> Option<(Value, String)> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut shown = Vec::new();
    let mut whole = true;
    for entry in node.entries() {
        let Some(typed) = read(&entry.value, &format!("{name}.{}", entry.key), found) else {
            whole = false;
            continue;
        };
        shown.push(format!("{}: {}", entry.key, typed.shown));
        if !typed.optional {
            required.push(entry.key.clone());
        }
        properties.insert(entry.key.clone(), typed.schema);
    }
    let schema = object(properties, required);
    whole.then(|| (schema, format!("{{{}}}", shown.join(", "))))
}

/// Returns an object schema that takes these properties and no others.
pub fn object(properties: Map<String, Value>, required: Vec<String>) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Parses a type in text form; the error is the invalid part.
fn word(text: &str) -> Result<Type, String> {
    let open = |depth: usize, c: char| match c {
        '<' | '{' => depth + 1,
        '>' | '}' => depth.saturating_sub(1),
        _ => depth,
    };
    let depths = text.chars().scan(0, |depth, c| {
        *depth = open(*depth, c);
        Some(*depth)
    });
    if text.len() > LONGEST || depths.max().is_some_and(|deepest| deepest > DEEPEST) {
        return Err(text.to_owned());
    }
    part(text)
}

/// Parses a type or a part of one, of a text that is not too long.
fn part(text: &str) -> Result<Type, String> {
    if let Some(inner) = text.strip_suffix('?') {
        let inner = part(inner.trim())?;
        let schema = if inner.path { inner.schema } else { nullable(inner.schema) };
        return Ok(Type { schema, optional: true, shown: text.to_owned(), path: inner.path });
    }
    if let Some(inner) = text.strip_prefix("array<").and_then(|rest| rest.strip_suffix('>')) {
        let item = part(inner.trim())?;
        // A path in a list would be a capability without a name for its mount.
        if item.path || item.optional {
            return Err(text.to_owned());
        }
        let schema = json!({ "type": "array", "items": item.schema });
        return Ok(Type { schema, optional: false, shown: text.to_owned(), path: false });
    }
    if text.starts_with(['[', '{']) {
        let node = yaml::parse(&SourceFile::new("", text), text.len()).map_err(|_| text.to_owned())?;
        return inner(&node).map_err(|wrong| wrong.unwrap_or_else(|| text.to_owned()));
    }
    let schema = match text {
        "string" | "integer" | "number" | "boolean" | "object" => json!({ "type": text }),
        "path" => json!({ "type": "string" }),
        "any" => json!({}),
        other => return Err(other.to_owned()),
    };
    Ok(Type { schema, optional: false, shown: text.to_owned(), path: text == "path" })
}

/// Returns the type of a list or a map in a text. The error is the invalid part, or `None` for the whole. A JSON Schema
/// is invalid here: text has only types that need no check.
fn inner(node: &Node) -> Result<Type, Option<String>> {
    match &node.data {
        Data::Text(text) => part(text.trim()).map_err(Some),
        Data::List(items) => choice(items).ok_or(None),
        Data::Map(entries) if !entries.is_empty() && !is_json_schema(node) => {
            let mut properties = Map::new();
            let mut required = Vec::new();
            let mut shown = Vec::new();
            for entry in entries {
                let field = inner(&entry.value)?;
                if field.path {
                    return Err(Some("path".to_owned()));
                }
                shown.push(format!("{}: {}", entry.key, field.shown));
                if !field.optional {
                    required.push(entry.key.clone());
                }
                properties.insert(entry.key.clone(), field.schema);
            }
            let shown = format!("{{{}}}", shown.join(", "));
            Ok(Type { schema: object(properties, required), optional: false, shown, path: false })
        }
        _ => Err(None),
    }
}

/// Returns the schema of the same type or null: models write `null` for omitted values.
fn nullable(mut schema: Value) -> Value {
    if schema.as_object().is_some_and(Map::is_empty) {
        return schema;
    }
    let values = schema.get_mut("enum").and_then(Value::as_array_mut);
    let listed = values.map(|values| values.push(Value::Null)).is_some();
    match schema.get("type").cloned() {
        Some(kind @ Value::String(_)) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        None if listed => schema,
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

const JSON_TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Returns true if a type uses only shorthand. Its schema is then generated and needs no check.
pub fn is_shorthand(node: &Node) -> bool {
    match &node.data {
        Data::Map(entries) => !is_json_schema(node) && entries.iter().all(|entry| is_shorthand(&entry.value)),
        _ => true,
    }
}

/// Returns true if a map has a `type` with a value of JSON Schema.
fn has_json_type(node: &Node) -> bool {
    node.get("type").is_some_and(|kind| match &kind.data {
        Data::Text(text) => JSON_TYPES.contains(&text.as_str()) || text == "path",
        Data::List(kinds) => {
            kinds.iter().all(|kind| kind.as_text().is_some_and(|text| JSON_TYPES.contains(&text)))
        }
        _ => false,
    })
}

/// Returns true if a map is JSON Schema rather than a map of fields.
pub fn is_json_schema(node: &Node) -> bool {
    let telling = |key: &str| TELLING.contains(&key);
    let typed = has_json_type(node);
    // A field may have these names too. Then its value is a type.
    let own = |entry: &Entry| {
        [schema::CLEAN, schema::UNTRUSTED].contains(&entry.key.as_str()) && entry.value.as_flag().is_some()
    };
    let keywords =
        |entry: &Entry| KEYWORDS.contains(&entry.key.as_str()) || telling(&entry.key) || own(entry);
    let structural = node.entries().iter().any(|entry| {
        telling(&entry.key)
            && !(entry.value.as_text().is_some_and(|text| word(text).is_ok()) && entry.key != "$ref")
    });
    (typed && node.entries().iter().all(keywords)) || structural
}

/// Finds keys without effect in a JSON Schema, and returns true if there are any. `name` names the schema in messages.
pub(crate) fn has_unknown_keys(node: &Node, name: &str, found: &mut Vec<Diagnostic>) -> bool {
    let is_type = |node: &Node| !is_json_schema(node) && read(node, "", &mut Vec::new()).is_some();
    schema_keys::has_unknown(node, name, is_type, found)
}

fn json_schema(node: &Node) -> Type {
    let mut schema = node.to_json();
    let path = schema.get("type").and_then(Value::as_str) == Some("path");
    if path {
        schema["type"] = "string".into();
    }
    let shown = if path { "path".into() } else { shown(&schema) };
    let optional = schema.get("default").is_some();
    Type { schema, optional, shown, path }
}

/// Formats a JSON Schema in the form in which people write types.
pub fn shown(schema: &Value) -> String {
    let listed = |values: &[Value]| format!("[{}]", values.iter().map(plain).collect::<Vec<_>>().join(", "));
    let several = ["anyOf", "oneOf"].into_iter().find_map(|key| schema.get(key)?.as_array());
    match (schema.get("enum"), schema.get("const"), schema.get("type"), several) {
        (Some(Value::Array(values)), ..) => listed(values),
        (_, Some(value), ..) => listed(std::slice::from_ref(value)),
        (_, _, Some(Value::String(kind)), _) => kind.clone(),
        (_, _, Some(Value::Array(kinds)), _) => kinds.iter().map(plain).collect::<Vec<_>>().join(" | "),
        (_, _, _, Some(several)) => {
            let mut kinds: Vec<String> = several.iter().map(shown).collect();
            kinds.dedup();
            kinds.join(" | ")
        }
        _ => "any".into(),
    }
}

fn bad_type(node: &Node, name: &str, part: &str) -> Diagnostic {
    let short: String = part.chars().take(60).collect();
    let found =
        Diagnostic::error(codes::BAD_TYPE, format!("`{short}` is not a type, in `{name}`")).at(&node.span);
    if part == "array<path>" || part == "path" {
        return found.help("a `path` must be a parameter of its own, never part of a list");
    }
    let others = [
        ("str", "string"),
        ("text", "string"),
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("list", "array<any>"),
        ("array", "array<any>"),
        ("dict", "object"),
        ("map", "object"),
        ("file", "path"),
        ("dir", "path"),
        ("folder", "path"),
    ];
    let known =
        others.iter().find(|(other, _)| *other == part.to_lowercase()).map(|(_, ours)| (*ours).to_owned());
    // The meaning of these is unambiguous; the others get only a suggestion.
    if let Some(name) = known.as_ref().filter(|_| ["str", "int", "float", "bool"].contains(&part)) {
        let written = node.span.text();
        if written.matches(part).count() == 1 {
            let title = format!("write `{name}`");
            return found.fix(Fix::rewrite(title, &node.span, written.replacen(part, name, 1)));
        }
    }
    match known.or_else(|| nearest(part, NAMES).into_iter().next()) {
        Some(name) => found.help(format!("did you mean `{name}`?")),
        None => found.help(format!(
            "types are {}, `array<T>`, `T?`, a list of values to choose from, a map of fields, or JSON Schema",
            NAMES.map(|name| format!("`{name}`")).join(", ")
        )),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{span::SourceFile, yaml};

    fn typed(text: &str) -> Result<Type, Box<Diagnostic>> {
        let node = yaml::parse(&SourceFile::new("x", text), text.len()).unwrap();
        let mut found = Vec::new();
        read(&node, "x", &mut found).ok_or_else(|| found.remove(0).into())
    }

    #[test]
    fn shorthand_means_json_schema() {
        for (text, schema) in [
            ("string", r#"{"type":"string"}"#),
            ("integer?", r#"{"type":["integer","null"]}"#),
            ("any", "{}"),
            ("path", r#"{"type":"string"}"#),
            (
                "array<array<number>>",
                r#"{"type":"array","items":{"type":"array","items":{"type":"number"}}}"#,
            ),
            ("[a, b]", r#"{"type":"string","enum":["a","b"]}"#),
            ("[1, b]", r#"{"enum":[1,"b"]}"#),
            ("'[a, b]?'", r#"{"type":["string","null"],"enum":["a","b",null]}"#),
            ("'[1, b]?'", r#"{"enum":[1,"b",null]}"#),
            ("'array<[a, b]>'", r#"{"type":"array","items":{"type":"string","enum":["a","b"]}}"#),
            (
                "'array<{a: string, b: [x, y]}>'",
                r#"{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","enum":["x","y"]}},"required":["a","b"],"additionalProperties":false}}"#,
            ),
            (
                "'{a: string, b: integer?}?'",
                r#"{"type":["object","null"],"properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}},"required":["a"],"additionalProperties":false}"#,
            ),
            ("{type: string, minLength: 2}", r#"{"type":"string","minLength":2}"#),
            ("{enum: [a, b]}", r#"{"enum":["a","b"]}"#),
            (
                "{type: string, id: integer?}",
                r#"{"type":"object","properties":{"type":{"type":"string"},"id":{"type":["integer","null"]}},"required":["type"],"additionalProperties":false}"#,
            ),
            ("{type: string, clean: true, maxLength: 9}", r#"{"type":"string","clean":true,"maxLength":9}"#),
            (
                "{type: string, clean: boolean}",
                r#"{"type":"object","properties":{"type":{"type":"string"},"clean":{"type":"boolean"}},"required":["type","clean"],"additionalProperties":false}"#,
            ),
            (
                "{items: string}",
                r#"{"type":"object","properties":{"items":{"type":"string"}},"required":["items"],"additionalProperties":false}"#,
            ),
        ] {
            assert_eq!(typed(text).unwrap().schema.to_string(), schema, "{text}");
        }
        assert!(typed("path").unwrap().path);
        assert!(typed("{type: path}").unwrap().path);
        assert!(typed("string?").unwrap().optional);
        assert!(typed("{type: string, default: x}").unwrap().optional);
        let choice = typed("'[a, b]?'").unwrap();
        assert_eq!((choice.optional, &*choice.shown), (true, "[a, b]?"));
        assert!(typed("'[]?'").is_err() && typed("'[a'").is_err() && typed("'[a] b'").is_err());
    }

    #[test]
    fn what_is_no_type_says_what_is() {
        assert_eq!(typed("str?").unwrap_err().fix.unwrap().edits[0].text, "string?");
        assert_eq!(typed("dict").unwrap_err().help, ["did you mean `object`?"]);
        assert_eq!(typed("strnig").unwrap_err().help, ["did you mean `string`?"]);
        assert!(typed("array<path>").unwrap_err().help[0].contains("never part of a list"));
        assert!(typed("'array<{a: path}>'").unwrap_err().help[0].contains("never part of a list"));
        assert!(typed("'array<{a: strnig}>'").unwrap_err().message.contains("`strnig` is not a type"));
        for text in
            ["'array<{}>'", "'{a}'", "'array<{type: string}>'", "'array<{a: {enum: [1]}}>'", "'{a: 5}'"]
        {
            assert_eq!(typed(text).unwrap_err().code, codes::BAD_TYPE, "{text}");
        }
        let deep = format!("'{}string{}'", "array<".repeat(21), ">".repeat(21));
        assert_eq!(typed(&deep).unwrap_err().code, codes::BAD_TYPE);
        for text in ["array<", "5", "x<y>", "??", "[]", "true"] {
            assert_eq!(typed(text).unwrap_err().code, codes::BAD_TYPE, "{text}");
        }
    }

    #[test]
    fn what_shorthand_makes_is_always_a_schema() {
        for text in [
            "string",
            "array<array<integer>>?",
            "'array<{a: {b: array<any>}}>?'",
            "[a, a, 1, null, 2.5]",
            "{a: path, b: {c: [x], d: 'any?'}}",
        ] {
            let text = format!("t: {text}");
            let node = yaml::parse(&SourceFile::new("x", text.as_str()), text.len()).unwrap();
            let node = node.get("t").unwrap();
            assert!(is_shorthand(node), "{text}");
            let Some(typed) = read(node, "t", &mut Vec::new()) else { continue };
            llm_do_core::schema::Schema::new(typed.schema).unwrap();
        }
        for text in ["{type: string, pattern: x}", "{a: {b: {enum: [1]}}}"] {
            let text = format!("t: {text}");
            let node = yaml::parse(&SourceFile::new("x", text.as_str()), text.len()).unwrap();
            assert!(!is_shorthand(node.get("t").unwrap()), "{text}");
        }
    }

    #[test]
    fn keys_without_effect_in_a_json_schema_are_found() {
        for (text, message, help) in [
            (
                "{type: array, items: {a: string, b: integer}}",
                "`x.items` is a map of fields",
                "'array<{a: string, b: integer}>'",
            ),
            (
                "{type: array, items: {type: object, requird: [a]}}",
                "no keyword `requird`, in `x.items`",
                "`required`",
            ),
            ("{type: array, itmes: {type: string}}", "no keyword `itmes`", "`items`"),
            ("{type: object, requird: [a]}", "no keyword `requird`", "`required`"),
            ("{properties: {a: {type: string}}, b: string}", "no keyword `b`", "under `properties`"),
            ("{anyOf: [{type: string, nullable: true}]}", "no keyword `nullable`, in `x.anyOf.0`", "`x-`"),
        ] {
            let found = typed(text).unwrap_err();
            assert_eq!(found.code, codes::BAD_SCHEMA, "{text}");
            assert!(found.message.contains(message), "{text}: {}", found.message);
            assert!(found.help.join(" ").contains(help), "{text}: {:?}", found.help);
        }
        for text in [
            "{type: string, x-note: mine}",
            "{type: object, properties: {itmes: {type: string}}, unevaluatedProperties: false}",
            "{const: {itmes: 1}}",
            "{type: string, kinds: [a, b]}",
        ] {
            assert!(typed(text).is_ok(), "{text}");
        }
    }
}
