//! Tests of tools that a provider runs, in each wire format: the request, the answer, and the parts that go back with
//! the next request.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Delta, DeltaSink, FinishReason, Message, MessageId, ModelName, ModelRequest, ModelResponse,
        ModelSettings, Models as _, Part, Role, ToolResult, ToolSpec,
    },
    server_tool::{ServerTool, ServerUse, WebLimits},
};
use llm_do_models::{Api, CustomProvider, Providers};
use serde_json::{Value, json};
use std::sync::Arc;

mod one_answer;

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

/// A conversation with tools of the provider, and one function.
struct Talk {
    api: Api,
    model: &'static str,
    tools: Arc<[ServerTool]>,
    messages: Vec<Arc<Message>>,
}

impl Talk {
    fn new(api: Api, model: &'static str, tools: Vec<ServerTool>) -> Self {
        let mut talk = Self { api, model, tools: tools.into(), messages: Vec::new() };
        talk.say(Role::User, vec![Part::text("What is new?")]);
        talk
    }

    fn say(&mut self, role: Role, parts: Vec<Part>) {
        let id = MessageId(self.messages.len() as u32);
        self.messages.push(Arc::new(Message { id, parent: None, role, parts }));
    }

    /// Asks a model whose server sends these events of a stream. Keeps the answer, and returns it with the request.
    async fn ask(&mut self, events: &[Value]) -> (ModelResponse, Value) {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let (url, served) = one_answer::serve([("text/event-stream", [body.into_bytes()])]);
        let mut custom = CustomProvider::new(url);
        custom.api = self.api;
        custom.stream = Some(true);
        custom.api_key_env = Some("KEY".to_owned());
        let providers = Providers::new(|_| Some("key-of-tests".to_owned())).custom("gw", custom);
        let name: ModelName = format!("gw:{}", self.model).parse().unwrap();
        let function = ToolSpec {
            name: "f".into(),
            description: "Does it.".into(),
            input: Arc::new(json!({"type": "object"})),
        };
        let model = providers.open(&name).unwrap();
        assert_eq!(model.refused_server_tools(&self.tools), Vec::<String>::new());
        let request = ModelRequest {
            conversation: &CallPath::root(),
            run: "run",
            worker: "w",
            purpose: Default::default(),
            turn: 0,
            model: &name,
            system: &"Be brief.".into(),
            messages: &self.messages,
            tools: &Arc::from([function]),
            server_tools: &self.tools,
            settings: &ModelSettings::default(),
            output: None,
        };
        let response = model.respond(request, &Nobody).await.unwrap();
        let (_, sent) = served.join().unwrap().remove(0);
        self.say(Role::Assistant, response.parts.clone());
        (response, sent)
    }

    fn answer_call(&mut self, id: &str) {
        let result =
            ToolResult { call_id: id.into(), name: "f".into(), content: "done".into(), is_error: false };
        self.say(Role::Tool, vec![Part::Result(result)]);
    }
}

fn search(limits: WebLimits) -> ServerTool {
    ServerTool::WebSearch(limits)
}

fn uses(response: &ModelResponse) -> Vec<&ServerUse> {
    let uses = response.parts.iter().filter_map(|part| match part {
        Part::ServerUse(used) => Some(used),
        _ => None,
    });
    uses.collect()
}

