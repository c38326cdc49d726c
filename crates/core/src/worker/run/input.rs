//! A call's input from the view of a worker, with the same meaning for prompts and code.

use super::handed::Handed;
use crate::{
    definition::{ATTACHMENTS, BUILT_IN_VARIABLES, INPUT, INSTRUCTIONS, WorkerDefinition},
    engine::RunContext,
    template::Rendered,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The parts of a call's input for templates, the first message and code.
pub(super) struct Input {
    /// The declared parameters, or all given values if none are declared, by name.
    pub(super) values: Map<String, Value>,
    /// The variable `input` of templates, and the input of code.
    pub(super) whole: Value,
    /// The caller's addition to the instructions.
    pub(super) instructions: Option<String>,
    /// The plain message, if the input is only that.
    pub(super) message: Option<String>,
}

impl Input {
    pub(super) fn new(worker: &WorkerDefinition, input: &Value, handed: &[Handed]) -> Self {
        let mut values = input.as_object().cloned().unwrap_or_default();
        let instructions = match values.shift_remove(INSTRUCTIONS) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
            _ => None,
        };
        values.shift_remove(ATTACHMENTS);
        for Handed { name, .. } in handed {
            // The callee sees the passed path as a mount of that name.
            values.insert(name.to_string(), Value::String(format!("/{name}")));
        }
        let whole = if worker.signature.declared {
            Value::Object(values.clone())
        } else {
            match values.get(INPUT) {
                Some(input) => input.clone(),
                None if values.is_empty() => Value::Null,
                None => Value::Object(values.clone()),
            }
        };
        if !worker.signature.declared
            && let Value::Object(inner) = &whole
        {
            for (key, value) in inner {
                values.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        let message = match (&whole, &worker.signature.message) {
            (Value::String(text), _) => Some(text.clone()),
            (Value::Object(map), Some(name)) if map.len() == 1 => {
                map.get(&**name).and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        };
        Self { values, whole, instructions, message }
    }

    /// Returns true if the caller gave nothing: the input is empty, or only has the defaults of the worker's schema.
    pub(super) fn is_left_out(&self, worker: &WorkerDefinition) -> bool {
        let of_nothing = || worker.signature.schema.filled(&Value::Object(Map::new())).into_owned();
        self.is_empty() || (worker.signature.declared && self.whole == of_nothing())
    }

    /// The variables of the worker's templates. A declared parameter takes precedence over a built-in variable of its
    /// name. A key that only the caller chose does not, because the author of the template doesn't know it.
    pub(super) fn variables(&self, worker: &WorkerDefinition, host: &RunContext) -> Map<String, Value> {
        let mut variables = self.values.clone();
        let declared = &worker.signature.parameters;
        for parameter in declared {
            // Undefined variables are errors, but an optional parameter that was left out is defined: it is null.
            variables.entry(parameter.name.to_string()).or_insert(Value::Null);
        }
        let [whole, itself, project, run] = BUILT_IN_VARIABLES;
        for (name, value) in [
            (whole, self.whole.clone()),
            (itself, json!({"id": worker.id, "name": worker.id, "description": worker.description})),
            (project, json!({"name": host.definitions.project_name()})),
            (run, json!({"date": host.date})),
        ] {
            if !declared.iter().any(|parameter| *parameter.name == *name) {
                variables.insert(name.to_owned(), value);
            }
        }
        variables
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.whole {
            Value::Null => true,
            Value::String(text) => text.trim().is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    /// The names of the variables that differ between calls. A flag and a choice have so few values that a provider can
    /// keep a prompt for each, and the value of a `path` parameter is always the mount's name.
    pub(super) fn differing(&self, worker: &WorkerDefinition) -> BTreeSet<String> {
        let schema = worker.signature.schema.value();
        let parameter = |name: &str| worker.signature.parameters.iter().find(|it| *it.name == *name);
        let of_path = |name: &str| parameter(name).is_some_and(|parameter| parameter.path.is_some());
        let is_built_in = |name: &str| BUILT_IN_VARIABLES.contains(&name) && parameter(name).is_none();
        let names = self.values.keys().filter(|name| {
            !of_path(name)
                && !is_built_in(name)
                && !schema.pointer(&format!("/properties/{name}")).is_some_and(has_few_values)
        });
        names.cloned().chain([INPUT.to_owned()]).collect()
    }

    /// Places the input when the instructions all belong to the system text.
    pub(super) fn beside(&self, instructions: String) -> Placed {
        let input = match &self.message {
            Some(text) if !text.trim().is_empty() => Some(text.clone()),
            _ if self.is_empty() => None,
            _ => Some(pretty(&self.whole)),
        };
        Placed { system: instructions, moved: None, input }
    }

    /// Distributes the instructions and the input of a call. The parts of the input that the instructions print whole
    /// are not repeated. The paragraph of the first of them begins the first message, so that the system text is the
    /// same for every call.
    pub(super) fn placed(&self, worker: &WorkerDefinition, rendered: Rendered) -> Placed {
        let printed = self.printed(worker, &rendered.printed);
        if printed.is_empty() {
            return self.beside(rendered.text);
        }
        let (system, moved) = match rendered.begins {
            Some(at) => {
                let (system, moved) = rendered.text.split_at(paragraph(&rendered.text, at));
                (system.trim_end().to_owned(), Some(moved.trim_end().to_owned()))
            }
            None => (rendered.text, None),
        };
        let input = match &self.whole {
            whole if is_printed(whole, "", &printed) => None,
            Value::Object(members) => {
                let left = members
                    .iter()
                    .filter(|(name, value)| !is_printed(value, &format!("/{}", escaped(name)), &printed));
                let left: Map<String, Value> =
                    left.map(|(name, value)| (name.clone(), value.clone())).collect();
                match left.len() == members.len() {
                    true => return Placed { moved, ..self.beside(system) },
                    false => (!left.is_empty()).then(|| pretty(&Value::Object(left))),
                }
            }
            _ => return Placed { moved, ..self.beside(system) },
        };
        Placed { system, moved: moved.filter(|text| !text.trim().is_empty()), input }
    }

    /// The parts of the whole input that were printed, as JSON pointers into it.
    fn printed(&self, worker: &WorkerDefinition, variables: &BTreeSet<String>) -> BTreeSet<String> {
        let is_parameter = |name: &str| worker.signature.parameters.iter().any(|it| *it.name == *name);
        let members = self.whole.as_object();
        let parts = variables.iter().filter_map(|pointer| {
            let pointer = &pointer[1..];
            let (name, rest) = pointer.split_at(pointer.find('/').unwrap_or(pointer.len()));
            match name {
                INPUT if !is_parameter(INPUT) => Some(rest.to_owned()),
                // The variable of that name is not the input's member.
                _ if BUILT_IN_VARIABLES.contains(&name) && !is_parameter(name) => None,
                _ => {
                    let is_member =
                        members.is_some_and(|members| members.keys().any(|key| escaped(key) == name));
                    is_member.then(|| format!("/{name}{rest}"))
                }
            }
        });
        parts.collect()
    }
}

/// The places of the instructions and the input of a call.
pub(super) struct Placed {
    /// The system text.
    pub(super) system: String,
    /// The end of the instructions, which begins the first message.
    pub(super) moved: Option<String>,
    /// The input, without the parts that the instructions print.
    pub(super) input: Option<String>,
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A name in the form of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns true if a value, or all of its parts, was printed.
fn is_printed(value: &Value, pointer: &str, printed: &BTreeSet<String>) -> bool {
    printed.contains(pointer)
        || match value {
            Value::Object(members) => {
                !members.is_empty()
                    && members.iter().all(|(name, value)| {
                        is_printed(value, &format!("{pointer}/{}", escaped(name)), printed)
                    })
            }
            Value::Array(items) => {
                !items.is_empty()
                    && items
                        .iter()
                        .enumerate()
                        .all(|(at, value)| is_printed(value, &format!("{pointer}/{at}"), printed))
            }
            _ => false,
        }
}

/// Returns true if a schema allows a few values only.
fn has_few_values(schema: &Value) -> bool {
    let kinds = schema.get("type").map(|kind| match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect::<Vec<_>>(),
    });
    let is_closed = |kinds: Vec<&str>| kinds.iter().all(|kind| matches!(*kind, "boolean" | "null"));
    let alternatives = ["anyOf", "oneOf"].into_iter().find_map(|key| schema.get(key)?.as_array());
    schema.get("enum").is_some()
        || schema.get("const").is_some()
        || kinds.is_some_and(is_closed)
        || alternatives.is_some_and(|schemas| schemas.iter().all(has_few_values))
}

/// The start of the paragraph around a byte of a text.
fn paragraph(text: &str, at: usize) -> usize {
    let mut begin = 0;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if end > at {
            break;
        }
        end += line.len();
        if line.trim().is_empty() && end <= at {
            begin = end;
        }
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_begins_after_a_blank_line() {
        for (text, before) in
            [("a\n\nb {}\nc", "a\n\n"), ("a\n  \nb\nc {}", "a\n  \n"), ("a\nb {}", ""), ("a\n\n{}", "a\n\n")]
        {
            let at = text.find("{}").expect("a place");
            assert_eq!(&text[..paragraph(text, at)], before, "{text:?}");
        }
    }

    #[test]
    fn a_value_is_printed_if_all_its_parts_are() {
        let printed = ["/a/0", "/a/1", "/b/x"].map(str::to_owned).into();
        let whole = json!({"a": ["x", 1], "b": {"x": 1, "y": 2}, "c": []});
        let found: Vec<bool> =
            ["a", "b", "c"].map(|key| is_printed(&whole[key], &format!("/{key}"), &printed)).into();
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn flags_and_choices_have_few_values() {
        for (schema, few) in [
            (json!({"type": "boolean"}), true),
            (json!({"type": ["boolean", "null"]}), true),
            (json!({"enum": ["a", "b"]}), true),
            (json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}), true),
            (json!({"type": "integer"}), false),
            (json!({"type": ["string", "null"]}), false),
            (json!({}), false),
        ] {
            assert_eq!(has_few_values(&schema), few, "{schema}");
        }
    }
}
