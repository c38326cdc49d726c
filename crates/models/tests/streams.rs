//! Event streams as servers and gateways send them: comments, line ends, cuts at any byte, ends without a final event.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Delta, DeltaSink, FinishReason, Message, MessageId, ModelError, ModelErrorKind, ModelName,
        ModelRequest, ModelResponse, ModelSettings, Models as _, Part, Role,
    },
};
use llm_do_models::{Api, CustomProvider, Providers};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

mod one_answer;

/// The wires with event streams, each with a model.
const WIRES: [(Api, &str); 5] = [
    (Api::OpenAi, "gpt-test"),
    (Api::OpenAi, "groq:llama-test"),
    (Api::OpenAiResponses, "gpt-test"),
    (Api::Anthropic, "claude-test"),
    (Api::Gemini, "gemini-2.5-flash"),
];

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
}

/// Asks a model whose server sends these pieces.
async fn ask(
    wire: (Api, &str),
    pieces: impl IntoIterator<Item = Vec<u8>> + Send + 'static,
    told: &Deltas,
) -> Result<ModelResponse, ModelError> {
    let (url, served) = one_answer::serve([("text/event-stream", pieces)]);
    let response = ask_of(&providers(wire.0, url), wire.1, told).await;
    served.join().unwrap();
    response
}

/// Makes providers with the endpoint `gw` at this address.
fn providers(api: Api, url: String) -> Providers {
    let mut custom = CustomProvider::new(url);
    custom.api = api;
    custom.api_key_env = Some("KEY".to_owned());
    custom.stream = Some(true);
    let address = custom.base_url.clone();
    let env = move |name: &str| match name {
        "KEY" | "GROQ_API_KEY" => Some("key-of-tests".to_owned()),
        "GROQ_BASE_URL" => Some(address.clone()),
        _ => None,
    };
    Providers::new(env).custom("gw", custom).idle_timeout(Duration::from_secs(10))
}

/// Asks a model, one of the endpoint `gw` unless its provider is named.
async fn ask_of(providers: &Providers, model: &str, told: &Deltas) -> Result<ModelResponse, ModelError> {
    let name = if model.contains(':') { model.to_owned() } else { format!("gw:{model}") };
    let name: ModelName = name.parse().unwrap();
    let parts = vec![Part::text("Hello.")];
    let messages = [Arc::new(Message { id: MessageId(0), parent: None, role: Role::User, parts })];
    let model = providers.open(&name).unwrap();
    let request = ModelRequest {
        conversation: &CallPath::root(),
        run: "run",
        worker: "w",
        purpose: Default::default(),
        turn: 0,
        model: &name,
        system: &"Be brief.".into(),
        messages: &messages,
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    };
    model.respond(request, told).await
}

async fn ask_all(wire: (Api, &str), stream: &str) -> Result<ModelResponse, ModelError> {
    ask(wire, [stream.as_bytes().to_vec()], &Deltas::default()).await
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

fn calls(response: &ModelResponse) -> Vec<(String, Value)> {
    let calls = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => match &call.arguments {
            Arguments::Json(value) => Some((call.name.to_string(), value.as_ref().clone())),
            Arguments::Invalid { text, .. } => panic!("{text}"),
        },
        _ => None,
    });
    calls.collect()
}

/// Numbers of pieces that no server needs. None of them makes a reader allocate as much, or fail.
#[tokio::test]
async fn hostile_numbers_of_pieces_do_no_harm() {
    for number in
        [json!(4_294_967_295_u64), json!(u64::MAX), json!(-1), json!(1.5e300), json!("0"), json!(null)]
    {
        for (api, model) in WIRES {
            let mut stream = String::new();
            for (name, mut event) in events(api) {
                renumber(&mut event, &number);
                if !name.is_empty() {
                    stream.push_str(&format!("event: {name}\n"));
                }
                stream.push_str(&format!("data: {event}\n\n"));
            }
            let answered = ask_all((api, model), &stream).await;
            if let Ok(response) = &answered {
                assert!(text(response).contains("Grüße") || !calls(response).is_empty(), "{api:?} {number}");
            }
        }
    }
}

