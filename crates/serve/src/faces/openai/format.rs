//! The output that a client asks for, compared with the one that a worker promises.

use super::error::Wrong;
use llm_do::{Session, core::schema::Schema};
use serde_json::{Map, Value};
use std::cell::Cell;

/// The greatest depth at which schemas are compared. Only the output is checked below it.
const DEEPEST: usize = 32;
/// Most places that are compared, for schemas that refer to themselves.
const MOST_PLACES: u32 = 10_000;

/// The form of the output that the client has asked for.
pub(super) enum Format {
    /// Any text.
    Text,
    /// JSON that this schema accepts, if there is one.
    Json(Option<Schema>),
}

impl Format {
    /// Reads the format from `response_format` or `text.format`, for a worker.
    ///
    /// # Errors
    /// The worker does not promise such an output.
    pub(super) fn of(field: &str, given: Option<&Value>, session: &Session) -> Result<Self, Wrong> {
        let Some(given) = given.filter(|given| !given.is_null()) else { return Ok(Self::Text) };
        match given["type"].as_str() {
            Some("text") => Ok(Self::Text),
            Some("json_object") => returns(field, session).map(|_| Self::Json(None)),
            Some("json_schema") => {
                // Chat Completions has the schema one level deeper.
                let wanted = given.get("json_schema").unwrap_or(given).get("schema");
                let wanted = wanted.ok_or_else(|| Wrong::field(field, "`schema` is missing"))?;
                Self::schema(field, wanted, session)
            }
            _ => Err(Wrong::field(field, "its `type` must be text, json_object or json_schema")),
        }
    }

    /// Creates the format of JSON that the schema in a field accepts, for a worker.
    ///
    /// # Errors
    /// The worker does not promise such an output.
    pub(super) fn schema(field: &str, wanted: &Value, session: &Session) -> Result<Self, Wrong> {
        let returns = returns(field, session)?;
        Promise::new(wanted, returns)
            .fits(wanted, returns, "", 0)
            .map_err(|why| Wrong::field(field, format!("the worker returns something else: {why}")))?;
        let schema = Schema::new(wanted.clone())
            .map_err(|error| Wrong::field(field, format!("the schema can't be used: {error}")))?;
        Ok(Self::Json(Some(schema)))
    }

    /// Checks that an output is as the client wants it. The comparison of schemas does not replace this check, because
    /// it leaves out rare keywords.
    ///
    /// # Errors
    /// The output differs. The text says where.
    pub(super) fn accepts(&self, output: &Value) -> Result<(), String> {
        match self {
            Self::Json(Some(schema)) => schema
                .validate(output)
                .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
            Self::Text | Self::Json(None) => Ok(()),
        }
    }
}

/// The schema of the worker's output.
fn returns<'a>(field: &str, session: &'a Session) -> Result<&'a Value, Wrong> {
    let entry = session.entry();
    entry.returns.as_ref().map(|returns| &**returns.value()).ok_or_else(|| {
        Wrong::field(field, format!("`{}` declares no `returns`: its output is text", entry.id))
    })
}

/// The schema that a client wants, and the one that the worker has.
struct Promise<'a> {
    wanted: &'a Value,
    returns: &'a Value,
    /// The number of places that may still be compared.
    left: Cell<u32>,
}

impl<'a> Promise<'a> {
    fn new(wanted: &'a Value, returns: &'a Value) -> Self {
        Self { wanted, returns, left: Cell::new(MOST_PLACES) }
    }

