//! A Rust module: structs and enums with serde and a JSON Schema. It needs the crate `llm-do`.

use super::{
    model::{Model, Object, Type},
    names::{Taken, line, pascal, snake},
};
use crate::signatures::Signatures;
use std::fmt::Write as _;

const DERIVE: &str = "#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]\n#[serde(crate = \"llm_do::serde\")]\n#[schemars(crate = \"llm_do::schemars\")]\n";
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// The generated types, and the enums that their fields need.
struct Written {
    model: Model,
    enums: String,
}

pub(super) fn types(signatures: &Signatures) -> String {
    let reserved = [
        "Self",
        "Option",
        "Some",
        "None",
        "Ok",
        "Err",
        "Vec",
        "String",
        "Box",
        "Clone",
        "Debug",
        "PartialEq",
    ];
    let mut written = Written { model: Model::new(&reserved), enums: String::new() };
    let mut aliases = String::new();
    for worker in &signatures.workers {
        let name = pascal(&worker.worker);
        for (what, schema) in [("Input", Some(&worker.input)), ("Output", worker.output.as_deref())] {
            let wanted = format!("{name}{what}");
            let of = schema.map_or(Type::Text, |schema| written.model.read(schema, &wanted));
            let about = format!("/// {what} of the worker `{}`.\n", line(&worker.worker));
            match of {
                Type::Object(name) if name == wanted => {}
                Type::Choice(texts) => {
                    written.enums.push_str(&about);
                    written.choice(&texts, &wanted);
                }
                of => {
                    let alias = written.model.free(&wanted);
                    let of = written.shown(&of, &wanted);
                    let _ = writeln!(aliases, "{about}pub type {alias} = {of};");
                }
            }
        }
    }
    let mut text = format!(
        "\n#![allow(dead_code, clippy::all)]\n\n/// The hash of the signatures, for `llm_do::ProgramBuilder::signatures`.\npub const SIGNATURES: &str = \"{}\";\n\n",
        signatures.hash()
    );
    for object in written.model.objects.clone() {
        written.object(&object, &mut text);
    }
    text + &written.enums + &aliases
}

impl Written {
    fn object(&mut self, object: &Object, text: &mut String) {
        let _ = writeln!(text, "{DERIVE}pub struct {} {{", object.name);
        let mut taken = Taken::with(&[]);
        for field in &object.fields {
            let of = self.shown(&field.of, &format!("{}{}", object.name, pascal(&field.key)));
            if let Some(description) = &field.description {
                let _ = writeln!(text, "    /// {}", line(description));
            }
            let key = string(&field.key);
            let plain = taken.free(&snake(&field.key));
            let name = match plain.as_str() {
                "self" | "super" | "crate" => format!("{plain}_"),
                word if KEYWORDS.contains(&word) => format!("r#{plain}"),
                _ => plain,
            };
            let _ = match field.required {
                true => writeln!(text, "    #[serde(rename = {key})]\n    pub {name}: {of},"),
                false => {
                    let of = if of.starts_with("Option<") { of } else { format!("Option<{of}>") };
                    writeln!(
                        text,
                        "    #[serde(rename = {key}, default, skip_serializing_if = \"Option::is_none\")]\n    pub {name}: {of},"
                    )
                }
            };
        }
        text.push_str("}\n\n");
    }

    /// Returns the type in Rust; `name` is that of an enum that it may need.
    fn shown(&mut self, of: &Type, name: &str) -> String {
        match of {
            Type::Any | Type::Null => "llm_do::serde_json::Value".into(),
            Type::Bool => "bool".into(),
            Type::Int => "i64".into(),
            Type::Float => "f64".into(),
            Type::Text => "String".into(),
            Type::Choice(texts) => self.choice(texts, name),
            Type::List(items) => format!("Vec<{}>", self.apart(items, &format!("{name}Item"))),
            Type::Map(values) => {
                let values = self.apart(values, &format!("{name}Value"));
                format!("std::collections::BTreeMap<String, {values}>")
            }
            Type::Object(name) => name.clone(),
            // An object that contains itself without a box would have no size.
            Type::Around(name) => format!("Box<{name}>"),
            Type::Union(parts) => match &parts[..] {
                [Type::Null, one] | [one, Type::Null] => format!("Option<{}>", self.shown(one, name)),
                _ => "llm_do::serde_json::Value".into(),
            },
        }
    }

    /// Returns the type of the elements of a list or a map. They are on the heap, so the type needs no box.
    fn apart(&mut self, of: &Type, name: &str) -> String {
        match of {
            Type::Around(name) => name.clone(),
            of => self.shown(of, name),
        }
    }

    fn choice(&mut self, texts: &[String], name: &str) -> String {
        let name = self.model.free(name);
        let mut taken = Taken::with(&["Self"]);
        let _ = writeln!(self.enums, "{DERIVE}pub enum {name} {{");
        for text in texts {
            let variant = taken.free(&pascal(text));
            let _ = writeln!(self.enums, "    #[serde(rename = {})]\n    {variant},", string(text));
        }
        self.enums.push_str("}\n\n");
        name
    }
}

/// Formats a literal.
fn string(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}
