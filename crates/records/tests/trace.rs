//! A run as an OpenTelemetry trace: the shape of OTLP/JSON, the names of the conventions, and spans nested as calls
//! are.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_records::{Journal, WholeRun, otlp};
use serde_json::{Value, json};
use std::collections::HashMap;

const RUN: &str = "20261121-221530-4f2a";
const BEGAN: u64 = 1_795_299_330_000;

/// Records, each with its time after the run's beginning.
fn run_of(records: Vec<(u64, Value)>) -> WholeRun {
    let lines: String = records
        .into_iter()
        .enumerate()
        .map(|(seq, (after, mut record))| {
            record["seq"] = seq.into();
            record["at_ms"] = (BEGAN + after).into();
            format!("{record}\n")
        })
        .collect();
    let journal = Journal::parse(lines.as_bytes(), &HashMap::new()).unwrap();
    WholeRun::of(RUN, journal, false)
}

fn call(path: &str, function: &str) -> Value {
    json!({"path": path, "step": "call", "kind": "call_started", "function": function, "source": "program",
           "principal": "operator", "input": {"text": "private words"}})
}

fn conversation(path: &str) -> Value {
    json!({"path": path, "step": "conversation", "kind": "conversation_started", "worker": "w",
           "model": "claude:claude-haiku-4-5", "system": "private words", "tools": [],
           "can": {"native_schema": false, "tools": true},
           "message": {"id": 0, "role": "user", "parts": []}})
}

fn asked_model(path: &str, attempt: u32) -> Value {
    json!({"path": path, "step": format!("model.0.{attempt}"), "kind": "model_requested", "turn": 0, "attempt": attempt,
           "head": 0, "digest": "d", "max_tokens": 300})
}

/// Makes a run of a worker whose first request to its model fails, and which then calls another worker and a tool that
/// must be approved.
fn run() -> WholeRun {
    run_of(vec![
        (
            0,
            json!({"path": "0", "step": "run", "kind": "run_started", "format": 2, "run": RUN, "version": "0.1.0",
                   "target": ".", "entry": "main", "approval": "interactive", "date": "2026-11-21", "definitions": []}),
        ),
        (0, call("0", "main")),
        (0, json!({"path": "0", "step": "verdict", "kind": "verdict", "rule": "preApproved", "by": "start"})),
        (1, conversation("0")),
        (1, asked_model("0", 0)),
        (
            100,
            json!({"path": "0", "step": "model.0.0", "kind": "model_failed", "error": {"kind": "server", "message": "503"}}),
        ),
        (300, json!({"path": "0", "step": "wait.0.0", "kind": "slept", "ms": 200})),
        (300, asked_model("0", 1)),
        (
            1300,
            json!({"path": "0", "step": "model.0.1", "kind": "model_answered", "finish": "tool_calls",
                      "usage": {"input_tokens": 640, "cached_tokens": 512, "output_tokens": 80},
                      "message": {"id": 1, "role": "assistant", "parts": [
                          {"part": "text", "text": "private words"},
                          {"part": "call", "id": "call_a", "name": "reviewer", "arguments": {"json": {}}},
                          {"part": "call", "id": "call_b", "name": "write_file", "arguments": {"json": {}}}]}}),
        ),
        (1300, call("0/0.0", "reviewer")),
        (1300, conversation("0/0.0")),
        (1300, asked_model("0/0.0", 0)),
        (1310, call("0/0.1", "write_file")),
        (
            1310,
            json!({"path": "0/0.1", "step": "ask", "kind": "asked", "question": "approval", "chain": ["main"],
                      "function": "write_file", "risk": "write", "input": {}, "rule": {"rule": {"origin": "main.worker:3"}}}),
        ),
        (
            2310,
            json!({"path": "0/0.1", "step": "ask", "kind": "answered", "answer": "approve", "by": "operator", "via": "terminal"}),
        ),
        (
            2310,
            json!({"path": "0/0.1", "step": "tool", "kind": "tool_started", "function": "write_file", "risk": "write", "idempotency_key": "k"}),
        ),
        (
            2320,
            json!({"path": "0/0.1", "step": "tool", "kind": "tool_ended",
                      "ending": {"failure": {"kind": "tool", "message": "disk full"}}}),
        ),
        (
            3000,
            json!({"path": "0/0.0", "step": "model.0.0", "kind": "model_answered", "finish": "stop",
                      "usage": {"output_tokens": 5}, "message": {"id": 1, "role": "assistant", "parts": []}}),
        ),
        (
            3000,
            json!({"path": "0/0.0", "step": "end", "kind": "call_ended", "ending": {"output": "private words"}}),
        ),
        (3001, json!({"path": "0", "step": "note", "kind": "note", "text": "noted"})),
        // And then the process was killed.
    ])
}

