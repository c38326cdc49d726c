//! Guarantees of the server, tested over a plain socket.

#![allow(clippy::unwrap_used, reason = "the functions shared by tests are tests as well")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use llm_do_testserver::{Finish, Fixed, Gate, Reply, Role, Script, TestServer, Wire};
use serde_json::{Value, json};

/// A response, as received from the socket.
struct Raw {
    status: u16,
    head: String,
    body: String,
    /// True if the transfer ended as announced.
    complete: bool,
}

fn open(server: &TestServer, path: &str, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = "Host: x\r\nConnection: close\r\nAnthropic-Version: 2023-06-01";
    write!(socket, "POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    socket
}

fn post(server: &TestServer, path: &str, body: &Value) -> Raw {
    let mut bytes = Vec::new();
    open(server, path, body).read_to_end(&mut bytes).unwrap();
    let split = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a response has a head");
    let head = String::from_utf8(bytes[..split].to_vec()).unwrap().to_lowercase();
    let mut rest = &bytes[split + 4..];
    let (mut body, mut complete) = (Vec::new(), false);
    if head.contains("transfer-encoding: chunked") {
        while let Some(line) = rest.windows(2).position(|w| w == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            complete = size == 0;
            if size == 0 || rest.len() < line + 4 + size {
                break;
            }
            body.extend(&rest[line + 2..line + 2 + size]);
            rest = &rest[line + 4 + size..];
        }
    } else {
        let length = head.split("content-length: ").nth(1).and_then(|t| t.lines().next()).unwrap();
        body.extend(rest);
        complete = body.len() == length.parse::<usize>().unwrap();
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Raw { status, head, body: String::from_utf8_lossy(&body).into_owned(), complete }
}

impl Raw {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the data of each event, without `[DONE]`.
    fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

const OPENAI: &str = "/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";

fn openai(messages: Value) -> Value {
    json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": messages})
}

fn anthropic(messages: Value) -> Value {
    json!({"model": "m", "stream": true, "max_tokens": 100, "system": "Be brief.", "messages": messages})
}

fn hello() -> Value {
    json!([{"role": "user", "content": "Hello"}])
}

fn refused(path: &str, body: &Value) -> String {
    let server = TestServer::start(Script::turns([Reply::text("ok")]));
    let raw = post(&server, path, body);
    assert_eq!(raw.status, 400, "{}", raw.body);
    assert_eq!(server.unused(), 1, "a refused request takes no reply");
    assert!(!server.violations().is_empty());
    raw.json()["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn openai_streams_text_and_calls_in_pieces_with_usage_last() {
    let reply = Reply::text("Let me look at that.")
        .and_tool("read_file", json!({"path": "notes.txt"}))
        .and_tool("list", json!({}))
        .usage(11, 7);
    let server = TestServer::start(Script::turns([reply]));
    let raw = post(&server, OPENAI, &openai(hello()));
    assert_eq!(raw.status, 200);
    assert!(raw.complete && raw.head.contains("text/event-stream"));
    assert!(raw.body.ends_with("data: [DONE]\n\n"));

    let events = raw.events();
    let deltas: Vec<_> = events.iter().filter_map(|e| e.pointer("/choices/0/delta")).collect();
    let text: Vec<_> = deltas.iter().filter_map(|d| d["content"].as_str()).collect();
    assert!(text.len() > 3);
    assert_eq!(text.concat(), "Let me look at that.");
    let arguments = |index: u64| {
        let calls = deltas.iter().filter_map(|d| d.pointer("/tool_calls/0"));
        calls
            .filter(|c| c["index"] == index)
            .map(|c| c["function"]["arguments"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert!(arguments(0).len() > 2);
    assert_eq!(arguments(0).concat(), r#"{"path":"notes.txt"}"#);
    assert_eq!(arguments(1).concat(), "{}");
    let [.., finish, usage] = events.as_slice() else { panic!("too few events") };
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["total_tokens"], 18);
    server.assert_valid();
}

#[test]
fn openai_answers_whole_where_no_stream_is_asked_for() {
    let server = TestServer::start(Script::turns([
        Reply::tool("read_file", json!({"path": "a"})).call_id("call_x"),
        Reply::refusal("I will not."),
    ]));
    let mut body = openai(hello());
    body["stream"] = json!(false);
    let first = post(&server, OPENAI, &body);
    assert!(first.complete);
    let message = &first.json()["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"][0]["id"], "call_x");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"path":"a"}"#);
    let second = post(&server, OPENAI, &body).json();
    assert_eq!(second["choices"][0]["message"]["refusal"], "I will not.");
}

#[test]
fn anthropic_streams_blocks_between_message_start_and_message_stop() {
    let reply = Reply::empty()
        .and_thinking("Where might it be?")
        .and_text("Let me look.")
        .and_tool("read_file", json!({"path": "notes.txt"}))
        .usage_with_cache(100, 9, 40);
    let server = TestServer::start(Script::turns([reply]));
    let raw = post(&server, ANTHROPIC, &anthropic(hello()));
    assert!(raw.complete && raw.body.starts_with("event: message_start\ndata: "));

    let events = raw.events();
    let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(kinds[kinds.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "content_block_stop").count(), 3);
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 60);
    assert_eq!(events[0]["message"]["usage"]["cache_read_input_tokens"], 40);
    let joined = |index: u64, field: &str| {
        let deltas = events.iter().filter(|e| e["type"] == "content_block_delta" && e["index"] == index);
        deltas.filter_map(|e| e["delta"][field].as_str()).collect::<String>()
    };
    assert_eq!(joined(0, "thinking"), "Where might it be?");
    assert!(joined(0, "signature").starts_with("sig"));
    assert_eq!(joined(1, "text"), "Let me look.");
    assert_eq!(joined(2, "partial_json"), r#"{"path":"notes.txt"}"#);
    let delta = &events[events.len() - 2];
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(delta["usage"]["output_tokens"], 9);
}

#[test]
fn anthropic_answers_whole_where_no_stream_is_asked_for() {
    let server = TestServer::start(Script::turns([Reply::text("Cut sho").finish(Finish::Length)]));
    let mut body = anthropic(hello());
    body["stream"] = json!(false);
    let message = post(&server, ANTHROPIC, &body).json();
    assert_eq!(message["content"], json!([{"type": "text", "text": "Cut sho"}]));
    assert_eq!(message["stop_reason"], "max_tokens");
}

#[test]
fn both_wires_are_seen_alike() {
    let server = TestServer::start(Script::route(|seen| Reply::text(format!("turn {}", seen.turn()))));
    let schema = json!({"type": "object", "properties": {}});
    let mut body = openai(json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{\"p\":2}"}},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]));
    body["tools"] = json!([{"type": "function", "function": {"name": "read", "parameters": schema}}]);
    assert!(post(&server, OPENAI, &body).body.contains("1"));
    let mut body = anthropic(json!([
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
            {"type": "tool_use", "id": "b", "name": "read", "input": {"p": 2}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}]},
        ]},
    ]));
    body["tools"] = json!([{"name": "read", "input_schema": schema}]);
    post(&server, ANTHROPIC, &body);
    server.assert_valid();

    let [one, other] = server.requests().try_into().unwrap();
    assert_eq!((one.wire, other.wire), (Wire::OpenAi, Wire::Anthropic));
    assert_eq!(one.system(), other.system());
    assert_eq!(one.tools(), other.tools());
    assert_eq!(one.messages()[1..], *other.messages());
    assert_eq!(one.tool_results()[1].text, "two");
    assert_eq!(one.messages()[3].role, Role::Tool);
    assert_eq!((one.turn(), one.last_user_text(), one.model()), (1, "Hello", "m"));
    assert_eq!(one.header("HOST"), Some("x"));
}

