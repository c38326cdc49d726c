//! The server's script: its replies, and their faults.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use tokio::sync::watch;

use crate::seen::Seen;

/// The model's stop reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model was done: `stop`, `end_turn`.
    Stop,
    /// The model calls tools: `tool_calls`, `tool_use`.
    ToolCalls,
    /// The model reached the token limit: `length`, `max_tokens`.
    Length,
    /// The provider's filter stopped it: `content_filter`, `refusal`.
    Filtered,
}

/// A piece of a model's answer.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Thinking(String),
    Refusal(String),
    /// A call. `arguments` is raw text, so that it may be no JSON at all.
    Call {
        id: Option<String>,
        name: String,
        arguments: String,
    },
}

/// Token counts as OpenAI counts them: `input` includes `cached`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

/// A model's answer, before it is written in a wire format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Part>,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Option<Usage>,
}

impl Answer {
    /// Returns the answer's length in bytes, without the overhead of a wire format.
    pub(crate) fn len(&self) -> usize {
        let len = |part: &Part| match part {
            Part::Text(text) | Part::Thinking(text) | Part::Refusal(text) => text.len(),
            Part::Call { name, arguments, .. } => name.len() + arguments.len(),
        };
        self.parts.iter().map(len).sum()
    }

    /// Returns the finish of the script, or the one that fits the parts.
    pub(crate) fn finish(&self) -> Finish {
        let calls = self.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        self.finish.unwrap_or(if calls { Finish::ToolCalls } else { Finish::Stop })
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Answer(Answer),
    /// An HTTP status; the body is the wire's own error unless one is given.
    Status {
        code: u16,
        body: Option<String>,
    },
    /// The server sends nothing, and keeps the connection open.
    Nothing,
    /// The server sends nothing, and closes the connection.
    HangUp,
}

/// A fault in a body after some of its chunks.
#[derive(Clone, Debug)]
pub(crate) enum Break {
    /// The connection closes in the middle of the transfer.
    Close,
    /// The transfer ends in good order, but the answer in it is incomplete.
    End,
    /// The server sends nothing more; the connection stays open.
    Hang,
    /// The bytes replace the rest of the body, and the transfer ends.
    Bytes(Vec<u8>),
    /// The wire's own error event has this type, and the transfer ends.
    Error(String),
}

/// Holds replies back until the test opens it.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases every reply held by this gate, and all later ones.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender is here, so that waiting for it cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

type Edit = Arc<dyn Fn(&mut Vec<Vec<u8>>) + Send + Sync>;

/// An answer of the server, with its faults.
///
/// A chunk is one SSE event of a streamed answer; an answer that is not streamed has two, the
/// halves of its JSON.
#[derive(Clone)]
pub struct Reply {
    pub(crate) content: Content,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) delay: Duration,
    pub(crate) gate: Option<Gate>,
    pub(crate) gap: Duration,
    pub(crate) breaks: Option<(usize, Break)>,
    pub(crate) edits: Vec<Edit>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("content", &self.content)
            .field("breaks", &self.breaks)
            .finish_non_exhaustive()
    }
}

impl Reply {
    fn new(content: Content) -> Self {
        Self {
            content,
            headers: Vec::new(),
            content_type: None,
            delay: Duration::ZERO,
            gate: None,
            gap: Duration::ZERO,
            breaks: None,
            edits: Vec::new(),
        }
    }

