//! Ollama chat. A line of a stream has the form of a whole answer.

use super::{Block, Call, Draft, at, count, some_count, text};
use crate::response::arguments_text;
use llm_do_core::model::Usage;
use serde_json::Value;

/// The text is the first block; the calls follow.
const TEXT: u64 = 0;

pub(super) fn event(draft: &mut Draft, event: Value) {
    if event.get("error").is_some() {
        return draft.fail(event);
    }
    let thought = ["/message/thinking", "/message/reasoning_content"].map(|pointer| text(&event, pointer));
    draft.think(thought.iter().find(|text| !text.is_empty()).copied().unwrap_or_default());
    draft.say(TEXT, text(&event, "/message/content"));
    for call in at(&event, "/message/tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let call = Call {
            id: text(call, "/id").to_owned(),
            name: text(call, "/function/name").to_owned(),
            arguments: arguments_text(at(call, "/function/arguments")),
            signatures: Vec::new(),
        };
        let key = draft.next().max(TEXT + 1);
        draft.blocks.insert(key, Block::Call(call));
        draft.tell_call(key);
    }
    if at(&event, "/done").and_then(Value::as_bool) != Some(true) {
        return;
    }
    draft.ended = true;
    let reason = text(&event, "/done_reason");
    if !reason.is_empty() {
        draft.stop = Some(reason.to_owned());
    }
    draft.usage = Usage {
        input_tokens: count(&event, "/prompt_eval_count"),
        cached_tokens: some_count(&event, "/prompt_eval_cached_count"),
        output_tokens: count(&event, "/eval_count"),
        ..Usage::default()
    };
}
