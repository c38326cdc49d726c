//! JSON Schema 2020-12, compiled once and shared, and canonical JSON.

mod alternatives;
mod clean;
mod defaults;
mod dialect;
mod integers;
mod keywords;
mod pattern;
mod subschemas;
mod work;

pub use clean::leaves_no_room;
pub use keywords::{CLEAN, Misuse, UNTRUSTED, misuse, without_own};
pub use subschemas::subschemas;
use work::{Counted, TooMuch};

use serde::Serialize;
use serde_json::Value;
use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

/// A JSON Schema with its validator, compiled at first use.
pub struct Schema {
    value: Arc<Value>,
    validator: OnceLock<Counted>,
    /// True if the schema may declare defaults.
    has_defaults: OnceLock<bool>,
    /// The schema in the form that models see.
    shown: OnceLock<Arc<Value>>,
}

/// A value that is not a usable JSON Schema.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a valid JSON Schema: {0}")]
pub struct BadSchema(pub String);

/// A violation of a schema by a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer to the place; empty for the whole.
    pub pointer: String,
    /// A description of the problem.
    pub message: String,
}

impl Violation {
    /// The top-level property of the whole value that contains the place. `None` for the whole.
    pub fn property(&self) -> Option<String> {
        let name = self.pointer.strip_prefix('/')?.split('/').next()?;
        Some(name.replace("~1", "/").replace("~0", "~"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

impl Schema {
    /// Checks that `value` is a schema and compiles it. A schema of an earlier draft is translated to 2020-12. External
    /// references are refused: a schema must be self-contained.
    pub fn new(value: Value) -> Result<Self, BadSchema> {
        let value = in_current_draft(value)?;
        let validator = compile(&value).map_err(|error| reason(&value).map_or(error, BadSchema))?;
        Ok(Self { validator: OnceLock::from(validator), ..Self::built_in(value) })
    }

    /// A built-in schema, known to be valid; compiled when it is first needed.
    pub fn built_in(value: Value) -> Self {
        Self {
            value: Arc::new(value),
            validator: OnceLock::new(),
            has_defaults: OnceLock::new(),
            shown: OnceLock::new(),
        }
    }

    /// The built-in schema of an object with these properties and no others: the frame of a toolset's configuration.
    pub fn of_keys(properties: Value) -> Self {
        Self::built_in(serde_json::json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        }))
    }

    /// The schema for callers that fix some properties of the object: it accepts no other values for them, and does not
    /// show them.
    pub(crate) fn fixing(&self, fixed: &serde_json::Map<String, Value>) -> Self {
        let (mut whole, mut shown) = ((*self.value).clone(), (*self.value).clone());
        for (name, value) in fixed {
            if let Some(property) = whole.pointer_mut("/properties").and_then(|all| all.get_mut(name)) {
                if !property.is_object() {
                    *property = serde_json::json!({});
                }
                property["const"] = value.clone();
            }
            if let Some(properties) = shown.get_mut("properties").and_then(Value::as_object_mut) {
                properties.shift_remove(name);
            }
        }
        if let Some(required) = shown.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name.as_str().is_none_or(|name| !fixed.contains_key(name)));
        }
        Self { shown: OnceLock::from(keywords::without_own(&Arc::new(shown))), ..Self::built_in(whole) }
    }

    /// The schema as JSON.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// The schema in the form that models and other programs see: without the keywords that only llm-do knows,
    /// [`CLEAN`] and [`UNTRUSTED`].
    pub fn shown(&self) -> &Arc<Value> {
        self.shown.get_or_init(|| keywords::without_own(&self.value))
    }

    /// Checks a value; lists every violation (at most 20, since a model can't use more). A schema that would take too long
    /// for the value is a violation, too: the work of a validation is limited.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if fits_at_a_glance(&self.value, value) {
            return Ok(());
        }
        let validator = self.validator.get_or_init(|| {
            compile(&self.value).expect("a schema that did not come through `new` is written by us")
        });
        let whole = |message: &str| vec![Violation { pointer: String::new(), message: message.to_owned() }];
        match validator.is_valid(value) {
            Ok(true) => match integers::inexact(&self.value, value) {
                None => Ok(()),
                Some(wrong) => Err(vec![wrong]),
            },
            Ok(false) => Err(validator
                .violations(value, |error| Violation {
                    pointer: error.instance_path().to_string(),
                    message: alternatives::reason(&error),
                })
                .unwrap_or_else(|TooMuch| whole("it does not fit, and listing the reasons takes too long"))),
            Err(TooMuch) => Err(whole(
                "it can't be checked: this schema takes too many comparisons for it. Let `$ref` and the alternatives of \
                 `anyOf` lead to fewer definitions, or make the value smaller",
            )),
        }
    }
}

