//! Signatures of the functions that a program may call, as Python writes them.

use llm_do_core::function::{Function, OutputSchema};
use serde_json::Value;

/// Longest signatures with types, in characters. If they are longer, only the names of the parameters are shown: the model
/// knows their types from the functions themselves.
const LONGEST: usize = 6_000;

/// Deepest part of a type that is written.
const DEEPEST: usize = 4;

/// Returns the signatures, one a line.
pub(super) fn signatures(functions: &[&Function]) -> String {
    let typed: String = functions.iter().map(|function| line(function, true)).collect();
    if typed.chars().count() <= LONGEST {
        return typed;
    }
    functions.iter().map(|function| line(function, false)).collect()
}

fn line(function: &Function, typed: bool) -> String {
    let meta = &function.meta;
    let schema = meta.input.value();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut parameters: Vec<(bool, String)> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let is_optional = !required.contains(&name.as_str());
            let default = match (is_optional, property.get("default")) {
                (false, _) => String::new(),
                (true, Some(default)) if typed => format!(" = {}", literal(default)),
                (true, _) => " = …".to_owned(),
            };
            let kind = if typed { format!(": {}", kind(property, DEEPEST)) } else { String::new() };
            (is_optional, format!("{name}{kind}{default}"))
        })
        .collect();
    parameters.sort_by_key(|(is_optional, _)| *is_optional);
    let parameters: Vec<String> = parameters.into_iter().map(|(_, text)| text).collect();
    let output = meta.output.as_ref().map(OutputSchema::schema);
    let output = output.map_or_else(|| "str".to_owned(), |schema| kind(schema.value(), DEEPEST));
    format!("\n{}({}) -> {output}", meta.tool_name, parameters.join(", "))
}

/// Writes a JSON value as Python does.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// Writes the type that a schema describes.
fn kind(schema: &Value, deepest: usize) -> String {
    let Some(deeper) = deepest.checked_sub(1) else { return "Any".to_owned() };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(literal).collect();
        return format!("Literal[{}]", values.join(", "));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
            let choices: Vec<String> = choices.iter().map(|choice| kind(choice, deeper)).collect();
            return choices.join(" | ");
        }
    }
    let of = |name: &str| match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => match schema.get("items") {
            Some(items) if items.is_object() => format!("list[{}]", kind(items, deeper)),
            _ => "list".to_owned(),
        },
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() => {
                let fields: Vec<String> = properties
                    .iter()
                    .map(|(name, field)| format!("{name:?}: {}", kind(field, deeper)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            _ => "dict".to_owned(),
        },
        _ => "Any".to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => of(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(of).collect::<Vec<_>>().join(" | ")
        }
        _ => "Any".to_owned(),
    }
}
