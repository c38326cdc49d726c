//! Reads an answer from the events of a stream, or from one body.
//!
//! Events of chat completions come from `completions`. For other wires `genai` sends the request, splits the stream into
//! events and shows each to a sink. The reader is that sink, and takes the answer from the events itself, because
//! `genai`'s own readers fail on events that they do not expect, lose text, or allocate as much as a server asks for
//! (`docs/client-library.md` lists these places).

mod anthropic;
mod gemini;
mod head;
mod loose;
mod openai;
mod responses;

use crate::{
    known::Wire,
    response::{Answer, Block, Call},
    server_tools,
};
use genai::{adapter::AdapterKind, chat::StopReason};
use head::Head;
use llm_do_core::model::{Delta, Usage};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most bytes of one streamed answer, and the most pieces of it. A server may send without end.
pub(crate) const MOST_BYTES: usize = 64 << 20;
const MOST_BLOCKS: usize = 10_000;

/// The most pieces of one event. An event that is cut has a few; each further piece makes llm-do parse all of them again.
const MOST_PIECES: u32 = 64;

/// Counts the bytes of a streamed answer.
#[derive(Debug, Default)]
pub(crate) struct Size {
    bytes: usize,
}

impl Size {
    /// Counts one more event. `false`: the answer is longer than one may be.
    pub(crate) fn add(&mut self, data: &str) -> bool {
        self.bytes = self.bytes.saturating_add(data.len());
        self.bytes <= MOST_BYTES
    }
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    wire: Wire,
    kind: AdapterKind,
    size: Size,
    /// Events may come in pieces.
    is_cut: bool,
    /// The start of an event whose rest is still missing.
    torn: String,
    /// The number of pieces of that event.
    pieces: u32,
    /// The beginning of the events on OpenAI's wire.
    head: Head,
    start: Start,
    draft: Draft,
}

/// Whether the first event of a stream has arrived.
///
/// `genai` takes a byte order mark for a part of the first line, and passes over lines that it does not know. The first
/// frame is then empty, or lacks its first line, and looks like a comment, which loses nothing. The next event shows
/// which of both it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// No frame has arrived.
    Awaited,
    /// The first frame had neither a name nor data.
    Doubtful,
    /// The first event is there.
    Seen,
    /// The first event is lost.
    Lost,
}

impl Start {
    /// Takes a frame, as `genai` shows it.
    fn frame(&mut self, name: Option<&str>, data: &str) {
        // Every event of these wires is an object, so an event that begins otherwise has lost its first line.
        let lacks_a_line = name.is_none() && !data.is_empty() && !data.starts_with('{') && data != "[DONE]";
        match self {
            Self::Awaited | Self::Doubtful if lacks_a_line => *self = Self::Lost,
            Self::Awaited if name.is_none() && data.is_empty() => *self = Self::Doubtful,
            Self::Awaited => *self = Self::Seen,
            Self::Doubtful | Self::Seen | Self::Lost => {}
        }
    }

    /// Takes an event. `is_first` says whether the wire's answers begin with it; `None` if that can't be said of it.
    /// Returns whether to read it.
    fn event(&mut self, is_first: impl FnOnce() -> Option<bool>) -> bool {
        if *self == Self::Doubtful {
            *self = match is_first() {
                Some(true) => Self::Seen,
                Some(false) => Self::Lost,
                None => Self::Doubtful,
            };
        }
        *self != Self::Lost
    }
}

/// An answer so far.
#[derive(Debug, Default)]
struct Draft {
    /// The pieces of the answer by their number, which the server chooses.
    blocks: BTreeMap<u64, Block>,
    /// The number of the block that a number of the server means now. Some servers give several blocks the same one.
    numbered: BTreeMap<u64, u64>,
    /// The text of the `input` of opaque blocks, by their number.
    inputs: BTreeMap<u64, String>,
    reasoning: String,
    /// Gemini's reports on what its tools have read: of searches, and of pages.
    grounding: Value,
    fetched: Value,
    refusal: String,
    stop: Option<String>,
    /// The server has said that nothing follows.
    ended: bool,
    usage: Usage,
    failure: Option<Failure>,
    deltas: Vec<Delta>,
}

/// The reason why a stream gives no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server reports an error, with this body.
    Reported(Value),
    /// An event is no JSON, for this reason.
    Garbled(String),
    /// The answer is longer than one may be.
    TooLong,
    /// The first event of the stream is lost, or its first line.
    NoStart,
    /// The body is JSON, and no answer of the interface.
    Foreign,
}