    /// Makes a plain answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::empty().and_text(text)
    }

    /// Makes an answer with one tool call.
    pub fn tool(name: &str, arguments: Value) -> Self {
        Self::empty().and_tool(name, arguments)
    }

    /// Makes an answer with several tool calls.
    pub fn tools<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        calls.into_iter().fold(Self::empty(), |reply, (name, arguments)| reply.and_tool(name, arguments))
    }

    /// Makes an answer with one tool call whose arguments are this text, JSON or not. An Anthropic answer that is not
    /// streamed can only hold JSON: there, other text becomes a JSON string.
    pub fn raw_tool(name: &str, arguments: &str) -> Self {
        Self::empty().and_raw_tool(name, arguments)
    }

    /// Makes a refusal: OpenAI's `refusal` field; Anthropic's text with stop reason `refusal`.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::empty().and(Part::Refusal(text.into()))
    }

    /// Makes an answer without any content.
    pub fn empty() -> Self {
        Self::new(Content::Answer(Answer::default()))
    }

    /// Makes an HTTP status with the wire's usual error body.
    pub fn status(code: u16) -> Self {
        Self::new(Content::Status { code, body: None })
    }

    /// Makes status 429, with `Retry-After` in whole seconds where given.
    pub fn rate_limited(retry_after: Option<Duration>) -> Self {
        let reply = Self::status(429);
        match retry_after {
            Some(wait) => reply.header("retry-after", &wait.as_secs().to_string()),
            None => reply,
        }
    }

    /// Makes no answer at all: the server reads the request and sends nothing, not even headers.
    pub fn hang() -> Self {
        Self::new(Content::Nothing)
    }

    /// Makes no answer at all: the server reads the request and closes the connection.
    pub fn hang_up() -> Self {
        Self::new(Content::HangUp)
    }

    fn answer(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        match &mut self.content {
            Content::Answer(answer) => change(answer),
            _ => panic!("only a model's answer has content: {self:?}"),
        }
        self
    }

    fn and(self, part: Part) -> Self {
        self.answer(|answer| answer.parts.push(part))
    }

    /// Adds text after the content so far.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and(Part::Text(text.into()))
    }

    /// Adds thinking: Anthropic's signed `thinking` block, `reasoning_content` on OpenAI's wire (as
    /// servers compatible with it send).
    pub fn and_thinking(self, text: impl Into<String>) -> Self {
        self.and(Part::Thinking(text.into()))
    }

    /// Adds a tool call.
    pub fn and_tool(self, name: &str, arguments: Value) -> Self {
        self.and_raw_tool(name, &arguments.to_string())
    }

    /// Adds a tool call whose arguments are this text, JSON or not.
    pub fn and_raw_tool(self, name: &str, arguments: &str) -> Self {
        self.and(Part::Call { id: None, name: name.into(), arguments: arguments.into() })
    }

    /// Gives the last added tool call this id instead of a new one.
    pub fn call_id(self, call_id: &str) -> Self {
        self.answer(|answer| match answer.parts.last_mut() {
            Some(Part::Call { id, .. }) => *id = Some(call_id.into()),
            _ => panic!("call_id() follows a tool call"),
        })
    }

    /// Reports this stop reason, instead of the one that fits the content.
    pub fn finish(self, finish: Finish) -> Self {
        self.answer(|answer| answer.finish = Some(finish))
    }

    /// Reports these token counts instead of an estimate (a token for every four bytes).
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.usage_with_cache(input, output, 0)
    }

    /// Reports these token counts. Of the input, `cached` tokens were read from the provider's cache.
    pub fn usage_with_cache(self, input: u64, output: u64, cached: u64) -> Self {
        self.answer(|answer| answer.usage = Some(Usage { input, output, cached }))
    }

    /// Replaces the body of a [`Reply::status`].
    pub fn body(mut self, text: impl Into<String>) -> Self {
        match &mut self.content {
            Content::Status { body, .. } => *body = Some(text.into()),
            _ => panic!("only a status has a body of its own: {self:?}"),
        }
        self
    }

    /// Adds a response header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends this content type instead of the right one.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Waits before the response's headers.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before the response's headers until the gate is open.
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Waits before each chunk but the first.
    pub fn gap(mut self, gap: Duration) -> Self {
        self.gap = gap;
        self
    }

    fn break_after(mut self, chunks: usize, what: Break) -> Self {
        self.breaks = Some((chunks, what));
        self
    }

    /// Closes the connection after this many chunks, in the middle of the transfer.
    pub fn cut_after(self, chunks: usize) -> Self {
        self.break_after(chunks, Break::Close)
    }

    /// Ends the transfer in good order after this many chunks, though the answer is not complete.
    pub fn end_after(self, chunks: usize) -> Self {
        self.break_after(chunks, Break::End)
    }

    /// Sends nothing more after this many chunks, and keeps the connection open.
    pub fn hang_after(self, chunks: usize) -> Self {
        self.break_after(chunks, Break::Hang)
    }

    /// Sends an SSE event that is no JSON after this many chunks, and ends.
    pub fn malformed_after(self, chunks: usize) -> Self {
        self.bytes_after(chunks, b"data: {\"choices\":[{\"delta\":\n\n")
    }

    /// Sends these bytes after this many chunks, and ends.
    pub fn bytes_after(self, chunks: usize, bytes: &[u8]) -> Self {
        self.break_after(chunks, Break::Bytes(bytes.to_vec()))
    }

    /// Sends the wire's error event (`overloaded_error`, …) after this many chunks, and ends.
    pub fn error_after(self, chunks: usize, kind: &str) -> Self {
        self.break_after(chunks, Break::Error(kind.into()))
    }

    /// Changes the chunks before they are sent, for any fault without a method of its own.
    pub fn edit_chunks(mut self, edit: impl Fn(&mut Vec<Vec<u8>>) + Send + Sync + 'static) -> Self {
        self.edits.push(Arc::new(edit));
        self
    }

    /// Sends chunk `index` twice.
    pub fn duplicate_chunk(self, index: usize) -> Self {
        self.edit_chunks(move |chunks| {
            if let Some(chunk) = chunks.get(index).cloned() {
                chunks.insert(index, chunk);
            }
        })
    }

    /// Exchanges two chunks.
    pub fn swap_chunks(self, one: usize, other: usize) -> Self {
        self.edit_chunks(move |chunks| {
            if one.max(other) < chunks.len() {
                chunks.swap(one, other);
            }
        })
    }

    /// Sends the same bytes in pieces of `size` whatever the events' borders, so that characters and events are torn.
    pub fn torn(self, size: usize) -> Self {
        self.edit_chunks(move |chunks| {
            *chunks = chunks.concat().chunks(size.max(1)).map(<[u8]>::to_vec).collect();
        })
    }
}

