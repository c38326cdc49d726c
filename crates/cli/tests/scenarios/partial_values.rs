//! Typed answers that are shown while they stream, over each wire format.

use crate::scenario::{Finished, Scenario};
use llm_do_core::partial::{Growth, grows_into};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

const WORKER: &str = "---
returns:
  type: object
  properties:
    title: {type: string}
    kind: {enum: [note, report]}
    tags: {type: array, items: {type: string}}
    pages: {type: integer}
  required: [title, kind, tags, pages]
---
File it.
";

/// A wire format, and the place of the answer in it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    api: &'static str,
    /// True if the answer is in the arguments of the final-result tool.
    in_call: bool,
}

fn ways() -> impl Iterator<Item = Way> {
    let apis = ["openai", "openai_resp", "anthropic", "gemini"];
    apis.into_iter().flat_map(|api| [true, false].map(|in_call| Way { api, in_call }))
}

fn event(data: &Value) -> String {
    match data["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// The stream of an answer in pieces of a few characters.
fn answer(way: Way, text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(5).map(String::from_iter).collect();
    let name = "final_result";
    let mut events = Vec::new();
    match (way.api, way.in_call) {
        ("openai", in_call) => {
            let choice = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            let call = |function: Value| json!({"tool_calls": [{"index": 0, "function": function}]});
            if in_call {
                let mut first = call(json!({"name": name, "arguments": ""}));
                first["tool_calls"][0]["id"] = "c1".into();
                events.push(choice(first, Value::Null));
            }
            events.extend(pieces.iter().map(|piece| match in_call {
                true => choice(call(json!({"arguments": piece})), Value::Null),
                false => choice(json!({"content": piece}), Value::Null),
            }));
            events.push(choice(json!({}), if in_call { "tool_calls" } else { "stop" }.into()));
        }
        ("openai_resp", true) => {
            let item = |status: &str, arguments: &str| json!({"type": "function_call", "status": status, "call_id": "c1", "name": name, "arguments": arguments});
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", "")}));
            events.extend(pieces.iter().map(|piece| {
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece})
            }));
            events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item("completed", text)}));
            events.push(
                json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
            );
        }
        ("openai_resp", false) => {
            events.extend(pieces.iter().map(
                |piece| json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}),
            ));
            events.push(
                json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
            );
        }
        ("anthropic", in_call) => {
            let block = match in_call {
                true => json!({"type": "tool_use", "id": "c1", "name": name, "input": {}}),
                false => json!({"type": "text", "text": ""}),
            };
            events.push(json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}));
            events.push(json!({"type": "content_block_start", "index": 0, "content_block": block}));
            events.extend(pieces.iter().map(|piece| {
                let delta = match in_call {
                    true => json!({"type": "input_json_delta", "partial_json": piece}),
                    false => json!({"type": "text_delta", "text": piece}),
                };
                json!({"type": "content_block_delta", "index": 0, "delta": delta})
            }));
            events.push(json!({"type": "content_block_stop", "index": 0}));
            let reason = if in_call { "tool_use" } else { "end_turn" };
            events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}));
            events.push(json!({"type": "message_stop"}));
        }
        (_, in_call) => {
            let part = |part: Value| json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]});
            match in_call {
                true => {
                    let args: Value = serde_json::from_str(text).expect("JSON");
                    events.push(part(json!({"functionCall": {"name": name, "args": args}})));
                }
                false => events.extend(pieces.iter().map(|piece| part(json!({"text": piece})))),
            }
            events.push(json!({"candidates": [{"index": 0, "finishReason": "STOP"}]}));
        }
    }
    let mut stream: String = events.iter().map(event).collect();
    if way.api == "openai" {
        stream.push_str("data: [DONE]\n\n");
    }
    stream
}

/// Reads a request to its end.
fn read_request(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).expect("a line") > 2 {
        if let Some(given) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = given.trim().parse().expect("a length");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
}

/// Answers the first requests with these streams, and returns the address.
fn server(streams: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for body in streams {
            let (mut stream, _) = listener.accept().expect("a request");
            read_request(&stream);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{head}{body}").as_bytes()).expect("it is read");
        }
    });
    format!("http://{address}/v1")
}

fn project(way: Way, streams: Vec<String>) -> Scenario {
    let provider = format!("providers:\n  loop: {{base_url: \"{}\", api: {}}}\n", server(streams), way.api);
    Scenario::new()
        .file("project.yaml", &format!("model: loop:test-model\n{provider}"))
        .file("main.worker", WORKER)
}