fn spans(trace: &Value) -> Vec<&Value> {
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().iter().collect()
}

fn attributes(of: &Value) -> HashMap<&str, &Value> {
    let pairs = of["attributes"].as_array().unwrap().iter();
    pairs
        .map(|pair| {
            (pair["key"].as_str().unwrap(), pair["value"].as_object().unwrap().values().next().unwrap())
        })
        .collect()
}

/// Asserts the rules of OTLP's JSON that hold for every request, whatever its content.
fn assert_is_otlp(trace: &Value) {
    let is_id = |id: &Value, digits: usize| {
        let id = id.as_str().unwrap();
        id.len() == digits && id.bytes().all(|b| b.is_ascii_hexdigit()) && id.bytes().any(|b| b != b'0')
    };
    let is_time = |time: &Value| time.as_str().unwrap().parse::<u64>().unwrap() > 0;
    let mut ids = HashMap::new();
    for span in spans(trace) {
        assert!(is_id(&span["traceId"], 32) && is_id(&span["spanId"], 16), "{span}");
        assert!(ids.insert(&span["spanId"], span).is_none(), "two spans with one ID: {span}");
        assert!(is_time(&span["startTimeUnixNano"]) && is_time(&span["endTimeUnixNano"]), "{span}");
        assert!(span["name"].is_string() && [1, 3].contains(&span["kind"].as_u64().unwrap()), "{span}");
        for attribute in span["attributes"].as_array().unwrap() {
            let value = attribute["value"].as_object().unwrap();
            let (kind, value) = value.iter().next().unwrap();
            match kind.as_str() {
                "stringValue" => assert!(value.is_string(), "{attribute}"),
                // 64 bits are more than a JSON number holds.
                "intValue" => assert!(value.as_str().unwrap().parse::<i64>().is_ok(), "{attribute}"),
                "arrayValue" => assert!(value["values"][0]["stringValue"].is_string(), "{attribute}"),
                other => panic!("{other}"),
            }
        }
    }
    for span in spans(trace) {
        if let Some(parent) = span.get("parentSpanId") {
            let parent = ids[parent];
            let times = |span: &Value| {
                ["startTimeUnixNano", "endTimeUnixNano"]
                    .map(|key| span[key].as_str().unwrap().parse::<u64>().unwrap())
            };
            let ([from, to], [parent_from, parent_to]) = (times(span), times(parent));
            assert!(parent_from <= from && from <= to && to <= parent_to, "{span}\n{parent}");
        }
    }
}