#[test]
fn a_result_without_its_call_is_refused() {
    let orphan = json!([
        {"role": "user", "content": "Hello"},
        {"role": "tool", "tool_call_id": "nowhere", "content": "x"},
    ]);
    assert!(refused(OPENAI, &openai(orphan)).contains("answers no call"));
    let orphan = json!([
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "nowhere", "content": "x"}]},
    ]);
    assert!(refused(ANTHROPIC, &anthropic(orphan)).contains("answers no call"));
}

#[test]
fn a_call_without_its_result_is_refused() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}});
    let unanswered = json!([
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "user", "content": "Well?"},
    ]);
    let reason = refused(OPENAI, &openai(unanswered));
    assert!(reason.contains("\"b\"") && !reason.contains("\"a\""), "{reason}");
    let twice = json!([
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "tool_calls": [call("a")]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]);
    assert!(refused(OPENAI, &openai(twice)).contains("has 2 results"));
}

#[test]
fn anthropic_wants_all_results_in_one_message_before_other_content() {
    let calls = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "t", "input": {}},
        {"type": "tool_use", "id": "b", "name": "t", "input": {}},
    ]});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let user = json!({"role": "user", "content": "Hello"});
    let spread = json!([user, calls, {"role": "user", "content": [result("a")]}, {"role": "user", "content": [result("b")]}]);
    assert!(refused(ANTHROPIC, &anthropic(spread)).contains("no result directly after"));
    let late = json!([user, calls, {"role": "user", "content":
        [{"type": "text", "text": "Here:"}, result("a"), result("b")]}]);
    assert!(refused(ANTHROPIC, &anthropic(late)).contains("before all other content"));
}

