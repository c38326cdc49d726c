//! Tests of the wires that the test server doesn't implement, against fixed answers.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Delta, DeltaSink, FinishReason, Message, MessageId, ModelError, ModelErrorKind, ModelName,
        ModelRequest, ModelResponse, ModelSettings, Models as _, Part, Role, ToolCall, ToolResult, ToolSpec,
    },
};
use llm_do_models::{Api, CustomProvider, Providers};
use serde_json::{Value, json};
use std::sync::Arc;

mod one_answer;

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Asks a model of that interface, with a history of two calls in one turn. Returns the request, too.
async fn ask(api: Api, model: &str, body: String) -> (Result<ModelResponse, ModelError>, String, Value) {
    ask_way(api, model, body, true).await
}

async fn ask_way(
    api: Api,
    model: &str,
    body: String,
    stream: bool,
) -> (Result<ModelResponse, ModelError>, String, Value) {
    let kind = if stream { "text/event-stream" } else { "application/json" };
    let (url, served) = one_answer::serve([(kind, [body.into_bytes()])]);
    let mut custom = CustomProvider::new(url);
    custom.api = api;
    custom.stream = Some(stream);
    custom.api_key_env = (api != Api::Ollama).then(|| "KEY".to_owned());
    let providers =
        Providers::new(|name| (name == "KEY").then(|| "key-of-tests".to_owned())).custom("gw", custom);
    let name: ModelName = format!("gw:{model}").parse().unwrap();
    let call = |id: &str| {
        Part::Call(ToolCall { id: id.into(), name: "f".into(), arguments: Arguments::parse(r#"{"a":1}"#) })
    };
    let result = |id: &str| {
        Part::Result(ToolResult { call_id: id.into(), name: "f".into(), content: id.into(), is_error: false })
    };
    let message = |id, role, parts| Arc::new(Message { id: MessageId(id), parent: None, role, parts });
    let messages = [
        message(0, Role::User, vec![Part::text("Hello.")]),
        message(1, Role::Assistant, vec![call("one"), call("two")]),
        message(2, Role::Tool, vec![result("one"), result("two")]),
    ];
    let tool = ToolSpec {
        name: "f".into(),
        description: "Does it.".into(),
        input: Arc::new(json!({"type": "object"})),
    };
    let model = providers.open(&name).unwrap();
    let request = ModelRequest {
        conversation: &CallPath::root(),
        run: "run",
        worker: "w",
        purpose: Default::default(),
        turn: 1,
        model: &name,
        system: &"Be brief.".into(),
        messages: &messages,
        tools: &Arc::from([tool]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    };
    let response = model.respond(request, &Nobody).await;
    let (path, sent) = served.join().unwrap().remove(0);
    (response, path, sent)
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

fn ids(response: &ModelResponse) -> Vec<String> {
    let calls = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call.id.to_string()),
        _ => None,
    });
    calls.collect()
}

fn is_cut(response: Result<ModelResponse, ModelError>) -> bool {
    response.is_err_and(|error| error.kind == ModelErrorKind::Network)
}

#[tokio::test]
async fn ollama_answers_and_is_sent_every_result() {
    let piece = |content: &str| json!({"message": {"role": "assistant", "content": content}, "done": false});
    let calls = json!([{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "f", "arguments": {}}}]);
    let end = json!({"message": {"content": "", "tool_calls": calls}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 9, "eval_count": 4});
    let (response, path, sent) =
        ask(Api::Ollama, "qwen3", lines(&[piece("Hi "), piece("there."), end])).await;
    let response = response.unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Hi there.", FinishReason::ToolCalls));
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (Some(9), Some(4)));
    let ids = ids(&response);
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    assert_eq!(path, "/api/chat");
    let results: Vec<_> =
        sent["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 2, "{sent}");
    assert_eq!((&results[0]["content"], &results[1]["content"]), (&json!("one"), &json!("two")));

    let (response, ..) = ask(Api::Ollama, "qwen3", lines(&[piece("Hi ")])).await;
    assert!(is_cut(response), "a stream without its last line is no answer");
}

#[tokio::test]
async fn gemini_answers_with_calls_of_their_own_ids_and_signatures() {
    let piece = |parts: Value| json!({"candidates": [{"content": {"parts": parts}}]});
    let call = json!({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "signed"});
    let end = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}});
    let events = [piece(json!([{"text": "Hi."}])), piece(json!([call])), end];
    let (response, path, sent) = ask(Api::Gemini, "gemini-2.5-flash", sse(&events)).await;
    let response = response.unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Hi.", FinishReason::ToolCalls));
    let ids = ids(&response);
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let signed =
        |part: &Part| matches!(part, Part::Opaque { value, .. } if value.to_string().contains("signed"));
    assert_eq!(response.parts.iter().filter(|part| signed(part)).count(), 1, "{response:?}");
    assert_eq!(path, "/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    let results = sent["contents"][2]["parts"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{sent}");

    let (response, ..) = ask(Api::Gemini, "gemini-2.5-flash", sse(&events[..2])).await;
    assert!(is_cut(response), "a stream without a finish reason is no answer");
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let (response, ..) = ask(Api::Gemini, "gemini-2.5-flash", sse(std::slice::from_ref(&blocked))).await;
    assert_eq!(response.unwrap().finish, FinishReason::Refusal);
    let (response, ..) = ask_way(Api::Gemini, "gemini-2.5-flash", blocked.to_string(), false).await;
    assert_eq!(response.unwrap().finish, FinishReason::Refusal);
}

