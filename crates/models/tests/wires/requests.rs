//! Tests of the content of requests: files, caches, signatures, headers, settings, schemas, histories, connections.

use crate::*;

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
            custom.headers.insert("Content-Type".into(), "application/json; charset=utf-8".into());
            let providers = providers(server.url()).custom("gw", custom);
            let talk = Talk::with(server, &providers, "gw:some/model-high");
            assert_eq!(text(&talk.ask().await.unwrap()), "Hi.", "{api:?} {stream} {with_key}");
            let seen = talk.seen();
            assert_eq!((seen.path.as_str(), seen.streamed()), (path, stream));
            assert_eq!(seen.header("x-team"), Some("blue"));
            if api == Api::OpenAi {
                assert_eq!(
                    seen.header("content-type"),
                    Some("application/json; charset=utf-8"),
                    "{with_key}"
                );
            }
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

/// A history contains names and ids from models and servers. The server refuses names and ids that its provider would
/// refuse.
#[tokio::test]
async fn names_and_ids_that_no_provider_takes_are_mapped() {
    let made_up = ["functions.ping", "ping<|channel|>commentary", "", &"p".repeat(65), "пинг"];
    for way in WAYS {
        let mut talk = Talk::new(way, Script::new().turn(Reply::text("Well.")));
        for (number, name) in made_up.iter().enumerate() {
            // Each turn has the same id, as some servers count them.
            let id: Arc<str> =
                if number < 2 { "functions.ping:0".into() } else { format!("call#{number}\u{e9}").into() };
            let call = ToolCall { id: id.clone(), name: (*name).into(), arguments: Arguments::parse("{}") };
            talk.say(Role::Assistant, vec![Part::Call(call)]);
            let result = ToolResult {
                call_id: id,
                name: (*name).into(),
                content: "no such tool".into(),
                is_error: true,
            };
            talk.say(Role::Tool, vec![Part::Result(result)]);
        }
        assert_eq!(text(&talk.ask().await.unwrap()), "Well.");
        talk.server.assert_valid();
        let body = talk.seen().body.to_string();
        assert!(!body.contains("functions.ping\"") && body.contains("functions_ping_"), "{body}");
    }
}

#[tokio::test]
async fn parameters_that_anthropic_refuses_have_other_names_there_and_their_own_here() {
    for streamed in [true, false] {
        let server = TestServer::start(Script::new().turn(Reply::text("Which?")));
        let providers = providers(server.url()).streaming(streamed);
        let mut talk = Talk::with(server, &providers, "anthropic:claude-test");
        let properties = json!({"größe": {"type": "integer"}, "filter[id]": {}, "$top": {}, "plain": {}});
        talk.tools = Arc::new([ToolSpec {
            name: "measure".into(),
            description: "Measures.".into(),
            input: Arc::new(json!({"type": "object", "properties": properties, "required": ["größe"]})),
        }]);
        talk.ask().await.unwrap();
        talk.server.assert_valid();
        let sent = talk.seen().body["tools"][0]["input_schema"].clone();
        let names: Vec<String> = sent["properties"].as_object().unwrap().keys().cloned().collect();
        let valid = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        assert!(names.iter().all(valid) && names[3] == "plain", "{names:?}");
        assert_eq!(sent["required"], json!([names[0]]));

        // The model uses the names that it got, and the history keeps them.
        let arguments =
            json!({names[0].clone(): 3, names[1].clone(): "x", names[2].clone(): 1, "plain": true});
        let server = TestServer::start(
            Script::new().turn(Reply::tool("measure", arguments)).turn(Reply::text("Done.")),
        );
        let providers = super::providers(server.url()).streaming(streamed);
        let tools = Arc::clone(&talk.tools);
        let mut talk = Talk::with(server, &providers, "anthropic:claude-test");
        talk.tools = tools;
        let response = talk.turn("3 cm").await;
        let call = calls(&response).remove(0);
        assert_eq!(crate::arguments(&call), json!({"größe": 3, "filter[id]": "x", "$top": 1, "plain": true}));
        talk.turn("").await;
        talk.server.assert_valid();
        let body = talk.seen().body.to_string();
        assert!(body.contains(&format!("\"{}\":3", names[0])), "{body}");
    }
}

/// An earlier model could read a file, and the present model can't.
#[tokio::test]
async fn a_file_of_an_earlier_turn_does_not_stop_a_model_that_takes_none() {
    for way in WAYS {
        let mut talk = Talk::new(way, Script::new().turn(Reply::text("Yes.")));
        let blob = Blob { name: "a.bin".into(), media_type: "video/mp4".into(), data: (*b"\xff\xfe").into() };
        talk.say(Role::User, vec![Part::Blob(blob)]);
        talk.say(Role::Assistant, vec![Part::text("A film.")]);
        talk.say(Role::User, vec![Part::text("Sure?")]);
        assert_eq!(text(&talk.ask().await.unwrap()), "Yes.");
        assert!(talk.seen().body.to_string().contains("a.bin: video/mp4, 2 bytes, which you can't see"));
    }
}
