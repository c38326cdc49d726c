//! A worker's input: its schema, and the rules by which command-line arguments fill it. See
//! `docs/reference/worker-files.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    shorthand::{self, Type},
    yaml::{Data, Node},
};
use llm_do_core::{
    authority::Access,
    json::{self, Fault},
    schema::{self, Schema},
    worker::{ATTACHMENTS, INPUT, INSTRUCTIONS, Parameter, Signature, Untrusted, accept_always},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The input declaration of a worker.
#[derive(Debug, Default)]
pub struct Declared {
    /// Parameters in order; `None` if it declares none.
    pub parameters: Option<Vec<(String, Type)>>,
    /// A schema instead: `parameters` as JSON Schema of the whole, or a `schema_in_ref`.
    pub schema: Option<Value>,
    /// True if it contains JSON Schema written by the user, which may be invalid.
    pub has_json_schema: bool,
}

/// Reads `parameters`.
pub fn parameters(node: &Node, found: &mut Vec<Diagnostic>) -> Declared {
    let Data::Map(entries) = &node.data else {
        found.push(crate::shape::wrong_type(node, "parameters", "a map of name to type"));
        return Declared::default();
    };
    // The JSON Schema of a whole object: `type: object` with `properties`.
    if node.get("properties").is_some_and(|p| matches!(p.data, Data::Map(_)))
        && shorthand::is_json_schema(node)
    {
        shorthand::has_unknown_keys(node, "parameters", found);
        return Declared { parameters: None, schema: Some(node.to_json()), has_json_schema: true };
    }
    let mut parameters = Vec::new();
    for entry in entries {
        if [INSTRUCTIONS, ATTACHMENTS].contains(&entry.key.as_str()) {
            found.push(
                Diagnostic::error(
                    codes::BAD_VALUE,
                    format!("`{}` is reserved: every worker already has this parameter", entry.key),
                )
                .at(&entry.key_span)
                .help("give the parameter another name"),
            );
            continue;
        }
        if let Some(typed) = shorthand::read(&entry.value, &format!("parameters.{}", entry.key), found) {
            parameters.push((entry.key.clone(), typed));
        }
    }
    let has_json_schema = !entries.iter().all(|entry| shorthand::is_shorthand(&entry.value));
    Declared { parameters: Some(parameters), schema: None, has_json_schema }
}

/// Returns the parts of the input that the declaration marks with `untrusted: true`. `attachments` is true if
/// attachments are untrusted.
pub fn untrusted(declared: &Declared, attachments: bool) -> Untrusted {
    let mut untrusted = Untrusted { attachments, ..Untrusted::default() };
    let marked = |schema: &Value| schema.get(schema::UNTRUSTED) == Some(&Value::Bool(true));
    for (name, typed) in declared.parameters.iter().flatten().filter(|(_, typed)| marked(&typed.schema)) {
        let names = if typed.path { &mut untrusted.paths } else { &mut untrusted.parameters };
        names.insert(name.as_str().into());
    }
    if let Some(schema) = &declared.schema {
        let (schema, _) = inlined(schema);
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let names = properties.filter(|(_, schema)| marked(schema)).map(|(name, _)| name.as_str().into());
        untrusted.parameters.extend(names);
    }
    untrusted
}

/// The reason why a declaration gives no signature.
#[derive(Debug)]
pub struct Unusable {
    /// The reason.
    pub reason: String,
    /// The place in the schema, as a JSON pointer, if it is known.
    pub pointer: Option<String>,
}

impl From<String> for Unusable {
    fn from(reason: String) -> Self {
        Self { reason, pointer: None }
    }
}

impl From<&str> for Unusable {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl Unusable {
    /// Returns the place in the declaration to which the problem refers. `parameters` are the properties, or a whole
    /// schema.
    pub fn place<'n>(&self, parameters: &'n Node) -> &'n Node {
        let Some(pointer) = &self.pointer else { return parameters };
        let is_whole = parameters.get("properties").is_some_and(|p| matches!(p.data, Data::Map(_)))
            && shorthand::is_json_schema(parameters);
        match pointer.strip_prefix("/properties").filter(|_| !is_whole) {
            Some(pointer) => parameters.at_pointer(pointer),
            None => parameters.at_pointer(pointer),
        }
    }
}

