//! A Python module: `TypedDict`s, and a class of the program for `load(…, stubs=…)`.

use super::{
    model::{Model, Object, Type},
    names::{line, pascal},
};
use crate::signatures::Signatures;
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write as _};

/// Names that the module itself uses.
const RESERVED: &[&str] = &[
    "Any",
    "AsyncIterable",
    "AsyncIterator",
    "Dict",
    "Iterable",
    "Iterator",
    "List",
    "Literal",
    "None",
    "Optional",
    "Program",
    "Result",
    "Stream",
    "True",
    "False",
    "TypedDict",
    "Union",
    "Unpack",
    "Worker",
    "WorkerOf",
    "TYPE_CHECKING",
];
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];
/// Attributes of `Program`. A worker of such a name is only accessible by `program[…]`.
const OF_PROGRAM: &[&str] = &[
    "SIGNATURES",
    "aclose",
    "close",
    "connection",
    "name",
    "operator",
    "run",
    "runs",
    "version",
    "worker",
    "workers",
];

/// The names that the module may import: for all, and for type checkers.
const IMPORTS: [(&str, &[&str]); 1] =
    [("typing", &["TYPE_CHECKING", "Any", "Dict", "List", "Literal", "TypedDict", "Union"])];
const FOR_CHECKERS: [(&str, &[&str]); 4] = [
    ("typing", &["overload"]),
    ("llm_do", &["Result", "Stream"]),
    ("llm_do.client.typed", &["WorkerOf"]),
    ("typing_extensions", &["Unpack"]),
];

/// Returns the beginning of a module with that body, which imports the names that the body uses.
fn head(body: &str) -> String {
    let words: BTreeSet<&str> = body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let import = |indent: &str, (module, names): &(&str, &[&str])| {
        let used: Vec<&str> = names.iter().copied().filter(|name| words.contains(name)).collect();
        match used.is_empty() {
            true => String::new(),
            false => format!("{indent}from {module} import {}\n", used.join(", ")),
        }
    };
    let mut text = "\nfrom __future__ import annotations\n\n".to_owned();
    text.extend(IMPORTS.iter().map(|each| import("", each)));
    text.push_str("\nfrom llm_do import Program\n");
    if words.contains("TYPE_CHECKING") {
        text.push_str("\nif TYPE_CHECKING:\n");
        text.extend(FOR_CHECKERS.iter().map(|each| import("    ", each)));
    }
    text + "\n"
}

pub(super) fn types(program: &str, signatures: &Signatures) -> String {
    let mut model = Model::new(RESERVED);
    let class = model.free(&pascal(program));
    let workers: Vec<(&str, &Option<String>, Type, Type, String)> = signatures
        .workers
        .iter()
        .map(|worker| {
            let name = pascal(&worker.worker);
            let input = model.read(&worker.input, &format!("{name}Input"));
            let output = match &worker.output {
                Some(output) => model.read(output, &format!("{name}Output")),
                None => Type::Text,
            };
            let class = model.free(&format!("{name}Worker"));
            (&*worker.worker, &worker.description, input, output, class)
        })
        .collect();
    let mut text = String::new();
    for object in &model.objects {
        typed_dict(object, &mut text);
    }
    if !workers.is_empty() {
        text.push_str("\nif TYPE_CHECKING:\n");
    }
    for (_, description, input, output, class) in &workers {
        worker(class, description.as_deref(), input, output, &model, &mut text);
    }
    let hash = signatures.hash();
    let _ = write!(text, "\n\nclass {class}(Program):\n    SIGNATURES = \"{hash}\"\n");
    if !workers.is_empty() {
        text.push_str("\n    if TYPE_CHECKING:\n");
        for (name, .., class) in workers.iter().filter(|(name, ..)| is_attribute(name)) {
            let _ = writeln!(text, "        {name}: {class}");
        }
        text.push('\n');
        for (name, .., class) in &workers {
            let name = quoted(name);
            let _ = writeln!(
                text,
                "        @overload\n        def __getitem__(self, name: Literal[{name}]) -> {class}: ..."
            );
        }
        text.push_str("        @overload\n        def __getitem__(self, name: str) -> Any: ...\n");
        text.push_str("        def __getitem__(self, name: str) -> Any: ...\n");
    }
    head(&text) + &text
}

fn is_identifier(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !KEYWORDS.contains(&name)
}

fn is_attribute(name: &str) -> bool {
    is_identifier(name) && !name.starts_with('_') && !OF_PROGRAM.contains(&name)
}

