//! Histories with the parts of a provider's own tools, in the provider's form.
//!
//! `genai` leaves these parts out of requests to OpenAI responses and Gemini, which want them back where they were
//! (`docs/client-library.md`). So in a conversation with such tools the whole history is written here.

use genai::chat::{Binary, BinarySource, ChatMessage, ChatRole, ContentPart, ToolCall, ToolResponse};
use serde_json::{Value, json};

/// The value with which a call of Gemini 3 goes back that has no signature.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The `input` of OpenAI responses.
pub(crate) fn responses(messages: &[ChatMessage]) -> Value {
    let mut items = Vec::new();
    for message in messages {
        match message.role {
            ChatRole::User | ChatRole::System => {
                let content: Vec<Value> = message.content.iter().filter_map(input_piece).collect();
                items.push(json!({"role": "user", "content": content}));
            }
            ChatRole::Assistant | ChatRole::Tool => items.extend(message.content.iter().filter_map(item)),
        }
    }
    Value::Array(items)
}

fn input_piece(part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text(text) => Some(json!({"type": "input_text", "text": text})),
        ContentPart::Binary(file) if file.is_image() => {
            Some(json!({"type": "input_image", "detail": "auto", "image_url": data_url(file)}))
        }
        ContentPart::Binary(file) => {
            let name = file.name.as_deref().unwrap_or("file");
            Some(json!({"type": "input_file", "filename": name, "file_data": data_url(file)}))
        }
        _ => None,
    }
}

fn data_url(file: &Binary) -> String {
    match &file.source {
        BinarySource::Base64(data) => format!("data:{};base64,{data}", file.content_type),
        BinarySource::Url(url) => url.clone(),
    }
}

fn item(part: &ContentPart) -> Option<Value> {
    Some(match part {
        ContentPart::Text(text) => json!({
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }),
        ContentPart::ThoughtSignature(signature) => {
            json!({"type": "reasoning", "encrypted_content": signature, "summary": []})
        }
        ContentPart::ToolCall(ToolCall { call_id, fn_name, fn_arguments, .. }) => json!({
            "type": "function_call",
            "call_id": call_id,
            "name": fn_name,
            "arguments": fn_arguments.to_string(),
        }),
        ContentPart::ToolResponse(ToolResponse { call_id, content, .. }) => {
            json!({"type": "function_call_output", "call_id": call_id, "output": content})
        }
        ContentPart::Custom(own) => {
            let mut item = own.data.clone();
            // The server keeps nothing (`store: false`), and looks ids of searches up.
            if item["type"] == "web_search_call"
                && let Some(map) = item.as_object_mut()
            {
                map.remove("id");
            }
            item
        }
        ContentPart::Binary(_) | ContentPart::ReasoningContent(_) => return None,
    })
}

/// The `contents` of Gemini. `signs_calls`: a model that wants a signature with the first call of a turn.
pub(crate) fn gemini(messages: &[ChatMessage], signs_calls: bool) -> Value {
    let contents = messages.iter().map(|message| match message.role {
        ChatRole::Assistant => json!({"role": "model", "parts": model_parts(message, signs_calls)}),
        ChatRole::User | ChatRole::System | ChatRole::Tool => {
            let parts: Vec<Value> = message.content.iter().filter_map(user_part).collect();
            json!({"role": "user", "parts": parts})
        }
    });
    Value::Array(contents.collect())
}

fn user_part(part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text(text) => Some(json!({"text": text})),
        ContentPart::Binary(Binary { content_type, source: BinarySource::Base64(data), .. }) => {
            Some(json!({"inlineData": {"mimeType": content_type, "data": data}}))
        }
        ContentPart::ToolResponse(ToolResponse { call_id, content, fn_name, .. }) => {
            let name = fn_name.as_deref().unwrap_or(call_id);
            let mut response = json!({"name": name, "response": {"name": name, "content": content}});
            if let Some(id) = own_id(call_id) {
                response["id"] = id.into();
            }
            Some(json!({"functionResponse": response}))
        }
        _ => None,
    }
}

fn model_parts(message: &ChatMessage, signs_calls: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signature: Option<&str> = None;
    let mut unsigned = signs_calls;
    for part in &message.content {
        match part {
            ContentPart::ThoughtSignature(before) => signature = Some(before),
            ContentPart::Text(text) => parts.push(signed(json!({"text": text}), signature.take())),
            ContentPart::ToolCall(call) => {
                let mut own = json!({"name": call.fn_name, "args": call.fn_arguments});
                if let Some(id) = own_id(&call.call_id) {
                    own["id"] = id.into();
                }
                let of_call = call.thought_signatures.as_ref().and_then(|all| all.first());
                let sign = of_call.map(String::as_str).or_else(|| signature.take());
                let sign = sign.or(unsigned.then_some(NO_SIGNATURE));
                unsigned = false;
                parts.push(signed(json!({"functionCall": own}), sign));
            }
            ContentPart::Custom(own) => parts.push(own.data.clone()),
            ContentPart::Binary(_) | ContentPart::ToolResponse(_) | ContentPart::ReasoningContent(_) => {}
        }
    }
    parts
}

fn signed(mut part: Value, signature: Option<&str>) -> Value {
    if let Some(signature) = signature {
        part["thoughtSignature"] = signature.into();
    }
    part
}

/// The id that Gemini gave a call. One without an id has one of ours, which Gemini does not know.
fn own_id(id: &str) -> Option<&str> {
    (!id.is_empty() && !id.starts_with("call#")).then_some(id)
}