type Rule = Box<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

/// The server's answers to requests: the first rule that has a reply, else the next reply of the queue.
#[derive(Default)]
pub struct Script {
    rules: Vec<Rule>,
    queue: Mutex<VecDeque<Reply>>,
    pub(crate) unchecked: bool,
    pub(crate) rewrites: bool,
    pub(crate) unrecorded: bool,
}

impl Script {
    /// Makes a script without replies: it refuses every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a queue of replies, given to requests in the order in which these arrive.
    pub fn turns(replies: impl IntoIterator<Item = Reply>) -> Self {
        replies.into_iter().fold(Self::new(), Self::turn)
    }

    /// Makes a script whose closure decides for each request.
    pub fn route(route: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::new().rule(move |seen| Some(route(seen)))
    }

    /// Adds a reply to the queue.
    pub fn turn(mut self, reply: Reply) -> Self {
        self.queue.get_mut().unwrap_or_else(PoisonError::into_inner).push_back(reply);
        self
    }

    /// Adds a queue for requests whose system text contains `needle`. After its last reply, later rules and the common
    /// queue answer.
    pub fn when(self, needle: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let needle = needle.to_owned();
        let queue = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
        self.rule(move |seen| seen.system().contains(&needle).then(|| next(&queue)).flatten())
    }

    /// Adds a rule; `None` passes the request on to the next one.
    pub fn rule(mut self, rule: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// Answers every request, valid or not.
    pub fn unchecked(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// Accepts that a conversation's later request does not begin with its earlier one (a client
    /// that compacts its history).
    pub fn allow_rewrites(mut self) -> Self {
        self.rewrites = true;
        self
    }

    /// Keeps no requests: memory stays flat however many come.
    pub fn unrecorded(mut self) -> Self {
        self.unrecorded = true;
        self
    }

    /// Returns the reply to a request, or `None` where the script has none left.
    pub(crate) fn reply(&self, seen: &Seen) -> Option<Reply> {
        self.rules.iter().find_map(|rule| rule(seen)).or_else(|| next(&self.queue))
    }

    /// Returns the number of unused replies of the common queue.
    pub(crate) fn left(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn next(queue: &Mutex<VecDeque<Reply>>) -> Option<Reply> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Splits a text into the pieces in which a model would stream it: at least two if it has two characters.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let size = (text.chars().count() / 4).clamp(1, 16);
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}
