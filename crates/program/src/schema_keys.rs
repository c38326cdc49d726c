//! Keys of a JSON Schema in a file that JSON Schema does not know, and that would therefore have no effect. See
//! `docs/reference/worker-files.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    yaml::{Data, Node},
};
use llm_do_core::schema::{CLEAN, UNTRUSTED, subschemas};

/// Keywords that only a JSON Schema has: a map with one of them is a JSON Schema.
pub(crate) const TELLING: [&str; 12] = [
    "$ref",
    "$defs",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "enum",
    "const",
    "properties",
    "items",
    "prefixItems",
    "$schema",
];
/// Keywords that a map of fields may have as names, too: a map with `type` is a JSON Schema if all its keys are keywords.
pub(crate) const KEYWORDS: [&str; 33] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "if",
    "then",
    "else",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$id",
];
/// Keywords that do not decide which of both a map is: rare ones, and those of earlier drafts.
const OTHERS: [&str; 20] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "additionalItems",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "divisibleBy",
    "extends",
    "id",
    "maxContains",
    "minContains",
    "unevaluatedItems",
    "unevaluatedProperties",
];

fn keywords() -> impl Iterator<Item = &'static str> {
    TELLING.into_iter().chain(KEYWORDS).chain(OTHERS).chain([CLEAN, UNTRUSTED])
}

/// Returns true if a key has a meaning in a JSON Schema, or belongs to the user.
fn is_known(key: &str) -> bool {
    key.starts_with("x-") || keywords().any(|keyword| keyword == key)
}

/// Finds keys without effect in a JSON Schema and in all schemas within it, and returns true if there are any. `name` names
/// the schema in messages. `is_type` returns true if a node is a type in shorthand.
pub(crate) fn has_unknown(
    node: &Node,
    name: &str,
    is_type: impl Fn(&Node) -> bool,
    found: &mut Vec<Diagnostic>,
) -> bool {
    let before = found.len();
    for pointer in subschemas(&node.to_json()) {
        let schema = node.at_pointer(&pointer);
        let place = format!("{name}{}", pointer.replace('/', "."));
        let entries = schema.entries();
        if !entries.is_empty() && entries.iter().all(|entry| !is_known(&entry.key)) && is_type(schema) {
            found.push(shorthand_within(schema, &pointer, &place));
            continue;
        }
        for entry in entries.iter().filter(|entry| !is_known(&entry.key)) {
            let unknown = Diagnostic::error(
                codes::BAD_SCHEMA,
                format!("JSON Schema has no keyword `{}`, in `{place}`", entry.key),
            )
            .at(&entry.key_span)
            .did_you_mean(&entry.key, keywords());
            found.push(match unknown.help.is_empty() {
                true if is_type(&entry.value) => {
                    unknown.help(format!("if `{}` is a field, write it under `properties`", entry.key))
                }
                true => unknown.help("remove it; keys of your own begin with `x-`"),
                false => unknown,
            });
        }
    }
    found.len() > before
}

/// Finds misspelled keywords in a map that is read as a map of fields only because of them: one with the `type` of a
/// JSON Schema, and with values that are no names of types. Returns true if there are any.
pub(crate) fn has_misspelled(node: &Node, name: &str, found: &mut Vec<Diagnostic>) -> bool {
    let before = found.len();
    for entry in node.entries().iter().filter(|entry| !is_known(&entry.key)) {
        let misspelled = Diagnostic::error(
            codes::BAD_SCHEMA,
            format!("JSON Schema has no keyword `{}`, in `{name}`", entry.key),
        )
        .at(&entry.key_span)
        .did_you_mean(&entry.key, keywords());
        if !misspelled.help.is_empty() && !matches!(entry.value.data, Data::Text(_)) {
            found.push(misspelled);
        }
    }
    found.len() > before
}

fn shorthand_within(schema: &Node, pointer: &str, place: &str) -> Diagnostic {
    let fields = Diagnostic::error(
        codes::BAD_SCHEMA,
        format!("`{place}` is a map of fields, which has no effect in a JSON Schema"),
    )
    .at(&schema.span)
    .note("a JSON Schema contains only JSON Schema")
    .help("write the fields under `properties`, each with a schema such as `{type: string}`");
    let texts =
        schema.entries().iter().map(|entry| Some(format!("{}: {}", entry.key, entry.value.as_text()?)));
    let written: Option<Vec<String>> = texts.collect();
    match written.filter(|_| pointer.ends_with("/items")) {
        Some(written) => {
            let list = format!("'array<{{{}}}>'", written.join(", "));
            fields.help(format!("or write the whole list as a type: `{list}`"))
        }
        None => fields.help("or write the whole type in shorthand, such as `'array<{name: string}>'`"),
    }
}
