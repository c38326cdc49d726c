//! The test that a rule's condition fits the input schema of its tool: an argument that does not exist, or a comparison
//! with a value that the argument can never have, is a mistake of the rule's author.

use super::{
    argument_path::Segment,
    condition::{Check, Test},
    number::equal,
    set::{Set, ToolSets},
};
use serde_json::Value;

/// The reason why a test can never hold as intended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Misfit {
    /// A message that describes the mismatch.
    pub message: String,
    /// The name that was not found, if a name is the reason.
    pub unknown: Option<String>,
    /// The names that exist in its place.
    pub known: Vec<String>,
}

/// Greatest number of schemas that one step of a path leads to: a schema may refer to itself.
const MOST: usize = 64;

impl Test {
    /// Compares the test with the input schema of the tool.
    ///
    /// # Errors
    /// The test does not fit.
    pub fn fits(&self, input: &Value) -> Result<(), Misfit> {
        let mut level = alternatives(input, input);
        let mut walked = String::new();
        for segment in self.path.segments() {
            level = step(segment, &level, input, &walked)?;
            if level.is_empty() {
                return Ok(()); // Anything may be there.
            }
            match segment {
                Segment::Key(key) if walked.is_empty() => walked.push_str(key),
                Segment::Key(key) => walked.push_str(&format!(".{key}")),
                Segment::Index(index) => walked.push_str(&format!("[{index}]")),
                Segment::Each => walked.push_str("[*]"),
            }
        }
        let misfit = |message: String| Err(Misfit { message, unknown: None, known: Vec::new() });
        let Some(types) = types(&level) else { return Ok(()) };
        let shown = types.join(" or ");
        let is = |kinds: &[&str]| types.iter().any(|kind| kinds.contains(kind));
        let values: Vec<&Value> = match &self.check {
            Check::AtMost(_) | Check::AtLeast(_) if !is(&["number", "integer"]) => {
                return misfit(format!(
                    "`<=` and `>=` compare numbers, and `{}` is of type {shown}",
                    self.path
                ));
            }
            Check::Matches(_) | Check::Host(_) | Check::HostOf(_) if !is(&["string"]) => {
                return misfit(format!(
                    "`matches` and `host` test texts, and `{}` is of type {shown}",
                    self.path
                ));
            }
            Check::From(_) | Check::In(_) | Check::NotIn(_)
                if !is(&["string", "number", "integer", "boolean"]) =>
            {
                let hint = if is(&["array"]) {
                    format!("; write `{}[*]` for its elements", self.path)
                } else {
                    String::new()
                };
                return misfit(format!(
                    "`in` and `from` test single values, and `{}` is of type {shown}{hint}",
                    self.path
                ));
            }
            Check::Equals(value) => vec![value],
            Check::In(set @ Set::Known(_)) | Check::NotIn(set @ Set::Known(_)) => {
                match set.values(&NO_SETS) {
                    Ok(values) => values.iter().collect(),
                    Err(_) => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        if values.iter().any(|value| possible(value, &types, &level)) {
            return Ok(());
        }
        match choices(&level) {
            Some(choices) => {
                let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
                misfit(format!(
                    "`{}` is one of {}, and the test compares it with another value",
                    self.path,
                    choices.join(", ")
                ))
            }
            None => misfit(format!(
                "`{}` is of type {shown}, and the test compares it with a value of another type",
                self.path
            )),
        }
    }
}

static NO_SETS: ToolSets = ToolSets::none();

/// The schemas behind one step of a path; none if any value is allowed there.
fn step<'s>(
    segment: &Segment,
    level: &[&'s Value],
    root: &'s Value,
    walked: &str,
) -> Result<Vec<&'s Value>, Misfit> {
    let mut next: Vec<&Value> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let whole = if walked.is_empty() { "the tool".to_owned() } else { format!("`{walked}`") };
    for schema in level {
        match segment {
            Segment::Key(key) => {
                let properties = schema.get("properties").and_then(Value::as_object);
                match properties.and_then(|properties| properties.get(key)) {
                    Some(property) => next.extend(alternatives(property, root)),
                    None if !may_be(schema, "object") => {}
                    None => match schema.get("additionalProperties") {
                        Some(Value::Bool(false)) => {}
                        Some(Value::Object(_)) => next.extend(schema.get("additionalProperties")),
                        None if properties.is_some_and(|all| !all.is_empty()) => {}
                        _ => return Ok(Vec::new()),
                    },
                }
                known.extend(properties.into_iter().flatten().map(|(name, _)| name.clone()));
            }
            Segment::Index(_) | Segment::Each => {
                if !may_be(schema, "array") {
                    continue;
                }
                match schema.get("items") {
                    Some(items) if schema.get("prefixItems").is_none() => {
                        next.extend(alternatives(items, root));
                    }
                    _ => return Ok(Vec::new()),
                }
            }
        }
    }
    if !next.is_empty() {
        next.truncate(MOST);
        return Ok(next);
    }
    let shown = types(level)
        .map_or_else(|| "another type".to_owned(), |types| format!("type {}", types.join(" or ")));
    Err(match segment {
        Segment::Key(key) if level.iter().any(|schema| may_be(schema, "object")) => {
            Misfit { message: format!("{whole} has no argument `{key}`"), unknown: Some(key.clone()), known }
        }
        Segment::Key(key) => Misfit {
            message: format!("{whole} is of {shown} and has no `{key}`"),
            unknown: None,
            known: Vec::new(),
        },
        Segment::Index(_) | Segment::Each => Misfit {
            message: format!("{whole} is of {shown}, and `[…]` needs a list"),
            unknown: None,
            known: Vec::new(),
        },
    })
}

/// A schema without its references and alternatives: the schemas that a value may follow.
fn alternatives<'s>(schema: &'s Value, root: &'s Value) -> Vec<&'s Value> {
    let (mut open, mut found) = (vec![schema], Vec::new());
    let mut seen = 0;
    while let Some(schema) = open.pop() {
        seen += 1;
        if seen > MOST {
            break;
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            // A reference to another document does not exist in a schema that was accepted.
            open.extend(target.strip_prefix('#').and_then(|pointer| root.pointer(pointer)));
            continue;
        }
        let several = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
        let several: Vec<&Value> = several.flatten().collect();
        if several.is_empty() {
            found.push(schema);
        } else {
            if schema.get("properties").is_some() {
                found.push(schema);
            }
            open.extend(several);
        }
    }
    found
}

fn may_be(schema: &Value, kind: &str) -> bool {
    types(&[schema]).is_none_or(|types| types.contains(&kind))
}

/// The JSON types that the schemas allow, without `null`; `None` if one allows any.
fn types<'s>(level: &[&'s Value]) -> Option<Vec<&'s str>> {
    let mut types: Vec<&str> = Vec::new();
    for schema in level {
        let named: Vec<&str> = match (schema.get("type"), schema.get("const"), schema.get("enum")) {
            (Some(Value::String(kind)), ..) => vec![kind],
            (Some(Value::Array(kinds)), ..) => kinds.iter().filter_map(Value::as_str).collect(),
            (_, Some(value), _) => vec![type_of(value)],
            (_, _, Some(Value::Array(values))) => values.iter().map(type_of).collect(),
            _ => return None,
        };
        types.extend(named);
    }
    types.retain(|kind| *kind != "null");
    types.sort_unstable();
    types.dedup();
    Some(types)
}