/// Builds the signature for a declaration. `written` are the `path` parameters that callers pass for writing;
/// `attachments` is true if the worker accepts attachments.
///
/// # Errors
/// An invalid schema, or one that is not for an object.
pub fn build(declared: &Declared, written: &[&str], attachments: bool) -> Result<Signature, Unusable> {
    let message;
    let mut parameters = Vec::new();
    let mut places = vec![String::new()];
    let mut schema = match (&declared.parameters, &declared.schema) {
        (Some(list), _) => {
            let mut properties = Map::new();
            let mut required = Vec::new();
            for (name, typed) in list {
                let mut schema = typed.schema.clone();
                if typed.path && schema.get("description").is_none() {
                    schema["description"] = "A path of yours that is handed over.".into();
                }
                properties.insert(name.clone(), schema);
                if !typed.optional {
                    required.push(name.clone());
                }
                let access = if written.contains(&name.as_str()) { Access::Write } else { Access::Read };
                parameters.push(Parameter {
                    name: name.as_str().into(),
                    shown_type: typed.shown.clone(),
                    required: !typed.optional,
                    path: typed.path.then_some(access),
                });
            }
            let strings: Vec<&String> = list
                .iter()
                .filter(|(_, t)| !t.optional && !t.path && is_string(&t.schema))
                .map(|(name, _)| name)
                .collect();
            message = match strings.as_slice() {
                [one] => Some(one.as_str().into()),
                _ => {
                    list.iter().any(|(name, t)| name == INPUT && takes_text(&t.schema)).then(|| INPUT.into())
                }
            };
            shorthand::object(properties, required)
        }
        (None, Some(schema)) => {
            let schema = schema::in_current_draft(schema.clone()).map_err(|error| error.0)?;
            let (schema, of_references) = inlined(&schema);
            places.extend(of_references);
            if schema.get("type").and_then(Value::as_str) != Some("object") {
                return Err("a worker's input is an object, so its schema needs `type: object`".into());
            }
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            let properties = schema.get("properties").and_then(Value::as_object);
            let mut strings = Vec::new();
            for (name, property) in properties.into_iter().flatten() {
                let is_required = required.contains(&name.as_str()) && property.get("default").is_none();
                if is_required && is_string(property) {
                    strings.push(name);
                }
                parameters.push(Parameter {
                    name: name.as_str().into(),
                    shown_type: shorthand::shown(property),
                    required: is_required,
                    path: None,
                });
            }
            message = match strings.as_slice() {
                [one] => Some(one.as_str().into()),
                _ => properties.and_then(|p| p.get(INPUT)).filter(|p| takes_text(p)).map(|_| INPUT.into()),
            };
            schema
        }
        (None, None) => return Ok(Signature::undeclared(attachments)),
    };
    accept_always(&mut schema, attachments);
    let schema = match declared.has_json_schema {
        true => Schema::new(schema).map_err(|error| error.0)?,
        false => Schema::built_in(schema),
    };
    if declared.has_json_schema
        && let Some(misuse) = schema::misuse(schema.value(), |at| {
            at.rsplit_once("/properties/")
                .is_some_and(|(place, name)| !name.contains('/') && places.iter().any(|known| known == place))
        })
    {
        return Err(misuse.to_string().into());
    }
    if declared.has_json_schema
        && let Some(unfit) = schema.unfit_defaults().into_iter().next()
    {
        let reason =
            format!("the default at `{}` does not fit its own schema: {}", unfit.pointer, unfit.message);
        return Err(Unusable { reason, pointer: Some(format!("{}/default", unfit.pointer)) });
    }
    Ok(Signature {
        schema: Arc::new(schema),
        declared: declared.parameters.is_some() || declared.schema.is_some(),
        message,
        parameters,
    })
}

/// Replaces the reference at the root of a schema (to another file, or of a recursive class) by its target. The
/// keywords beside the reference apply in addition to the target. Also returns the places of the targets, as JSON
/// Pointers.
fn inlined(schema: &Value) -> (Value, Vec<String>) {
    let mut whole = schema.clone();
    let mut places = Vec::new();
    // Not endlessly, since references may form a cycle.
    for _ in 0..8 {
        let place = whole.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
        let Some(place) = place.map(str::to_owned) else { break };
        let Some(Value::Object(target)) = whole.pointer(&place).cloned() else { break };
        places.push(place);
        let Some(keywords) = whole.as_object_mut() else { break };
        keywords.shift_remove("$ref");
        add(keywords, target);
    }
    (whole, places)
}

/// Keywords that only describe a schema.
const ANNOTATIONS: [&str; 8] =
    ["title", "description", "default", "examples", "$comment", "$id", "$schema", "$anchor"];

