//! Answers that are built in advance, for benchmarks.

use std::time::Instant;

use bytes::Bytes;
use memchr::memmem;
use serde_json::json;

use crate::script::{Content, Reply, Usage};
use crate::seen::{Conversation, Seen, Wire};
use crate::{anthropic, openai};

/// The turns of one script in every wire format, streamed or not, ready to send.
///
/// The number of tool results in a request gives its turn. They are counted without parsing: a request costs the server
/// a scan of its bytes.
#[derive(Debug)]
pub struct Fixed {
    /// The answers by wire, and by streamed or not.
    answers: [[Vec<Bytes>; 2]; 2],
}

impl Fixed {
    /// Builds the answers to the first request, to the one with one tool result, and so on. The last answer is given to
    /// all further requests.
    ///
    /// # Panics
    /// The script is empty, or a reply is no model's answer.
    pub fn new(replies: &[Reply]) -> Self {
        assert!(!replies.is_empty(), "a script has at least one reply");
        let build =
            |wire, streamed| replies.iter().enumerate().map(|(i, r)| form(wire, streamed, i, r)).collect();
        let answers =
            [Wire::OpenAi, Wire::Anthropic].map(|wire| [false, true].map(|streamed| build(wire, streamed)));
        Self { answers }
    }

    /// Returns the answer to a request: its content type and body. `None` for a path of neither wire.
    pub fn answer(&self, path: &str, request: &[u8]) -> Option<(&'static str, Bytes)> {
        let (wire, result) = if path.ends_with("/chat/completions") {
            (0, &b"\"tool_call_id\""[..])
        } else if path.ends_with("/messages") {
            (1, &b"\"tool_use_id\""[..])
        } else {
            return None;
        };
        let has = |needle: &[u8]| memmem::find(request, needle).is_some();
        let streamed = has(b"\"stream\":true") || has(b"\"stream\": true");
        let turns = &self.answers[wire][usize::from(streamed)];
        let turn = memmem::find_iter(request, result).count().min(turns.len() - 1);
        let content_type = if streamed { "text/event-stream" } else { "application/json" };
        Some((content_type, turns[turn].clone()))
    }
}

fn form(wire: Wire, streamed: bool, turn: usize, reply: &Reply) -> Bytes {
    let Content::Answer(answer) = &reply.content else {
        panic!("a fixed script holds a model's answers only, not {reply:?}");
    };
    let seen = Seen {
        at: Instant::now(),
        wire,
        path: String::new(),
        body: json!({"model": "loopback", "stream_options": {"include_usage": true}}),
        body_bytes: 0,
        headers: Vec::new(),
        conversation: Conversation::default(),
    };
    let usage = answer.usage.unwrap_or(Usage { input: 100 * (turn as u64 + 1), output: 20, cached: 0 });
    match (wire, streamed) {
        (Wire::OpenAi, true) => openai::events(&seen, answer, usage, turn as u64).concat().into(),
        (Wire::OpenAi, false) => openai::body(&seen, answer, usage, turn as u64).to_string().into(),
        (Wire::Anthropic, true) => anthropic::events(&seen, answer, usage, turn as u64).concat().into(),
        (Wire::Anthropic, false) => anthropic::body(&seen, answer, usage, turn as u64).to_string().into(),
    }
}
