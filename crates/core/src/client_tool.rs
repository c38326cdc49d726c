//! A tool that the client of a run declares, and whose calls it executes itself (`docs/reference/ag-ui.md`).

use crate::schema::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the kind, and the beginning of its tools' names in rules and records: `client:NAME`.
pub const CLIENT: &str = "client";

/// Greatest length of the name of a tool. The model's name for it has a prefix, and providers take 64 characters.
const LONGEST_NAME: usize = 56;

/// A tool that the client of a run declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    /// The client's own name for it.
    pub name: Arc<str>,
    /// The description, for the model.
    #[serde(default)]
    pub description: Arc<str>,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Arc<Value>,
}

impl ClientTool {
    /// Makes a tool with the schema of its arguments. A tool without a schema takes no arguments.
    ///
    /// # Errors
    /// The name or the schema can't be used; the error has the field and the reason.
    pub fn new(name: &str, description: &str, parameters: Option<Value>) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            return Err(format!("name: must have 1 to {LONGEST_NAME} letters, digits, `_` or `-`"));
        }
        let mut parameters = match parameters {
            None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
            Some(Value::Object(schema)) if schema.is_empty() => json!({"type": "object", "properties": {}}),
            Some(schema) => schema,
        };
        let Some(keywords) = parameters.as_object_mut() else {
            return Err("parameters: must be a JSON Schema of an object".into());
        };
        if *keywords.entry("type").or_insert_with(|| "object".into()) != "object" {
            return Err("parameters: must be a JSON Schema of an object".into());
        }
        Schema::new(parameters.clone())
            .map_err(|error| format!("parameters: is no usable JSON Schema: {error}"))?;
        Ok(Self { name: name.into(), description: description.into(), parameters: Arc::new(parameters) })
    }
}

/// Returns the client's own name of a tool with that name in records.
pub fn name_at_client(function: &str) -> &str {
    function.strip_prefix(CLIENT).and_then(|rest| rest.strip_prefix(':')).unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_needs_a_name_for_providers_and_a_schema_of_an_object() {
        for (name, parameters, wrong) in [
            ("confirm", None, None),
            ("confirm", Some(json!({})), None),
            ("confirm", Some(json!({"properties": {"a": {"type": "integer"}}})), None),
            ("", None, Some("name")),
            ("a b", None, Some("name")),
            (&*"a".repeat(57), None, Some("name")),
            ("confirm", Some(json!([])), Some("parameters")),
            ("confirm", Some(json!({"type": "string"})), Some("parameters")),
            (
                "confirm",
                Some(json!({"type": "object", "properties": {"a": {"type": 7}}})),
                Some("parameters"),
            ),
        ] {
            let made = ClientTool::new(name, "", parameters.clone());
            let field = made.as_ref().err().and_then(|why| why.split(':').next());
            assert_eq!(field, wrong, "{name} {parameters:?}");
            assert!(made.is_err() || made.is_ok_and(|tool| tool.parameters["type"] == "object"));
        }
    }

    #[test]
    fn names_of_other_functions_have_no_name_at_the_client() {
        assert_eq!((name_at_client("client:confirm"), name_at_client("clients")), ("confirm", "clients"));
    }
}