/// Adds the keywords of a schema to those of another, so that both apply.
fn add(keywords: &mut Map<String, Value>, mut more: Map<String, Value>) {
    // A schema for further properties is also for those that only the other one declares.
    let further = more.get("additionalProperties").or_else(|| more.get("unevaluatedProperties")).cloned();
    let own_further = keywords.get("additionalProperties").cloned();
    let names = |keywords: &Map<String, Value>| -> Vec<String> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (own, others) = (names(keywords), names(&more));
    restrict(keywords, &others, further.as_ref());
    restrict(&mut more, &own, own_further.as_ref());
    let mut rest = Map::new();
    for (keyword, value) in more {
        let Some(present) = keywords.get_mut(&keyword) else {
            keywords.insert(keyword, value);
            continue;
        };
        if *present == value || ANNOTATIONS.contains(&keyword.as_str()) {
            continue;
        }
        match (keyword.as_str(), present, value) {
            ("properties", Value::Object(present), Value::Object(value)) => {
                for (name, schema) in value {
                    both(present, &name, schema);
                }
            }
            ("$defs" | "definitions", Value::Object(present), Value::Object(value)) => {
                for (name, schema) in value {
                    present.entry(name).or_insert(schema);
                }
            }
            ("required", Value::Array(present), Value::Array(value)) => {
                for name in value {
                    if !present.contains(&name) {
                        present.push(name);
                    }
                }
            }
            ("allOf", Value::Array(present), Value::Array(value)) => present.extend(value),
            ("additionalProperties" | "unevaluatedProperties", _, value) => both(keywords, &keyword, value),
            (_, _, value) => drop(rest.insert(keyword, value)),
        }
    }
    if !rest.is_empty() {
        match keywords.get_mut("allOf") {
            Some(Value::Array(present)) => present.push(rest.into()),
            _ => drop(keywords.insert("allOf".to_owned(), json!([rest]))),
        }
    }
}

/// Makes the properties that are not among `known` fit `further` as well.
fn restrict(keywords: &mut Map<String, Value>, known: &[String], further: Option<&Value>) {
    let Some(further) = further.filter(|further| **further != Value::Bool(true)) else { return };
    let Some(Value::Object(properties)) = keywords.get_mut("properties") else { return };
    let names: Vec<String> = properties.keys().filter(|name| !known.contains(name)).cloned().collect();
    for name in names {
        both(properties, &name, further.clone());
    }
}

/// Combines the schema under this name with the other, so that both apply.
fn both(schemas: &mut Map<String, Value>, name: &str, other: Value) {
    match schemas.get_mut(name) {
        None => drop(schemas.insert(name.to_owned(), other)),
        Some(own) if *own == other => {}
        Some(own) => *own = json!({"allOf": [own.take(), other]}),
    }
}

fn is_string(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string") && schema.get("enum").is_none()
}

fn takes_text(schema: &Value) -> bool {
    match schema.get("type") {
        None => schema.get("anyOf").is_none() && schema.get("enum").is_none() && schema.get("$ref").is_none(),
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string" && schema.get("enum").is_none(),
    }
}

/// Formats the signature for display: `summarize(text: string, n: integer?)`.
pub fn show(worker: &str, signature: &Signature) -> String {
    if !signature.declared {
        return format!("{worker}(input: any?)");
    }
    let parameters: Vec<String> = signature
        .parameters
        .iter()
        .map(|p| {
            let mark = if p.required || p.shown_type.ends_with('?') { "" } else { "?" };
            format!("{}: {}{mark}", p.name, p.shown_type)
        })
        .collect();
    format!("{worker}({})", parameters.join(", "))
}

/// An error: the signature does not accept the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  signature: {signature}")]
pub struct InputError {
    /// The problem.
    pub message: String,
    /// The signature of the worker.
    pub signature: String,
}

/// The message for text that no parameter takes.
const NO_MESSAGE: &str = "a plain message fits none of the parameters: give each by its name";

impl InputError {
    /// Returns true if a plain message was given although the parameters have to be given by name.
    pub fn takes_no_message(&self) -> bool {
        self.message == NO_MESSAGE
    }
}

/// The input given on a command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// A plain message.
    pub message: Option<&'a str>,
    /// `--input`.
    pub json: Option<&'a Value>,
    /// `--param K=V`, in order.
    pub parameters: &'a [(String, String)],
}