/// Sets the number of every piece.
fn renumber(event: &mut Value, number: &Value) {
    match event {
        Value::Object(fields) => {
            for (key, value) in fields {
                if ["index", "output_index", "content_index"].contains(&key.as_str()) {
                    *value = number.clone();
                } else {
                    renumber(value, number);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| renumber(item, number)),
        _ => {}
    }
}

/// Returns events with the text ` Grüße, 世界 🌍.\n ` and a call of `f` with `{"path": "ä b"}`, each with its name.
fn events(api: Api) -> Vec<(&'static str, Value)> {
    let (one, two) = (" Grüße, 世", "界 🌍.\n ");
    let (open, shut) = (r#"{"path": "#, r#""ä b"}"#);
    match api {
        Api::OpenAi => {
            let delta = |delta: Value| {
                ("", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
            };
            let call = |call: Value| delta(json!({"tool_calls": [call]}));
            vec![
                delta(json!({"role": "assistant", "content": one})),
                delta(json!({"content": two})),
                call(
                    json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}),
                ),
                call(json!({"index": 0, "function": {"arguments": open}})),
                call(json!({"index": 0, "function": {"arguments": shut}})),
                ("", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})),
                (
                    "",
                    json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}}),
                ),
            ]
        }
        Api::OpenAiResponses => {
            let event = |kind: &'static str, mut event: Value| {
                event["type"] = kind.into();
                (kind, event)
            };
            let text =
                |text: &str| event("response.output_text.delta", json!({"output_index": 0, "delta": text}));
            let arguments = |text: &str| {
                event("response.function_call_arguments.delta", json!({"output_index": 1, "delta": text}))
            };
            let item = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""});
            let usage = json!({"input_tokens": 9, "output_tokens": 4, "total_tokens": 13});
            let response =
                json!({"id": "r", "model": "m", "status": "completed", "output": [], "usage": usage});
            vec![
                event("response.created", json!({"response": {"id": "r", "status": "in_progress"}})),
                text(one),
                text(two),
                event("response.output_item.added", json!({"output_index": 1, "item": item})),
                arguments(open),
                arguments(shut),
                event("response.completed", json!({"response": response})),
            ]
        }
        Api::Anthropic => {
            let event = |kind: &'static str, mut event: Value| {
                event["type"] = kind.into();
                (kind, event)
            };
            let start = |index: u8, block: Value| {
                event("content_block_start", json!({"index": index, "content_block": block}))
            };
            let delta = |index: u8, delta: Value| {
                event("content_block_delta", json!({"index": index, "delta": delta}))
            };
            let stop = |index: u8| event("content_block_stop", json!({"index": index}));
            vec![
                event(
                    "message_start",
                    json!({"message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}),
                ),
                start(0, json!({"type": "text", "text": ""})),
                delta(0, json!({"type": "text_delta", "text": one})),
                delta(0, json!({"type": "text_delta", "text": two})),
                stop(0),
                start(1, json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}})),
                delta(1, json!({"type": "input_json_delta", "partial_json": open})),
                delta(1, json!({"type": "input_json_delta", "partial_json": shut})),
                stop(1),
                event(
                    "message_delta",
                    json!({"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}}),
                ),
                event("message_stop", json!({})),
            ]
        }
        Api::Gemini | Api::Ollama => {
            let chunk =
                |part: Value| ("", json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}));
            let call = json!({"functionCall": {"id": "c1", "name": "f", "args": {"path": "ä b"}}});
            let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 4});
            vec![
                chunk(json!({"text": one})),
                chunk(json!({"text": two})),
                chunk(call),
                ("", json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage})),
            ]
        }
    }
}

/// The form in which a server writes its events.
#[derive(Clone, Copy, Debug)]
struct Style {
    line_end: &'static str,
    comments: bool,
    /// True if data is spread over several lines.
    spread: bool,
    /// True if the space after the colon is left out.
    tight: bool,
    /// True if there are fields and events that no client knows.
    unknown: bool,
}

