//! A TypeScript declaration file: interfaces, and one of the program for `load<…>(…)`.

use super::{
    model::{Model, Type},
    names::{line, pascal},
};
use crate::signatures::Signatures;
use llm_do_visible as visible;
use serde_json::Value;
use std::fmt::Write as _;

pub(super) fn types(program: &str, signatures: &Signatures) -> String {
    let mut model = Model::new(&["Worker", "Record", "Array", "Object", "String", "Number", "Boolean"]);
    let class = model.free(&pascal(program));
    let mut workers = String::new();
    for worker in &signatures.workers {
        let name = pascal(&worker.worker);
        let input = model.read(&worker.input, &format!("{name}Input"));
        let output = match &worker.output {
            Some(output) => model.read(output, &format!("{name}Output")),
            None => Type::Text,
        };
        comment(worker.description.as_deref(), &mut workers);
        let key = quoted(&worker.worker);
        let _ = writeln!(workers, "  readonly {key}: Worker<{}, {}>;", shown(&input), shown(&output));
    }
    let mut text = "import type { Worker } from \"llm-do\";\n\n".to_owned();
    for object in &model.objects {
        let _ = writeln!(text, "export interface {} {{", object.name);
        for field in &object.fields {
            comment(field.description.as_deref(), &mut text);
            let optional = if field.required { "" } else { "?" };
            let _ = writeln!(text, "  {}{optional}: {};", quoted(&field.key), shown(&field.of));
        }
        text.push_str("}\n\n");
    }
    let _ =
        write!(text, "/** The workers: `load<{class}>(…)`. */\nexport interface {class} {{\n{workers}}}\n");
    text
}

fn comment(description: Option<&str>, text: &mut String) {
    if let Some(description) = description {
        let _ = writeln!(text, "  /** {} */", line(description));
    }
}

fn shown(of: &Type) -> String {
    match of {
        Type::Any => "unknown".into(),
        Type::Null => "null".into(),
        Type::Bool => "boolean".into(),
        Type::Int | Type::Float => "number".into(),
        Type::Text => "string".into(),
        Type::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            texts.join(" | ")
        }
        Type::List(items) => format!("Array<{}>", shown(items)),
        Type::Map(values) => format!("Record<string, {}>", shown(values)),
        Type::Object(name) | Type::Around(name) => name.clone(),
        Type::Union(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(" | "),
    }
}

/// Formats a literal: JSON's form is valid in TypeScript, with escapes for characters that an editor does not show.
fn quoted(text: &str) -> String {
    visible::json(&Value::from(text).to_string()).into_owned()
}