/// Makes the entry's input object. A plain message becomes the only required string parameter or `input`. If no
/// parameters are declared, an object without `input` is wrapped. `--param` values are parsed by their declared type.
/// See `docs/reference/worker-files.md`.
///
/// The result is not validated, because values of the manifest's `bindings` may still be missing; see
/// [`validate_input`].
///
/// # Errors
/// The problem, with the signature.
pub fn input_value(worker: &str, signature: &Signature, given: Given<'_>) -> Result<Value, InputError> {
    let fail = |message: String| Err(InputError { message, signature: show(worker, signature) });
    let mut input = Map::new();
    match given.json {
        None | Some(Value::Null) => {}
        Some(Value::Object(map)) if signature.declared || map.contains_key(INPUT) => input = map.clone(),
        Some(value) if !signature.declared => {
            input.insert(INPUT.into(), value.clone());
        }
        Some(Value::String(text)) if signature.message.is_some() => {
            let name = signature.message.as_deref().expect("matched above");
            input.insert(name.to_owned(), text.as_str().into());
        }
        Some(_) => return fail("the input must be a JSON object with the worker's parameters".into()),
    }
    if let Some(message) = given.message {
        let Some(name) = signature.message.as_deref() else {
            return fail(NO_MESSAGE.into());
        };
        if input.contains_key(name) {
            return fail(format!("`{name}` is given both as the message and in the input"));
        }
        input.insert(name.to_owned(), message.into());
    }
    let mut loose = Map::new();
    for (name, text) in given.parameters {
        let property = signature.schema.value().get("properties").and_then(|p| p.get(name));
        match property {
            Some(schema) => {
                let value = match coerce(schema, text) {
                    Ok(value) => value,
                    Err(reason) => return fail(format!("`{name}={text}`: {reason}")),
                };
                match (input.get_mut(name), value) {
                    // A list may be passed item by item.
                    (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
                    (Some(_), _) => return fail(format!("`{name}` is given twice")),
                    (None, value) => {
                        input.insert(name.clone(), value);
                    }
                }
            }
            None if !signature.declared => {
                loose.insert(name.clone(), text.as_str().into());
            }
            None => {
                let names = signature.parameters.iter().map(|p| &*p.name);
                let near = crate::diagnostics::nearest(name, names);
                let hint = near.first().map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return fail(format!("there is no parameter `{name}`{hint}"));
            }
        }
    }
    if !loose.is_empty() {
        match input.get_mut(INPUT) {
            None => {
                input.insert(INPUT.into(), Value::Object(loose));
            }
            Some(Value::Object(map)) => map.extend(loose),
            Some(_) => {
                return fail("parameters are members of an object, but the input is not an object".into());
            }
        }
    }
    Ok(Value::Object(input))
}

/// Checks an input, with the defaults of the signature, against the signature.
///
/// # Errors
/// All problems, with the signature.
pub fn validate_input(worker: &str, signature: &Signature, input: &Value) -> Result<(), InputError> {
    let filled = signature.schema.filled(input);
    let missing: Vec<&str> = signature
        .parameters
        .iter()
        .filter(|p| p.required && filled.get(&*p.name).is_none())
        .map(|p| &*p.name)
        .collect();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        let message = format!("missing: {}", names.join(", "));
        return Err(InputError { message, signature: show(worker, signature) });
    }
    signature.schema.validate(&filled).map_err(|violations| {
        let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
        InputError {
            message: format!("the input does not fit: {}", reasons.join("; ")),
            signature: show(worker, signature),
        }
    })
}