fn write(events: &[(&str, Value)], style: Style, done: bool) -> String {
    let Style { line_end, comments, spread, tight, unknown } = style;
    let space = if tight { "" } else { " " };
    let mut out = String::new();
    let mut event = |name: &str, data: &str| {
        if comments {
            out += &format!(": keepalive{line_end}{line_end}:{line_end}");
        }
        if unknown {
            out += &format!("id: 7{line_end}retry: 10{line_end}surprise{line_end}");
        }
        if !name.is_empty() {
            out += &format!("event:{space}{name}{line_end}");
        }
        for line in data.lines() {
            out += &format!("data:{space}{line}{line_end}");
        }
        out += line_end;
    };
    for (name, value) in events {
        if unknown {
            event("surprise", r#"{"type": "surprise", "index": 0, "delta": {"type": "surprise_delta"}}"#);
        }
        let data = if spread { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() };
        event(name, &data);
    }
    if done {
        event("", "[DONE]");
    }
    out
}

fn style() -> impl Strategy<Value = Style> {
    let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    (line_end, any::<[bool; 4]>()).prop_map(|(line_end, [comments, spread, tight, unknown])| Style {
        line_end,
        comments,
        spread,
        tight,
        unknown,
    })
}

/// A cut anywhere in the last event.
#[tokio::test]
async fn the_last_event_may_be_cut_anywhere() {
    let style = Style { line_end: "\r\n", spread: true, comments: true, unknown: true, ..PLAIN };
    for wire in WIRES {
        let all = events(wire.0);
        let (last, before) = all.split_last().unwrap();
        let plain = write(before, Style { comments: false, unknown: false, ..style }, false);
        let stream = (plain + &write(std::slice::from_ref(last), style, wire.0 == Api::OpenAi)).into_bytes();
        for cut in stream.len() - 150..stream.len() {
            let pieces = vec![stream[..cut].to_vec(), stream[cut..].to_vec()];
            let response = ask(wire, pieces, &Deltas::default()).await;
            assert_eq!(response.map(|it| text(&it)), Ok(" Grüße, 世界 🌍.\n ".to_owned()), "{wire:?}, {cut}");
        }
    }
}

/// The same answer, however the events are written and the bytes are cut.
#[test]
fn an_answer_does_not_depend_on_how_its_bytes_are_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for wire in WIRES {
        let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..12);
        let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
        let outcome = runner.run(&(style(), cuts, any::<bool>()), |(style, cuts, after_returns)| {
            let stream = write(&events(wire.0), style, wire.0 == Api::OpenAi).into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
            if after_returns {
                // The hardest place: between the two characters that end a line.
                cuts.extend((1..stream.len()).filter(|at| stream[at - 1] == b'\r'));
            }
            cuts.push(stream.len());
            cuts.sort_unstable();
            cuts.dedup();
            let mut from = 0;
            let pieces =
                cuts.into_iter().map(move |to| stream[std::mem::replace(&mut from, to)..to].to_vec());
            let told = Deltas::default();
            let response = runtime.block_on(ask(wire, pieces.collect::<Vec<_>>(), &told)).unwrap();
            prop_assert_eq!(text(&response), " Grüße, 世界 🌍.\n ");
            prop_assert_eq!(told.text(), text(&response));
            prop_assert_eq!(calls(&response), [("f".to_owned(), json!({"path": "ä b"}))]);
            prop_assert_eq!(response.finish, FinishReason::ToolCalls);
            let usage = (response.usage.input_tokens, response.usage.output_tokens);
            prop_assert_eq!(usage, (Some(9), Some(4)));
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{wire:?}: {error}"));
    }
}

const PLAIN: Style = Style { line_end: "\n", comments: false, spread: false, tight: false, unknown: false };

/// Returns the answer of [`events`] in one body.
fn whole(api: Api) -> Value {
    let (said, arguments) = (" Grüße, 世界 🌍.\n ", json!({"path": "ä b"}));
    match api {
        Api::OpenAi => {
            let call = json!({"id": "c1", "type": "function",
                "function": {"name": "f", "arguments": arguments.to_string()}});
            let message = json!({"role": "assistant", "content": said, "tool_calls": [call]});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}})
        }
        Api::OpenAiResponses => {
            let text = json!({"type": "message", "content": [{"type": "output_text", "text": said}]});
            let call = json!({"type": "function_call", "call_id": "c1", "name": "f",
                "arguments": arguments.to_string()});
            json!({"id": "r", "model": "m", "status": "completed", "output": [text, call],
                "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}})
        }
        Api::Anthropic => {
            let call = json!({"type": "tool_use", "id": "c1", "name": "f", "input": arguments});
            json!({"type": "message", "content": [{"type": "text", "text": said}, call],
                "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 4}})
        }
        Api::Gemini | Api::Ollama => {
            let parts =
                json!([{"text": said}, {"functionCall": {"id": "c1", "name": "f", "args": arguments}}]);
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4}})
        }
    }
}

