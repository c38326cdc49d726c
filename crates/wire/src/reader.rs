//! Reads an answer from bytes: a stream of events, or one body.

mod anthropic;
mod bedrock;
mod completions;
mod gemini;
mod head;
mod loose;
mod ollama;
mod responses;

use crate::{
    MOST_BYTES, MOST_OF_ERROR,
    failure::Failure,
    form::{Form, Wire},
    output,
    response::{Answer, Block, Call},
    server_tools,
    split::{Frames, JsonLines, MARK, Splitter, Unsplittable},
    valid::Mapping,
};
use head::Head;
use llm_do_core::model::{Delta, ModelRequest, ModelResponse, Usage};
use serde_json::Value;
use std::{collections::BTreeMap, mem};

/// Most pieces of one answer.
const MOST_BLOCKS: usize = 10_000;

/// Reads one answer.
///
/// A failure is final: what follows it is ignored, as is what follows the end of an answer.
#[derive(Debug)]
pub struct Reader {
    form: Form,
    media_type: String,
    /// The request has asked for a stream.
    stream: bool,
    phase: Phase,
    /// The bytes of all events.
    size: usize,
    /// The beginning of the events of chat completions.
    head: Head,
    draft: Draft,
    /// The parts of the answer that the request knows.
    blank: Answer,
}

/// The kind of the bytes.
#[derive(Debug)]
enum Phase {
    /// The first bytes do not determine it yet.
    Unknown(Vec<u8>),
    /// The bytes are one body of JSON.
    Body(Vec<u8>),
    /// The bytes are a stream of events.
    Events(Splitter),
}

/// An answer so far.
#[derive(Debug, Default)]
struct Draft {
    /// The pieces of the answer by their number, which the server chooses.
    blocks: BTreeMap<u64, Block>,
    /// The number of the block that a number of the server now refers to. Some servers give several blocks the same
    /// number.
    numbered: BTreeMap<u64, u64>,
    /// The text of the `input` of opaque blocks, by their number.
    inputs: BTreeMap<u64, String>,
    reasoning: String,
    /// Gemini's reports on the sources that its tools have read: of searches, and of pages.
    grounding: Value,
    fetched: Value,
    refusal: String,
    stop: Option<String>,
    /// True if the server has said that nothing follows.
    ended: bool,
    usage: Usage,
    failure: Option<Failure>,
    deltas: Vec<Delta>,
    /// The calls that have begun to appear, by block: their number, and the bytes of their arguments that are told.
    announced: BTreeMap<u64, (u32, usize)>,
}

impl Form {
    /// Makes a reader of the answer to a request. Some servers can't stream, and send one body with this media type;
    /// others send JSON or events under a wrong type.
    pub fn reader(&self, request: &ModelRequest<'_>, stream: bool, media_type: &str) -> Reader {
        let takes_schema = matches!(self.wire, Wire::OpenAi | Wire::Responses);
        let wrapped = takes_schema && request.output.is_some_and(|schema| output::wraps(schema));
        let mapping = Mapping::of(self, request.tools);
        let phase = if media_type.starts_with("application/json") {
            Phase::Body(Vec::new())
        } else if self.wire == Wire::Bedrock && stream {
            Phase::Events(Splitter::Frames(Frames::default()))
        } else {
            Phase::Unknown(Vec::new())
        };
        Reader {
            form: self.clone(),
            media_type: media_type.to_owned(),
            stream,
            phase,
            size: 0,
            head: Head::default(),
            draft: Draft::default(),
            blank: Answer { turn: request.turn, wrapped, mapping, ..Answer::default() },
        }
    }
}

