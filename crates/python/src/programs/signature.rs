//! Signatures of the functions that a program may call, as its language writes them.

use llm_do_core::{
    function::{Function, OutputSchema},
    worker::Language,
};
use serde_json::{Value, json};

/// Deepest part of a type that is written.
const DEEPEST: usize = 4;

/// The detail of a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The types of the parameters and of the result.
    Types,
    /// Only the names of the parameters.
    Names,
}

/// Returns the signatures, one a line.
pub(super) fn signatures(language: Language, functions: &[&Function], detail: Detail) -> String {
    functions.iter().map(|function| line(language, function, detail)).collect()
}

fn line(language: Language, function: &Function, detail: Detail) -> String {
    let typed = detail == Detail::Types;
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
            let kind = if typed { format!(": {}", kind(language, property, DEEPEST)) } else { String::new() };
            let text = match (language, is_optional, property.get("default")) {
                (_, false, _) => format!("{name}{kind}"),
                (Language::Script, true, _) => format!("{name}?{kind}"),
                (Language::Python, true, Some(default)) if typed => {
                    format!("{name}{kind} = {}", literal(language, default))
                }
                (Language::Python, true, _) => format!("{name}{kind} = …"),
            };
            (is_optional, text)
        })
        .collect();
    parameters.sort_by_key(|(is_optional, _)| *is_optional);
    let parameters: Vec<String> = parameters.into_iter().map(|(_, text)| text).collect();
    let parameters = parameters.join(", ");
    let output = meta.output.as_ref().map(OutputSchema::schema);
    let text = json!({"type": "string"});
    let output = kind(language, output.map_or(&text, |schema| schema.value()), DEEPEST);
    let name = &meta.tool_name;
    match language {
        Language::Python => format!("\n{name}({parameters}) -> {output}"),
        Language::Script if parameters.is_empty() => format!("\n{name}({{}}): {output}"),
        Language::Script => format!("\n{name}({{{parameters}}}): {output}"),
    }
}

/// Writes a JSON value as the language does.
fn literal(language: Language, value: &Value) -> String {
    match (language, value) {
        (Language::Python, Value::Null) => "None".to_owned(),
        (Language::Python, Value::Bool(true)) => "True".to_owned(),
        (Language::Python, Value::Bool(false)) => "False".to_owned(),
        (_, other) => other.to_string(),
    }
}

/// The words of a language for the types of JSON.
struct Words {
    any: &'static str,
    text: &'static str,
    integer: &'static str,
    number: &'static str,
    boolean: &'static str,
    null: &'static str,
    list: &'static str,
    object: &'static str,
}

impl Words {
    const fn of(language: Language) -> Self {
        match language {
            Language::Python => Self {
                any: "Any",
                text: "str",
                integer: "int",
                number: "float",
                boolean: "bool",
                null: "None",
                list: "list",
                object: "dict",
            },
            Language::Script => Self {
                any: "unknown",
                text: "string",
                integer: "number",
                number: "number",
                boolean: "boolean",
                null: "null",
                list: "unknown[]",
                object: "object",
            },
        }
    }
}

/// Writes the type that a schema describes.
fn kind(language: Language, schema: &Value, deepest: usize) -> String {
    let words = Words::of(language);
    let Some(deeper) = deepest.checked_sub(1) else { return words.any.to_owned() };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(|value| literal(language, value)).collect();
        return match language {
            Language::Python => format!("Literal[{}]", values.join(", ")),
            Language::Script => values.join(" | "),
        };
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
            let choices: Vec<String> = choices.iter().map(|choice| kind(language, choice, deeper)).collect();
            return choices.join(" | ");
        }
    }
    let of = |name: &str| match name {
        "string" => words.text.to_owned(),
        "integer" => words.integer.to_owned(),
        "number" => words.number.to_owned(),
        "boolean" => words.boolean.to_owned(),
        "null" => words.null.to_owned(),
        "array" => match schema.get("items") {
            Some(items) if items.is_object() => {
                let items = kind(language, items, deeper);
                match language {
                    Language::Python => format!("list[{items}]"),
                    Language::Script => format!("Array<{items}>"),
                }
            }
            _ => words.list.to_owned(),
        },
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() => {
                let fields: Vec<String> = properties
                    .iter()
                    .map(|(name, field)| format!("{name:?}: {}", kind(language, field, deeper)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            _ => words.object.to_owned(),
        },
        _ => words.any.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => of(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(of).collect::<Vec<_>>().join(" | ")
        }
        _ => words.any.to_owned(),
    }
}
