//! Models against a server that speaks OpenAI chat completions and Anthropic messages, streaming and not, and that
//! refuses any history its wire would refuse.
#![allow(clippy::unwrap_used, reason = "a test may panic, also in its helpers")]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Blob, Delta, DeltaSink, FinishReason, Message, MessageId, Model, ModelError,
        ModelErrorKind, ModelName, ModelRequest, ModelResponse, ModelSettings, Models, Part, Role, ToolCall,
        ToolResult, ToolSpec,
    },
};
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_testserver::{self as server, Finish, Reply, Script, TestServer, Wire};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const KEY: &str = "sk-test-0123456789abcdef";

/// Both wires, each streaming and not.
const WAYS: [(Wire, bool); 4] =
    [(Wire::OpenAi, true), (Wire::OpenAi, false), (Wire::Anthropic, true), (Wire::Anthropic, false)];
const STREAMED: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

/// A conversation with a model at a test server.
struct Talk {
    server: TestServer,
    model: Arc<dyn Model>,
    name: ModelName,
    system: Arc<str>,
    messages: Vec<Arc<Message>>,
    tools: Arc<[ToolSpec]>,
    settings: ModelSettings,
    output: Option<Arc<Value>>,
    told: Deltas,
}

#[derive(Default)]
struct Deltas(Mutex<Vec<Delta>>);