impl Reader {
    /// Takes bytes of the answer, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.draft.is_over() {
            return;
        }
        match &mut self.phase {
            Phase::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let first = first_byte(begun);
                if first.is_some() || begun.len() > MOST_OF_ERROR {
                    let begun = mem::take(begun);
                    self.begin(first.unwrap_or_default());
                    self.push(&begun);
                }
            }
            Phase::Body(body) if body.len() + bytes.len() > MOST_BYTES => self.fail(Failure::TooLong),
            Phase::Body(body) => body.extend_from_slice(bytes),
            Phase::Events(_) => self.split(Some(bytes)),
        }
    }

    /// Takes the end of the bytes.
    pub fn end(&mut self) {
        if self.draft.is_over() {
            return;
        }
        match &mut self.phase {
            Phase::Unknown(_) => {}
            Phase::Body(body) => {
                let body = mem::take(body);
                match serde_json::from_slice(body.strip_prefix(MARK).unwrap_or(&body)) {
                    Ok(body) => self.body(body),
                    Err(error) => self.fail(Failure::Garbled(error.to_string())),
                }
            }
            Phase::Events(_) => self.split(None),
        }
        if !self.is_whole() && self.draft.failure.is_none() {
            let is_other = !self.stream && self.size == 0;
            let media_type = mem::take(&mut self.media_type);
            self.fail(if is_other { Failure::NotJson(media_type) } else { Failure::Cut });
        }
    }

    /// Takes an answer that came in one body.
    pub fn body(&mut self, body: Value) {
        let draft = &mut self.draft;
        if is_foreign(self.form.wire, &body) {
            return self.fail(Failure::Foreign);
        }
        match self.form.wire {
            Wire::OpenAi => match loose::from_value(&body) {
                Ok(body) => completions::body(draft, self.form.dialect, body),
                Err(error) => draft.failure = Some(Failure::Garbled(error.to_string())),
            },
            Wire::Responses => responses::body(draft, body),
            Wire::Anthropic => anthropic::body(draft, body),
            Wire::Gemini => gemini::body(draft, body),
            Wire::Ollama => ollama::event(draft, body),
            Wire::Bedrock => bedrock::body(draft, body),
        }
        draft.ended = true;
        // A body has no pieces.
        draft.deltas.clear();
    }

    /// Determines the kind of the bytes by the first one that is neither white space nor a byte order mark.
    fn begin(&mut self, first: u8) {
        self.phase = match first {
            b'{' if self.form.wire == Wire::Ollama && self.stream => {
                Phase::Events(Splitter::JsonLines(JsonLines::default()))
            }
            b'{' | b'[' => Phase::Body(Vec::new()),
            b'<' => {
                let media_type = mem::take(&mut self.media_type);
                return self.fail(Failure::NotJson(media_type));
            }
            _ => Phase::Events(Splitter::events()),
        };
    }

    /// Splits bytes, or the end of the bytes.
    fn split(&mut self, bytes: Option<&[u8]>) {
        let Self { form, phase, size, head, draft, .. } = self;
        let Phase::Events(splitter) = phase else { return };
        let mut each = |name: Option<&str>, data: &str| event(form, head, draft, size, name, data);
        let done = match bytes {
            Some(bytes) => splitter.push(bytes, &mut each),
            None => splitter.end(&mut each),
        };
        match done {
            Ok(()) => {}
            // The bytes after an answer are not needed.
            Err(_) if draft.is_over() => {}
            Err(Unsplittable::TooLong) => self.fail(Failure::TooLong),
            Err(Unsplittable::NoText) => self.fail(Failure::Garbled("it is not UTF-8".into())),
            Err(Unsplittable::Garbled(why)) => self.fail(Failure::Garbled(why.into())),
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.draft = Draft { failure: Some(failure), ..Draft::default() };
        self.phase = Phase::Unknown(Vec::new());
    }

    /// Returns the pieces of text that have arrived since the last call.
    pub fn deltas(&mut self) -> impl Iterator<Item = Delta> + use<> {
        let mut deltas = mem::take(&mut self.draft.deltas);
        for delta in &mut deltas {
            if let Delta::Call { name } = delta {
                *name = self.blank.mapping.meant(name).into();
            }
        }
        deltas.into_iter()
    }

    /// Returns the reason why there will be no answer.
    pub fn failure(&self) -> Option<&Failure> {
        self.draft.failure.as_ref()
    }

    /// Returns true if nothing more is needed: the server has said that nothing follows, or the answer has failed.
    pub fn has_ended(&self) -> bool {
        self.draft.is_over()
    }

    /// Returns true if the answer is whole: the server has given a finish reason, or has said that nothing follows.
    /// More may follow a finish reason.
    pub fn is_whole(&self) -> bool {
        self.draft.failure.is_none() && (self.draft.ended || self.draft.stop.is_some())
    }

    /// Returns true if the answer arrives in pieces, as far as its bytes show.
    pub fn is_streamed(&self) -> bool {
        match self.phase {
            Phase::Unknown(_) => self.stream,
            Phase::Body(_) => false,
            Phase::Events(_) => true,
        }
    }

    /// Returns the answer.
    ///
    /// # Errors
    ///
    /// The answer failed, or is not whole.
    pub fn response(mut self) -> Result<ModelResponse, Failure> {
        if let Some(failure) = self.draft.failure.take() {
            return Err(failure);
        }
        if !self.is_whole() {
            return Err(Failure::Cut);
        }
        let Draft { mut blocks, inputs, reasoning, grounding, fetched, refusal, stop, usage, .. } =
            mem::take(&mut self.draft);
        for (key, input) in inputs {
            if let Some(Block::Opaque(Value::Object(map))) = blocks.get_mut(&key) {
                map.insert("input".into(), serde_json::from_str(&input).unwrap_or(Value::String(input)));
            }
        }
        let answer = Answer {
            blocks: blocks.into_values().collect(),
            uses: server_tools::searched(&grounding)
                .into_iter()
                .chain(server_tools::fetched(&fetched))
                .collect(),
            reasoning: (!reasoning.is_empty()).then_some(reasoning),
            stop,
            usage,
            refusal,
            ..self.blank
        };
        answer.response(&self.form)
    }
}

