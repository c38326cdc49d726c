//! An answer in progress, token by token.

use crate::{
    flow::Flow,
    grammar::{CALL_CLOSE, CALL_OPEN},
    host::Replies,
    wire::{Ask, FromModel, WrittenCall},
};
use llm_do_core::model::Arguments;
use serde_json::Value;
use std::sync::Arc;

/// The answer to one request, which is sent piece by piece.
pub(crate) struct Answer<'model> {
    /// Number of the request.
    id: u64,
    replies: &'model Replies,
    flow: Flow,
    text: String,
    /// The text after the opening tag of a call.
    call: Option<Vec<u8>>,
    /// The called tool, once its name is complete.
    name: Option<String>,
}

/// The effect of a token.
pub(crate) enum Step {
    /// More text.
    Text,
    /// A stop text was found.
    Stopped,
    /// The opening tag of a call is complete; these bytes followed it.
    CallOpened { after: Vec<u8> },
    /// More of a call.
    Call,
}

impl<'model> Answer<'model> {
    /// Makes an empty answer to that request.
    pub(crate) fn new(id: u64, ask: &Ask, replies: &'model Replies) -> Self {
        // The first marker is the call's; it is never met where no tools are offered.
        let mut markers = vec![if ask.tools.is_empty() { String::new() } else { CALL_OPEN.to_owned() }];
        if ask.output.is_none() {
            markers.extend(ask.settings.stop.iter().cloned());
        }
        Self { id, replies, flow: Flow::new(markers), text: String::new(), call: None, name: None }
    }

    /// Takes the bytes of the next token.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Step {
        if let Some(call) = &mut self.call {
            call.extend_from_slice(bytes);
            self.announce();
            return Step::Call;
        }
        let released = self.flow.push(bytes);
        self.say(released.text);
        match released.hit {
            None => Step::Text,
            Some((0, after)) => {
                self.call = Some(after.clone());
                Step::CallOpened { after }
            }
            Some(_) => Step::Stopped,
        }
    }

    /// Drops the written part of a call: the model begins the call again, constrained by its grammar.
    pub(crate) fn restart_call(&mut self) {
        self.call = Some(Vec::new());
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.text.push_str(&text);
            self.replies.send(&FromModel::Text { id: self.id, text });
        }
    }

    fn announce(&mut self) {
        if self.name.is_none() {
            let call = self.call.as_deref().unwrap_or_default();
            self.name =
                String::from_utf8_lossy(call).split_once(", \"arguments\": ").and_then(|(head, _)| {
                    let head: Value = serde_json::from_str(&format!("{head}}}")).ok()?;
                    Some(head["name"].as_str()?.to_owned())
                });
            if let Some(name) = self.name.clone() {
                self.replies.send(&FromModel::Call { id: self.id, name });
            }
        }
    }

    /// Returns the whole text, and the call at its end.
    pub(crate) fn finish(mut self) -> (String, Option<WrittenCall>) {
        let rest = self.flow.finish();
        self.say(rest);
        let Some(call) = self.call else { return (self.text, None) };
        let text = String::from_utf8_lossy(&call).into_owned();
        let body = text.trim().strip_suffix(CALL_CLOSE).unwrap_or(&text);
        let (name, arguments) = match serde_json::from_str::<Value>(body) {
            Ok(mut value) => (
                value["name"].as_str().unwrap_or_default().to_owned(),
                Arguments::Json(Arc::new(value["arguments"].take())),
            ),
            Err(error) => (
                self.name.unwrap_or_default(),
                Arguments::Invalid { text: body.into(), reason: error.to_string().into() },
            ),
        };
        (self.text, Some(WrittenCall { name, arguments }))
    }
}
