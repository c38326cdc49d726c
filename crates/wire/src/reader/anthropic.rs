//! Anthropic messages.

use super::{Block, Call, Draft, count, some_count, text};
use crate::response::arguments_text;
use llm_do_core::model::{Delta, Usage};
use serde_json::Value;

fn kind<'a>(name: Option<&'a str>, event: &'a Value) -> &'a str {
    match text(event, "/type") {
        "" => name.unwrap_or_default(),
        kind => kind,
    }
}

pub(super) fn event(draft: &mut Draft, name: Option<&str>, mut event: Value) {
    let kind = kind(name, &event).to_owned();
    let number = count(&event, "/index").unwrap_or_else(|| draft.next().saturating_sub(1));
    let key = draft.numbered(number);
    match kind.as_str() {
        "message_start" => draft.usage = usage(event.pointer("/message/usage"), draft.usage),
        "content_block_start" => {
            if let Some(block) = event.get_mut("content_block").map(Value::take) {
                let key = draft.begin(number);
                start(draft, key, block);
            }
        }
        "content_block_delta" => {
            if let Some(delta) = event.get_mut("delta").map(Value::take) {
                add(draft, key, delta);
            }
        }
        "message_delta" => {
            draft.usage = usage(event.get("usage"), draft.usage);
            finish(draft, text(&event, "/delta/stop_reason"));
        }
        "message_stop" => draft.ended = true,
        "error" => draft.fail(event),
        _ => {}
    }
}

pub(super) fn body(draft: &mut Draft, mut body: Value) {
    if text(&body, "/type") == "error" {
        return draft.fail(body);
    }
    let Some(Value::Array(blocks)) = body.get_mut("content").map(Value::take) else {
        return draft.fail("the answer has no content".into());
    };
    for (key, block) in (0..).zip(blocks) {
        start(draft, key, block);
    }
    draft.usage = usage(body.get("usage"), Usage::default());
    finish(draft, text(&body, "/stop_reason"));
}

/// Begins a block, which in a stream is still empty.
fn start(draft: &mut Draft, key: u64, mut value: Value) {
    let block = match text(&value, "/type") {
        "text" => {
            draft.say(key, text(&value, "/text"));
            let Some(Value::Array(cited)) = value.get_mut("citations").map(Value::take) else { return };
            for citation in cited {
                cite(draft, key, citation);
            }
            return;
        }
        "thinking" => {
            let thought = text(&value, "/thinking");
            if !thought.is_empty() {
                draft.deltas.push(Delta::Reasoning { text: thought.to_owned() });
            }
            Block::Thinking { text: thought.to_owned(), signature: text(&value, "/signature").to_owned() }
        }
        "tool_use" => {
            let name = text(&value, "/name");
            let input =
                value.get("input").filter(|input| input.as_object().is_none_or(|map| !map.is_empty()));
            Block::Call(Call {
                id: text(&value, "/id").to_owned(),
                name: name.to_owned(),
                arguments: arguments_text(input),
                signatures: Vec::new(),
            })
        }
        "" => return,
        _ => Block::Opaque(value),
    };
    draft.blocks.insert(key, block);
    draft.tell_call(key);
}

/// Adds a piece of a block. Unknown kinds change nothing.
fn add(draft: &mut Draft, key: u64, mut delta: Value) {
    match text(&delta, "/type") {
        "text_delta" => draft.say(key, text(&delta, "/text")),
        "thinking_delta" => {
            let more = text(&delta, "/thinking");
            if let Some(Block::Thinking { text, .. }) = draft.blocks.get_mut(&key) {
                text.push_str(more);
                draft.deltas.push(Delta::Reasoning { text: more.to_owned() });
            }
        }
        "signature_delta" => {
            if let Some(Block::Thinking { signature, .. }) = draft.blocks.get_mut(&key) {
                signature.push_str(text(&delta, "/signature"));
            }
        }
        "input_json_delta" => match draft.blocks.get_mut(&key) {
            Some(Block::Call(call)) => {
                call.arguments.push_str(text(&delta, "/partial_json"));
                draft.tell_call(key);
            }
            Some(Block::Opaque(_)) => {
                draft.inputs.entry(key).or_default().push_str(text(&delta, "/partial_json"));
            }
            _ => {}
        },
        "citations_delta" => {
            if let Some(citation) = delta.get_mut("citation").map(Value::take) {
                cite(draft, key, citation);
            }
        }
        _ => {}
    }
}

fn cite(draft: &mut Draft, key: u64, citation: Value) {
    let block = draft.blocks.entry(key).or_insert_with(|| Block::text(""));
    if let Block::Text { citations, .. } = block {
        citations.push(citation);
    }
}

fn finish(draft: &mut Draft, reason: &str) {
    if !reason.is_empty() {
        draft.stop = Some(reason.to_owned());
    }
}

/// Reads the usage. Anthropic's count of the input includes neither the tokens read from the cache nor those written to
/// it.
fn usage(usage: Option<&Value>, before: Usage) -> Usage {
    let Some(usage) = usage else { return before };
    let cached = some_count(usage, "/cache_read_input_tokens");
    let written = some_count(usage, "/cache_creation_input_tokens");
    let input = count(usage, "/input_tokens");
    let uses = usage.get("server_tool_use").and_then(Value::as_object);
    let uses: Option<u64> = uses.map(|uses| uses.values().filter_map(Value::as_u64).sum());
    Usage {
        input_tokens: input
            .map(|tokens| tokens.saturating_add(cached.unwrap_or(0)).saturating_add(written.unwrap_or(0)))
            .or(before.input_tokens),
        cached_tokens: cached.or(before.cached_tokens),
        cache_write_tokens: written.or(before.cache_write_tokens),
        output_tokens: count(usage, "/output_tokens").or(before.output_tokens),
        server_uses: uses.filter(|uses| *uses > 0).or(before.server_uses),
        cost_usd: None,
    }
}