fn cited(response: &ModelResponse) -> Vec<String> {
    let sources = response.parts.iter().filter_map(|part| match part {
        Part::Cited { sources } => Some(sources),
        _ => None,
    });
    sources.flatten().map(ToString::to_string).collect()
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

#[tokio::test]
async fn anthropic_searches_pauses_and_goes_on() {
    let limits = WebLimits {
        max_uses: Some(3),
        allowed_domains: vec!["rust-lang.org".into()],
        ..WebLimits::default()
    };
    let tools = vec![search(limits), ServerTool::WebFetch(WebLimits::default()), ServerTool::CodeExecution];
    let mut talk = Talk::new(Api::Anthropic, "claude-test", tools);
    let block = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let used = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let (response, sent) = talk
        .ask(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}),
            block(0, used),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"query\":\"rust\"}"})),
            json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 4}}),
            json!({"type": "message_stop"}),
        ])
        .await;
    assert_eq!(
        sent["tools"].as_array().unwrap()[..3],
        [
            json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["rust-lang.org"]}),
            json!({"type": "web_fetch_20250910", "name": "web_fetch"}),
            json!({"type": "code_execution_20250825", "name": "code_execution"}),
        ]
    );
    assert_eq!(sent["tools"][3]["name"], "f");
    assert_eq!(response.finish, FinishReason::Paused);
    assert_eq!(*uses(&response)[0].input, json!({"query": "rust"}));

    let page = json!({"type": "web_search_result", "url": "https://rust-lang.org/x", "title": "Rust", "encrypted_content": "E"});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [page]});
    let citation = json!({"type": "web_search_result_location", "url": "https://rust-lang.org/x", "title": "Rust", "encrypted_index": "I", "cited_text": "…"});
    let usage =
        json!({"output_tokens": 8, "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}});
    let (response, sent) = talk
        .ask(&[
            block(0, result.clone()),
            block(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "citations_delta", "citation": citation})),
            delta(1, json!({"type": "text_delta", "text": "Rust 1.99."})),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ])
        .await;
    let last = sent["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "assistant", "the request continues the paused turn: {sent}");
    assert_eq!(last["content"][0]["type"], "server_tool_use");
    assert_eq!(last["content"][0]["input"], json!({"query": "rust"}));
    assert_eq!((text(&response).as_str(), response.finish), ("Rust 1.99.", FinishReason::Stop));
    assert_eq!(uses(&response)[0].to_string(), "web_search {}: 1 page");
    assert_eq!(cited(&response), ["https://rust-lang.org/x (Rust)"]);
    assert_eq!(response.usage.server_uses, Some(1), "the provider counts them");

    talk.say(Role::User, vec![Part::text("And?")]);
    let (_, sent) = talk
        .ask(&[
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ])
        .await;
    let content = &sent["messages"][2]["content"];
    assert_eq!(content[0], result, "results go back as they came");
    assert_eq!(content[1]["citations"], json!([citation]));
}

#[tokio::test]
async fn a_failed_search_of_anthropic_says_why() {
    let mut talk = Talk::new(Api::Anthropic, "claude-test", vec![search(WebLimits::default())]);
    let start = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let error = json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"});
    let (response, _) = talk
        .ask(&[
            start(
                0,
                json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}),
            ),
            start(1, json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": error})),
            start(2, json!({"type": "text", "text": "No luck."})),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ])
        .await;
    assert_eq!(uses(&response)[0].to_string(), r#"web_search {"query":"q"}: failed (max_uses_exceeded)"#);
}