impl DeltaSink for Deltas {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

impl Deltas {
    fn text(&self) -> String {
        let deltas = self.0.lock().unwrap();
        let texts = deltas.iter().filter_map(|delta| match delta {
            Delta::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
    fn calls(&self) -> Vec<String> {
        let deltas = self.0.lock().unwrap();
        let names = deltas.iter().filter_map(|delta| match delta {
            Delta::Call { name } => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }
}

fn providers(url: &str) -> Providers {
    let url = url.to_owned();
    Providers::new(move |name| match name {
        "OPENAI_BASE_URL" => Some(format!("{url}/v1")),
        "ANTHROPIC_BASE_URL" => Some(url.clone()),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => Some(KEY.into()),
        _ => None,
    })
}

impl Talk {
    fn new(way: (Wire, bool), script: Script) -> Self {
        let server = TestServer::start(script);
        let name = match way.0 {
            Wire::OpenAi => "openai:gpt-test",
            Wire::Anthropic => "anthropic:claude-test",
        };
        let providers = providers(server.url()).streaming(way.1);
        Self::with(server, &providers, name)
    }

    fn impatient(way: (Wire, bool), reply: Reply, idle: Duration) -> Self {
        let server = TestServer::start(Script::new().turn(reply));
        let name = if way.0 == Wire::OpenAi { "openai:gpt-test" } else { "anthropic:claude-test" };
        let providers = providers(server.url()).streaming(way.1).idle_timeout(idle);
        Self::with(server, &providers, name)
    }

    fn with(server: TestServer, providers: &Providers, name: &str) -> Self {
        let name: ModelName = name.parse().unwrap();
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "Does it.".into(),
            input: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        };
        let mut talk = Self {
            model: providers.open(&name).unwrap(),
            server,
            name,
            system: "Be brief.".into(),
            messages: Vec::new(),
            tools: Arc::new([tool("read_file"), tool("list_files")]),
            settings: ModelSettings::default(),
            output: None,
            told: Deltas::default(),
        };
        talk.say(Role::User, vec![Part::text("Hello.")]);
        talk
    }

    fn say(&mut self, role: Role, parts: Vec<Part>) {
        let id = MessageId(self.messages.len() as u32);
        self.messages.push(Arc::new(Message { id, parent: None, role, parts }));
    }

    async fn ask(&self) -> Result<ModelResponse, ModelError> {
        let turn = self.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let request = ModelRequest {
            conversation: &CallPath::root(),
            run: "run-1",
            worker: "w",
            turn: turn as u32,
            model: &self.name,
            system: &self.system,
            messages: &self.messages,
            tools: &self.tools,
            server_tools: &Arc::from([]),
            settings: &self.settings,
            output: self.output.as_ref(),
        };
        self.model.respond(request, &self.told).await
    }

    /// Asks, keeps the answer, and answers each of its calls with this.
    async fn turn(&mut self, result: &str) -> ModelResponse {
        let response = self.ask().await.unwrap();
        self.say(Role::Assistant, response.parts.clone());
        let results: Vec<Part> = calls(&response)
            .into_iter()
            .map(|call| {
                Part::Result(ToolResult {
                    call_id: call.id,
                    name: call.name,
                    content: result.into(),
                    is_error: result.starts_with("error"),
                })
            })
            .collect();
        if !results.is_empty() {
            self.say(Role::Tool, results);
        }
        response
    }

    fn seen(&self) -> server::Seen {
        self.server.requests().pop().unwrap()
    }
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

fn calls(response: &ModelResponse) -> Vec<ToolCall> {
    let calls = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

fn arguments(call: &ToolCall) -> Value {
    match &call.arguments {
        Arguments::Json(value) => value.as_ref().clone(),
        Arguments::Invalid { text, .. } => panic!("{text}"),
    }
}

#[tokio::test]
async fn text_comes_with_its_finish_and_usage() {
    for way in WAYS {
        let talk = Talk::new(way, Script::new().turn(Reply::text("Hi there.").usage_with_cache(100, 7, 60)));
        let response = talk.ask().await.unwrap();
        assert_eq!(text(&response), "Hi there.", "{way:?}");
        assert_eq!(response.finish, FinishReason::Stop);
        assert_eq!(response.usage.input_tokens, Some(100), "{way:?}");
        assert_eq!(response.usage.cached_tokens, Some(60), "{way:?}");
        assert_eq!(response.usage.output_tokens, Some(7), "{way:?}");
        let seen = talk.seen();
        assert_eq!((seen.system(), seen.last_user_text()), ("Be brief.", "Hello."));
        assert_eq!(seen.streamed(), way.1);
        assert_eq!(seen.tool_names(), ["read_file", "list_files"]);
        assert_eq!(talk.told.text(), if way.1 { "Hi there." } else { "" });
        talk.server.assert_valid();
    }
}

#[tokio::test]
async fn several_calls_and_their_results_make_a_history_that_the_wire_accepts() {
    for way in WAYS {
        let both = [("read_file", json!({"path": "a"})), ("read_file", json!({"path": "b"}))];
        let script = Script::new()
            .turn(Reply::text("I look.").and_tool("list_files", json!({})))
            .turn(Reply::tools(both))
            .turn(Reply::text("Done."));
        let mut talk = Talk::new(way, script);
        let first = talk.turn("a, b").await;
        assert_eq!(first.finish, FinishReason::ToolCalls);
        assert_eq!(arguments(&calls(&first)[0]), json!({}), "{way:?}");
        let second = talk.turn("error: unreadable").await;
        let made = calls(&second);
        assert_eq!([arguments(&made[0]), arguments(&made[1])], [json!({"path": "a"}), json!({"path": "b"})]);
        assert_ne!(made[0].id, made[1].id);
        assert_eq!(text(&talk.turn("").await), "Done.");
        talk.server.assert_valid();
        let seen = talk.seen();
        assert_eq!(seen.tool_results().len(), 2, "{way:?}: parallel results stand together");
        assert_eq!(seen.tool_results()[0].is_error, way.0 == Wire::Anthropic);
        assert_eq!(seen.tool_results()[1].text, "error: unreadable");
        if way.1 {
            assert_eq!(talk.told.calls(), ["list_files", "read_file", "read_file"]);
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_is_never_an_answer() {
    for wire in STREAMED {
        let full = || Reply::text("This is a long answer.").and_tool("read_file", json!({"path": "a"}));
        let chunks = if wire == Wire::OpenAi { 0..6 } else { 0..8 };
        for cut in chunks {
            for reply in [full().cut_after(cut), full().end_after(cut), full().malformed_after(cut)] {
                let talk = Talk::new((wire, true), Script::new().turn(reply));
                match talk.ask().await {
                    Ok(response) => panic!("{wire:?}, cut after {cut}: {response:?}"),
                    Err(error) => assert_eq!(error.kind, ModelErrorKind::Network, "{wire:?} {cut}: {error}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_cut_answer_that_is_not_streamed_is_no_answer_either() {
    for wire in STREAMED {
        for reply in [Reply::text("A long answer.").cut_after(1), Reply::text("A long answer.").end_after(1)]
        {
            let talk = Talk::new((wire, false), Script::new().turn(reply));
            let error = talk.ask().await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
        }
    }
}

#[tokio::test]
async fn torn_chunks_and_characters_come_together_again() {
    for wire in STREAMED {
        for size in [1, 3, 7] {
            let reply = Reply::text("Grüße, 世界 🌍.").and_tool("read_file", json!({"path": "ä"})).torn(size);
            let talk = Talk::new((wire, true), Script::new().turn(reply));
            let response = talk.ask().await.unwrap();
            assert_eq!(text(&response), "Grüße, 世界 🌍.");
            assert_eq!(arguments(&calls(&response)[0]), json!({"path": "ä"}));
            assert_eq!(talk.told.text(), "Grüße, 世界 🌍.");
        }
    }
}

#[tokio::test]
async fn statuses_become_kinds_and_the_server_says_how_long_to_wait() {
    use ModelErrorKind as K;
    for way in WAYS {
        for (reply, kind, wait) in [
            (Reply::rate_limited(Some(Duration::from_secs(2))), K::RateLimited, Some(2000)),
            (Reply::rate_limited(None), K::RateLimited, None),
            (Reply::status(429).header("retry-after-ms", "250"), K::RateLimited, Some(250)),
            (Reply::status(500), K::Server, None),
            (Reply::status(529), K::Server, None),
            (Reply::status(404), K::NotFound, None),
            (Reply::status(400), K::BadRequest, None),
            (Reply::status(403), K::Auth, None),
        ] {
            let talk = Talk::new(way, Script::new().turn(reply));
            let error = talk.ask().await.unwrap_err();
            assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{way:?}: {error}");
            assert!(error.message.starts_with(talk.name.as_str()), "{error}");
        }
        let long = r#"{"error":{"message":"prompt is too long","type":"invalid_request_error"}}"#;
        let talk = Talk::new(way, Script::new().turn(Reply::status(400).body(long)));
        assert_eq!(talk.ask().await.unwrap_err().kind, K::ContextExceeded);
    }
}

#[tokio::test]
async fn a_refused_key_is_told_by_its_variable_and_not_shown() {
    for way in WAYS {
        for code in [401, 403, 400, 500] {
            let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
            let talk = Talk::new(way, Script::new().turn(Reply::status(code).body(body)));
            let error = talk.ask().await.unwrap_err();
            assert!(!format!("{error:?}").contains(KEY), "{error:?}");
            let var = if way.0 == Wire::OpenAi { "OPENAI_API_KEY" } else { "ANTHROPIC_API_KEY" };
            // Some servers refuse a key with 400. What a server says about a key is never repeated.
            assert_eq!(code != 500, error.message.contains(var), "{error}");
            let header = if way.0 == Wire::OpenAi { "authorization" } else { "x-api-key" };
            assert!(talk.seen().header(header).unwrap().ends_with(KEY));
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_that_error() {
    let talk = Talk::new(
        (Wire::Anthropic, true),
        Script::new().turn(Reply::text("A b c.").error_after(3, "overloaded_error")),
    );
    let error = talk.ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Server, "{error}");
    let talk = Talk::new(
        (Wire::OpenAi, true),
        Script::new().turn(Reply::text("A b c.").error_after(2, "rate_limit_exceeded")),
    );
    let error = talk.ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited, "{error}");
}

#[tokio::test]
async fn silence_is_given_up_after_the_idle_time() {
    for way in WAYS {
        for reply in [Reply::hang(), Reply::text("A b c d e f.").hang_after(1)] {
            let talk = Talk::impatient(way, reply, Duration::from_millis(60));
            let error = talk.ask().await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Timeout, "{way:?}: {error}");
        }
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_network_error_without_the_address_in_full() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let custom = CustomProvider::new(format!("http://user:hunter22@{free}/v1"));
    let server = TestServer::start(Script::new());
    let providers = providers(server.url()).custom("gw", custom);
    let error = Talk::with(server, &providers, "gw:m").ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains(&free.to_string()) && !error.message.contains("hunter22"), "{error}");
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_and_can_go_back() {
    for way in WAYS {
        let broken = r#"{"path": "a", "#;
        let script = Script::new()
            .turn(Reply::text("Hm.").and_raw_tool("read_file", broken).and_tool("list_files", json!({})))
            .turn(Reply::text("Sorry."));
        let mut talk = Talk::new(way, script);
        let response = talk.turn("error: not JSON").await;
        assert_eq!(text(&response), "Hm.", "{way:?}");
        assert_eq!(response.finish, FinishReason::ToolCalls);
        let made = calls(&response);
        assert_eq!(made.len(), 2);
        assert!(
            matches!(&made[0].arguments, Arguments::Invalid { text, .. } if &**text == broken),
            "{way:?}: {made:?}"
        );
        assert_eq!(text(&talk.turn("").await), "Sorry.");
        talk.server.assert_valid();
        let seen = talk.seen();
        let sent = seen.messages().iter().flat_map(|message| &message.tool_calls).next().unwrap();
        assert_eq!(sent.arguments, json!({"INVALID_JSON": broken}), "{way:?}");
    }
}

#[tokio::test]
async fn refusals_cut_off_answers_and_empty_ones_say_so() {
    for way in WAYS {
        let talk = Talk::new(way, Script::new().turn(Reply::refusal("I can't help with that.")));
        let response = talk.ask().await.unwrap();
        assert_eq!(response.finish, FinishReason::Refusal, "{way:?}");
        assert_eq!(text(&response), "I can't help with that.", "{way:?}");

        let talk = Talk::new(way, Script::new().turn(Reply::text("Once upon").finish(Finish::Length)));
        assert_eq!(talk.ask().await.unwrap().finish, FinishReason::Length, "{way:?}");

        let talk = Talk::new(way, Script::new().turn(Reply::text("x").finish(Finish::Filtered)));
        assert_eq!(talk.ask().await.unwrap().finish, FinishReason::Refusal, "{way:?}");

        let mut talk = Talk::new(way, Script::new().turn(Reply::empty()).turn(Reply::text("Yes.")));
        let response = talk.turn("").await;
        assert_eq!((response.parts.len(), response.finish), (0, FinishReason::Stop), "{way:?}");
        talk.say(Role::User, vec![Part::text("Say something.")]);
        assert_eq!(text(&talk.turn("").await), "Yes.");
        talk.server.assert_valid();
    }
}

#[tokio::test]
async fn images_and_pdf_files_go_as_parts_and_text_files_as_text() {
    for wire in STREAMED {
        let mut talk = Talk::new((wire, true), Script::new().turn(Reply::text("A cat.")));
        // The known endpoint takes PDF files; of one elsewhere only images are assumed.
        let blob = |name: &str, media_type: &str, data: &[u8]| {
            Part::Blob(Blob { name: name.into(), media_type: media_type.into(), data: data.into() })
        };
        talk.say(
            Role::User,
            vec![
                Part::text("What is this?"),
                blob("cat.png", "image/png", b"\x89PNG"),
                blob("cat.pdf", "application/pdf", b"%PDF"),
                blob("cat.csv", "text/csv", b"a,b"),
            ],
        );
        assert_eq!(text(&talk.ask().await.unwrap()), "A cat.");
        talk.server.assert_valid();
        let body = talk.seen().body.to_string();
        let parts: &[&str] = match wire {
            Wire::OpenAi => {
                &["data:image/png;base64,iVBORw==", "data:application/pdf;base64,JVBERg==", "cat.pdf"]
            }
            Wire::Anthropic => &["\"data\":\"iVBORw==\"", "\"document\"", "\"data\":\"JVBERg==\""],
        };
        for part in parts.iter().chain(&["cat.csv:\\na,b"]) {
            assert!(body.contains(part), "{part} in {body}");
        }

        talk.say(Role::User, vec![blob("a.bin", "application/octet-stream", b"\xff\xfe")]);
        let error = talk.ask().await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unsupported);
        assert!(error.message.contains("a.bin"), "{error}");
    }
}

#[tokio::test]
async fn anthropic_is_told_what_to_cache_and_the_prefix_never_changes() {
    let script = Script::new()
        .turn(Reply::tool("read_file", json!({"path": "a"})))
        .turn(Reply::tool("read_file", json!({"path": "b"})))
        .turn(Reply::text("Done."));
    let mut talk = Talk::new((Wire::Anthropic, true), script);
    for _ in 0..3 {
        talk.turn("text").await;
    }
    fn without_marks(mut value: Value) -> Value {
        match &mut value {
            Value::Object(map) => {
                map.shift_remove("cache_control");
                map.values_mut().for_each(|value| *value = without_marks(value.take()));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| *item = without_marks(item.take())),
            _ => {}
        }
        // A lone text is written as a string or as a block, which is the same to the cache.
        match value.as_array().map(Vec::as_slice) {
            Some([block]) if block["type"] == "text" => block["text"].clone(),
            _ => value,
        }
    }
    let requests = talk.server.requests();
    for seen in &requests {
        let marks = seen.body.to_string().matches("cache_control").count();
        assert!((2..=4).contains(&marks), "{marks} marks; Anthropic takes four");
        assert_eq!(seen.body["system"][0]["cache_control"]["type"], "ephemeral");
        let last = seen.body["messages"].as_array().unwrap().last().unwrap();
        assert!(last["content"].to_string().contains("cache_control"), "{last}");
    }
    for pair in requests.windows(2) {
        let [before, after] = pair else { unreachable!() };
        let messages = |seen: &server::Seen| without_marks(seen.body["messages"].clone());
        let (before, after) = (messages(before), messages(after));
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        assert_eq!(before[..], after[..before.len()]);
    }
}

#[tokio::test]
async fn signed_thinking_goes_back_to_the_provider_that_signed_it() {
    for streaming in [true, false] {
        let script = Script::new()
            .turn(Reply::empty().and_thinking("Let me think.").and_tool("read_file", json!({})))
            .turn(Reply::text("Done."));
        let mut talk = Talk::new((Wire::Anthropic, streaming), script);
        let first = talk.turn("text").await;
        assert!(
            matches!(&first.parts[0], Part::Reasoning { text } if &**text == "Let me think."),
            "{first:?}"
        );
        assert!(matches!(&first.parts[1], Part::Opaque { provider, .. } if &**provider == "anthropic"));
        talk.turn("").await;
        talk.server.assert_valid();
        let body = talk.seen().body;
        let block = &body["messages"][1]["content"][0];
        assert_eq!(
            (&block["type"], &block["thinking"]),
            (&json!("thinking"), &json!("Let me think.")),
            "{body}"
        );
        assert!(block["signature"].is_string());
    }
    // Another provider gets neither the text nor the signature.
    let mut talk = Talk::new((Wire::OpenAi, true), Script::new().turn(Reply::text("Hi.")));
    talk.say(
        Role::Assistant,
        vec![
            Part::Reasoning { text: "SECRET THOUGHT".into() },
            Part::Opaque { provider: "anthropic".into(), value: json!({"signature": "SIGNED"}) },
            Part::text("Hello."),
        ],
    );
    talk.say(Role::User, vec![Part::text("And?")]);
    talk.turn("").await;
    let body = talk.seen().body.to_string();
    assert!(!body.contains("THOUGHT") && !body.contains("SIGNED"), "{body}");
}

#[tokio::test]
async fn a_declared_endpoint_gets_its_headers_and_its_key_or_none() {
    for (api, path) in [(Api::OpenAi, "/x/v1/chat/completions"), (Api::Anthropic, "/x/v1/messages")] {
        for (stream, with_key) in [(true, true), (true, false), (false, true), (false, false)] {
            let server = TestServer::start(Script::new().turn(Reply::text("Hi.")));
            let mut custom = CustomProvider::new(format!("{}/x/v1/", server.url()));
            custom.api = api;
            custom.stream = Some(stream);
            custom.api_key_env = with_key.then(|| "ANTHROPIC_API_KEY".to_owned());
            custom.headers.insert("x-team".into(), "blue".into());
            let providers = providers(server.url()).custom("gw", custom);
            let talk = Talk::with(server, &providers, "gw:some/model-high");
            assert_eq!(text(&talk.ask().await.unwrap()), "Hi.", "{api:?} {stream} {with_key}");
            let seen = talk.seen();
            assert_eq!((seen.path.as_str(), seen.streamed()), (path, stream));
            assert_eq!(seen.header("x-team"), Some("blue"));
            let key = seen.header("authorization").or(seen.header("x-api-key"));
            assert_eq!(key.is_some_and(|key| key.ends_with(KEY)), with_key);
            assert_eq!(key.is_some(), with_key);
            if api == Api::OpenAi {
                assert_eq!(seen.model(), "some/model-high", "the name goes as it is written");
                assert_eq!(seen.body.get("reasoning_effort"), None);
            }
        }
    }
}

#[tokio::test]
async fn settings_go_to_the_wire_under_its_names() {
    for wire in STREAMED {
        let mut talk = Talk::new((wire, true), Script::new().turn(Reply::text("Hi.")));
        talk.settings = ModelSettings {
            temperature: Some(0.5),
            top_p: Some(0.25),
            max_tokens: Some(77),
            stop: vec!["END".into()],
            ..ModelSettings::default()
        };
        talk.tools = Arc::new([]);
        talk.ask().await.unwrap();
        let body = talk.seen().body;
        assert_eq!(
            (&body["temperature"], &body["top_p"], &body["max_tokens"]),
            (&json!(0.5), &json!(0.25), &json!(77))
        );
        let stop = if wire == Wire::OpenAi { &body["stop"] } else { &body["stop_sequences"] };
        assert_eq!(stop, &json!(["END"]));
        assert_eq!(body.get("tools"), None, "an empty list is refused");
        if wire == Wire::OpenAi {
            assert_eq!(body["stream_options"]["include_usage"], true);
        }
    }
}

#[tokio::test]
async fn a_schema_that_is_no_object_travels_in_one() {
    let reply = || Reply::text(r#"{"result": [1, 2]}"#);
    for streaming in [true, false] {
        let mut talk = Talk::new((Wire::OpenAi, streaming), Script::new().turn(reply()));
        talk.output = Some(Arc::new(json!({"type": "array", "items": {"type": "integer"}})));
        assert_eq!(text(&talk.ask().await.unwrap()), "[1,2]");
        let format = talk.seen().body["response_format"].clone();
        assert_eq!(format["json_schema"]["strict"], true);
        assert_eq!(format["json_schema"]["schema"]["properties"]["result"]["type"], "array");
    }
}

#[tokio::test]
async fn a_tool_of_ours_never_becomes_one_of_the_providers() {
    let script =
        Script::new().turn(Reply::tool("web_search_", json!({"path": "x"}))).turn(Reply::text("Done."));
    let mut talk = Talk::new((Wire::Anthropic, true), script);
    talk.tools = Arc::new([ToolSpec {
        name: "web_search".into(),
        description: "Ours.".into(),
        input: Arc::new(json!({"type": "object"})),
    }]);
    let response = talk.turn("found").await;
    assert_eq!(&*calls(&response)[0].name, "web_search");
    assert_eq!(talk.told.calls(), ["web_search"]);
    talk.turn("").await;
    talk.server.assert_valid();
    let body = talk.seen().body;
    assert_eq!((&body["tools"][0]["name"], &body["tools"][0]["type"]), (&json!("web_search_"), &Value::Null));
}

#[tokio::test]
async fn a_conversation_that_is_replaced_is_sent_as_it_is() {
    for wire in STREAMED {
        let mut talk = Talk::new((wire, true), Script::route(|_| Reply::text("Hi.")));
        talk.turn("").await;
        talk.say(Role::User, vec![Part::text("More.")]);
        talk.turn("").await;
        assert_eq!(
            talk.seen().messages().iter().filter(|message| message.role != server::Role::System).count(),
            3
        );
        // Undone and restarted under the same path.
        talk.messages.clear();
        talk.say(Role::User, vec![Part::text("Something else.")]);
        talk.turn("").await;
        assert_eq!(talk.seen().first_user_text(), "Something else.");
        talk.system = "Be long.".into();
        talk.say(Role::User, vec![Part::text("More.")]);
        talk.turn("").await;
        let seen = talk.seen();
        assert_eq!((seen.system(), seen.first_user_text()), ("Be long.", "Something else."));
        talk.server.assert_valid();
    }
}

#[tokio::test]
async fn all_conversations_share_connections_and_a_dropped_request_is_abandoned() {
    let server = TestServer::start(Script::route(|seen| match seen.first_user_text() {
        "Hello." => Reply::text("Hi."),
        _ => Reply::hang(),
    }));
    let providers = providers(server.url());
    let mut talk = Talk::with(server, &providers, "openai:gpt-test");
    for _ in 0..50 {
        talk.ask().await.unwrap();
    }
    let connections = talk.server.connections();
    assert!(connections <= 5, "{connections} connections for 50 requests");
    talk.messages.clear();
    talk.say(Role::User, vec![Part::text("Wait.")]);
    let arrived = async {
        while talk.server.request_count() < 51 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = talk.ask() => panic!("nothing was to come: {answer:?}"),
        () = arrived => {}
    }
    tokio::task::spawn_blocking(move || talk.server.wait_for_abandoned(1)).await.unwrap();
}