#[tokio::test]
async fn responses_are_answered_and_refused_and_cut() {
    let added = json!({"type": "response.output_item.added", "output_index": 1,
        "item": {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}});
    let arguments =
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\":"});
    let say = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
    let done = json!({"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed", "output": [],
        "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}}});
    let events = [say("Hi."), added, arguments, done.clone()];
    let (response, path, sent) = ask(Api::OpenAiResponses, "gpt-5", sse(&events)).await;
    let response = response.unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Hi.", FinishReason::ToolCalls));
    assert!(response.parts.iter().any(|part| matches!(part,
        Part::Call(call) if matches!(&call.arguments, Arguments::Invalid { text, .. } if &**text == "{\"a\":"))));
    assert_eq!(path, "/responses");
    assert_eq!(sent["reasoning"].get("summary"), None, "{sent}");
    assert_eq!(sent["store"], false);

    let refusal = json!({"type": "response.refusal.delta", "delta": "I can't."});
    let (response, ..) = ask(Api::OpenAiResponses, "gpt-5", sse(&[refusal, done.clone()])).await;
    let response = response.unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("I can't.", FinishReason::Refusal));

    let (response, ..) = ask(Api::OpenAiResponses, "gpt-5", sse(&events[..3])).await;
    assert!(is_cut(response), "a stream without its last event is no answer");
    let garbled = format!("{}data: {{\"type\": \"resp\n\n{}", sse(&events[..1]), sse(&[done]));
    let (response, ..) = ask(Api::OpenAiResponses, "gpt-5", garbled).await;
    assert!(is_cut(response), "a garbled event is not passed over");
    for streamed in [true, false] {
        let refusal = json!([{"type": "refusal", "refusal": "I can't."}]);
        let item = json!({"type": "message", "role": "assistant", "content": refusal});
        let whole = json!({"id": "r", "model": "m", "status": "completed", "output": [item]});
        let body = match streamed {
            true => sse(&[json!({"type": "response.completed", "response": whole})]),
            false => whole.to_string(),
        };
        let (response, ..) = ask_way(Api::OpenAiResponses, "gpt-5", body, streamed).await;
        let response = response.unwrap();
        assert_eq!((text(&response).as_str(), response.finish), ("I can't.", FinishReason::Refusal));
    }
    let failed = json!({"type": "response.failed", "response": {"id": "r", "model": "m", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": "it broke"}}});
    let (response, ..) = ask(Api::OpenAiResponses, "gpt-5", sse(&[failed])).await;
    let error = response.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Server);
    assert!(error.message.contains("it broke"), "{error}");
}
