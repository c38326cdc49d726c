//! OpenAI chat completions, and interfaces that are compatible with them.

use super::{Block, Draft, count, some_count, text};
use crate::response::arguments_text;
use genai::adapter::AdapterKind;
use llm_do_core::model::Usage;
use serde_json::Value;

/// The text is the first block; the calls follow by their number.
const TEXT: u64 = 0;

/// Providers count a handful of calls. A number beyond this is nonsense, and its call is added at the end.
const MOST_CALLS: u64 = 1 << 20;

pub(super) fn event(draft: &mut Draft, kind: AdapterKind, event: &Value) {
    if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
        return draft.fail(error.clone());
    }
    let groq = event.pointer("/x_groq/usage");
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()).or(groq) {
        draft.usage = usage_of(usage, kind);
    }
    let Some(choice) = event.pointer("/choices/0") else { return };
    if let Some(delta) = choice.get("delta") {
        message(draft, delta);
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            add_to_call(draft, call);
        }
    }
    finish(draft, choice);
}

pub(super) fn body(draft: &mut Draft, kind: AdapterKind, body: &Value) {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return draft.fail(error.clone());
    }
    if let Some(usage) = body.get("usage") {
        draft.usage = usage_of(usage, kind);
    }
    let Some(choice) = body.pointer("/choices/0") else {
        return draft.fail("the answer has no choices".into());
    };
    if let Some(said) = choice.get("message") {
        message(draft, said);
        // Reasoning of other providers' models behind OpenRouter, which goes back as it came.
        for detail in said.get("reasoning_details").and_then(Value::as_array).into_iter().flatten() {
            draft.blocks.insert(draft.next(), Block::Opaque(detail.clone()));
        }
        for call in said.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let key = draft.next();
            if let Some(new) = draft.call(key) {
                new.id = text(call, "/id").to_owned();
                new.name = text(call, "/function/name").to_owned();
                new.arguments = arguments_text(call.pointer("/function/arguments"));
            }
        }
    }
    finish(draft, choice);
}

fn message(draft: &mut Draft, message: &Value) {
    let reasoning = [text(message, "/reasoning_content"), text(message, "/reasoning")];
    draft.think(reasoning.into_iter().find(|text| !text.is_empty()).unwrap_or_default());
    draft.refusal.push_str(text(message, "/refusal"));
    match message.get("content") {
        Some(Value::String(said)) => draft.say(TEXT, said),
        // Mistral's reasoning models.
        Some(Value::Array(pieces)) => {
            for piece in pieces {
                for thought in piece.get("thinking").and_then(Value::as_array).into_iter().flatten() {
                    draft.think(text(thought, "/text"));
                }
                draft.say(TEXT, text(piece, "/text"));
            }
        }
        _ => {}
    }
}

fn add_to_call(draft: &mut Draft, piece: &Value) {
    let id = text(piece, "/id");
    let name = text(piece, "/function/name");
    let key = match count(piece, "/index") {
        Some(index) if index < MOST_CALLS => index + 1,
        // Without a usable number, a piece with a name begins a call and one without belongs to the last.
        _ if !name.is_empty() => draft.next().max(1),
        _ => draft.next().saturating_sub(1).max(1),
    };
    let arguments = arguments_text(piece.pointer("/function/arguments"));
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

/// Some servers send an empty reason with every event.
fn finish(draft: &mut Draft, choice: &Value) {
    let reason = text(choice, "/finish_reason");
    if !reason.is_empty() {
        draft.stop = Some(reason.to_owned());
    }
}

fn usage_of(usage: &Value, kind: AdapterKind) -> Usage {
    let output = count(usage, "/completion_tokens");
    let apart = match kind {
        // xAI counts the tokens of reasoning apart.
        AdapterKind::Xai => count(usage, "/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        _ => 0,
    };
    Usage {
        input_tokens: count(usage, "/prompt_tokens"),
        cached_tokens: some_count(usage, "/prompt_tokens_details/cached_tokens")
            .or(some_count(usage, "/prompt_cache_hit_tokens")),
        cache_write_tokens: some_count(usage, "/prompt_tokens_details/cache_creation_tokens"),
        output_tokens: output.map(|tokens| tokens.saturating_add(apart)),
        server_uses: None,
        cost_usd: None,
    }
}