impl Reader {
    /// A reader for this format, or `None` where `genai` reads the answers itself.
    pub(crate) fn new(wire: Wire, kind: AdapterKind) -> Option<Self> {
        let wire = match wire {
            Wire::OpenAi | Wire::Responses | Wire::Anthropic | Wire::Gemini => wire,
            Wire::Ollama | Wire::Cohere | Wire::Bedrock => return None,
        };
        Some(Self { is_cut: true, start: Start::Awaited, ..Self::of_whole_events(wire, kind) })
    }

    /// A reader of a stream that is not split by `genai`: each event is whole, and none is lost.
    pub(crate) fn of_whole_events(wire: Wire, kind: AdapterKind) -> Self {
        Self {
            wire,
            kind,
            size: Size::default(),
            is_cut: false,
            torn: String::new(),
            pieces: 0,
            head: Head::default(),
            start: Start::Seen,
            draft: Draft::default(),
        }
    }

    /// Takes an event of a stream: its name and its data. An event without data is a comment.
    ///
    /// `genai` may cut an event in two where a chunk of bytes ends between CR and LF. Since a line break may stand
    /// wherever an event is cut, its parts make JSON again once they are joined.
    pub(crate) fn event(&mut self, name: Option<&str>, data: &str) {
        let data = data.trim();
        if self.torn.is_empty() {
            self.start.frame(name, data);
        }
        let is_over = self.draft.ended || self.draft.failure.is_some() || self.start == Start::Lost;
        if data.is_empty() || is_over {
            return;
        }
        if !self.size.add(data) || self.draft.blocks.len() > MOST_BLOCKS {
            self.torn.clear();
            self.draft = Draft { failure: Some(Failure::TooLong), ..Draft::default() };
            return;
        }
        if self.torn.is_empty() {
            if data == "[DONE]" {
                self.draft.ended = true;
            } else if let Err(error) = self.read(name, data) {
                if self.is_cut {
                    data.clone_into(&mut self.torn);
                    self.pieces = 1;
                } else {
                    self.draft.failure = Some(Failure::Garbled(error.to_string()));
                }
            }
            return;
        }
        let mut whole = std::mem::take(&mut self.torn);
        whole.push('\n');
        whole.push_str(data);
        if let Err(error) = self.read(name, &whole) {
            self.pieces += 1;
            let is_whole = data == "[DONE]" || serde_json::from_str::<IgnoredAny>(data).is_ok();
            if is_whole || self.pieces > MOST_PIECES {
                self.draft.failure = Some(Failure::Garbled(error.to_string()));
            }
            self.torn = whole;
        }
    }

    /// Reads an event that is whole. Nothing is read of one that is no JSON.
    fn read(&mut self, name: Option<&str>, data: &str) -> serde_json::Result<()> {
        let draft = &mut self.draft;
        match self.wire {
            Wire::OpenAi => {
                let event = match self.head.removed(data).map(loose::from_text) {
                    Some(Ok(event)) => event,
                    Some(Err(_)) | None => loose::from_text(data)?,
                };
                if self.start.event(|| openai::is_first(&event)) {
                    openai::event(draft, self.kind, event);
                }
                self.head.learn(data);
            }
            Wire::Responses => {
                let event = serde_json::from_str(data)?;
                if self.start.event(|| responses::is_first(name, &event)) {
                    responses::event(draft, name, event);
                }
            }
            Wire::Anthropic => {
                let event = serde_json::from_str(data)?;
                if self.start.event(|| anthropic::is_first(name, &event)) {
                    anthropic::event(draft, name, event);
                }
            }
            Wire::Gemini => {
                let event = serde_json::from_str(data)?;
                if self.start.event(|| gemini::is_first(&event)) {
                    gemini::event(draft, event);
                }
            }
            Wire::Ollama | Wire::Cohere | Wire::Bedrock => {}
        }
        Ok(())
    }

    /// The stream has ended. A first event that no later one has shown to be there is lost.
    ///
    /// `is_told`: `genai` has read that nothing follows. The name of an event may tell it, so the data may still be in
    /// pieces; nothing of it is needed.
    pub(crate) fn end(&mut self, is_told: bool) {
        if self.start == Start::Doubtful {
            self.start = Start::Lost;
        }
        if is_told {
            self.torn.clear();
        }
    }

    /// Takes an answer that came in one body.
    pub(crate) fn body(&mut self, body: Value) {
        let draft = &mut self.draft;
        draft.ended = true;
        match self.wire {
            Wire::OpenAi if is_foreign(&body) => draft.failure = Some(Failure::Foreign),
            Wire::OpenAi => match loose::from_value(&body) {
                Ok(body) => openai::body(draft, self.kind, body),
                Err(error) => draft.failure = Some(Failure::Garbled(error.to_string())),
            },
            Wire::Responses | Wire::Anthropic if is_foreign(&body) => draft.failure = Some(Failure::Foreign),
            Wire::Responses => responses::body(draft, body),
            Wire::Anthropic => anthropic::body(draft, body),
            Wire::Gemini => gemini::body(draft, body),
            Wire::Ollama | Wire::Cohere | Wire::Bedrock => {}
        }
    }