/// The values of `enum` and `const`, if the schemas allow no others.
fn choices<'s>(level: &[&'s Value]) -> Option<Vec<&'s Value>> {
    let mut choices = Vec::new();
    for schema in level {
        match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => choices.extend(values),
            (_, Some(value)) => choices.push(value),
            _ if types(&[schema]).is_some_and(|types| types.is_empty()) => {}
            _ => return None,
        }
    }
    Some(choices)
}

fn possible(value: &Value, types: &[&str], level: &[&Value]) -> bool {
    let kind = type_of(value);
    let number = kind == "integer" && types.contains(&"number");
    // A whole number may be written with a fraction of zero.
    let whole =
        kind == "number" && types.contains(&"integer") && value.as_f64().is_some_and(|n| n.fract() == 0.0);
    let fits = kind == "null" || types.contains(&kind) || number || whole;
    fits && choices(level)
        .is_none_or(|choices| kind == "null" || choices.iter().any(|choice| equal(choice, value)))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Calls;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "amount": {"type": "number"},
                "count": {"type": "integer"},
                "to": {"type": "array", "items": {"$ref": "#/$defs/person"}},
                "kind": {"enum": ["a", "b"]},
                "cc": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "any": {},
                "tree": {"$ref": "#/$defs/tree"},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": false,
            "$defs": {
                "person": {"type": "object", "properties": {"mail": {"type": "string"}}},
                "tree": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "object", "properties": {"down": {"$ref": "#/$defs/tree"}}}]},
            },
        })
    }

    fn misfit(test: &str) -> Option<String> {
        let calls = Calls::parse(&format!("t where {test}"), &|set| set.values("[\"x\"]")).unwrap();
        calls.conditions.tests()[0].fits(&schema()).err().map(|misfit| misfit.message)
    }

    #[test]
    fn tests_of_the_right_type_fit() {
        for test in [
            "amount <= 5",
            "amount = 5",
            "count = 5.0",
            "to[*].mail = x",
            "to[0].mail matches x",
            "kind = a",
            "cc absent",
            "cc in @f",
            "any = 5",
            "any.x[*] <= 5",
            "tree.down.down present",
            "map.whatever = x",
            "cc = null",
            "kind in [\"a\",\"c\"]",
            "to present",
        ] {
            assert_eq!(misfit(test), None, "{test}");
        }
    }

    #[test]
    fn what_can_never_hold_is_said() {
        for (test, message) in [
            ("amuont <= 5", "the tool has no argument `amuont`"),
            ("to[*].mial = x", "`to[*]` has no argument `mial`"),
            ("amount matches x", "`matches` and `host` test texts"),
            ("cc <= 5", "compare numbers"),
            ("amount = x", "with a value of another type"),
            ("count = 5.5", "with a value of another type"),
            ("kind = c", "`kind` is one of \"a\", \"b\""),
            ("to in @f", "write `to[*]` for its elements"),
            ("amount[*] = 1", "`[…]` needs a list"),
            ("amount.x = 1", "has no `x`"),
            ("count in @f", "with a value of another type"),
        ] {
            let found = misfit(test).unwrap_or_default();
            assert!(found.contains(message), "{test}: {found}");
        }
    }
}