/// A byte order mark and comments may precede the first event.
#[tokio::test]
async fn the_beginning_of_an_answer_is_never_lost() {
    const MARK: &str = "\u{feff}";
    for wire in WIRES {
        let all = events(wire.0);
        let (plain, spread) = (write(&all, PLAIN, true), write(&all, Style { spread: true, ..PLAIN }, true));
        for stream in [
            format!("{MARK}{plain}"),
            format!("{MARK}{spread}"),
            format!("{MARK}: keepalive\n{plain}"),
            format!("{MARK}\n\n{plain}"),
            format!(": keepalive\n\n:\n\n{spread}"),
        ] {
            let stream = stream.into_bytes();
            for cut in [0, 1, 2, 3, 4, 8, 20] {
                let pieces = vec![stream[..cut].to_vec(), stream[cut..].to_vec()];
                let response = ask(wire, pieces, &Deltas::default()).await.unwrap();
                let context = format!("{wire:?}, cut at {cut}: {}", String::from_utf8_lossy(&stream[..60]));
                assert_eq!(text(&response), " Grüße, 世界 🌍.\n ", "{context}");
                assert_eq!(calls(&response), [("f".to_owned(), json!({"path": "ä b"}))], "{context}");
                assert_eq!(response.finish, FinishReason::ToolCalls, "{context}");
                let usage = (response.usage.input_tokens, response.usage.output_tokens);
                assert_eq!(usage, (Some(9), Some(4)), "{context}");
            }
        }
    }
    let error = json!({"type": "error", "error": {"message": "overloaded", "type": "server_error"}});
    let error = format!("{MARK}\n\ndata: {error}\n\n");
    for wire in WIRES {
        let error = ask_all(wire, &error).await.unwrap_err();
        assert!(error.message.contains("overloaded"), "{wire:?}: {error}");
    }
}

/// Gateways that use Gemini's format give a finish reason with each event.
#[tokio::test]
async fn text_after_a_finish_reason_of_gemini_is_a_part_of_the_answer() {
    let piece = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]});
    let stream = write(&[("", piece("Hi ")), ("", piece("there."))], PLAIN, false);
    let response = ask_all(WIRES[4], &stream).await.unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Hi there.", FinishReason::Stop));
}

#[tokio::test]
async fn a_comment_is_no_event() {
    for wire in WIRES {
        let (all, commented) = (events(wire.0), Style { comments: true, ..PLAIN });
        let stream = write(&all[..1], PLAIN, false) + &write(&all[1..], commented, false);
        let response = ask_all(wire, &stream).await;
        assert_eq!(response.unwrap().finish, FinishReason::ToolCalls, "{wire:?}");
    }
}

const OPENAI: (Api, &str) = WIRES[0];
const GROQ: (Api, &str) = WIRES[1];

fn openai(choices: &[Value]) -> String {
    let event = |choice: &Value| format!("data: {}\n\n", json!({"choices": [choice]}));
    choices.iter().map(event).collect()
}

fn says(text: &str) -> Value {
    json!({"index": 0, "delta": {"content": text}, "finish_reason": null})
}

fn finishes(reason: &str) -> Value {
    json!({"index": 0, "delta": {}, "finish_reason": reason})
}

#[tokio::test]
async fn an_answer_ends_with_its_finish_reason_or_with_done() {
    let done = "data: [DONE]\n\n";
    for wire in [OPENAI, GROQ] {
        let response = ask_all(wire, &openai(&[says("Hi."), finishes("stop")])).await.unwrap();
        assert_eq!((text(&response).as_str(), response.finish), ("Hi.", FinishReason::Stop), "no [DONE]");
        let response = ask_all(wire, &(openai(&[says("Hi.")]) + done)).await.unwrap();
        let said = (text(&response), response.finish);
        assert_eq!(said, ("Hi.".to_owned(), FinishReason::Other), "no finish reason");
        let late = openai(&[says("Hi"), finishes("stop"), says(" there.")]) + done;
        let response = ask_all(wire, &late).await.unwrap();
        assert_eq!((text(&response).as_str(), response.finish), ("Hi there.", FinishReason::Stop));
        let never = openai(&[says("Hi."), finishes("")]);
        let error = ask_all(wire, &never).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Network, "an empty reason is none");
    }
    // The last event of a server that forgets the empty line after it.
    let unended = openai(&[says("Hi."), finishes("stop")]);
    assert_eq!(text(&ask_all(OPENAI, unended.trim_end()).await.unwrap()), "Hi.");

    let anthropic = events(Api::Anthropic);
    let response = ask_all(WIRES[3], &write(&anthropic[..anthropic.len() - 1], PLAIN, false)).await.unwrap();
    assert_eq!(response.finish, FinishReason::ToolCalls, "no message_stop");
}