/// Converts a command line's text to a value of that type.
fn coerce(schema: &Value, text: &str) -> Result<Value, String> {
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let parsed = match json::read(text) {
        Ok(value) => Some(value),
        // Its digits as a text would be another value, too.
        Err(error) if error.fault == Fault::Refused && !kinds.contains(&"string") => {
            return Err(error.to_string());
        }
        Err(_) => None,
    };
    if kinds.is_empty() {
        // `any`, or a choice: parse as JSON, else use the text. A choice of texts must not become a number.
        let listed =
            |value: &Value| schema.get("enum").and_then(Value::as_array).is_some_and(|e| e.contains(value));
        let as_text = Value::String(text.to_owned());
        return Ok(if listed(&as_text) { as_text } else { parsed.unwrap_or(as_text) });
    }
    for kind in &kinds {
        let fits = match (*kind, &parsed) {
            ("string", _) => return Ok(text.into()),
            ("integer", Some(value)) => value.is_i64() || value.is_u64(),
            ("number", Some(value)) => value.is_number(),
            ("boolean", Some(value)) => value.is_boolean(),
            ("null", Some(value)) => value.is_null(),
            ("object", Some(value)) => value.is_object(),
            ("array", Some(value)) => value.is_array(),
            _ => false,
        };
        if fits {
            return Ok(parsed.unwrap_or_default());
        }
        if *kind == "array" {
            let item = schema.get("items").cloned().unwrap_or_else(|| json!({}));
            return coerce(&item, text).map(|item| Value::Array(vec![item]));
        }
    }
    let wanted: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "null").collect();
    Err(format!("`{text}` is not a value of type {}", wanted.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{span::SourceFile, yaml};

    fn signature(text: &str) -> Signature {
        let node = yaml::parse(&SourceFile::new("x", text), text.len()).unwrap();
        let mut found = Vec::new();
        let declared = parameters(&node, &mut found);
        assert_eq!(found, []);
        build(&declared, &["out"], true).unwrap()
    }

    fn params(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_message_goes_to_the_only_required_string() {
        let one = signature("{text: string, n: integer?, kind: [a, b]}");
        let given = Given { message: Some("hi"), ..Given::default() };
        assert_eq!(input_value("w", &one, given).unwrap(), json!({"text": "hi"}));
        assert!(validate_input("w", &one, &json!({"text": "hi", "kind": "a"})).is_ok());
        let missing = validate_input("w", &one, &json!({"text": "hi"})).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "missing: `kind`\n  signature: w(text: string, n: integer?, kind: [a, b])"
        );
        let two = signature("{a: string, b: string}");
        assert!(two.message.is_none());
        let refused = input_value("w", &two, given).unwrap_err();
        assert!(refused.takes_no_message() && !refused.message.contains("--"), "{refused}");
        let named = signature("{a: string, b: string, input: any}");
        assert_eq!(named.message.as_deref(), Some("input"));
    }

    #[test]
    fn undeclared_input_is_wrapped() {
        let any = build(&Declared::default(), &[], true).unwrap();
        let json =
            |value: Value| input_value("w", &any, Given { json: Some(&value), ..Given::default() }).unwrap();
        assert_eq!(json(json!({"a": 1})), json!({"input": {"a": 1}}));
        assert_eq!(json(json!({"input": 1})), json!({"input": 1}));
        assert_eq!(json(json!([1])), json!({"input": [1]}));
        let list = params(&[("a", "1"), ("b", "x")]);
        let given = Given { parameters: &list, ..Given::default() };
        assert_eq!(input_value("w", &any, given).unwrap(), json!({"input": {"a": "1", "b": "x"}}));
        assert!(validate_input("w", &any, &json!({})).is_ok());
    }

    #[test]
    fn parameters_are_read_by_their_type() {
        let s = signature(
            "{n: integer?, x: number?, ok: boolean?, tags: array<string>?, o: object?, s: string?, any: any?}",
        );
        let list = params(&[
            ("n", "3"),
            ("x", "2.5"),
            ("ok", "true"),
            ("tags", "a"),
            ("tags", "b"),
            ("o", "{\"k\":1}"),
            ("s", "7"),
            ("any", "7"),
        ]);
        let value = input_value("w", &s, Given { parameters: &list, ..Given::default() }).unwrap();
        assert_eq!(
            value,
            json!({"n": 3, "x": 2.5, "ok": true, "tags": ["a", "b"], "o": {"k": 1}, "s": "7", "any": 7})
        );
        assert!(validate_input("w", &s, &value).is_ok());
        for bad in [("n", "x"), ("n", "1.5"), ("ok", "yes"), ("nn", "1")] {
            let list = params(&[bad]);
            assert!(
                input_value("w", &s, Given { parameters: &list, ..Given::default() }).is_err(),
                "{bad:?}"
            );
        }
        let twice = params(&[("n", "1"), ("n", "2")]);
        assert!(input_value("w", &s, Given { parameters: &twice, ..Given::default() }).is_err());
    }

    #[test]
    fn declarations_say_what_others_write() {
        let written = "{page: {type: string, untrusted: true}, dir: {type: path, untrusted: true}, n: integer, q: {type: string, untrusted: false}}";
        let node = yaml::parse(&SourceFile::new("x", written), written.len()).unwrap();
        let declared = parameters(&node, &mut Vec::new());
        let both = untrusted(&declared, true);
        assert_eq!(both.parameters, ["page".into()].into());
        assert_eq!(both.paths, ["dir".into()].into());
        assert!(both.attachments);
        // Models are not shown the keyword.
        let shown = build(&declared, &[], false).unwrap().schema.shown().to_string();
        assert!(!shown.contains("untrusted"), "{shown}");

        let class = json!({
            "$ref": "#/$defs/In",
            "$defs": {"In": {"type": "object", "properties": {"page": {"type": "string", "untrusted": true}}}},
        });
        let declared = Declared { schema: Some(class), has_json_schema: true, ..Declared::default() };
        assert_eq!(untrusted(&declared, false).parameters, ["page".into()].into());
        build(&declared, &[], false).unwrap();
        for wrong in [
            json!({"type": "object", "untrusted": true}),
            json!({"type": "object", "properties": {"a": {"items": {"untrusted": true}}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "clean": true}}}),
        ] {
            let declared = Declared { schema: Some(wrong), has_json_schema: true, ..Declared::default() };
            build(&declared, &[], false).expect_err("it is refused");
        }
    }

    #[test]
    fn what_stands_beside_a_reference_holds_with_its_target() {
        let of = |schema: Value| {
            let declared = Declared { schema: Some(schema), has_json_schema: true, ..Declared::default() };
            build(&declared, &[], false).unwrap()
        };
        let names = |signature: &Signature| {
            let names: Vec<String> = signature.parameters.iter().map(|p| p.name.to_string()).collect();
            names.join(" ")
        };
        let target = json!({"properties": {"b": {"type": "integer"}}, "required": ["b"]});
        let both = of(json!({
            "$ref": "#/$defs/i", "$defs": {"i": target}, "type": "object",
            "properties": {"a": {"type": "string"}}, "required": ["a"],
        }));
        assert_eq!(names(&both), "a b");
        assert_eq!(both.message.as_deref(), Some("a"));
        assert!(both.parameters.iter().all(|parameter| parameter.required));
        assert_eq!(both.schema.validate(&json!({"a": "x", "b": 1})), Ok(()));
        for wrong in [json!({"a": "x", "b": "notint"}), json!({"b": 1}), json!({"a": "x"})] {
            assert!(both.schema.validate(&wrong).is_err(), "{wrong}");
        }
        // The same property on both sides fits both, and other keywords hold together.
        let same = of(json!({
            "$ref": "#/$defs/i", "type": "object", "minProperties": 1,
            "properties": {"n": {"minimum": 1}},
            "$defs": {"i": {"minProperties": 2, "properties": {"n": {"maximum": 5}}}},
        }));
        assert_eq!(same.schema.validate(&json!({"n": 3, "m": 1})), Ok(()));
        for wrong in [json!({"n": 0, "m": 1}), json!({"n": 6, "m": 1}), json!({"n": 3})] {
            assert!(same.schema.validate(&wrong).is_err(), "{wrong}");
        }
        // A closed target refuses what it does not know.
        let closed = of(json!({
            "$ref": "#/$defs/i", "type": "object", "properties": {"a": {"type": "string"}},
            "$defs": {"i": {"properties": {"b": {}}, "additionalProperties": false}},
        }));
        assert_eq!(closed.schema.validate(&json!({"b": 1, "instructions": "x"})), Ok(()));
        assert!(closed.schema.validate(&json!({"a": "x"})).is_err());
        // In earlier drafts the neighbours of a reference say nothing.
        let earlier = of(json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/i", "properties": {"a": {"type": "string"}},
            "definitions": {"i": {"type": "object", "properties": {"b": {"type": "integer"}}}},
        }));
        assert_eq!(names(&earlier), "b");
    }

    #[test]
    fn paths_carry_the_access_they_hand_over() {
        let s = signature("{dir: path, out: path?}");
        assert_eq!(s.parameters[0].path, Some(Access::Read));
        assert_eq!(s.parameters[1].path, Some(Access::Write));
        assert!(!s.parameters[1].required);
        assert_eq!(s.message, None);
    }

    #[test]
    fn instructions_and_attachments_are_always_taken() {
        let s = signature("{text: string}");
        assert!(s.schema.validate(&json!({"text": "x", "instructions": "y", "attachments": ["/a"]})).is_ok());
        assert!(s.schema.validate(&json!({"text": "x", "more": 1})).is_err());
        let none = build(&Declared::default(), &[], false).unwrap();
        assert!(none.schema.validate(&json!({"attachments": ["/a"]})).is_err());
    }
}
