//! OpenAI chat-completions: reads and checks requests, writes answers.

use serde_json::{Map, Value, json};

use crate::invariants;
use crate::script::{Answer, Finish, Part, Usage, pieces};
use crate::seen::{Conversation, Message, Role, Seen, Tool, ToolCall, ToolResult};

/// The creation time of all answers, in Unix seconds: fixed, so that recorded answers are comparable.
const CREATED: u64 = 1_750_000_000;

// --- Requests ---

/// Reads a request body. Notes in `wrong` errors of form that the real service would refuse.
pub(crate) fn read(body: &Value, wrong: &mut Vec<String>) -> Conversation {
    let mut conversation = Conversation { tools: read_tools(body, wrong), ..Conversation::default() };
    if !body["model"].is_string() {
        wrong.push("you must provide a model parameter".into());
    }
    check_choice(body, &conversation.tools, wrong);
    check_format(body, wrong);
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        wrong.push("'messages' must be a list of at least one message".into());
        return conversation;
    };
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages[{i}]");
        match message["role"].as_str() {
            Some("system" | "developer") => {
                let read = read_content(Message::new(Role::System), message, &at, wrong);
                if !conversation.system.is_empty() {
                    conversation.system.push_str("\n\n");
                }
                conversation.system.push_str(&read.text);
                conversation.messages.push(read);
            }
            Some("user") => {
                conversation.messages.push(read_content(Message::new(Role::User), message, &at, wrong));
            }
            Some("assistant") => conversation.messages.push(read_assistant(message, &at, wrong)),
            Some("tool") => read_result(&mut conversation.messages, message, &at, wrong),
            role => {
                wrong
                    .push(format!("{at}.role: {role:?} is none of system, developer, user, assistant, tool"));
            }
        }
    }
    conversation
}

/// Checks `tool_choice`: it needs tools, and the tool that it names must be among them.
fn check_choice(body: &Value, tools: &[Tool], wrong: &mut Vec<String>) {
    let choice = &body["tool_choice"];
    if !choice.is_null() && tools.is_empty() {
        wrong.push("'tool_choice' is only allowed when 'tools' are specified".into());
    }
    if let Some(name) =
        choice["function"]["name"].as_str().filter(|name| tools.iter().all(|t| t.name != *name))
    {
        wrong.push(format!("tool_choice: no tool is named {name:?}"));
    }
}

fn check_format(body: &Value, wrong: &mut Vec<String>) {
    let format = &body["response_format"];
    match format["type"].as_str() {
        Some("json_schema") => {
            let asked = &format["json_schema"];
            if !asked["name"].as_str().is_some_and(|name| invariants::is_name(name, 64)) {
                wrong.push(format!("response_format.json_schema.name: {} is not a name", asked["name"]));
            }
            if asked["strict"] == true {
                let at = "response_format.json_schema.schema";
                invariants::object_schema(&asked["schema"], at, wrong);
                invariants::strict_schema(&asked["schema"], at, wrong);
            }
        }
        Some("json_object") if !body["messages"].to_string().to_lowercase().contains("json") => {
            wrong.push("'messages' must contain the word 'json' to use response_format 'json_object'".into());
        }
        _ => {}
    }
}

fn read_content(mut into: Message, message: &Value, at: &str, wrong: &mut Vec<String>) -> Message {
    match &message["content"] {
        Value::String(text) => into.push_text(text),
        Value::Array(parts) if !parts.is_empty() => {
            for part in parts {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => into.push_text(text),
                    (Some(kind @ ("image_url" | "input_audio" | "file")), _) if part[kind].is_object() => {
                        into.attachments.push(kind.into());
                    }
                    (Some("refusal"), _) => {}
                    (kind, _) => {
                        wrong.push(format!("{at}.content: a part of type {kind:?} is not well formed"));
                    }
                }
            }
        }
        other => wrong.push(format!("{at}.content: expected a string or a list of parts, got {other}")),
    }
    into
}

fn read_assistant(message: &Value, at: &str, wrong: &mut Vec<String>) -> Message {
    let mut read = Message::new(Role::Assistant);
    match &message["tool_calls"] {
        Value::Null => {}
        Value::Array(calls) if !calls.is_empty() => {
            for (i, call) in calls.iter().enumerate() {
                read.tool_calls.push(read_call(call, &format!("{at}.tool_calls[{i}]"), wrong));
            }
        }
        _ => wrong.push(format!("{at}.tool_calls: expected a list of at least one call")),
    }
    if !message["content"].is_null() {
        read = read_content(read, message, at, wrong);
    } else if read.tool_calls.is_empty() && !message["refusal"].is_string() {
        wrong.push(format!("{at}.content: expected a string, got null"));
    }
    read
}

fn read_call(call: &Value, at: &str, wrong: &mut Vec<String>) -> ToolCall {
    let function = &call["function"];
    if call["type"] != "function" {
        wrong.push(format!("{at}.type: expected \"function\", got {}", call["type"]));
    }
    let field = |value: &Value, name: &str, wrong: &mut Vec<String>| {
        value.as_str().map(str::to_owned).unwrap_or_else(|| {
            wrong.push(format!("{at}.{name}: expected a string, got {value}"));
            String::new()
        })
    };
    let raw = field(&function["arguments"], "function.arguments", wrong);
    ToolCall {
        id: field(&call["id"], "id", wrong),
        name: field(&function["name"], "function.name", wrong),
        arguments: serde_json::from_str(&raw).unwrap_or(Value::String(raw)),
    }
}

