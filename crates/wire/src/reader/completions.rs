//! OpenAI chat completions, and interfaces that are compatible with them.

use super::{
    Block, Call, Draft,
    loose::{First, Loose, Members, member, members},
};
use crate::form::Dialect;
use llm_do_core::model::Usage;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use serde_json::{Number, Value};
use std::borrow::Cow;

/// The text is the first block; the calls follow by their number.
const TEXT: u64 = 0;

/// Providers count a handful of calls. A number beyond this is nonsense, and its call is added at the end.
const MOST_CALLS: u64 = 1 << 20;

/// An event of a stream, or a whole answer.
#[derive(Debug, Default)]
pub(super) struct Event<'t> {
    choices: First<Choice<'t>>,
    error: Value,
    usage: Option<Counts>,
    x_groq: Groq,
}

/// The place in which Groq reports the usage of a stream.
#[derive(Debug, Default)]
struct Groq {
    usage: Option<Counts>,
}

#[derive(Debug, Default)]
struct Choice<'t> {
    /// A piece of the message, in an event.
    delta: Message<'t>,
    /// The message, in a whole answer.
    message: Whole<'t>,
    /// The finish reason. Empty as long as the answer is not finished. Some servers send an empty one with every event.
    finish_reason: Cow<'t, str>,
    /// The error with which OpenRouter reports that the provider has failed in the middle of an answer.
    error: Value,
}

#[derive(Debug, Default)]
struct Message<'t> {
    role: Cow<'t, str>,
    content: Content<'t>,
    reasoning_content: Cow<'t, str>,
    reasoning: Cow<'t, str>,
    refusal: Cow<'t, str>,
    tool_calls: Vec<CallPiece<'t>>,
}

#[derive(Debug, Default)]
struct Whole<'t> {
    message: Message<'t>,
    /// Reasoning of other providers' models behind OpenRouter, which goes back unchanged.
    reasoning_details: Vec<Value>,
}

#[derive(Debug, Default)]
enum Content<'t> {
    #[default]
    None,
    Text(Cow<'t, str>),
    /// The form that Mistral's reasoning models use.
    Pieces(Vec<Piece<'t>>),
}

#[derive(Debug, Default)]
struct Piece<'t> {
    text: Cow<'t, str>,
    thinking: Vec<Piece<'t>>,
}

/// A call, or a piece of it.
#[derive(Debug, Default)]
struct CallPiece<'t> {
    index: Option<u64>,
    id: Cow<'t, str>,
    function: Function<'t>,
}

#[derive(Debug, Default)]
struct Function<'t> {
    /// The name. Empty if this piece of the call has none.
    name: Cow<'t, str>,
    arguments: Arguments<'t>,
}

/// Arguments as text. Providers send them as text or as a value.
#[derive(Debug, Default)]
struct Arguments<'t>(Cow<'t, str>);

#[derive(Debug, Default)]
struct Counts {
    prompt_tokens: Option<u64>,
    prompt_tokens_details: Details,
    prompt_cache_hit_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    completion_tokens_details: Details,
}

