//! JSON Schema 2020-12, compiled once and shared, and canonical JSON.

use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// A JSON Schema with its validator, compiled at first use.
pub struct Schema {
    value: Arc<Value>,
    validator: OnceLock<jsonschema::Validator>,
}

/// A value that is not a usable JSON Schema.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a valid JSON Schema: {0}")]
pub struct BadSchema(pub String);

/// One way in which a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer to the place in the value; empty for the whole.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
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
    /// Checks that `value` is a schema and compiles it. External references are refused: a schema stands alone.
    pub fn new(value: Value) -> Result<Self, BadSchema> {
        let validator = compile(&value)?;
        Ok(Self { value: Arc::new(value), validator: OnceLock::from(validator) })
    }

    /// A schema written by us, known to be valid; compiled when it is first needed.
    pub fn built_in(value: Value) -> Self {
        Self { value: Arc::new(value), validator: OnceLock::new() }
    }

    /// The schema as JSON.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// Checks a value; every violation is listed (at most 20, a model can't use more).
    pub fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let validator = self.validator.get_or_init(|| {
            compile(&self.value).expect("a schema that did not come through `new` is written by us")
        });
        if validator.is_valid(value) {
            return Ok(());
        }
        Err(validator
            .iter_errors(value)
            .take(20)
            .map(|error| Violation { pointer: error.instance_path().to_string(), message: error.to_string() })
            .collect())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

fn compile(value: &Value) -> Result<jsonschema::Validator, BadSchema> {
    jsonschema::draft202012::options().build(value).map_err(|error| BadSchema(error.to_string()))
}

/// Canonical JSON: keys sorted, no white space. Hashes, keys and remembered approvals use it, so that the order in
/// which a model wrote an object's keys never matters.
pub fn canonical(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                out.push('{');
                for (i, key) in keys.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::String(key.clone()).to_string());
                    out.push(':');
                    write(&map[key], out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
                out.push(']');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// SHA-256 of some bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    // By hand: every turn takes some, and formatting each byte would cost more than the hash.
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are a digit");
    Sha256::digest(bytes).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_form_ignores_key_order() {
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
    fn a_schema_that_is_none_is_refused() {
        assert!(Schema::new(json!({"type": "objekt"})).is_err());
    }
}
