//! Anthropic messages: reads and checks requests, writes answers.

use serde_json::{Value, json};

use crate::invariants;
use crate::script::{Answer, Finish, Part, Usage, pieces};
use crate::seen::{Conversation, Message, Role, Seen, Tool, ToolCall, ToolResult};

// --- Requests ---

/// Reads a request body. Notes in `wrong` errors of form that the real service would refuse.
pub(crate) fn read(body: &Value, wrong: &mut Vec<String>) -> Conversation {
    let mut conversation = Conversation {
        system: read_system(&body["system"], wrong),
        tools: read_tools(body, wrong),
        messages: Vec::new(),
    };
    if !body["model"].is_string() {
        wrong.push("model: field required".into());
    }
    if body["max_tokens"].as_u64().is_none_or(|max| max == 0) {
        wrong.push("max_tokens: field required, at least 1".into());
    }
    let choice = &body["tool_choice"];
    if !choice.is_null() && conversation.tools.is_empty() {
        wrong.push("tool_choice: may only be specified while providing tools".into());
    }
    if let Some(name) = choice["name"].as_str().filter(|n| conversation.tools.iter().all(|t| t.name != *n)) {
        wrong.push(format!("tool_choice: no tool is named {name:?}"));
    }
    let marks = ["system", "tools", "messages"].iter().map(|part| cache_marks(&body[*part])).sum::<usize>();
    if marks > 4 {
        wrong.push(format!("a maximum of 4 blocks with cache_control may be provided, found {marks}"));
    }
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        wrong.push("messages: at least one message is required".into());
        return conversation;
    };
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages.{i}");
        match message["role"].as_str() {
            Some("user") => conversation.messages.push(read_user(message, &at, wrong)),
            Some("assistant") => conversation.messages.push(read_assistant(message, &at, wrong)),
            role => wrong.push(format!("{at}: role {role:?} is neither 'user' nor 'assistant'")),
        }
    }
    if messages[0]["role"] == "assistant" {
        wrong.push("messages: first message must use the \"user\" role".into());
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant") {
        wrong.push("messages: the conversation must end with a user message".into());
    }
    conversation
}

/// Counts the cache marks on blocks: on parts of a message and in the blocks of a tool result. Keys of that name in a
/// call's arguments or in a schema do not count.
fn cache_marks(blocks: &Value) -> usize {
    let marks =
        |block: &Value| usize::from(!block["cache_control"].is_null()) + cache_marks(&block["content"]);
    blocks.as_array().map_or(0, |blocks| blocks.iter().map(marks).sum())
}

fn read_system(system: &Value, wrong: &mut Vec<String>) -> String {
    match system {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        blocks => {
            let blocks = blocks.as_array().map_or(&[][..], Vec::as_slice);
            let texts: Vec<_> = blocks.iter().map(|block| read_text(block, "system", wrong)).collect();
            if texts.is_empty() {
                wrong.push("system: expected a string or a list of text blocks".into());
            }
            texts.join("\n\n")
        }
    }
}

fn read_text<'a>(block: &'a Value, at: &str, wrong: &mut Vec<String>) -> &'a str {
    let text = block["text"].as_str().unwrap_or_default();
    if block["type"] != "text" {
        wrong.push(format!("{at}: expected a text block, got {}", block["type"]));
    } else if text.trim().is_empty() {
        wrong.push(format!("{at}: text content blocks must contain non-whitespace text"));
    }
    text
}

/// Returns the blocks of a message, a plain string as one text block.
fn blocks(message: &Value, at: &str, wrong: &mut Vec<String>) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) if !blocks.is_empty() => blocks.clone(),
        _ => {
            wrong.push(format!("{at}: messages must have non-empty content"));
            Vec::new()
        }
    }
}