/// Writes an object in the functional form, which takes any key. Optional keys are a separate base, because older
/// versions of Python support no other way. Bases are classes if the keys allow it: type checkers resolve a base that
/// contains its own class only in this form.
fn typed_dict(object: &Object, text: &mut String) {
    let form = |name: &str, required: bool, total: &str| {
        let mut text = format!("{name} = TypedDict(\n    \"{name}\",\n    {{\n");
        for field in object.fields.iter().filter(|field| field.required == required) {
            if let Some(description) = &field.description {
                let _ = writeln!(text, "        # {}", line(description));
            }
            let _ = writeln!(text, "        {}: {},", quoted(&field.key), quoted(&shown(&field.of)));
        }
        text + &format!("    }},\n{total})\n")
    };
    let name = &object.name;
    let all = |required| object.fields.iter().all(|field| field.required == required);
    match (all(true), all(false)) {
        (true, _) => text.push_str(&form(name, true, "")),
        (_, true) => text.push_str(&form(name, false, "    total=False,\n")),
        _ => {
            let is_plain = |key: &str| is_identifier(key) && !key.starts_with("__");
            if object.fields.iter().all(|field| is_plain(&field.key)) {
                text.push_str(&base(object, "Required", true, ""));
                text.push_str(&base(object, "Optional", false, ", total=False"));
            } else {
                text.push_str(&form(&format!("_{name}Required"), true, ""));
                text.push_str(&form(&format!("_{name}Optional"), false, "    total=False,\n"));
            }
            let _ = write!(text, "\n\nclass {name}(_{name}Required, _{name}Optional):\n    pass\n\n\n");
        }
    }
}

/// Returns a class of the fields of an object that are required, or of those that are not.
fn base(object: &Object, kind: &str, required: bool, total: &str) -> String {
    let mut text = format!("\n\nclass _{}{kind}(TypedDict{total}):\n", object.name);
    for field in object.fields.iter().filter(|field| field.required == required) {
        if let Some(description) = &field.description {
            let _ = writeln!(text, "    # {}", line(description));
        }
        let _ = writeln!(text, "    {}: {}", field.key, shown(&field.of));
    }
    text
}

fn worker(
    class: &str,
    description: Option<&str>,
    input: &Type,
    output: &Type,
    model: &Model,
    text: &mut String,
) {
    let object = model.object(input);
    let of = shown(input);
    let output = shown(output);
    let _ = writeln!(text, "\n    class {class}(WorkerOf[{of}, {output}]):");
    if let Some(description) = description {
        let _ = writeln!(text, "        \"\"\"{}\"\"\"\n", line(description));
    }
    // Arguments by name need names. `self` and `input` are those of the method.
    let is_name = |key: &str| is_identifier(key) && !["self", "input"].contains(&key);
    let by_name = object.is_some_and(|object| object.fields.iter().all(|field| is_name(&field.key)));
    for (name, result) in [
        ("def __call__", output.clone()),
        ("async def acall", output.clone()),
        ("def result", format!("Result[{output}]")),
        ("async def aresult", format!("Result[{output}]")),
        ("def stream", format!("Stream[{output}]")),
    ] {
        if by_name {
            let _ = writeln!(
                text,
                "        @overload\n        {name}(self, **arguments: Unpack[{of}]) -> {result}: ..."
            );
            let _ = writeln!(
                text,
                "        @overload\n        {name}(self, input: Union[str, {of}], /) -> {result}: ..."
            );
            let _ = writeln!(text, "        {name}(self, *_: Any, **__: Any) -> Any: ...");
        } else {
            let _ = writeln!(text, "        {name}(self, input: Union[str, {of}] = ..., /) -> {result}: ...");
        }
    }
}

fn shown(of: &Type) -> String {
    match of {
        Type::Any => "Any".into(),
        Type::Null => "None".into(),
        Type::Bool => "bool".into(),
        Type::Int => "int".into(),
        Type::Float => "float".into(),
        Type::Text => "str".into(),
        Type::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("Literal[{}]", texts.join(", "))
        }
        Type::List(items) => format!("List[{}]", shown(items)),
        Type::Map(values) => format!("Dict[str, {}]", shown(values)),
        Type::Object(name) | Type::Around(name) => name.clone(),
        Type::Union(parts) => {
            let shown: Vec<String> = parts.iter().map(shown).collect();
            format!("Union[{}]", shown.join(", "))
        }
    }
}

/// Formats a literal: JSON's form is valid in Python, with escapes for characters that are not ASCII.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in Value::from(text).to_string().chars() {
        match u32::from(c) {
            0x20..=0x7e => out.push(c),
            code @ ..=0xffff => {
                let _ = write!(out, "\\u{code:04x}");
            }
            code => {
                let _ = write!(out, "\\U{code:08x}");
            }
        }
    }
    out
}