/// The states of the value of each event about it; `None`: there is none.
fn states(told: &Finished) -> Vec<Option<Value>> {
    let (mut value, mut states) = (None, Vec::new());
    for line in told.stdout.lines() {
        let event: Value = serde_json::from_str(line).expect("an event");
        match event["event"].as_str() {
            Some("partial") => {
                let growth: Vec<Growth> = serde_json::from_value(event["growth"].clone()).expect("growth");
                growth.into_iter().for_each(|growth| growth.apply(&mut value));
            }
            Some("discard" | "discard_partial") => value = None,
            _ => continue,
        }
        states.push(value.clone());
    }
    states
}

/// The states up to the first that is discarded, and those after it.
fn around_discard(states: &[Option<Value>]) -> (Vec<Value>, Vec<Value>) {
    let at = states.iter().position(Option::is_none).expect("a discarded value");
    let whole = |states: &[Option<Value>]| states.iter().flatten().cloned().collect();
    (whole(&states[..at]), whole(&states[at..]))
}

#[track_caller]
fn assert_grows(states: &[Value], into: &Value, way: Way) {
    let after = states.iter().skip(1).chain([into]);
    for (before, after) in states.iter().zip(after) {
        assert!(grows_into(before, after), "{way:?}: {before} became {after}");
    }
}

#[test]
fn a_typed_answer_grows_over_every_wire_and_an_invalid_one_is_discarded() {
    let wrong = json!({"title": "A wrong answer", "tags": ["x"]});
    let right = json!({"title": "Grüße 🌍", "kind": "report", "tags": ["one", "two"], "pages": 12});
    for way in ways() {
        let text = |value: &Value| match way.in_call {
            true => value.to_string(),
            // The draft is no part of the answer.
            false => format!("<think>Or {wrong}?</think>\n```json\n{value:#}\n```"),
        };
        let streams = vec![answer(way, &text(&wrong)), answer(way, &text(&right))];
        let told = project(way, streams).run(&[".", "go", "--output", "stream-json"]);
        assert_eq!(told.code, Some(0), "{way:?} {told}");
        let states = states(&told);
        let (before, after) = around_discard(&states);
        assert_grows(&before, &wrong, way);
        assert_grows(&after, &right, way);
        assert_eq!((before.last(), after.last()), (Some(&wrong), Some(&right)), "{way:?}");
        // Gemini sends the arguments of a call whole.
        let fewest = if way.api == "gemini" && way.in_call { 1 } else { 8 };
        assert!(after.len() >= fewest, "{way:?}: {after:?}");
        assert!(after.iter().all(|state| state["kind"].is_null() || state["kind"] == "report"), "{way:?}");
        let recorded = told.stdout.lines().filter(|line| line.starts_with("{\"event\":\"record\""));
        assert!(!recorded.clone().any(|line| line.contains("\"growth\"")), "partial values are not recorded");
    }
}

#[test]
fn the_value_of_a_stream_that_breaks_is_discarded() {
    let value = json!({"title": "A walk", "kind": "note", "tags": [], "pages": 1});
    for way in ways().filter(|way| way.api != "gemini") {
        let whole = answer(
            way,
            &json!({"title": "Another title", "kind": "note", "tags": ["a"], "pages": 2}).to_string(),
        );
        let broken: String = whole.split_inclusive("\n\n").take(6).collect();
        let told = project(way, vec![broken, answer(way, &value.to_string())]).run(&[
            ".",
            "go",
            "--output",
            "stream-json",
        ]);
        assert_eq!(told.code, Some(0), "{way:?} {told}");
        let states = states(&told);
        let (before, after) = around_discard(&states);
        assert!(before.last().is_some_and(|state| state["title"].as_str() != Some("A walk")), "{way:?}");
        assert_grows(&after, &value, way);
        assert_eq!(after.last(), Some(&value), "{way:?}");
    }
}

#[test]
fn a_secret_is_no_part_of_a_partial_value() {
    const SECRET: &str = "tk-live-0123456789";
    for way in ways() {
        let escaped: String = SECRET.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let text = format!(
            "{{\"title\": \"It is {SECRET}.\", \"kind\": \"note\", \"tags\": [\"{escaped}\", \"tk-live\"], \"pages\": 3}}"
        );
        let scenario = project(way, vec![answer(way, &text)]).env("DESK_TOKEN", SECRET);
        let told = scenario.run(&[".", "go", "--output", "stream-json"]);
        assert_eq!(told.code, Some(0), "{way:?} {told}");
        let states: Vec<Value> = states(&told).into_iter().flatten().collect();
        let shown = json!({
            "title": "It is [secret DESK_TOKEN].",
            "kind": "note",
            "tags": ["[secret DESK_TOKEN]", "tk-live"],
            "pages": 3,
        });
        assert_grows(&states, &shown, way);
        assert_eq!(states.last(), Some(&shown), "{way:?}");
        let partials: String =
            told.stdout.lines().filter(|line| line.starts_with("{\"event\":\"partial\"")).collect();
        assert!(!partials.contains("0123"), "{way:?} {partials}");
    }
}
