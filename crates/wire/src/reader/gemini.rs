//! Gemini `generateContent`. An event of a stream has the form of a whole answer.

use super::{Block, Call, Draft, count, some_count, text};
use crate::response::{arguments_text, blocked};
use llm_do_core::model::Usage;
use serde_json::Value;

pub(super) fn event(draft: &mut Draft, mut event: Value) {
    if let Some(error) = event.get_mut("error").map(Value::take) {
        return draft.fail(error);
    }
    if let Some(refusal) = blocked(&event) {
        draft.refusal = refusal;
        draft.stop = Some("SAFETY".to_owned());
    }
    if let Some(usage) = event.get("usageMetadata") {
        draft.usage = usage_of(usage);
    }
    let parts = event.pointer_mut("/candidates/0/content/parts").map(Value::take);
    if let Some(Value::Array(parts)) = parts {
        for part in parts {
            add(draft, part);
        }
    }
    // The last report of an answer has everything.
    for (key, report) in
        [("groundingMetadata", &mut draft.grounding), ("urlContextMetadata", &mut draft.fetched)]
    {
        if let Some(last) = event.pointer_mut(&format!("/candidates/0/{key}"))
            && last.as_object().is_some_and(|fields| !fields.is_empty())
        {
            *report = last.take();
        }
    }
    let reason = text(&event, "/candidates/0/finishReason");
    if !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED" {
        draft.stop = Some(reason.to_owned());
    }
}

pub(super) fn body(draft: &mut Draft, body: Value) {
    let is_answer = body.pointer("/candidates/0").is_some() || blocked(&body).is_some();
    event(draft, body);
    if !is_answer {
        draft.fail("the answer has no candidates".into());
    }
}

fn add(draft: &mut Draft, part: Value) {
    let signature = text(&part, "/thoughtSignature");
    if let Some(call) = part.get("functionCall") {
        let call = Call {
            id: text(call, "/id").to_owned(),
            name: text(call, "/name").to_owned(),
            arguments: arguments_text(call.get("args")),
            signatures: if signature.is_empty() { Vec::new() } else { vec![signature.to_owned()] },
        };
        let key = draft.next();
        draft.blocks.insert(key, Block::Call(call));
        draft.tell_call(key);
        return;
    }
    let said = part.get("text").and_then(Value::as_str);
    if said.is_none() && part.as_object().is_some_and(|map| map.keys().any(|key| key != "thoughtSignature")) {
        draft.blocks.insert(draft.next(), Block::Opaque(part));
        return;
    }
    if !signature.is_empty() {
        draft.blocks.insert(draft.next(), Block::Signature(signature.to_owned()));
    }
    let said = said.unwrap_or_default();
    if part.get("thought").and_then(Value::as_bool) == Some(true) {
        draft.think(said);
        return;
    }
    let key = match draft.blocks.last_key_value() {
        Some((last, Block::Text { .. })) => *last,
        _ => draft.next(),
    };
    draft.say(key, said);
}

/// Reads the usage. Gemini counts the tokens of thinking apart from those of the answer, and those of the provider's
/// own tools apart from those of the prompt.
fn usage_of(usage: &Value) -> Usage {
    let sum = |one: &str, other: &str| match (count(usage, one), count(usage, other)) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    Usage {
        input_tokens: sum("/promptTokenCount", "/toolUsePromptTokenCount"),
        cached_tokens: some_count(usage, "/cachedContentTokenCount"),
        cache_write_tokens: None,
        output_tokens: sum("/candidatesTokenCount", "/thoughtsTokenCount"),
        server_uses: None,
        cost_usd: None,
    }
}