    /// Checks that the worker's schema of a place fits the client's, as far as types, fields and choices show it.
    fn fits(&self, wanted: &Value, returns: &Value, at: &str, depth: usize) -> Result<(), String> {
        let (wanted, returns) = (resolved(self.wanted, wanted), resolved(self.returns, returns));
        let (Some(wanted), Some(returns)) = (wanted.as_object(), returns.as_object()) else { return Ok(()) };
        if depth > DEEPEST || self.left.get() == 0 || wanted == returns {
            return Ok(());
        }
        self.left.set(self.left.get() - 1);
        let named = || if at.is_empty() { "the output".to_owned() } else { format!("`{}`", &at[1..]) };
        let (types, promised) = (types(wanted), types(returns));
        if let (Some(types), Some(promised)) = (&types, &promised) {
            let takes = |kind: &&str| types.contains(kind) || *kind == "integer" && types.contains(&"number");
            if let Some(kind) = promised.iter().find(|kind| !takes(kind)) {
                return Err(format!("{} can be of the type {kind}", named()));
            }
        }
        if let (Some(choices), Some(promised)) = (choices(wanted), choices(returns))
            && let Some(other) = promised.iter().find(|value| !choices.contains(value))
        {
            return Err(format!("{} can be {other}", named()));
        }
        let none = Map::new();
        let fields = |schema: &Map<String, Value>| {
            schema.get("properties").and_then(Value::as_object).unwrap_or(&none).clone()
        };
        let (wanted_fields, own) = (fields(wanted), fields(returns));
        for name in
            wanted.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            let required = returns.get("required").and_then(Value::as_array);
            if !required.is_some_and(|required| required.iter().any(|known| known == name)) {
                return Err(format!("{} need not have `{name}`", named()));
            }
        }
        if wanted.get("additionalProperties") == Some(&Value::Bool(false))
            && let Some(name) = own.keys().find(|name| !wanted_fields.contains_key(*name))
        {
            return Err(format!("{} can have `{name}`", named()));
        }
        for (name, schema) in &wanted_fields {
            if let Some(own) = own.get(name) {
                self.fits(schema, own, &format!("{at}.{name}"), depth + 1)?;
            }
        }
        match (wanted.get("items"), returns.get("items")) {
            (Some(items), Some(own)) => self.fits(items, own, &format!("{at}.items"), depth + 1),
            _ => Ok(()),
        }
    }
}

/// The schema that a reference within the document leads to.
fn resolved<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..DEEPEST {
        let to = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        match to.and_then(|to| document.pointer(to)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(kind) => Some(vec![kind]),
        Value::Array(kinds) => Some(kinds.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn choices(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(choices)), _) => Some(choices.iter().collect()),
        (_, Some(only)) => Some(vec![only]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_worker_promises_must_be_what_the_client_wants() {
        let returns = json!({
            "type": "object",
            "properties": {"urgent": {"type": "boolean"}, "level": {"enum": ["low", "high"]}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["urgent"],
        });
        let wants = |wanted: Value| Promise::new(&wanted, &returns).fits(&wanted, &returns, "", 0);
        for fine in [
            returns.clone(),
            json!({}),
            json!({"type": "object", "title": "Sorted", "properties": {"urgent": {"title": "Urgent", "type": "boolean"}}, "required": ["urgent"]}),
            json!({"type": "object", "properties": {"level": {"$ref": "#/$defs/Level"}}, "$defs": {"Level": {"enum": ["low", "high", "top"]}}}),
        ] {
            assert_eq!(wants(fine.clone()), Ok(()), "{fine}");
        }
        for (other, says) in [
            (json!({"type": "array"}), "the output can be of the type object"),
            (json!({"properties": {"urgent": {"type": "string"}}}), "`urgent` can be of the type boolean"),
            (json!({"required": ["level"]}), "need not have `level`"),
            (json!({"properties": {"level": {"enum": ["low"]}}}), "`level` can be \"high\""),
            (json!({"properties": {"tags": {"items": {"type": "integer"}}}}), "`tags.items`"),
            (json!({"additionalProperties": false, "properties": {"urgent": {}}}), "can have"),
            (json!({"$ref": "#"}), ""),
            (json!({"$ref": "#/nowhere"}), ""),
        ] {
            match wants(other.clone()) {
                Err(why) => assert!(why.contains(says), "{other}: {why}"),
                Ok(()) => assert_eq!(says, "", "{other}"),
            }
        }
    }

    #[test]
    fn schemas_that_refer_to_themselves_are_compared_in_bounded_time() {
        let tree = |kind: &str| {
            let again = json!({"$ref": "#"});
            json!({"properties": {"a": again, "b": again, "c": again, "d": {"type": kind}}})
        };
        let (wanted, returns) = (tree("number"), tree("integer"));
        assert_eq!(Promise::new(&wanted, &returns).fits(&wanted, &returns, "", 0), Ok(()));
    }
}