impl Schema {
    /// Fills the schema's defaults into the properties that the value leaves out (`docs/reference/worker-files.md`).
    pub fn filled<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        if !*self.has_defaults.get_or_init(|| defaults::has_defaults(&self.value)) {
            return Cow::Borrowed(value);
        }
        let mut filled = value.clone();
        defaults::fill(&self.value, &mut filled);
        Cow::Owned(filled)
    }

    /// Fills in the defaults, and checks the result. A default that breaks its own schema, which only a tool can have, is
    /// left to the tool.
    ///
    /// # Errors
    /// Every violation, as in [`Schema::validate`].
    pub fn accept<'v>(&self, value: &'v Value) -> Result<Cow<'v, Value>, Vec<Violation>> {
        let filled = self.filled(value);
        match self.validate(&filled) {
            Ok(()) => Ok(filled),
            Err(_) if matches!(filled, Cow::Owned(_)) && self.validate(value).is_ok() => {
                Ok(Cow::Borrowed(value))
            }
            Err(wrong) => Err(wrong),
        }
    }

    /// The defaults that don't fit their own schema. The pointers are places in the schema.
    pub fn unfit_defaults(&self) -> Vec<Violation> {
        defaults::unfit(&self.value)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

/// Returns true if a value fits by simple checks, without a validator. Most inputs do: objects of strings and booleans.
/// A short run then avoids compiling the schema and the meta-schema, which takes longer than everything else before the
/// first request.
///
/// Never returns true for a value that doesn't fit. Keywords that these checks don't know are left to the validator.
fn fits_at_a_glance(schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    let declared = schema.get("properties").and_then(Value::as_object);
    schema.iter().all(|(keyword, says)| match (keyword.as_str(), says) {
        ("title" | "description" | "default" | UNTRUSTED, _) => true,
        ("type", Value::String(kind)) => match kind.as_str() {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            _ => false,
        },
        ("required", Value::Array(names)) => names.iter().all(|name| {
            value.as_object().zip(name.as_str()).is_some_and(|(map, name)| map.contains_key(name))
        }),
        ("properties", Value::Object(properties)) => value.as_object().is_some_and(|map| {
            map.iter()
                .all(|(key, value)| properties.get(key).is_none_or(|schema| fits_at_a_glance(schema, value)))
        }),
        ("additionalProperties", Value::Bool(false)) => value
            .as_object()
            .is_some_and(|map| map.keys().all(|key| declared.is_some_and(|known| known.contains_key(key)))),
        _ => false,
    })
}

/// Translates a schema to the draft that llm-do reads, 2020-12, from the draft that it declares as `$schema`.
///
/// # Errors
/// An unknown draft, or a part that can't be translated.
pub fn in_current_draft(value: Value) -> Result<Value, BadSchema> {
    let translated = match dialect::translated(&value) {
        Ok(Cow::Borrowed(_)) => None,
        Ok(Cow::Owned(translated)) => Some(translated),
        Err(problem) => return Err(BadSchema(problem)),
    };
    Ok(translated.unwrap_or(value))
}

/// The usual reasons why a schema can't be compiled, with the place and a hint.
fn reason(schema: &Value) -> Option<String> {
    subschemas(schema).into_iter().find_map(|pointer| {
        let keywords = schema.pointer(&pointer)?.as_object()?;
        if keywords.get("items").is_some_and(Value::is_array) {
            return Some(format!(
                "`{pointer}/items` is a list, which means a tuple in drafts before 2020-12: write `prefixItems`, or declare \
                 the draft (`$schema: \"http://json-schema.org/draft-07/schema#\"`)"
            ));
        }
        let target = keywords.get("$ref")?.as_str().filter(|target| !target.starts_with('#'))?;
        Some(format!(
            "`{pointer}/$ref` leads to `{target}`, which is not part of this schema, and nothing is fetched: put that schema \
             under `$defs` and refer to it as `#/$defs/NAME`"
        ))
    })
}

fn compile(value: &Value) -> Result<Counted, BadSchema> {
    Counted::new(value).map_err(|error| BadSchema(error.to_string()))
}

/// Canonical JSON: keys sorted, no white space. Hashes, keys and remembered approvals use it, so the key order in a
/// model's objects never matters.
pub fn canonical(value: &Value) -> String {
    // Written by hand into one buffer, because every call uses it.
    fn put(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
        serde_json::to_writer(out, value).expect("a text, a number or a constant is always JSON");
    }
    fn write(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Object(map) => {
                let mut fields: Vec<(&String, &Value)> = map.iter().collect();
                fields.sort_unstable_by_key(|(key, _)| *key);
                out.push(b'{');
                for (i, (key, value)) in fields.into_iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    put(key, out);
                    out.push(b':');
                    write(value, out);
                }
                out.push(b'}');
            }
            Value::Array(items) => {
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write(item, out);
                }
                out.push(b']');
            }
            scalar => put(scalar, out),
        }
    }
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// SHA-256 of some bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    sha256_of_all(&[bytes])
}