fn read_user(message: &Value, at: &str, wrong: &mut Vec<String>) -> Message {
    let mut read = Message::new(Role::User);
    let mut others = false;
    for (i, block) in blocks(message, at, wrong).iter().enumerate() {
        let at = format!("{at}.content.{i}");
        match block["type"].as_str() {
            Some("tool_result") => {
                if others {
                    wrong.push(format!("{at}: tool_result blocks must come before all other content"));
                }
                read.role = Role::Tool;
                read.tool_results.push(read_result(block, &at, wrong));
            }
            Some("text") => {
                others = true;
                read.push_text(read_text(block, &at, wrong));
            }
            Some(kind @ ("image" | "document")) => {
                others = true;
                read_source(kind, block, &at, wrong);
                read.attachments.push(kind.into());
            }
            kind => wrong.push(format!("{at}: a user message cannot hold {kind:?}")),
        }
    }
    read
}

fn read_source(kind: &str, block: &Value, at: &str, wrong: &mut Vec<String>) {
    let source = &block["source"];
    let known: &[&str] = match (kind, source["type"].as_str()) {
        ("image", Some("base64")) => &["image/jpeg", "image/png", "image/gif", "image/webp"],
        ("document", Some("base64")) => &["application/pdf"],
        ("document", Some("text")) => &["text/plain"],
        (_, Some("url" | "file" | "content")) => return,
        (_, other) => {
            wrong.push(format!("{at}.source: type {other:?} is not known"));
            return;
        }
    };
    if !source["media_type"].as_str().is_some_and(|media| known.contains(&media)) {
        wrong.push(format!("{at}.source.media_type: {} is none of {known:?}", source["media_type"]));
    }
    if source["data"].as_str().is_none_or(str::is_empty) {
        wrong.push(format!("{at}.source.data: missing or empty"));
    }
}

fn read_result(block: &Value, at: &str, wrong: &mut Vec<String>) -> ToolResult {
    let text = match &block["content"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts =
                parts.iter().filter(|part| !matches!(part["type"].as_str(), Some("image" | "document")));
            texts.map(|part| read_text(part, at, wrong)).collect::<Vec<_>>().join("\n")
        }
        other => {
            wrong.push(format!("{at}.content: expected a string or a list of blocks, got {other}"));
            String::new()
        }
    };
    ToolResult {
        id: block["tool_use_id"].as_str().unwrap_or_default().into(),
        text,
        is_error: block["is_error"] == true,
    }
}

fn read_assistant(message: &Value, at: &str, wrong: &mut Vec<String>) -> Message {
    let mut read = Message::new(Role::Assistant);
    for (i, block) in blocks(message, at, wrong).iter().enumerate() {
        let at = format!("{at}.content.{i}");
        match block["type"].as_str() {
            Some("text") => read.push_text(read_text(block, &at, wrong)),
            Some("tool_use") => {
                let [id, name] = ["id", "name"].map(|key| block[key].as_str().unwrap_or_default().to_owned());
                if !invariants::is_name(&id, usize::MAX) {
                    wrong.push(format!("{at}.id: {id:?} does not match ^[a-zA-Z0-9_-]+$"));
                }
                if !block["input"].is_object() {
                    wrong.push(format!("{at}.input: expected an object, got {}", block["input"]));
                }
                read.tool_calls.push(ToolCall { id, name, arguments: block["input"].clone() });
            }
            Some("thinking") => {
                // The signature is what this server made of the text: altered thinking is refused.
                let text = block["thinking"].as_str().unwrap_or_default();
                if block["signature"] != signature(text) {
                    wrong.push(format!("{at}: invalid signature in thinking block"));
                }
            }
            Some("redacted_thinking") => {}
            kind => wrong.push(format!("{at}: an assistant message cannot hold {kind:?}")),
        }
    }
    read
}

fn read_tools(body: &Value, wrong: &mut Vec<String>) -> Vec<Tool> {
    let tools = match &body["tools"] {
        Value::Null => return Vec::new(),
        Value::Array(tools) => tools,
        _ => {
            wrong.push("tools: expected a list".into());
            return Vec::new();
        }
    };
    let read = |(i, tool): (usize, &Value)| {
        // A tool of the service's own (`web_search_…`) has a type and no schema.
        if tool["type"].is_null() || tool["type"] == "custom" {
            invariants::object_schema(&tool["input_schema"], &format!("tools.{i}.input_schema"), wrong);
            invariants::keys_are_names(&tool["input_schema"], &format!("tools.{i}.input_schema"), wrong);
        }
        Tool {
            name: tool["name"].as_str().unwrap_or_default().into(),
            description: tool["description"].as_str().unwrap_or_default().into(),
            schema: tool["input_schema"].clone(),
        }
    };
    tools.iter().enumerate().map(read).collect()
}