#[test]
fn spans_are_nested_as_the_calls_are() {
    let trace = otlp(&run(), false);
    assert_is_otlp(&trace);
    let resource = attributes(&trace["resourceSpans"][0]["resource"]);
    assert_eq!((resource["service.name"], resource["service.version"]), (&json!("llm-do"), &json!("0.1.0")));
    let spans = spans(&trace);
    let names: HashMap<&Value, &str> =
        spans.iter().map(|span| (&span["spanId"], span["name"].as_str().unwrap())).collect();
    let nested: Vec<(&str, &str)> = spans
        .iter()
        .map(|span| {
            (span.get("parentSpanId").map_or("", |parent| names[parent]), span["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        nested,
        [
            ("", "invoke_agent main"),
            ("invoke_agent main", "chat claude-haiku-4-5"),
            ("invoke_agent main", "chat claude-haiku-4-5"),
            ("invoke_agent main", "invoke_agent reviewer"),
            ("invoke_agent reviewer", "chat claude-haiku-4-5"),
            ("invoke_agent main", "execute_tool write_file"),
            ("execute_tool write_file", "approval write_file"),
        ]
    );
    assert_eq!(spans[2]["startTimeUnixNano"], format!("{}", (BEGAN + 300) * 1_000_000));
    assert_eq!(spans[2]["endTimeUnixNano"], format!("{}", (BEGAN + 1300) * 1_000_000));
}

#[test]
fn attributes_are_those_of_the_conventions() {
    let trace = otlp(&run(), false);
    let spans = spans(&trace);
    let [root, failed, chat, reviewer, _, tool, approval] = spans[..] else { panic!("{trace:#}") };
    let of = attributes(root);
    assert_eq!(
        (of["gen_ai.operation.name"], of["gen_ai.agent.name"]),
        (&json!("invoke_agent"), &json!("main"))
    );
    assert_eq!((of["gen_ai.conversation.id"], of["llm_do.state"]), (&json!(RUN), &json!("open")));
    let events: Vec<&Value> = root["events"].as_array().unwrap().iter().map(|event| &event["name"]).collect();
    assert_eq!(events, ["llm_do.pause", "llm_do.note"]);
    let of = attributes(failed);
    assert_eq!(
        (of["error.type"], &failed["status"]),
        (&json!("server"), &json!({"code": 2, "message": "503"}))
    );
    let of = attributes(chat);
    assert_eq!(of["gen_ai.operation.name"], "chat");
    assert_eq!(
        (of["gen_ai.provider.name"], of["gen_ai.request.model"]),
        (&json!("anthropic"), &json!("claude-haiku-4-5"))
    );
    assert_eq!(of["gen_ai.request.max_tokens"], "300");
    assert_eq!(
        (of["gen_ai.usage.input_tokens"], of["gen_ai.usage.output_tokens"]),
        (&json!("640"), &json!("80"))
    );
    assert_eq!(of["gen_ai.usage.cache_read.input_tokens"], "512");
    assert_eq!(of["gen_ai.response.finish_reasons"]["values"][0]["stringValue"], "tool_calls");
    assert_eq!((&chat["kind"], &chat["status"]["code"]), (&json!(3), &json!(0)));
    assert_eq!(attributes(reviewer)["gen_ai.tool.call.id"], "call_a");
    let of = attributes(tool);
    assert_eq!((of["gen_ai.tool.name"], of["gen_ai.tool.call.id"]), (&json!("write_file"), &json!("call_b")));
    assert_eq!((of["error.type"], &tool["status"]["message"]), (&json!("tool"), &json!("disk full")));
    assert_eq!(attributes(approval)["llm_do.answer"], "approve");
    // An unknown figure is not zero.
    assert!(!attributes(spans[4]).contains_key("gen_ai.usage.input_tokens"));
}

#[test]
fn what_was_said_is_left_out_unless_it_is_asked_for() {
    assert!(!otlp(&run(), false).to_string().contains("private words"));
    let trace = otlp(&run(), true);
    assert_is_otlp(&trace);
    let spans = spans(&trace);
    let json_in = |value: &Value| serde_json::from_str::<Value>(value.as_str().unwrap()).unwrap();
    let root = attributes(spans[0]);
    assert_eq!(json_in(root["gen_ai.system_instructions"])[0]["content"], "private words");
    let said = json_in(attributes(spans[2])["gen_ai.output.messages"]);
    assert_eq!(
        said[0]["parts"][1],
        json!({"type": "tool_call", "id": "call_a", "name": "reviewer", "arguments": {}})
    );
    let reviewer = attributes(spans[3]);
    assert_eq!(json_in(reviewer["gen_ai.tool.call.arguments"])["text"], "private words");
    assert_eq!(json_in(reviewer["gen_ai.tool.call.result"]), "private words");
}

#[test]
fn a_run_keeps_its_trace_and_its_spans() {
    assert_eq!(otlp(&run(), false), otlp(&run(), false));
    // Sent during the run and once more later, it is the same trace.
    let trace = otlp(&run(), false);
    assert_eq!(spans(&trace)[0]["traceId"], "615abc38ef55be647e913a757ed3185b");
    let half = run_of(vec![(0, call("0", "main"))]);
    assert_eq!(spans(&otlp(&half, false))[0]["spanId"], spans(&trace)[0]["spanId"]);
    assert!(spans(&otlp(&run_of(Vec::new()), false)).is_empty());
}