/// Adds a `tool` message to the results before it, or begins them.
fn read_result(messages: &mut Vec<Message>, message: &Value, at: &str, wrong: &mut Vec<String>) {
    let Some(id) = message["tool_call_id"].as_str() else {
        wrong.push(format!("{at}.tool_call_id: missing"));
        return;
    };
    let text = read_content(Message::new(Role::Tool), message, at, wrong).text;
    let result = ToolResult { id: id.into(), text, is_error: false };
    match messages.last_mut() {
        Some(last) if last.role == Role::Tool => last.tool_results.push(result),
        _ => {
            messages.push(Message { tool_results: vec![result], ..Message::new(Role::Tool) });
        }
    }
}

fn read_tools(body: &Value, wrong: &mut Vec<String>) -> Vec<Tool> {
    let tools = match &body["tools"] {
        Value::Null => return Vec::new(),
        Value::Array(tools) if !tools.is_empty() => tools,
        _ => {
            wrong.push("'tools' must be a list of at least one tool".into());
            return Vec::new();
        }
    };
    let read = |(i, tool): (usize, &Value)| {
        let (at, function) = (format!("tools[{i}]"), &tool["function"]);
        if tool["type"] != "function" || !function.is_object() {
            wrong.push(format!("{at}: not a function tool"));
        }
        let schema = function["parameters"].clone();
        if !schema.is_null() {
            invariants::object_schema(&schema, &format!("{at}.function.parameters"), wrong);
            invariants::arrays_have_items(&schema, &format!("{at}.function.parameters"), wrong);
        }
        if function["strict"] == true {
            invariants::strict_schema(&schema, &format!("{at}.function.parameters"), wrong);
        }
        Tool {
            name: function["name"].as_str().unwrap_or_default().into(),
            description: function["description"].as_str().unwrap_or_default().into(),
            schema,
        }
    };
    tools.iter().enumerate().map(read).collect()
}

// --- Answers ---

/// Returns the whole answer, for a request that does not stream.
pub(crate) fn body(seen: &Seen, answer: &Answer, usage: Usage, serial: u64) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Text(text) => append(&mut message, "content", text),
            Part::Refusal(text) => append(&mut message, "refusal", text),
            Part::Thinking(text) => append(&mut message, "reasoning_content", text),
            Part::Call { id, name, arguments } => {
                let id = call_id(id.as_deref(), serial, calls.len());
                let function = json!({"name": name, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    json!({
        "id": format!("chatcmpl-{serial:012}"),
        "object": "chat.completion",
        "created": CREATED,
        "model": seen.model(),
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_name(answer.finish()),
        }],
        "usage": usage_value(usage),
        "service_tier": "default",
        "system_fingerprint": "fp_loopback",
    })
}

fn append(message: &mut Value, field: &str, text: &str) {
    let before = message[field].as_str().unwrap_or_default();
    message[field] = Value::String(format!("{before}{text}"));
}

/// Returns the events of a streamed answer, `[DONE]` the last.
pub(crate) fn events(seen: &Seen, answer: &Answer, usage: Usage, serial: u64) -> Vec<Vec<u8>> {
    let with_usage = seen.body["stream_options"]["include_usage"] == true;
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{serial:012}"),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": seen.model(),
            "service_tier": "default",
            "system_fingerprint": "fp_loopback",
            "choices": choices,
        });
        if with_usage {
            chunk["usage"] = usage;
        }
        sse(&chunk)
    };
    let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);

    let text_first = matches!(answer.parts.first(), Some(Part::Text(_)) | None);
    let opening = if text_first { json!("") } else { Value::Null };
    let mut deltas = vec![json!({"role": "assistant", "content": opening, "refusal": null})];
    let mut calls = 0;
    for part in &answer.parts {
        match part {
            Part::Text(text) => deltas.extend(pieces(text).iter().map(|piece| json!({"content": piece}))),
            Part::Refusal(text) => deltas.extend(pieces(text).iter().map(|piece| json!({"refusal": piece}))),
            Part::Thinking(text) => {
                deltas.extend(pieces(text).iter().map(|piece| json!({"reasoning_content": piece})));
            }
            Part::Call { id, name, arguments } => {
                let id = call_id(id.as_deref(), serial, calls);
                let function = json!({"name": name, "arguments": ""});
                deltas.push(json!({"tool_calls": [
                    {"index": calls, "id": id, "type": "function", "function": function}
                ]}));
                deltas.extend(pieces(arguments).iter().map(
                    |piece| json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}),
                ));
                calls += 1;
            }
        }
    }
    let mut events: Vec<_> =
        deltas.into_iter().map(|delta| chunk(choice(delta, Value::Null), Value::Null)).collect();
    let finish = finish_name(answer.finish());
    events.push(chunk(choice(Value::Object(Map::new()), json!(finish)), Value::Null));
    if with_usage {
        events.push(chunk(json!([]), usage_value(usage)));
    }
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

/// Returns the body of an error status.
pub(crate) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        429 => ("requests", json!("rate_limit_exceeded")),
        500.. => ("server_error", Value::Null),
        _ => ("invalid_request_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Returns an error in the middle of a stream.
pub(crate) fn error_event(kind: &str) -> Vec<u8> {
    sse(
        &json!({"error": {"message": "the stream failed as scripted", "type": kind, "param": null, "code": null}}),
    )
}

fn sse(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn call_id(scripted: Option<&str>, serial: u64, index: usize) -> String {
    scripted.map_or_else(|| format!("call_{serial:08}_{index:03}"), str::to_owned)
}

fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Filtered => "content_filter",
    }
}

fn usage_value(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}
