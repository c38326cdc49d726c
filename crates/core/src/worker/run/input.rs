//! A call's input as a worker sees it, with the same meaning for prompts and code.

use super::enter::Handed;
use crate::{
    definition::{ATTACHMENTS, BUILT_IN_VARIABLES, INPUT, INSTRUCTIONS, WorkerDefinition},
    engine::RunContext,
};
use serde_json::{Map, Value, json};

/// The parts of a call's input for templates, the first message and code.
pub(super) struct Input {
    /// The declared parameters, or all given values if none are declared, by name.
    pub(super) values: Map<String, Value>,
    /// `input` of templates, and the input of code.
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

    /// Whether the caller gave nothing: the input is empty, or only has the defaults of the worker's schema.
    pub(super) fn is_left_out(&self, worker: &WorkerDefinition) -> bool {
        let of_nothing = || worker.signature.schema.filled(&Value::Object(Map::new())).into_owned();
        self.is_empty() || (worker.signature.declared && self.whole == of_nothing())
    }

    /// The variables of the worker's templates. A declared parameter comes before a built-in variable of its name. A
    /// key that only the caller chose doesn't, because the author of the template doesn't know it.
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
}
