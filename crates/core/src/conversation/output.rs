//! Structured output (`docs/reference/loop.md`): the contract of the final answer, and how it is extracted from a
//! model's text.

use super::Ensures;
use crate::schema::{Schema, Violation};
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
    /// The reasons, for the model.
    Invalid(String),
    /// It fits the schema but not the conditions; with the reasons, for the model.
    Unmet(Value, String),
    /// It fits the schema and all conditions that need no tool. The tools are still to be called.
    ForTools(Value),
}

impl OutputContract {
    /// Without a schema any text is valid. With `final_tool` the model is offered [`FINAL_TOOL`].
    pub fn new(schema: Option<Arc<Schema>>, final_tool: bool) -> Self {
        let final_tool = (final_tool && schema.is_some()).then_some(FINAL_TOOL);
        Self { schema, final_tool, ensures: None }
    }

    /// The contract of a conversation with the user: what the model writes is for the user, and any text is valid. With
    /// `finishes` the model is offered [`FINISH_TOOL`], which gives the result.
    pub fn of_conversation(schema: Option<Arc<Schema>>, finishes: bool) -> Self {
        Self { schema, final_tool: finishes.then_some(FINISH_TOOL), ensures: None }
    }

    /// This contract with additional conditions on the output.
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

    /// The conditions, where there are any.
    pub fn ensures(&self) -> Option<&Ensures> {
        self.ensures.as_ref()
    }

    /// The schema, where there is one.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// Whether the final-result tool is offered.
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

    /// Tool arguments are objects; any other schema travels in one under `result`.
    fn is_wrapped(schema: &Schema) -> bool {
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

    pub(super) fn read_text(&self, text: &str) -> Answer {
        let Some(schema) = &self.schema else { return self.meets(Value::String(text.to_owned())) };
        let mut nearest: Option<Vec<Violation>> = None;
        for value in candidates(text) {
            match schema.validate(&value) {
                Ok(()) => return self.meets(value),
                Err(wrong) => nearest = nearest.or(Some(wrong)),
            }
        }
        // A plain string needs no JSON around it.
        let plain = Value::String(text.trim().to_owned());
        if schema.value().get("type").and_then(Value::as_str) == Some("string")
            && schema.validate(&plain).is_ok()
        {
            return self.meets(plain);
        }
        Answer::Invalid(match nearest {
            Some(wrong) => explain(&wrong),
            None if let Some(tool) = self.final_tool => {
                format!("Your answer must be given by calling the tool `{tool}`, not in text.")
            }
            None => format!(
                "Your answer must be JSON that fits this schema, and nothing else: {}",
                schema.value()
            ),
        })
    }
}

fn explain(wrong: &[Violation]) -> String {
    let reasons: String = wrong.iter().map(|violation| format!("\n- {violation}")).collect();
    format!("Your answer doesn't fit the required schema:{reasons}\nAnswer again.")
}

/// JSON candidates in an answer, best first: the whole text, a fenced block, the first value in prose that parses.
fn candidates(text: &str) -> impl Iterator<Item = Value> {
    let whole = serde_json::from_str(text.trim()).ok();
    let fenced = text.split("```").skip(1).step_by(2).filter_map(|block| {
        let body = block
            .split_once('\n')
            .filter(|(tag, _)| !tag.contains(['{', '[']))
            .map_or(block, |(_, body)| body);
        serde_json::from_str(body.trim()).ok()
    });
    let embedded =
        text.char_indices().filter(|(_, c)| matches!(c, '{' | '[')).take(20).filter_map(|(at, _)| {
            // Takes the first complete value and ignores what follows it.
            serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()
        });
    whole.into_iter().chain(fenced).chain(embedded)
}