#[test]
fn anthropic_refuses_empty_text_and_a_history_that_does_not_begin_with_the_user() {
    let empty = json!([{"role": "user", "content": [{"type": "text", "text": " "}]}]);
    assert!(refused(ANTHROPIC, &anthropic(empty)).contains("non-whitespace"));
    let assistant = json!([{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Hello"}]);
    assert!(refused(ANTHROPIC, &anthropic(assistant)).contains("first message"));
    let mut body = anthropic(hello());
    body.as_object_mut().unwrap().remove("max_tokens");
    assert!(refused(ANTHROPIC, &body).contains("max_tokens"));
}

#[test]
fn tools_with_bad_names_or_schemas_are_refused() {
    let offer = |name: &str, schema: Value| {
        let mut body = openai(hello());
        body["tools"] = json!([{"type": "function", "function": {"name": name, "parameters": schema}}]);
        refused(OPENAI, &body)
    };
    assert!(offer("a.b", json!({"type": "object"})).contains("tool name"));
    assert!(offer(&"a".repeat(65), json!({"type": "object"})).contains("tool name"));
    assert!(offer("a", json!({"type": "string"})).contains("type 'object'"));
    let list = json!({"type": "object", "properties": {"x": {"type": "array"}}});
    assert!(offer("a", list).contains("properties.x: array schema missing items"));
    let mut body = openai(hello());
    let open = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": []});
    body["tools"] =
        json!([{"type": "function", "function": {"name": "a", "strict": true, "parameters": open}}]);
    let reason = refused(OPENAI, &body);
    assert!(reason.contains("additionalProperties") && reason.contains("\"x\""), "{reason}");
}

#[test]
fn options_that_contradict_the_request_are_refused() {
    let with = |body: Value, key: &str, value: Value| {
        let mut body = body;
        body[key] = value;
        body
    };
    let choice = json!({"type": "function", "function": {"name": "x"}});
    assert!(refused(OPENAI, &with(openai(hello()), "tool_choice", choice)).contains("no tool is named"));
    let choice = json!({"type": "any"});
    assert!(refused(ANTHROPIC, &with(anthropic(hello()), "tool_choice", choice)).contains("tool_choice"));
    let format = json!({"type": "json_object"});
    assert!(refused(OPENAI, &with(openai(hello()), "response_format", format)).contains("'json'"));
    let schema = json!({"name": "a", "strict": true, "schema": {"type": "object"}});
    let open = json!({"type": "json_schema", "json_schema": schema});
    assert!(
        refused(OPENAI, &with(openai(hello()), "response_format", open)).contains("additionalProperties")
    );
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let system = json!([marked, marked, marked, marked, marked]);
    assert!(refused(ANTHROPIC, &with(anthropic(hello()), "system", system)).contains("found 5"));
}

#[test]
fn thinking_comes_back_as_it_was_signed() {
    let server = TestServer::start(Script::route(|_| Reply::empty().and_thinking("Hm.").and_text("Yes.")));
    let mut body = anthropic(hello());
    body["stream"] = json!(false);
    let mut content = post(&server, ANTHROPIC, &body).json()["content"].take();
    let next = |content: &Value| {
        let [user, more] = ["Hello", "More"].map(|text| json!({"role": "user", "content": text}));
        anthropic(json!([user, {"role": "assistant", "content": content}, more]))
    };
    assert_eq!(post(&server, ANTHROPIC, &next(&content)).status, 200);
    content[0]["thinking"] = json!("Something else.");
    assert_eq!(post(&server, ANTHROPIC, &next(&content)).status, 400);
    assert!(server.violations()[0].contains("invalid signature"));
}

#[test]
fn a_conversation_only_grows() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": text});
    let server = TestServer::start(Script::route(|_| Reply::text("ok")));
    let ask = |messages: Value| post(&server, OPENAI, &openai(messages)).status;
    assert_eq!(ask(json!([user("Hello")])), 200);
    assert_eq!(ask(json!([user("Hello")])), 200, "asked again, as after a failure");
    assert_eq!(ask(json!([user("Hello"), assistant("ok"), user("More")])), 200);
    assert_eq!(ask(json!([user("Hello"), assistant("other"), user("Else")])), 200, "a twin of the first");
    let marked = json!([{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]);
    let marked = json!({"role": "user", "content": marked});
    let longer = json!([marked, assistant("ok"), user("More"), assistant("ok"), user("Still more")]);
    assert_eq!(ask(longer), 200, "a cache mark is no change");
    assert_eq!(ask(json!([user("Resumed"), assistant("ok"), user("More")])), 200, "begun elsewhere");
    server.assert_valid();

    let rewritten = json!([user("Hello"), assistant("ok"), user("Changed"), assistant("ok"), user("Last")]);
    assert_eq!(ask(rewritten), 400);
    assert!(server.violations()[0].contains("message 2 (user)"), "{:?}", server.violations());
    let skipped =
        json!([user("Hello"), assistant("ok"), assistant("ok"), user("Unasked"), assistant("x"), user("Y")]);
    assert_eq!(ask(skipped), 400);
}

#[test]
fn a_cut_stream_breaks_off_in_the_middle_of_the_transfer() {
    let reply = || Reply::text("A rather long answer that is never finished.");
    let server = TestServer::start(Script::turns([
        reply().cut_after(4),
        reply().end_after(4),
        reply().malformed_after(2),
        reply().error_after(2, "server_error"),
        reply().cut_after(1),
    ]));
    let cut = post(&server, OPENAI, &openai(hello()));
    assert_eq!(cut.status, 200);
    assert!(!cut.complete);
    assert_eq!(cut.events().len(), 4, "what came before the cut has arrived");
    let ended = post(&server, OPENAI, &openai(hello()));
    assert!(ended.complete && !ended.body.contains("[DONE]"));
    let malformed = post(&server, OPENAI, &openai(hello()));
    assert!(malformed.body.ends_with("{\"choices\":[{\"delta\":\n\n"));
    let error = post(&server, OPENAI, &openai(hello()));
    assert_eq!(error.events()[2]["error"]["type"], "server_error");
    let mut whole = openai(hello());
    whole["stream"] = json!(false);
    let half = post(&server, OPENAI, &whole);
    assert!(!half.complete && serde_json::from_str::<Value>(&half.body).is_err() && !half.body.is_empty());
    assert_eq!(server.abandoned(), 0, "it was the server that hung up");
}

#[test]
fn statuses_have_the_wires_own_bodies_and_the_scripts_headers() {
    let server = TestServer::start(Script::turns([
        Reply::rate_limited(Some(Duration::from_secs(2))),
        Reply::status(529),
        Reply::status(502).body("<html>bad gateway</html>").content_type("text/html"),
    ]));
    let limited = post(&server, OPENAI, &openai(hello()));
    assert_eq!((limited.status, limited.head.contains("retry-after: 2")), (429, true));
    assert_eq!(limited.json()["error"]["code"], "rate_limit_exceeded");
    let overloaded = post(&server, ANTHROPIC, &anthropic(hello()));
    assert_eq!(overloaded.status, 529);
    assert_eq!(overloaded.json()["error"]["type"], "overloaded_error");
    let gateway = post(&server, OPENAI, &openai(hello()));
    assert_eq!((gateway.status, gateway.body.as_str()), (502, "<html>bad gateway</html>"));
    assert!(gateway.head.contains("content-type: text/html"));
    server.assert_valid();
}

#[test]
fn chunks_can_be_torn_doubled_and_swapped() {
    let text = "Grüße aus Zürich, schöne Grüße!";
    let server = TestServer::start(Script::turns([
        Reply::text(text).torn(3),
        Reply::text(text).duplicate_chunk(1),
        Reply::text(text).swap_chunks(1, 2),
    ]));
    let said = |raw: &Raw| {
        let events = raw.events();
        events
            .iter()
            .filter_map(|e| e.pointer("/choices/0/delta/content")?.as_str().map(String::from))
            .collect::<String>()
    };
    assert_eq!(said(&post(&server, OPENAI, &openai(hello()))), text);
    let doubled = said(&post(&server, OPENAI, &openai(hello())));
    assert!(doubled.ends_with(text.trim_start_matches("Grüße a")) && doubled.len() > text.len(), "{doubled}");
    assert_ne!(said(&post(&server, OPENAI, &openai(hello()))), text);
}

#[test]
fn a_client_that_hangs_up_is_noticed() {
    let server = TestServer::start(Script::turns([Reply::hang(), Reply::text("Hello there").hang_after(2)]));
    let silent = open(&server, OPENAI, &openai(hello()));
    server.wait_for_requests(1);
    assert_eq!(server.in_flight(), 1);
    drop(silent);
    server.wait_for_abandoned(1);
    let mut begun = open(&server, OPENAI, &openai(hello()));
    assert!(begun.read(&mut [0; 64]).unwrap() > 0);
    drop(begun);
    server.wait_for_abandoned(2);
    assert_eq!(server.in_flight(), 0);
}

#[test]
fn delays_and_gaps_take_their_time_and_requests_run_side_by_side() {
    let pause = Duration::from_millis(20);
    let gate = Gate::new();
    let held = gate.clone();
    let reply = move || Reply::text("Hi").held_by(&held).delay(pause).gap(pause);
    let server = TestServer::start(Script::route(move |_| reply()));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (server, body) = (&server, openai(json!([{"role": "user", "content": i.to_string()}])));
            scope.spawn(move || assert!(post(server, OPENAI, &body).complete));
        }
        server.wait_for_requests(8);
        gate.open();
    });
    // One wait before the headers and one before each of six events but the first.
    assert!(started.elapsed() >= pause * 6);
    assert_eq!((server.most_in_flight(), server.connections()), (8, 8));
}

