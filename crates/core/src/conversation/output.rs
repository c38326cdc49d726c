//! Structured output (`docs/reference/loop.md`): the contract of the final answer, and how it is extracted from a
//! model's text.

use super::{Ensures, values};
use crate::{
    json::{BadJson, Fault},
    schema::{Schema, Violation},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of the tool through which models without native structured output give their answer.
pub const FINAL_TOOL: &str = "final_result";
/// Name of the tool through which a worker that talks to the user gives the result to its caller.
pub const FINISH_TOOL: &str = "finish";

/// The contract of the final answer.
#[derive(Clone, Debug)]
pub struct OutputContract {
    schema: Option<Arc<Schema>>,
    /// The tool that ends the conversation, if one is offered.
    final_tool: Option<&'static str>,
    ensures: Option<Ensures>,
}

/// A parsed final answer.
pub(super) enum Answer {
    Valid(Value),
    /// The answer is invalid, with the reasons, for the model.
    Invalid(String),
    /// The value fits the schema but not the conditions; with the reasons, for the model.
    Unmet(Value, String),
    /// The value fits the schema and all conditions that need no tool. The tools are still to be called.
    ForTools(Value),
}

impl OutputContract {
    /// Creates the contract. Without a schema any text is valid. With `final_tool` the model is offered [`FINAL_TOOL`].
    pub fn new(schema: Option<Arc<Schema>>, final_tool: bool) -> Self {
        let final_tool = (final_tool && schema.is_some()).then_some(FINAL_TOOL);
        Self { schema, final_tool, ensures: None }
    }

    /// Creates the contract of a conversation with the user: the model writes for the user, and any text is valid. With
    /// `finishes` the model is offered [`FINISH_TOOL`], which gives the result.
    pub fn of_conversation(schema: Option<Arc<Schema>>, finishes: bool) -> Self {
        Self { schema, final_tool: finishes.then_some(FINISH_TOOL), ensures: None }
    }

    /// Adds conditions on the output.
    #[must_use]
    pub fn ensuring(self, ensures: Option<Ensures>) -> Self {
        Self { ensures, ..self }
    }

    fn meets(&self, value: Value) -> Answer {
        match &self.ensures {
            None => Answer::Valid(value),
            Some(ensures) => ensures.judge(value),
        }
    }

    /// The conditions, if there are any.
    pub fn ensures(&self) -> Option<&Ensures> {
        self.ensures.as_ref()
    }

    /// The schema, if there is one.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// Returns true if the final-result tool is offered.
    pub fn uses_final_tool(&self) -> bool {
        self.final_tool.is_some()
    }

    /// The name of the final-result tool, if it is offered.
    pub fn final_tool_name(&self) -> Option<&'static str> {
        self.final_tool
    }

    pub(super) fn is_final_tool(&self, name: &str) -> bool {
        self.final_tool == Some(name)
    }

    /// Returns true if the value is wrapped in an object under `result`, because tool arguments must be objects.
    pub(crate) fn is_wrapped(schema: &Schema) -> bool {
        schema.value().get("type").and_then(Value::as_str) != Some("object")
    }

    /// Schema of the final-result tool's input.
    pub fn final_tool_input(&self) -> Option<Arc<Value>> {
        self.final_tool?;
        let text = || Arc::new(json!({"type": "string", "description": "What your caller is told."}));
        let shown = self.schema.as_ref().map_or_else(text, |schema| Arc::clone(schema.shown()));
        Some(if self.schema.as_deref().is_none_or(Self::is_wrapped) {
            Arc::new(json!({
                "type": "object",
                "properties": {"result": *shown},
                "required": ["result"],
                "additionalProperties": false,
            }))
        } else {
            shown
        })
    }

    pub(super) fn read_call(&self, input: &Value) -> Answer {
        let Some(schema) = &self.schema else {
            return match input.get("result") {
                Some(Value::String(text)) => self.meets(Value::String(text.clone())),
                _ => Answer::Invalid("`result` must be a text. Answer again.".to_owned()),
            };
        };
        let value =
            if Self::is_wrapped(schema) { input.get("result").unwrap_or(&Value::Null) } else { input };
        match schema.validate(value) {
            Ok(()) => self.meets(value.clone()),
            Err(wrong) => Answer::Invalid(explain(&wrong)),
        }
    }

    /// Reads an answer in text. A single value that fits is the answer if it stands by itself. Two different values are
    /// ambiguous, and a text that was cut off is not an answer.
    pub(super) fn read_text(&self, text: &str) -> Answer {
        let Some(schema) = &self.schema else { return self.meets(Value::String(text.to_owned())) };
        let is_text = schema.value().get("type").and_then(Value::as_str) == Some("string");
        let found = values::find(text);
        let mut fits: Option<&Value> = None;
        let mut nearest: Option<Vec<Violation>> = None;
        // A text quotes values. Only one that is the whole answer is the answer.
        for value in found.values.iter().filter(|_| found.is_alone || !is_text) {
            let value = self.without_wrapper(schema, value);
            match schema.validate(value) {
                Ok(()) if fits.is_some_and(|other| other != value) => {
                    return Answer::Invalid(SEVERAL.to_owned());
                }
                Ok(()) => fits = Some(value),
                Err(wrong) => nearest = nearest.or(Some(wrong)),
            }
        }
        if is_text && fits.is_none() {
            // A plain text needs no JSON around it.
            let plain = Value::String(text[found.begins..].trim().to_owned());
            if schema.validate(&plain).is_ok() {
                return self.meets(plain);
            }
        }
        match fits {
            Some(value) if !found.is_cut => self.meets(value.clone()),
            _ if found.is_cut => Answer::Invalid(match &found.broken {
                Some(error) => format!("Your answer is cut off: {error}. Answer again, whole."),
                None => "Your answer ends inside its reasoning. Answer now.".to_owned(),
            }),
            _ => Answer::Invalid(self.reason(schema, nearest, found.broken)),
        }
    }

    /// The value inside the object that the final-result tool takes, for a model that writes this object instead of
    /// calling the tool.
    fn without_wrapper<'v>(&self, schema: &Schema, value: &'v Value) -> &'v Value {
        match value {
            Value::Object(members)
                if self.final_tool.is_some() && Self::is_wrapped(schema) && members.len() == 1 =>
            {
                members.get("result").filter(|_| schema.validate(value).is_err()).unwrap_or(value)
            }
            value => value,
        }
    }

    /// The reason why an answer in text is not valid.
    fn reason(&self, schema: &Schema, wrong: Option<Vec<Violation>>, broken: Option<BadJson>) -> String {
        match (wrong, broken) {
            (Some(wrong), _) => explain(&wrong),
            (None, Some(error)) if error.fault == Fault::Refused => {
                format!("Your answer can't be taken: {error}. Answer again.")
            }
            (None, _) if let Some(tool) = self.final_tool => {
                format!("Your answer must be given by calling the tool `{tool}`, not in text.")
            }
            (None, broken) => {
                let broken = broken
                    .map(|error| format!("Your answer is not valid JSON: {error}. "))
                    .unwrap_or_default();
                format!(
                    "{broken}Your answer must be JSON that fits this schema, and nothing else: {}",
                    schema.value()
                )
            }
        }
    }
}

/// A message that asks which of several values is the answer.
const SEVERAL: &str = "Your answer has several different JSON values that fit the schema, so that it is unclear which one is meant. \
     Answer again with one value, and nothing else.";

fn explain(wrong: &[Violation]) -> String {
    let reasons: String = wrong.iter().map(|violation| format!("\n- {violation}")).collect();
    format!("Your answer doesn't fit the required schema:{reasons}\nAnswer again.")
}