// --- Answers ---

/// Returns the whole answer, for a request that does not stream.
pub(crate) fn body(seen: &Seen, answer: &Answer, usage: Usage, serial: u64) -> Value {
    let block = |(i, part): (usize, &Part)| match part {
        Part::Text(text) | Part::Refusal(text) => json!({"type": "text", "text": text}),
        Part::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": signature(text)}),
        Part::Call { id, name, arguments } => {
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            json!({"type": "tool_use", "id": call_id(id.as_deref(), serial, i), "name": name, "input": input})
        }
    };
    let mut message = opening(seen, usage, serial);
    message["content"] = answer.parts.iter().enumerate().map(block).collect();
    message["stop_reason"] = json!(stop_reason(answer));
    message["usage"]["output_tokens"] = json!(usage.output);
    message
}

/// Returns the events of a streamed answer.
pub(crate) fn events(seen: &Seen, answer: &Answer, usage: Usage, serial: u64) -> Vec<Vec<u8>> {
    let mut events = vec![sse(json!({"type": "message_start", "message": opening(seen, usage, serial)}))];
    for (i, part) in answer.parts.iter().enumerate() {
        let (block, deltas): (Value, Vec<Value>) = match part {
            Part::Text(text) | Part::Refusal(text) => (
                json!({"type": "text", "text": ""}),
                pieces(text).iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect(),
            ),
            Part::Thinking(text) => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                (pieces(text).iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece})))
                    .chain([json!({"type": "signature_delta", "signature": signature(text)})])
                    .collect(),
            ),
            // Calls without arguments come with a single empty piece; others begin with one.
            Part::Call { id, name, arguments } => (
                json!({"type": "tool_use", "id": call_id(id.as_deref(), serial, i), "name": name, "input": {}}),
                [""].iter()
                    .chain(pieces(if arguments == "{}" { "" } else { arguments }).iter())
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect(),
            ),
        };
        events.push(sse(json!({"type": "content_block_start", "index": i, "content_block": block})));
        if i == 0 {
            events.push(sse(json!({"type": "ping"})));
        }
        events.extend(
            (deltas.into_iter())
                .map(|delta| sse(json!({"type": "content_block_delta", "index": i, "delta": delta}))),
        );
        events.push(sse(json!({"type": "content_block_stop", "index": i})));
    }
    let delta = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    let output = json!({"output_tokens": usage.output});
    events.push(sse(json!({"type": "message_delta", "delta": delta, "usage": output})));
    events.push(sse(json!({"type": "message_stop"})));
    events
}

/// Returns the message that begins a stream: no content, no stop reason, and its first token counted.
fn opening(seen: &Seen, usage: Usage, serial: u64) -> Value {
    json!({
        "id": format!("msg_{serial:012}"),
        "type": "message",
        "role": "assistant",
        "model": seen.model(),
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input.saturating_sub(usage.cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached,
            "output_tokens": 1,
        },
    })
}

/// Returns the body of an error status.
pub(crate) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"})
}

/// Returns an error in the middle of a stream.
pub(crate) fn error_event(kind: &str) -> Vec<u8> {
    sse(json!({"type": "error", "error": {"type": kind, "message": "the stream failed as scripted"}}))
}

/// Returns an event, whose name is the type of its data.
fn sse(data: Value) -> Vec<u8> {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()).into_bytes()
}

fn call_id(scripted: Option<&str>, serial: u64, index: usize) -> String {
    scripted.map_or_else(|| format!("toolu_{serial:08}_{index:03}"), str::to_owned)
}

/// Makes a replacement for the service's signature: bound to the text, opaque to the client.
fn signature(thinking: &str) -> String {
    format!("sig{:016x}", invariants::hash(thinking))
}

fn stop_reason(answer: &Answer) -> &'static str {
    let refused = answer.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
    match answer.finish() {
        Finish::Stop if refused => "refusal",
        Finish::Stop => "end_turn",
        Finish::ToolCalls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filtered => "refusal",
    }
}