#[tokio::test]
async fn a_garbled_event_is_never_passed_over() {
    for wire in WIRES {
        let all = events(wire.0);
        let garbled =
            write(&all[..1], PLAIN, false) + "data: {\"type\": \"resp\n\n" + &write(&all[1..], PLAIN, true);
        let error = ask_all(wire, &garbled).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Network, "{wire:?}: {error}");
        assert!(error.message.contains("garbled"), "{wire:?}: {error}");
    }
}

/// Bytes that are no text are not replaced by other characters.
#[tokio::test]
async fn an_answer_that_is_no_utf_8_is_garbled() {
    let stream = openai(&[says("a\u{1}b"), finishes("stop")]).replace("\\u0001", "\u{1}").into_bytes();
    for bad in [&b"\xff"[..], b"\xc3", b"\xf0\x9f\x8c"] {
        let at = stream.iter().position(|byte| *byte == 1).unwrap();
        let stream = [&stream[..at], bad, &stream[at + 1..]].concat();
        for wire in [OPENAI, GROQ] {
            for cut in [at, at + 1, at + bad.len()] {
                let pieces = vec![stream[..cut].to_vec(), stream[cut..].to_vec()];
                let error = ask(wire, pieces, &Deltas::default()).await.unwrap_err();
                assert_eq!(error.kind, ModelErrorKind::Network, "{wire:?}: {error}");
                assert!(error.message.contains("garbled"), "{wire:?}: {error}");
            }
        }
    }
}

/// A number that a server chooses is not used as a size.
#[tokio::test]
async fn the_number_of_a_call_reserves_nothing() {
    let piece = |index: u64, arguments: &str| {
        let call = json!({"index": index, "id": "c1", "function": {"name": "f", "arguments": arguments}});
        json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null})
    };
    for index in [u64::from(u32::MAX), u64::MAX, 7] {
        let stream = openai(&[piece(index, "{}"), finishes("tool_calls")]);
        for wire in [OPENAI, GROQ] {
            let response = ask_all(wire, &stream).await.unwrap();
            assert_eq!(calls(&response), [("f".to_owned(), json!({}))], "{index}");
        }
    }
}

