//! OpenAI chat completions, and interfaces that are compatible with them.

use super::{Block, Draft, json::Json};
use genai::adapter::AdapterKind;
use llm_do_core::model::Usage;
use serde_json::Value;
use std::borrow::Cow;

/// The text is the first block; the calls follow by their number.
const TEXT: u64 = 0;

/// Providers count a handful of calls. A number beyond this is nonsense, and its call is added at the end.
const MOST_CALLS: u64 = 1 << 20;

/// Whether an answer begins with this event: the first piece of a message has its role. Some servers repeat the role.
pub(super) fn is_first(event: &Json<'_>) -> Option<bool> {
    let role = event.items("choices").first()?.below("delta", "role");
    Some(role.and_then(Json::as_text).is_some_and(|role| !role.is_empty()))
}

/// The members of an event that are read.
pub(super) const MEMBERS: &[&str] = &["choices", "error", "usage", "x_groq"];

pub(super) fn event(draft: &mut Draft, kind: AdapterKind, event: &Json<'_>) {
    if let Some(error) = event.present("error") {
        return draft.fail(error.into());
    }
    let usage = event.get("usage").filter(|usage| matches!(usage, Json::Object(_)));
    if let Some(usage) = usage.or_else(|| event.below("x_groq", "usage")) {
        draft.usage = usage_of(usage, kind);
    }
    let Some(choice) = event.items("choices").first() else { return };
    if let Some(delta) = choice.get("delta") {
        message(draft, delta);
        for call in delta.items("tool_calls") {
            add_to_call(draft, call);
        }
    }
    finish(draft, choice);
}

pub(super) fn body(draft: &mut Draft, kind: AdapterKind, body: &Json<'_>) {
    if let Some(error) = body.present("error") {
        return draft.fail(error.into());
    }
    if let Some(usage) = body.get("usage") {
        draft.usage = usage_of(usage, kind);
    }
    let Some(choice) = body.items("choices").first() else {
        return draft.fail("the answer has no choices".into());
    };
    if let Some(said) = choice.get("message") {
        message(draft, said);
        // Reasoning of other providers' models behind OpenRouter, which goes back as it came.
        for detail in said.items("reasoning_details") {
            draft.blocks.insert(draft.next(), Block::Opaque(detail.into()));
        }
        for call in said.items("tool_calls") {
            let key = draft.next();
            if let Some(new) = draft.call(key) {
                new.id = call.text("id").to_owned();
                new.name = name(call).to_owned();
                new.arguments = arguments(call).into_owned();
            }
        }
    }
    finish(draft, choice);
}

fn message(draft: &mut Draft, message: &Json<'_>) {
    let reasoning = [message.text("reasoning_content"), message.text("reasoning")];
    draft.think(reasoning.into_iter().find(|text| !text.is_empty()).unwrap_or_default());
    draft.refusal.push_str(message.text("refusal"));
    match message.get("content") {
        Some(Json::Text(said)) => draft.say(TEXT, said),
        // Mistral's reasoning models.
        Some(Json::List(pieces)) => {
            for piece in pieces {
                for thought in piece.items("thinking") {
                    draft.think(thought.text("text"));
                }
                draft.say(TEXT, piece.text("text"));
            }
        }
        _ => {}
    }
}

fn add_to_call(draft: &mut Draft, piece: &Json<'_>) {
    let id = piece.text("id");
    let name = name(piece);
    let key = match piece.count("index") {
        Some(index) if index < MOST_CALLS => index + 1,
        // Without a usable number, a piece with a name begins a call and one without belongs to the last.
        _ if !name.is_empty() => draft.next().max(1),
        _ => draft.next().saturating_sub(1).max(1),
    };
    let arguments = arguments(piece);
    let Some(call) = draft.call(key) else { return };
    let is_new = call.name.is_empty();
    if !id.is_empty() {
        id.clone_into(&mut call.id);
    }
    if !name.is_empty() {
        name.clone_into(&mut call.name);
    }
    call.arguments.push_str(&arguments);
    if is_new {
        draft.announce(name);
    }
}

/// The name of the called function; empty if this piece has none.
fn name<'a>(call: &'a Json<'_>) -> &'a str {
    call.below("function", "name").and_then(Json::as_text).unwrap_or_default()
}

/// Arguments as text. Providers send them as text or as a value.
fn arguments<'a>(call: &'a Json<'_>) -> Cow<'a, str> {
    match call.below("function", "arguments") {
        None | Some(Json::Null) => "".into(),
        Some(Json::Text(text)) => text.as_ref().into(),
        Some(value) => Value::from(value).to_string().into(),
    }
}

/// Some servers send an empty reason with every event.
fn finish(draft: &mut Draft, choice: &Json<'_>) {
    let reason = choice.text("finish_reason");
    if !reason.is_empty() {
        draft.stop = Some(reason.to_owned());
    }
}

fn usage_of(usage: &Json<'_>, kind: AdapterKind) -> Usage {
    let output = usage.count("completion_tokens");
    let apart = match kind {
        // xAI counts the tokens of reasoning apart.
        AdapterKind::Xai => count_below(usage, "completion_tokens_details", "reasoning_tokens").unwrap_or(0),
        _ => 0,
    };
    Usage {
        input_tokens: usage.count("prompt_tokens"),
        cached_tokens: some(count_below(usage, "prompt_tokens_details", "cached_tokens"))
            .or(some(usage.count("prompt_cache_hit_tokens"))),
        cache_write_tokens: some(count_below(usage, "prompt_tokens_details", "cache_creation_tokens")),
        output_tokens: output.map(|tokens| tokens.saturating_add(apart)),
        server_uses: None,
        cost_usd: None,
    }
}

fn count_below(usage: &Json<'_>, key: &str, inner: &str) -> Option<u64> {
    usage.below(key, inner).and_then(Json::as_count)
}

/// Providers send a zero for counts that they do not make.
fn some(count: Option<u64>) -> Option<u64> {
    count.filter(|count| *count > 0)
}