/// SHA-256 of these pieces, one after the other, in lower-case hexadecimal.
pub(crate) fn sha256_of_all(pieces: &[&[u8]]) -> String {
    use sha2::{Digest, Sha256};
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(piece);
    }
    // Written by hand, because every turn uses it and formatting each byte would cost more than the hash.
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.finalize()) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    std::str::from_utf8(&digits).expect("the digits are ASCII").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn canonical_form_ignores_key_order() {
        assert_eq!(
            canonical(&json!({"b\n": [null, 1.5, true], "a": "ü\""})),
            r#"{"a":"ü\"","b\n":[null,1.5,true]}"#
        );
        assert_eq!(canonical(&json!({"b": 1, "a": [{"d": 2, "c": 3}]})), r#"{"a":[{"c":3,"d":2}],"b":1}"#);
    }

    #[test]
    fn violations_name_their_place() {
        let schema = Schema::new(
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        )
        .unwrap();
        assert!(schema.validate(&json!({"n": 1})).is_ok());
        let wrong = schema.validate(&json!({"n": "x"})).unwrap_err();
        assert_eq!(wrong[0].pointer, "/n");
        assert_eq!(schema.validate(&json!({})).unwrap_err().len(), 1);
    }

    #[test]
    fn plain_inputs_need_no_validator() {
        let text = json!({"type": "string", "description": "A text."});
        let schema = Schema::built_in(json!({
            "type": "object",
            "properties": {"path": text, "whole": {"type": "boolean"}, "any": {}, "n": {"type": "integer"}},
            "required": ["path"],
            "additionalProperties": false,
        }));
        let compiled = || schema.validator.get().is_some();
        assert!(schema.validate(&json!({"path": "a", "any": [1], "whole": true})).is_ok());
        assert!(!compiled());
        assert!(schema.validate(&json!({"path": "a", "n": 1})).is_ok());
        assert!(compiled());
    }

    proptest! {
        #[test]
        fn what_fits_at_a_glance_fits((schema, value) in (plain_schema(), plain_value())) {
            if fits_at_a_glance(&schema, &value) {
                prop_assert_eq!(compile(&schema).unwrap().is_valid(&value), Ok(true), "{} {}", schema, value);
            }
        }
    }

    /// Schemas with the supported keywords and some others, over the same few names as the values.
    fn plain_schema() -> impl Strategy<Value = Value> {
        const TYPES: [&str; 6] = ["string", "boolean", "object", "integer", "array", "null"];
        let leaf = prop_oneof![
            Just(json!({})),
            Just(json!({"description": "d", "default": 1})),
            Just(json!({"enum": ["x", true]})),
            Just(json!({"type": ["string", "boolean"]})),
            proptest::sample::select(&TYPES[..]).prop_map(|kind| json!({ "type": kind })),
            Just(json!({"type": "string", "minLength": 2})),
        ];
        leaf.prop_recursive(3, 24, 3, |inner| {
            let names = || proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3);
            let properties =
                proptest::collection::btree_map(proptest::sample::select(&["a", "b", "c"][..]), inner, 0..3);
            let rest = proptest::sample::select(vec![
                None,
                Some(json!(false)),
                Some(json!(true)),
                Some(json!({"type": "string"})),
            ]);
            (properties, names(), rest, any::<[bool; 2]>()).prop_map(
                |(properties, required, rest, [typed, declared])| {
                    let mut schema = json!({ "required": required });
                    let of_type = typed.then(|| ("type".to_owned(), json!("object")));
                    let properties = declared.then(|| ("properties".to_owned(), json!(properties)));
                    let rest = rest.map(|rest| ("additionalProperties".to_owned(), rest));
                    schema.as_object_mut().unwrap().extend([of_type, properties, rest].into_iter().flatten());
                    schema
                },
            )
        })
    }

    fn plain_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!("x")),
            Just(json!("xx")),
            Just(json!(true)),
            Just(json!(1)),
            Just(json!(null))
        ];
        leaf.prop_recursive(3, 24, 3, |inner| {
            let names = proptest::sample::select(&["a", "b", "c"][..]);
            let map = proptest::collection::btree_map(names, inner.clone(), 0..4);
            let list = proptest::collection::vec(inner, 0..2);
            prop_oneof![map.prop_map(|map| json!(map)), list.prop_map(Value::from)]
        })
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        assert!(Schema::new(json!({"type": "objekt"})).is_err());
    }
}
