//! Histories of texts, calls and results on OpenAI's wire, as JSON.
//!
//! Nearly all histories are of this form. `genai` copies the JSON of a history once more for each request, which takes more
//! instructions than anything else in a turn of a long conversation. So these histories are written here, and `genai` takes
//! them as they are. A test compares the bytes with those that `genai` itself makes of the same histories. All other
//! histories are left to `genai`.

use genai::adapter::AdapterKind;
use llm_do_core::model::{Message, ModelRequest, Part, Role};
use serde_json::{Map, Value};

use crate::request::{Form, object};

impl Form {
    /// The messages of a request, if they are all of this form and are for chat completions as OpenAI has them.
    pub(crate) fn plain_messages(&self, request: &ModelRequest<'_>) -> Option<Value> {
        // Other adapters of `genai` may change the messages.
        if self.iden.adapter_kind != AdapterKind::OpenAI {
            return None;
        }
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.trim().is_empty() {
            messages.push(said("system", request.system));
        }
        for message in request.messages {
            self.add_plain(message, &mut messages)?;
        }
        Some(Value::Array(messages))
    }

    fn add_plain(&self, message: &Message, messages: &mut Vec<Value>) -> Option<()> {
        match message.role {
            Role::User => messages.extend(only_text(&message.parts)?.map(|text| said("user", text))),
            Role::Assistant => messages.extend(self.plain_answer(&message.parts)?),
            Role::Tool => {
                for part in &message.parts {
                    let Part::Result(result) = part else { return None };
                    messages.push(fields([
                        ("role", "tool".into()),
                        ("content", (*result.content).into()),
                        ("tool_call_id", (*result.call_id).into()),
                    ]));
                }
            }
        }
        Some(())
    }

    /// The inner `None`: the answer has no content, and is left out.
    fn plain_answer(&self, parts: &[Part]) -> Option<Option<Value>> {
        let mut calls = Vec::new();
        for part in parts {
            match part {
                Part::Call(call) => {
                    let arguments = object(&call.arguments).to_string();
                    let function = fields([("name", (*call.name).into()), ("arguments", arguments.into())]);
                    calls.push(fields([
                        ("type", "function".into()),
                        ("id", (*call.id).into()),
                        ("function", function),
                    ]));
                }
                Part::Opaque { provider, .. } if *provider == self.provider => return None,
                _ => {}
            }
        }
        let text = only_text(parts)?;
        if text.is_none() && calls.is_empty() {
            return Some(None);
        }
        let mut message = said("assistant", text.unwrap_or_default());
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        Some(Some(message))
    }
}

/// The one text among the parts that is not blank, if there is any. `None`: there are several, or other content for the model.
fn only_text(parts: &[Part]) -> Option<Option<&str>> {
    let mut found = None;
    for part in parts {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { text } if found.is_none() => found = Some(&**text),
            Part::Text { .. } | Part::Attachment { .. } | Part::Blob(_) => return None,
            _ => {}
        }
    }
    Some(found)
}

fn said(role: &str, text: &str) -> Value {
    fields([("role", role.into()), ("content", text.into())])
}

/// An object with these fields.
fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut map = Map::with_capacity(N);
    map.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(map)
}