#[test]
fn a_gate_holds_a_reply_until_it_is_opened() {
    let gate = Gate::new();
    let server = TestServer::start(Script::turns([Reply::text("late").held_by(&gate), Reply::text("soon")]));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| post(&server, OPENAI, &openai(hello())));
        server.wait_for_requests(1);
        assert!(post(&server, OPENAI, &openai(hello())).complete, "others are not held");
        assert!(!held.is_finished());
        gate.open();
        assert!(held.join().unwrap().complete);
    });
}

#[test]
fn a_hang_up_closes_the_connection_without_an_answer() {
    let server = TestServer::start(Script::turns([Reply::hang_up()]));
    let mut bytes = Vec::new();
    open(&server, OPENAI, &openai(hello())).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"");
    server.assert_valid();
}

#[test]
fn a_panic_in_a_route_is_told_to_client_and_test() {
    let server = TestServer::start(Script::route(|seen| panic!("not expected: {}", seen.model())));
    let raw = post(&server, OPENAI, &openai(hello()));
    assert_eq!(raw.status, 500);
    assert!(raw.body.contains("not expected: m") && server.violations()[0].contains("not expected: m"));
}

#[test]
fn an_unrecorded_server_only_counts() {
    let server = TestServer::start(Script::route(|_| Reply::text("ok")).unrecorded());
    post(&server, OPENAI, &openai(hello()));
    assert_eq!((server.requests().len(), server.request_count()), (0, 1));
}

