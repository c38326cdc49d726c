//! Bedrock Converse.

use super::{Block, Call, Draft, at, count, some_count, text};
use crate::response::arguments_text;
use llm_do_core::model::{Delta, Usage};
use serde_json::{Value, json};

pub(super) fn event(draft: &mut Draft, name: &str, mut event: Value) {
    let number = count(&event, "/contentBlockIndex").unwrap_or_else(|| draft.next().saturating_sub(1));
    match name {
        "contentBlockStart" => {
            if let Some(call) = at(&event, "/start/toolUse") {
                let key = draft.begin(number);
                add_call(draft, key, call);
            }
        }
        "contentBlockDelta" => {
            let key = draft.numbered(number);
            if let Some(delta) = event.get_mut("delta").map(Value::take) {
                add(draft, key, &delta);
            }
        }
        "messageStop" => finish(draft, text(&event, "/stopReason")),
        "metadata" => {
            draft.usage = usage(&event);
            // This event follows the stop reason and is the last.
            draft.ended = draft.stop.is_some();
        }
        "messageStart" | "contentBlockStop" => {}
        exception if exception.ends_with("Exception") => draft.fail(reported(exception, &event)),
        _ => {}
    }
}

pub(super) fn body(draft: &mut Draft, body: Value) {
    let Some(blocks) = at(&body, "/output/message/content").and_then(Value::as_array) else {
        return draft.fail(body);
    };
    for (key, block) in (0..).zip(blocks) {
        match at(block, "/toolUse") {
            Some(call) => add_call(draft, key, call),
            None => add(draft, key, block),
        }
    }
    finish(draft, text(&body, "/stopReason"));
    draft.usage = usage(&body);
}

/// Adds a call, which in a stream has no input yet.
fn add_call(draft: &mut Draft, key: u64, call: &Value) {
    let call = Call {
        id: text(call, "/toolUseId").to_owned(),
        name: text(call, "/name").to_owned(),
        arguments: arguments_text(call.get("input")),
        signatures: Vec::new(),
    };
    draft.blocks.insert(key, Block::Call(call));
    draft.tell_call(key);
}

/// Adds a piece of a block, or a block. The reasoning of a whole block has one level more than that of a piece.
fn add(draft: &mut Draft, key: u64, piece: &Value) {
    draft.say(key, text(piece, "/text"));
    if let Some(Block::Call(call)) = draft.blocks.get_mut(&key) {
        call.arguments.push_str(text(piece, "/toolUse/input"));
        draft.tell_call(key);
    }
    let Some(reasoning) = at(piece, "/reasoningContent") else { return };
    let redacted = text(reasoning, "/redactedContent");
    if !redacted.is_empty() {
        draft.add(key, Block::Signature(redacted.to_owned()));
        return;
    }
    let of_block = at(reasoning, "/reasoningText");
    let reasoning = of_block.unwrap_or(reasoning);
    let empty = || Block::Thinking { text: String::new(), signature: String::new() };
    let more = text(reasoning, "/text");
    if let Block::Thinking { text: thought, signature } = draft.blocks.entry(key).or_insert_with(empty) {
        thought.push_str(more);
        signature.push_str(text(reasoning, "/signature"));
    }
    if !more.is_empty() {
        draft.deltas.push(Delta::Reasoning { text: more.to_owned() });
    }
}

fn finish(draft: &mut Draft, reason: &str) {
    if !reason.is_empty() {
        draft.stop = Some(reason.to_owned());
    }
}

/// Converts an exception to an error with the words of other interfaces, which determine whether a retry helps.
fn reported(exception: &str, event: &Value) -> Value {
    let kind = match exception {
        "throttlingException" => "rate_limit_error",
        "validationException" => "invalid_request_error",
        "accessDeniedException" => "permission_error",
        _ => "server_error",
    };
    json!({"type": kind, "message": text(event, "/message"), "exception": exception})
}

/// Reads the usage. The count of the input includes neither the tokens read from the cache nor those written to it.
fn usage(event: &Value) -> Usage {
    let cached = some_count(event, "/usage/cacheReadInputTokens");
    let written = some_count(event, "/usage/cacheWriteInputTokens");
    Usage {
        input_tokens: count(event, "/usage/inputTokens")
            .map(|tokens| tokens.saturating_add(cached.unwrap_or(0)).saturating_add(written.unwrap_or(0))),
        cached_tokens: cached,
        cache_write_tokens: written,
        output_tokens: count(event, "/usage/outputTokens"),
        ..Usage::default()
    }
}