#[derive(Debug, Default)]
struct Details {
    cached_tokens: Option<u64>,
    cache_creation_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

members!(Event<'t>: choices, error, usage, x_groq);
members!(Groq: usage);
members!(Choice<'t>: delta, message, finish_reason, error);
members!(Message<'t>: role, content, reasoning_content, reasoning, refusal, tool_calls);
members!(Piece<'t>: text, thinking);
members!(CallPiece<'t>: index, id, function);
members!(Function<'t>: name, arguments);
members!(Counts: prompt_tokens, prompt_tokens_details, prompt_cache_hit_tokens, completion_tokens, completion_tokens_details);
members!(Details: cached_tokens, cache_creation_tokens, reasoning_tokens);

pub(super) fn event(draft: &mut Draft, dialect: Dialect, event: Event<'_>) {
    match event.choice(draft, dialect) {
        Ok(Some(Choice { delta, finish_reason, .. })) => {
            let calls = message(draft, delta);
            for call in calls {
                add_to_call(draft, call);
            }
            finish(draft, finish_reason);
        }
        Ok(None) => {}
        Err(error) => draft.fail(error),
    }
}

pub(super) fn body(draft: &mut Draft, dialect: Dialect, body: Event<'_>) {
    match body.choice(draft, dialect) {
        Ok(Some(Choice { message: Whole { message: said, reasoning_details }, finish_reason, .. })) => {
            let calls = message(draft, said);
            for detail in reasoning_details {
                draft.blocks.insert(draft.next(), Block::Opaque(detail));
            }
            for CallPiece { id, function: Function { name, arguments }, .. } in calls {
                let key = draft.next();
                if let Some(new) = draft.call(key) {
                    new.id = id.into_owned();
                    new.name = name.into_owned();
                    new.arguments = arguments.0.into_owned();
                }
            }
            finish(draft, finish_reason);
        }
        Ok(None) => draft.fail("the answer has no choices".into()),
        Err(error) => draft.fail(error),
    }
}

impl<'t> Event<'t> {
    /// Returns true if nothing that is needed was read.
    pub(super) fn is_empty(&self) -> bool {
        let Self { choices, error, usage, x_groq } = self;
        choices.0.is_none() && error.is_null() && usage.is_none() && x_groq.usage.is_none()
    }

    /// Takes the usage, and returns the choice if there is one.
    ///
    /// # Errors
    ///
    /// The error that the server reports.
    fn choice(self, draft: &mut Draft, dialect: Dialect) -> Result<Option<Choice<'t>>, Value> {
        if !self.error.is_null() {
            return Err(self.error);
        }
        if let Some(counts) = self.usage.or(self.x_groq.usage) {
            draft.usage = counts.usage(dialect);
        }
        match self.choices.0 {
            Some(Choice { error, .. }) if says_something(&error) => Err(error),
            choice => Ok(choice),
        }
    }
}

fn says_something(error: &Value) -> bool {
    match error {
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
}

/// Takes a message, or a piece of it, and returns its calls.
fn message<'t>(draft: &mut Draft, message: Message<'t>) -> Vec<CallPiece<'t>> {
    let reasoning = [message.reasoning_content, message.reasoning];
    draft.think(reasoning.iter().find(|text| !text.is_empty()).map_or("", |text| text));
    draft.refusal.push_str(&message.refusal);
    match message.content {
        Content::None => {}
        Content::Text(said) => draft.say(TEXT, &said),
        Content::Pieces(pieces) => {
            for piece in pieces {
                for thought in piece.thinking {
                    draft.think(&thought.text);
                }
                draft.say(TEXT, &piece.text);
            }
        }
    }
    message.tool_calls
}

fn add_to_call(draft: &mut Draft, piece: CallPiece<'_>) {
    let key = block_of(draft, &piece);
    let CallPiece { id, function: Function { name, arguments }, .. } = piece;
    let Some(call) = draft.call(key) else { return };
    // Some servers repeat a call that is whole.
    if is_whole(&call.arguments) && call.arguments == arguments.0 {
        return;
    }
    if !id.is_empty() && call.id.is_empty() {
        call.id = id.into_owned();
    }
    if !name.is_empty() {
        name.as_ref().clone_into(&mut call.name);
    }
    call.arguments.push_str(&arguments.0);
    draft.tell_call(key);
}

/// Returns the number of the block that a piece of a call belongs to. Gateways give all calls the same number, or none.
fn block_of(draft: &mut Draft, piece: &CallPiece<'_>) -> u64 {
    let CallPiece { index, id, function: Function { name, .. } } = piece;
    let new = |draft: &Draft| draft.next().max(1);
    let Some(index) = index.filter(|index| *index < MOST_CALLS) else {
        let is_this = |block: &Block| matches!(block, Block::Call(call) if !id.is_empty() && call.id == **id);
        let known = draft.blocks.iter().find(|(_, block)| is_this(block)).map(|(key, _)| *key);
        // A piece with a name begins a call, and one without belongs to the last.
        return known.unwrap_or_else(|| match name.is_empty() {
            true => draft.next().saturating_sub(1).max(1),
            false => new(draft),
        });
    };
    let key = draft.numbered.get(&index).copied();
    let key = match key.map(|key| (key, draft.blocks.get(&key))) {
        Some((key, Some(Block::Call(call)))) if !begins_another(call, piece) => return key,
        Some(_) => new(draft),
        None if draft.blocks.contains_key(&(index + 1)) => new(draft),
        None => index + 1,
    };
    draft.numbered.insert(index, key);
    key
}

/// Returns true if a piece with the number of a call begins another call.
fn begins_another(call: &Call, piece: &CallPiece<'_>) -> bool {
    let CallPiece { id, function: Function { name, arguments }, .. } = piece;
    let is_named = !name.is_empty();
    match (&*call.id, &**id) {
        (ours, theirs) if !ours.is_empty() && ours == theirs => false,
        // Some servers make a new id for each piece. A piece that continues arguments has no name.
        (ours, theirs) if !ours.is_empty() && !theirs.is_empty() => {
            is_named || arguments.0.is_empty() || is_whole(&call.arguments)
        }
        _ if !is_named || call.name.is_empty() => false,
        // A name that comes again, or grows, is the same call.
        _ if call.arguments.is_empty() => !name.starts_with(&call.name) && !call.name.starts_with(&**name),
        _ => is_whole(&call.arguments),
    }
}

/// Returns true if arguments are an object that has ended.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

fn finish(draft: &mut Draft, reason: Cow<'_, str>) {
    if !reason.is_empty() {
        draft.stop = Some(reason.into_owned());
    }
}

impl Counts {
    fn usage(self, dialect: Dialect) -> Usage {
        let apart = match dialect {
            // xAI counts the tokens of reasoning apart.
            Dialect::Xai => self.completion_tokens_details.reasoning_tokens.unwrap_or(0),
            _ => 0,
        };
        Usage {
            input_tokens: self.prompt_tokens,
            cached_tokens: some(self.prompt_tokens_details.cached_tokens)
                .or(some(self.prompt_cache_hit_tokens)),
            cache_write_tokens: some(self.prompt_tokens_details.cache_creation_tokens),
            output_tokens: self.completion_tokens.map(|tokens| tokens.saturating_add(apart)),
            server_uses: None,
            cost_usd: None,
        }
    }
}

/// Returns a count, unless it is zero. Providers send a zero for counts that they do not make.
fn some(count: Option<u64>) -> Option<u64> {
    count.filter(|count| *count > 0)
}

impl<'t> Members<'t> for Whole<'t> {
    fn take<A: MapAccess<'t>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        match name {
            "reasoning_details" => member(members, &mut self.reasoning_details),
            _ => self.message.take(name, members),
        }
    }
}

impl<'t> Loose<'t> for Content<'t> {
    fn text(&mut self, text: Cow<'t, str>) {
        *self = Self::Text(text);
    }

    fn list<A: SeqAccess<'t>>(&mut self, items: A) -> Result<(), A::Error> {
        let mut pieces = Vec::new();
        pieces.list(items)?;
        *self = Self::Pieces(pieces);
        Ok(())
    }
}

impl<'t> Loose<'t> for Arguments<'t> {
    fn text(&mut self, text: Cow<'t, str>) {
        self.0 = text;
    }

    fn number(&mut self, number: Number) {
        self.0 = number.to_string().into();
    }

    fn flag(&mut self, flag: bool) {
        self.0 = flag.to_string().into();
    }

    fn list<A: SeqAccess<'t>>(&mut self, items: A) -> Result<(), A::Error> {
        let mut value = Value::Null;
        value.list(items)?;
        self.0 = value.to_string().into();
        Ok(())
    }

    fn object<A: MapAccess<'t>>(&mut self, members: A) -> Result<(), A::Error> {
        let mut value = Value::Null;
        value.object(members)?;
        self.0 = value.to_string().into();
        Ok(())
    }
}