#[tokio::test]
async fn openai_gets_its_searches_back_where_they_were() {
    let limits = WebLimits { allowed_domains: vec!["docs.rs".into()], ..WebLimits::default() };
    let tools = vec![search(limits), ServerTool::CodeExecution];
    let mut talk = Talk::new(Api::OpenAiResponses, "gpt-5-mini", tools);
    let done = |index: u32, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let call = json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "rust", "sources": [{"type": "url", "url": "https://docs.rs/a"}]}});
    let code = json!({"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "status": "completed", "code": "1+1", "outputs": []});
    let note = json!({"type": "url_citation", "url": "https://docs.rs/a", "title": "A", "start_index": 0, "end_index": 3});
    let said = json!({"type": "output_text", "text": "New.", "annotations": [note]});
    let (response, sent) = talk
        .ask(&[
            done(0, json!({"type": "reasoning", "encrypted_content": "SECRET", "summary": []})),
            done(1, call),
            done(2, code.clone()),
            done(3, json!({"type": "message", "content": [said]})),
            done(4, json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"})),
            json!({"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
        ])
        .await;
    assert_eq!(sent["tools"][0], json!({"type": "web_search", "filters": {"allowed_domains": ["docs.rs"]}}));
    assert_eq!(sent["tools"][1], json!({"type": "code_interpreter", "container": {"type": "auto"}}));
    assert_eq!(
        sent["include"],
        json!([
            "reasoning.encrypted_content",
            "web_search_call.action.sources",
            "code_interpreter_call.outputs"
        ])
    );
    assert_eq!(
        sent["input"],
        json!([{"role": "user", "content": [{"type": "input_text", "text": "What is new?"}]}])
    );
    let [searched, ran] = uses(&response)[..] else { panic!("{response:?}") };
    assert_eq!(*searched.input, json!({"type": "search", "query": "rust"}));
    assert_eq!(&*searched.sources[0].url, "https://docs.rs/a");
    assert_eq!(ran.to_string(), r#"code_execution {"code":"1+1"}"#);
    assert_eq!(cited(&response), ["https://docs.rs/a (A)"]);
    assert_eq!(response.usage.server_uses, Some(2));

    talk.answer_call("c1");
    let (_, sent) = talk
        .ask(&[json!({"type": "response.completed", "response": {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Bye."}]}]}})])
        .await;
    let input = sent["input"].as_array().unwrap();
    let kinds: Vec<&str> = input.iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "web_search_call",
            "code_interpreter_call",
            "message",
            "function_call",
            "function_call_output"
        ]
    );
    assert_eq!(input[2].get("id"), None, "the server keeps nothing to look up");
    assert_eq!(input[3], code);
    assert_eq!(input[6]["output"], "done");
}

#[tokio::test]
async fn gemini_gets_its_own_parts_back_where_they_were() {
    let tools = vec![
        search(WebLimits::default()),
        ServerTool::WebFetch(WebLimits::default()),
        ServerTool::CodeExecution,
    ];
    let mut talk = Talk::new(Api::Gemini, "gemini-3-flash", tools);
    let code = json!({"executableCode": {"language": "PYTHON", "code": "print(2)"}, "thoughtSignature": "S"});
    let result = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}});
    let call = json!({"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "T"});
    let parts = json!([code, result, {"text": "Two."}, call]);
    let (response, sent) = talk
        .ask(&[json!({
            "candidates": [{
                "content": {"role": "model", "parts": parts},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "webSearchQueries": ["rust"],
                    "groundingChunks": [{"web": {"uri": "https://a.example/", "title": "a.example"}}],
                },
                "urlContextMetadata": {"urlMetadata": [
                    {"retrievedUrl": "https://b.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
                ]},
            }],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
        })])
        .await;
    let functions = json!({"functionDeclarations": [
        {"name": "f", "description": "Does it.", "parametersJsonSchema": {"type": "object"}},
    ]});
    assert_eq!(
        sent["tools"],
        json!([{"googleSearch": {}}, {"urlContext": {}}, {"codeExecution": {}}, functions])
    );
    assert_eq!(sent["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    assert_eq!(sent["contents"], json!([{"role": "user", "parts": [{"text": "What is new?"}]}]));
    let shown: Vec<String> = uses(&response).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            r#"code_execution {"code":"print(2)"}"#,
            r#"web_search {"queries":["rust"]}: 1 page"#,
            r#"web_fetch {"url":"https://b.example/"}: failed (URL_RETRIEVAL_STATUS_ERROR)"#,
        ]
    );
    talk.answer_call("c1");
    let bye = json!({"candidates": [{"content": {"parts": [{"text": "Bye."}]}, "finishReason": "STOP"}]});
    let (_, sent) = talk.ask(&[bye]).await;
    assert_eq!(sent["contents"][1], json!({"role": "model", "parts": parts}));
    let answered =
        json!({"functionResponse": {"id": "c1", "name": "f", "response": {"name": "f", "content": "done"}}});
    assert_eq!(sent["contents"][2], json!({"role": "user", "parts": [answered]}));
}

/// Gemini sends a finish reason with the code that it runs, and text after it.
#[tokio::test]
async fn text_after_code_of_gemini_is_a_part_of_the_answer() {
    let mut talk = Talk::new(Api::Gemini, "gemini-2.5-flash", vec![ServerTool::CodeExecution]);
    let event = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    let code = json!({"executableCode": {"language": "PYTHON", "code": "print(2)"}});
    let result = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}});
    let (response, _) = talk
        .ask(&[
            event(json!([{"text": "Let me see. "}])),
            event(json!([code, result])),
            event(json!([{"text": "It is 2."}])),
        ])
        .await;
    assert_eq!(text(&response), "Let me see. It is 2.");
    assert_eq!(response.finish, FinishReason::Stop);
    assert_eq!(uses(&response).len(), 1);
}