/// Gateways give all calls of an answer the same number, or none, or repeat what they have sent.
#[tokio::test]
async fn calls_that_share_a_number_are_told_apart() {
    let piece = |call: Value| json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
    let call = |index: Value, id: &str, name: &str, arguments: &str| {
        let mut call = json!({"index": index, "function": {"arguments": arguments}});
        if !id.is_empty() {
            call["id"] = id.into();
        }
        if !name.is_empty() {
            call["function"]["name"] = name.into();
        }
        piece(call)
    };
    let zero = || json!(0);
    let add = |a: u32| ("add".to_owned(), json!({ "a": a }));
    let ping = || ("ping".to_owned(), json!({}));
    for (pieces, expected) in [
        (
            vec![call(zero(), "c1", "ping", ""), call(zero(), "c2", "add", r#"{"a": 5}"#)],
            vec![ping(), add(5)],
        ),
        (
            vec![call(zero(), "c1", "add", r#"{"a": 1}"#), call(zero(), "c2", "add", r#"{"a": 5}"#)],
            vec![add(1), add(5)],
        ),
        // The arguments in pieces, and the name after the id.
        (
            vec![
                call(zero(), "c1", "add", r#"{"a""#),
                call(zero(), "", "", ": 1}"),
                call(zero(), "c2", "", ""),
                call(zero(), "", "add", ""),
                call(zero(), "", "", r#"{"a": "#),
                call(zero(), "", "", "5}"),
            ],
            vec![add(1), add(5)],
        ),
        // Without ids, arguments that are whole end a call.
        (
            vec![call(zero(), "", "add", r#"{"a": 1}"#), call(zero(), "", "add", r#"{"a": 5}"#)],
            vec![add(1), add(5)],
        ),
        (vec![call(zero(), "", "ping", ""), call(zero(), "", "add", r#"{"a": 5}"#)], vec![ping(), add(5)]),
        // Without numbers.
        (
            vec![
                call(Value::Null, "c1", "add", r#"{"a""#),
                call(Value::Null, "c1", "", ": 1}"),
                call(Value::Null, "c2", "add", r#"{"a": 5}"#),
            ],
            vec![add(1), add(5)],
        ),
        // One call: its id and its name in every piece, a new id in every piece, all of it twice.
        (vec![call(zero(), "c1", "add", r#"{"a""#), call(zero(), "c1", "add", ": 1}")], vec![add(1)]),
        (
            vec![
                call(zero(), "c1", "add", r#"{"a""#),
                call(zero(), "x2", "", ": "),
                call(zero(), "x3", "", "1}"),
            ],
            vec![add(1)],
        ),
        (
            vec![call(zero(), "c1", "add", r#"{"a": 1}"#), call(zero(), "c1", "add", r#"{"a": 1}"#)],
            vec![add(1)],
        ),
        // Two calls of which one shares its number with a third.
        (
            vec![
                call(zero(), "c1", "add", r#"{"a": 1}"#),
                call(zero(), "c2", "add", r#"{"a": 5}"#),
                call(json!(1), "c3", "ping", "{}"),
            ],
            vec![add(1), add(5), ping()],
        ),
    ] {
        let stream = openai(&[pieces.clone(), vec![finishes("tool_calls")]].concat());
        for wire in [OPENAI, GROQ] {
            let response = ask_all(wire, &stream).await.unwrap();
            assert_eq!(calls(&response), expected, "{wire:?} {pieces:?}");
            let ids: std::collections::HashSet<_> = response
                .parts
                .iter()
                .filter_map(|part| match part {
                    Part::Call(call) => Some(&*call.id),
                    _ => None,
                })
                .collect();
            assert_eq!(ids.len(), expected.len());
        }
    }
}

#[tokio::test]
async fn blocks_and_items_that_share_a_number_are_told_apart() {
    let block = |id: &str, name: &str| json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}});
    let input = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}});
    let anthropic = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "So:"}}),
        block("c1", "ping"),
        block("c2", "add"),
        input(r#"{"a": "#),
        input("5}"),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let item = |kind: &str, id: &str, name: &str, arguments: &str| {
        json!({
            "type": format!("response.output_item.{kind}"),
            "output_index": 0,
            "item": {"type": "function_call", "call_id": id, "name": name, "arguments": arguments},
        })
    };
    let responses = [
        json!({"type": "response.created"}),
        item("added", "c1", "ping", ""),
        item("added", "c2", "add", ""),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": r#"{"a": 5}"#}),
        item("done", "c1", "ping", "{}"),
        item("done", "c2", "add", r#"{"a": 5}"#),
        json!({"type": "response.completed", "response": {}}),
    ];
    for (wire, events) in [(WIRES[3], &anthropic[..]), (WIRES[2], &responses)] {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let response = ask_all(wire, &stream).await.unwrap();
        let expected = [("ping".to_owned(), json!({})), ("add".to_owned(), json!({"a": 5}))];
        assert_eq!(calls(&response), expected, "{wire:?}");
    }
}

/// A provider's word for an answer that broke off, was filtered, or ended for an unknown reason.
#[tokio::test]
async fn an_answer_that_broke_off_is_no_answer() {
    for wire in [OPENAI, GROQ] {
        for word in ["error", "insufficient_system_resource", "abort", "network_error", "engine_error"] {
            let error = ask_all(wire, &openai(&[says("Half a sen"), finishes(word)])).await.unwrap_err();
            assert!(
                error.is_transient() && error.message.contains(&format!("`{word}`")),
                "{wire:?}: {error}"
            );
        }
        let response = ask_all(wire, &openai(&[says("I"), finishes("sensitive")])).await.unwrap();
        assert_eq!(response.finish, FinishReason::Refusal);
        let response = ask_all(wire, &openai(&[says("Hi."), finishes("bored")])).await.unwrap();
        assert_eq!(
            (response.finish, response.unknown_finish.as_deref()),
            (FinishReason::Other, Some("bored"))
        );
        let reported = json!({"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "upstream"}});
        let error = ask_all(wire, &openai(&[says("Half"), reported])).await.unwrap_err();
        assert!(error.is_transient() && error.message.contains("upstream"), "{error}");
    }
    for (word, is_broken) in [("OTHER", true), ("MALFORMED_FUNCTION_CALL", true), ("SAFETY", false)] {
        let event = json!({"candidates": [{"content": {"parts": [{"text": "Half"}]}, "finishReason": word}]});
        let answered = ask_all(WIRES[4], &format!("data: {event}\n\n")).await;
        assert_eq!(answered.is_err(), is_broken, "{word}: {answered:?}");
    }
}

/// A page or other JSON at a wrong address is no truncated stream, and a retry does not help.
#[tokio::test]
async fn what_is_no_answer_of_the_interface_is_not_asked_for_again() {
    let page = b"\xef\xbb\xbf\n <!DOCTYPE html>\n<html>\n\n</html>".to_vec();
    let other = br#"{"status": "ok"}"#.to_vec();
    for (api, model) in WIRES {
        for (kind, body) in [("text/html", &page), ("text/plain", &other), ("application/json", &other)] {
            let (url, _) = one_answer::serve([(kind, [body.clone()])]);
            let error = ask_of(&providers(api, url), model, &Deltas::default()).await.unwrap_err();
            assert!(
                !error.is_transient() && error.message.contains("base address"),
                "{api:?} {kind}: {error}"
            );
        }
    }
    // An answer with a wrong type is an answer.
    let answer = whole(Api::OpenAi).to_string().into_bytes();
    let (url, _) = one_answer::serve([("text/plain", [answer])]);
    let response = ask_of(&providers(Api::OpenAi, url), OPENAI.1, &Deltas::default()).await.unwrap();
    assert_eq!(response.finish, FinishReason::ToolCalls);
}

/// A server that can't stream, or that sends a page of another service, is recognised by the type of its answer.
#[tokio::test]
async fn an_answer_of_another_type_is_read_or_refused() {
    let answer = whole(Api::OpenAi).to_string().into_bytes();
    let (url, served) = one_answer::serve([("application/json; charset=utf-8", [answer])]);
    let response = ask_of(&providers(Api::OpenAi, url), OPENAI.1, &Deltas::default()).await.unwrap();
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(served.join().unwrap().remove(0).1["stream"], true);

    let (url, _) = one_answer::serve([("text/html", [b"<html>".to_vec()])]);
    let mut custom = CustomProvider::new(url);
    custom.stream = Some(false);
    let providers = Providers::new(|_| None).custom("gw", custom);
    let error = ask_of(&providers, OPENAI.1, &Deltas::default()).await.unwrap_err();
    assert!(error.message.contains("`text/html`, not JSON"), "{error}");
}

/// An event that never ends, with more bytes than an answer may have. It is not kept whole.
#[tokio::test]
async fn an_event_without_an_end_fails_at_its_limit() {
    let piece = || vec![b'x'; 1 << 20];
    let pieces = std::iter::once(b"data: ".to_vec()).chain(std::iter::repeat_with(piece).take(80));
    // The server is left alone with what it still has to send.
    let (url, _) = one_answer::serve([("text/event-stream", pieces)]);
    let error = ask_of(&providers(Api::OpenAi, url), OPENAI.1, &Deltas::default()).await.unwrap_err();
    assert!(error.message.contains("longer than an answer may be"), "{error}");
}

/// The server sends a piece after the clock has moved, so that the machine's own pace does not matter.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_no_silence() {
    let (go, wait) = mpsc::channel();
    let said = ["A ", "b ", "c ", "d ", "e "];
    let mut choices: Vec<Value> = said.iter().map(|piece| says(piece)).collect();
    choices.push(finishes("stop"));
    let pieces = choices.into_iter().enumerate().map(move |(n, choice)| {
        if n > 0 {
            wait.recv().unwrap();
        }
        openai(&[choice]).into_bytes()
    });
    let told = Deltas::default();
    // The clock stands still, but for most of the idle time after each piece.
    let clock = async {
        for n in 1..=said.len() {
            while told.0.lock().unwrap().len() < n {
                tokio::task::yield_now().await;
            }
            tokio::time::advance(Duration::from_secs(6)).await;
            go.send(()).unwrap();
        }
        loop {
            tokio::task::yield_now().await;
        }
    };
    let begun = tokio::time::Instant::now();
    let answer = tokio::select! {
        answer = ask(OPENAI, pieces, &told) => answer.unwrap(),
        () = clock => unreachable!("it never ends"),
    };
    assert_eq!(text(&answer), said.concat());
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
}
