//! The `input` of a request for a response.

use super::id::requested;
use crate::faces::{
    answering::Shown,
    conversation::{Speaker, Words},
    openai::{content, error::Wrong, tools::EarlierCalls},
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The messages and answers of a client.
#[derive(Default)]
pub(super) struct Given {
    pub(super) words: Vec<Words>,
    pub(super) answers: Vec<Approval>,
    /// The number of messages before an approval request. The run that asks has them already.
    pub(super) known: usize,
}

/// An answer to an approval request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Approval {
    pub(super) request: Shown,
    pub(super) approve: bool,
    pub(super) reason: Option<String>,
}

impl Given {
    /// Reads `input` and `instructions`, which a worker gets as a message of the application. The only calls are calls
    /// of the forced function.
    pub(super) fn read(
        input: Option<&Value>,
        instructions: Option<&str>,
        forced: Option<&str>,
    ) -> Result<Self, Wrong> {
        let mut given = Self::default();
        let mut calls = EarlierCalls::of(forced);
        if let Some(text) = instructions.filter(|text| !text.trim().is_empty()) {
            given.say(Speaker::Application, text);
        }
        match input {
            Some(Value::String(text)) => given.say(Speaker::User, text),
            Some(Value::Array(items)) => {
                for (number, item) in items.iter().enumerate() {
                    given.take(&format!("input[{number}]"), item, &mut calls)?;
                }
            }
            _ => return Err(Wrong::field("input", "must be a string or an array of items")),
        }
        Ok(given)
    }

    /// Returns the run that the answers are for.
    pub(super) fn run(&self) -> Option<&Arc<str>> {
        self.answers.first().map(|answer| &answer.request.run)
    }

    /// Handles an item of an earlier response. The answers before it were given at that time, so they are dropped.
    fn heard(&mut self) {
        self.answers.clear();
    }

    fn say(&mut self, speaker: Speaker, text: &str) {
        self.words.push(Words { speaker, text: text.to_owned(), files: Vec::new() });
    }

    fn take<'a>(&mut self, place: &str, item: &'a Value, calls: &mut EarlierCalls<'a>) -> Result<(), Wrong> {
        let Some(fields) = item.as_object() else { return Err(Wrong::field(place, "must be an object")) };
        match fields.get("type").and_then(Value::as_str).unwrap_or("message") {
            "message" => {
                let speaker = match fields.get("role").and_then(Value::as_str) {
                    Some("system" | "developer") => Speaker::Application,
                    Some("user") => Speaker::User,
                    Some("assistant") => Speaker::Worker,
                    _ => {
                        let why = "must be system, developer, user or assistant";
                        return Err(Wrong::field(format!("{place}.role"), why));
                    }
                };
                if speaker == Speaker::Worker {
                    self.heard();
                }
                let content = content::read(place, fields.get("content"), speaker == Speaker::User)?;
                self.words.push(Words { speaker, text: content.text, files: content.files });
            }
            "mcp_approval_response" => self.answers.push(approval(place, fields)?),
            // Clients that keep the items themselves send those of earlier responses back.
            "mcp_approval_request" => {
                self.heard();
                self.known = self.words.len();
            }
            "mcp_call" | "mcp_list_tools" | "reasoning" => self.heard(),
            "function_call" if calls.are_expected() => {
                let arguments = calls.call(place, fields.get("call_id"), item)?;
                self.say(Speaker::Worker, arguments);
            }
            "function_call_output" if calls.are_expected() => {
                calls.result(place, fields.get("call_id"))?;
                let output = content::read(place, fields.get("output"), false)?;
                self.say(Speaker::Client, &output.text);
            }
            kind => {
                let shown: String = kind.chars().filter(|c| !c.is_control()).take(40).collect();
                let why = match shown.ends_with("_output") || shown.ends_with("_call") {
                    true => "the tools of a worker are its own".to_owned(),
                    false => format!("items of the type `{shown}` are not supported"),
                };
                return Err(Wrong::field(place, why));
            }
        }
        Ok(())
    }
}

fn approval(place: &str, fields: &Map<String, Value>) -> Result<Approval, Wrong> {
    let id = fields.get("approval_request_id").and_then(Value::as_str).and_then(requested);
    let request = id.ok_or_else(|| {
        Wrong::field(format!("{place}.approval_request_id"), "must be the `id` of an approval request")
    })?;
    let approve = fields.get("approve").and_then(Value::as_bool);
    let approve = approve.ok_or_else(|| Wrong::field(format!("{place}.approve"), "must be true or false"))?;
    let reason = match fields.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(Wrong::field(format!("{place}.reason"), "must be a string")),
    };
    Ok(Approval { request, approve, reason })
}