/// Returns the first byte that is neither white space nor a byte order mark. `None`: it is not there yet.
fn first_byte(begun: &[u8]) -> Option<u8> {
    let is_mark = !begun.is_empty() && begun.len() < MARK.len() && MARK.starts_with(begun);
    let text = begun.strip_prefix(MARK).unwrap_or(begun);
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace()).filter(|_| !is_mark)
}

/// Takes an event of a stream: its name and its data.
fn event(form: &Form, head: &mut Head, draft: &mut Draft, size: &mut usize, name: Option<&str>, data: &str) {
    let data = data.trim();
    if data.is_empty() || draft.is_over() {
        return;
    }
    *size = size.saturating_add(data.len());
    if *size > MOST_BYTES || draft.blocks.len() > MOST_BLOCKS {
        *draft = Draft { failure: Some(Failure::TooLong), ..Draft::default() };
    } else if data == "[DONE]" {
        draft.ended = true;
    } else if let Err(error) = read(form, head, draft, name, data) {
        draft.failure = Some(Failure::Garbled(error.to_string()));
    }
}

/// Reads an event. Nothing is read of one that is no JSON.
fn read(
    form: &Form,
    head: &mut Head,
    draft: &mut Draft,
    name: Option<&str>,
    data: &str,
) -> serde_json::Result<()> {
    match form.wire {
        Wire::OpenAi => {
            let event = match head.removed(data).map(loose::from_text) {
                Some(Ok(event)) => event,
                Some(Err(_)) | None => loose::from_text(data)?,
            };
            completions::event(draft, form.dialect, event);
            head.learn(data);
        }
        Wire::Responses => responses::event(draft, name, serde_json::from_str(data)?),
        Wire::Anthropic => anthropic::event(draft, name, serde_json::from_str(data)?),
        Wire::Gemini => gemini::event(draft, serde_json::from_str(data)?),
        Wire::Ollama => ollama::event(draft, serde_json::from_str(data)?),
        Wire::Bedrock => bedrock::event(draft, name.unwrap_or_default(), serde_json::from_str(data)?),
    }
    Ok(())
}

impl Draft {
    /// Returns true if nothing more is read.
    fn is_over(&self) -> bool {
        self.ended || self.failure.is_some()
    }

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

    /// Returns the call of that number, if it is one.
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

    /// Adds a whole block for a number of the server, beside a block that already has this number.
    fn add(&mut self, number: u64, block: Block) {
        let key = self.begin(number);
        self.blocks.insert(key, block);
    }

    /// Returns the block that a number of the server now refers to.
    fn numbered(&self, number: u64) -> u64 {
        self.numbered.get(&number).copied().unwrap_or(number)
    }

    /// Tells the name of a call once it is known, and the arguments that were not told yet.
    fn tell_call(&mut self, key: u64) {
        let Some(Block::Call(Call { name, arguments, .. })) = self.blocks.get(&key) else { return };
        if name.is_empty() {
            return;
        }
        let number = u32::try_from(self.announced.len()).unwrap_or(u32::MAX);
        let (call, told) = self.announced.entry(key).or_insert_with(|| {
            self.deltas.push(Delta::Call { name: name.clone() });
            (number, 0)
        });
        // Arguments that came again in another form are not told twice.
        if let Some(text) = arguments.get(*told..).filter(|text| !text.is_empty()) {
            self.deltas.push(Delta::Arguments { call: *call, text: text.to_owned() });
            *told = arguments.len();
        }
    }

    /// Returns the number after the last one.
    fn next(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(last, _)| last.saturating_add(1))
    }

    /// Takes an error that the server reports in place of an event.
    fn fail(&mut self, body: Value) {
        self.failure.get_or_insert(Failure::Reported(body));
    }
}

/// Returns true if a body has nothing that an answer or an error of the interface has.
fn is_foreign(wire: Wire, body: &Value) -> bool {
    let known: &[&str] = match wire {
        Wire::OpenAi | Wire::Responses | Wire::Anthropic => {
            &["id", "object", "model", "usage", "type", "choices", "content", "output", "error"]
        }
        Wire::Gemini => &["candidates", "promptFeedback", "usageMetadata", "modelVersion", "error"],
        Wire::Ollama => &["message", "done", "error"],
        Wire::Bedrock => &["output", "stopReason", "message"],
    };
    let Value::Object(members) = body else { return true };
    !known.iter().any(|known| members.contains_key(*known))
}

/// Returns the value at a pointer without escapes. [`Value::pointer`] looks for escapes and allocates for each of its
/// keys, which an event has dozens of.
fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, key| match value {
        Value::Object(members) => members.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the text at a pointer; empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count(value: &Value, pointer: &str) -> Option<u64> {
    at(value, pointer).and_then(Value::as_u64)
}

/// Returns a count, unless it is zero. Providers send a zero for counts that they do not make.
fn some_count(value: &Value, pointer: &str) -> Option<u64> {
    count(value, pointer).filter(|count| *count > 0)
}
