//! OpenAI responses.

use super::{Block, Draft, count, some_count, text};
use crate::response::arguments_text;
use llm_do_core::model::Usage;
use serde_json::{Value, json};

fn kind<'a>(name: Option<&'a str>, event: &'a Value) -> &'a str {
    match text(event, "/type") {
        "" => name.unwrap_or_default(),
        kind => kind,
    }
}

pub(super) fn event(draft: &mut Draft, name: Option<&str>, event: Value) {
    let kind = kind(name, &event);
    let number = count(&event, "/output_index").unwrap_or(0);
    let key = draft.numbered(number);
    let delta = text(&event, "/delta");
    match kind {
        "response.output_text.delta" => draft.say(key, delta),
        "response.refusal.delta" => draft.refusal.push_str(delta),
        "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => draft.think(delta),
        "response.function_call_arguments.delta" => {
            if let Some(call) = draft.call(key) {
                call.arguments.push_str(delta);
                draft.tell_call(key);
            }
        }
        "response.output_item.added" => {
            if let Some(item) = event.get("item").filter(|item| text(item, "/type") == "function_call") {
                call(draft, number, item);
            }
        }
        "response.output_item.done" => {
            if let Some(item) = event.get("item") {
                done(draft, number, item.clone());
            }
        }
        "response.completed" | "response.incomplete" => {
            draft.ended = true;
            terminal(draft, event.get("response").cloned().unwrap_or_default(), kind);
        }
        "response.failed" | "response.cancelled" => {
            draft.fail(failure(event.get("response").unwrap_or(&event)));
        }
        "error" => draft.fail(event),
        _ => {}
    }
}

pub(super) fn body(draft: &mut Draft, body: Value) {
    match text(&body, "/status") {
        "failed" | "cancelled" => draft.fail(failure(&body)),
        "incomplete" => terminal(draft, body, "response.incomplete"),
        _ if body.get("output").is_none() => draft.fail(body.get("error").cloned().unwrap_or(body)),
        _ => terminal(draft, body, "response.completed"),
    }
}

/// Takes an item that the server has finished. Its content takes precedence over the earlier pieces.
fn done(draft: &mut Draft, key: u64, item: Value) {
    match text(&item, "/type") {
        "message" => {
            let has_text = matches!(draft.blocks.get(&key), Some(Block::Text { .. }));
            let has_refusal = !draft.refusal.is_empty();
            for piece in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                let notes = piece.get("annotations").and_then(Value::as_array).into_iter().flatten();
                match text(piece, "/type") {
                    "output_text" if !has_text => draft.say(key, text(piece, "/text")),
                    "refusal" if !has_refusal => draft.refusal.push_str(text(piece, "/refusal")),
                    _ => {}
                }
                if let Some(Block::Text { citations, .. }) = draft.blocks.get_mut(&key) {
                    citations.extend(notes.cloned());
                }
            }
        }
        "function_call" => {
            call(draft, key, &item);
        }
        "reasoning" => {
            if draft.reasoning.is_empty() {
                for list in ["summary", "content"] {
                    for piece in item.get(list).and_then(Value::as_array).into_iter().flatten() {
                        draft.think(text(piece, "/text"));
                    }
                }
            }
            let signature = text(&item, "/encrypted_content");
            if !signature.is_empty() {
                draft.add(key, Block::Signature(signature.to_owned()));
            }
        }
        "" => {}
        // A tool that the provider ran.
        _ => {
            draft.add(key, Block::Opaque(item));
        }
    }
}

fn call(draft: &mut Draft, number: u64, item: &Value) {
    let (id, name) = (text(item, "/call_id"), text(item, "/name"));
    let arguments = arguments_text(item.get("arguments"));
    let is_this = |block: &Block| matches!(block, Block::Call(call) if !id.is_empty() && call.id == id);
    let known = draft.blocks.iter().find(|(_, block)| is_this(block)).map(|(key, _)| *key);
    let key = known.unwrap_or_else(|| match draft.blocks.get(&draft.numbered(number)) {
        // Some servers give every call the same number.
        Some(Block::Call(call)) if call.id.is_empty() || id.is_empty() => draft.numbered(number),
        _ => draft.begin(number),
    });
    let Some(call) = draft.call(key) else { return };
    id.clone_into(&mut call.id);
    name.clone_into(&mut call.name);
    if !arguments.is_empty() {
        call.arguments = arguments;
    }
    draft.tell_call(key);
}

/// Takes the last event, which repeats the whole answer. Some servers send nothing before it, others leave the answer
/// out of it.
fn terminal(draft: &mut Draft, mut response: Value, kind: &str) {
    let reason = match (kind, text(&response, "/incomplete_details/reason")) {
        ("response.completed", _) => "completed",
        (_, "" | "max_output_tokens" | "max_tokens") => "incomplete",
        (_, other) => other,
    };
    draft.stop = Some(reason.to_owned());
    if let Some(usage) = response.get("usage") {
        draft.usage = Usage {
            input_tokens: count(usage, "/input_tokens"),
            cached_tokens: some_count(usage, "/input_tokens_details/cached_tokens"),
            cache_write_tokens: some_count(usage, "/input_tokens_details/cache_write_tokens"),
            output_tokens: count(usage, "/output_tokens"),
            server_uses: None,
            cost_usd: None,
        };
    }
    let Some(Value::Array(items)) = response.get_mut("output").map(Value::take) else { return };
    if draft.blocks.is_empty() && draft.refusal.is_empty() {
        for (key, item) in (0..).zip(items) {
            done(draft, key, item);
        }
    }
}

fn failure(response: &Value) -> Value {
    let error = response.get("error").filter(|error| error.is_object()).cloned();
    error.unwrap_or_else(|| json!({"type": "server_error", "message": "the response failed"}))
}