#[test]
fn scripts_route_by_worker_and_say_when_they_are_used_up() {
    let server = TestServer::start(
        Script::new().when("brief", [Reply::text("for the brief")]).turn(Reply::text("for anyone")),
    );
    let mut whole = anthropic(hello());
    whole["stream"] = json!(false);
    assert!(post(&server, ANTHROPIC, &whole).body.contains("for the brief"));
    assert!(post(&server, ANTHROPIC, &whole).body.contains("for anyone"));
    assert_eq!(post(&server, ANTHROPIC, &whole).status, 500);
    assert!(server.violations()[0].contains("no reply left"));
    assert_eq!(post(&server, "/v1/models", &json!({})).status, 404);
}

#[test]
fn fixed_answers_go_by_the_results_in_the_request() {
    let fixed = Fixed::new(&[Reply::tool("a", json!({})), Reply::text("done")]);
    let ask = |path: &str, body: Value| {
        let (content_type, body) = fixed.answer(path, body.to_string().as_bytes()).unwrap();
        (content_type, String::from_utf8(body.to_vec()).unwrap())
    };
    let (content_type, first) = ask(OPENAI, openai(hello()));
    assert!(content_type == "text/event-stream" && first.contains("tool_calls") && first.contains("[DONE]"));
    // What a result says cannot pass for a result.
    let quoted = json!([{"role": "user", "content": "{\"tool_call_id\":\"x\"}"}]);
    assert_eq!(ask(OPENAI, openai(quoted)).1, first);
    let answered = json!([{"role": "tool", "tool_call_id": "x", "content": ""}]);
    assert!(ask(OPENAI, openai(answered)).1.contains("\"stop\""));
    let answered = json!({"messages": [{"content": [{"type": "tool_result", "tool_use_id": "x"}]}]});
    let (content_type, last) = ask(ANTHROPIC, answered);
    assert!(content_type == "application/json" && last.contains("end_turn"));
    assert!(fixed.answer("/v1/models", b"").is_none());
}