    /// The pieces of text that have arrived since the last call.
    pub(crate) fn deltas(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.draft.deltas)
    }

    /// The reason why there will be no answer: an error that the server reports, a garbled event, or a lost one.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        let lost = (self.start == Start::Lost).then_some(Failure::NoStart);
        self.draft.failure.take().or(lost)
    }

    /// Returns whether no frame has arrived.
    pub(crate) fn is_untouched(&self) -> bool {
        self.start == Start::Awaited
    }

    /// Whether the server has said that nothing follows.
    pub(crate) fn has_ended(&self) -> bool {
        self.draft.ended
    }

    /// Whether the answer is whole: the server has given a finish reason, or has said that nothing follows.
    pub(crate) fn is_whole(&self) -> bool {
        self.torn.is_empty() && (self.draft.ended || self.draft.stop.is_some())
    }

    /// The answer. `blank` has what the request says about it.
    pub(crate) fn answer(&mut self, blank: Answer) -> Answer {
        let Draft { mut blocks, inputs, reasoning, grounding, fetched, refusal, stop, usage, .. } =
            std::mem::take(&mut self.draft);
        for (key, input) in inputs {
            if let Some(Block::Opaque(Value::Object(map))) = blocks.get_mut(&key) {
                map.insert("input".into(), serde_json::from_str(&input).unwrap_or(Value::String(input)));
            }
        }
        Answer {
            blocks: blocks.into_values().collect(),
            uses: server_tools::searched(&grounding)
                .into_iter()
                .chain(server_tools::fetched(&fetched))
                .collect(),
            reasoning: (!reasoning.is_empty()).then_some(reasoning),
            stop: stop.map(StopReason::from),
            usage,
            refusal,
            ..blank
        }
    }
}

impl Draft {
    fn say(&mut self, key: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        self.deltas.push(Delta::Text { text: text.to_owned() });
        match self.blocks.entry(key).or_insert_with(|| Block::text("")) {
            Block::Text { text: said, .. } => said.push_str(text),
            // A server that numbers its blocks wrongly.
            _ => {
                let free = self.next();
                self.blocks.insert(free, Block::text(text));
            }
        }
    }

    fn think(&mut self, text: &str) {
        if !text.is_empty() {
            self.deltas.push(Delta::Reasoning { text: text.to_owned() });
            self.reasoning.push_str(text);
        }
    }

    /// The call of that number, if it is one.
    fn call(&mut self, key: u64) -> Option<&mut Call> {
        match self.blocks.entry(key).or_insert_with(|| Block::Call(Call::default())) {
            Block::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Begins a block for a number of the server, and returns its own number.
    fn begin(&mut self, number: u64) -> u64 {
        let key = if self.blocks.contains_key(&number) { self.next() } else { number };
        self.numbered.insert(number, key);
        key
    }

    /// The block that a number of the server means now.
    fn numbered(&self, number: u64) -> u64 {
        self.numbered.get(&number).copied().unwrap_or(number)
    }

    fn announce(&mut self, name: &str) {
        if !name.is_empty() {
            self.deltas.push(Delta::Call { name: name.to_owned() });
        }
    }

    /// The number after the last one.
    fn next(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(last, _)| last.saturating_add(1))
    }

    /// Takes an error that the server reports in place of an event.
    fn fail(&mut self, body: Value) {
        self.failure.get_or_insert(Failure::Reported(body));
    }
}

/// Returns whether a body has nothing that an answer or an error of these interfaces has.
fn is_foreign(body: &Value) -> bool {
    const KNOWN: [&str; 9] =
        ["id", "object", "model", "usage", "type", "choices", "content", "output", "error"];
    let Value::Object(members) = body else { return true };
    !KNOWN.iter().any(|known| members.contains_key(*known))
}

/// The value at a pointer without escapes. [`Value::pointer`] looks for escapes and allocates for each of its keys,
/// which an event has dozens of.
fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, key| match value {
        Value::Object(members) => members.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The text at a pointer; empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count(value: &Value, pointer: &str) -> Option<u64> {
    at(value, pointer).and_then(Value::as_u64)
}

/// Providers send a zero for counts that they do not make.
fn some_count(value: &Value, pointer: &str) -> Option<u64> {
    count(value, pointer).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests;
