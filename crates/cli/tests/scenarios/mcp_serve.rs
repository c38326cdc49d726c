//! `llm-do mcp serve`, with clients that keep to the protocol and clients that don't.

mod client;
mod example;
pub(crate) mod http;
mod nested;
mod questions;
pub(crate) mod real_clients;
mod tasks;

use crate::scenario::Scenario;
use client::{Client, Speaks, text};
use serde_json::{Value, json};

const OLDER: Speaks = Speaks::Older { asks: false };

/// A project with three exported workers.
fn desk() -> Scenario {
    Scenario::new()
        .file(
            "project.yaml",
            "name: desk\nversion: 1.0.0\nexports: [greeter, sorter, slow]\nmodel: script:s.yaml\n",
        )
        .file(
            "workers/greeter.worker",
            "---\ndescription: Greets somebody.\nparameters: {name: string}\n---\nGreet {{ name }}.\n",
        )
        .file(
            "workers/sorter.worker",
            "---\ndescription: Sorts a mail.\nparameters: {mail: string}\nreturns: {type: object, properties: {urgent: {type: boolean}}, required: [urgent]}\nmodel: script:typed.yaml\nsandbox: {paths: {mails: {root: ./mails, mode: ro}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nSort.\n",
        )
        .file("workers/slow.worker", "---\nmodel: script:slow.yaml\ntoolsets: [shell]\n---\nThink.\n")
        .file("mails/one.txt", "hello\n")
        .file("s.yaml", "answers:\n  - text: Hello!\n")
        .file("typed.yaml", "answers:\n  - json: {urgent: true}\n")
        .file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 600000\n")
}

#[test]
fn exported_workers_are_tools_with_their_schemas_and_hints() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["greeter", "slow", "sorter"]);
    assert_eq!(tools[0]["description"], "Greets somebody.");
    assert_eq!(
        tools[0]["inputSchema"],
        json!({
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": false,
        })
    );
    assert_eq!(tools[0].get("outputSchema"), None);
    assert_eq!(tools[2]["outputSchema"]["required"], json!(["urgent"]));
    let hints = |tool: &Value| {
        let hints = &tool["annotations"];
        ["readOnlyHint", "destructiveHint", "openWorldHint"].map(|hint| hints[hint].as_bool())
    };
    assert_eq!(hints(&tools[0]), [Some(true), Some(false), Some(false)]);
    assert_eq!(hints(&tools[1]), [Some(false), Some(true), Some(false)]);
    assert_eq!(hints(&tools[2]), [Some(true), Some(false), Some(false)]);
    let told = client.leave(&scenario);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert!(told.stderr.contains("serving greeter, slow, sorter on stdin and stdout"), "{told}");
}

#[test]
fn client_that_goes_before_it_asks_for_anything_is_no_error() {
    let scenario = desk();
    let told = scenario.run_with_stdin(&["mcp", "serve"], "");
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert_eq!(told.stderr, "note: serving greeter, slow, sorter on stdin and stdout\n", "{told}");
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let told = scenario.run_with_stdin(&["mcp", "serve"], ping);
    assert_eq!(told.code, Some(0), "{told}");
    // Something else than the protocol is one.
    let told = scenario.run_with_stdin(
        &["mcp", "serve"],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
    );
    assert_eq!(told.code, Some(1), "{told}");
}

#[test]
fn call_is_a_run_whose_input_is_untrusted() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    let params = json!({"name": "sorter", "arguments": {"mail": "to all"}, "_meta": {"progressToken": "p"}});
    let mut answer = client.ask("tools/call", params);
    let result = answer["result"].take();
    assert_eq!(result["structuredContent"], json!({"urgent": true}));
    assert_eq!((text(&result), &result["isError"]), ("{\"urgent\":true}", &json!(false)));
    assert_eq!(text(&client.call("greeter", json!({"name": "Ada"}))), "Hello!");
    let progress: Vec<_> =
        client.heard.iter().filter(|heard| heard["method"] == "notifications/progress").collect();
    assert!(!progress.is_empty() && progress.iter().all(|heard| heard["params"]["progressToken"] == "p"));
    client.leave(&scenario);
    assert_eq!(scenario.runs().len(), 2);
    let journal = scenario.journal();
    assert_eq!(journal[0]["invocation"]["untrusted_input"], true);
    let started = journal.iter().find(|record| record["kind"] == "call_started").expect("a call");
    assert_eq!(started["origins"], json!([{"at": "", "origin": "untrusted"}]), "{started}");
    assert_eq!(journal.last().expect("an end")["status"], "done");
}

#[test]
fn lines_that_code_logs_are_progress() {
    let scenario = Scenario::new()
        .file("project.yaml", "name: desk\nversion: 1.0.0\nexports: [flow]\n")
        .file("workers/flow.worker", "---\ndescription: Works.\ncode: flow.py:work\n---\n")
        .file(
            "flow.py",
            "from llm_do import ToolContext\n\ndef work(ctx: ToolContext, n: int) -> int:\n    \"\"\"Works.\"\"\"\n    \
             ctx.log('half of\\n', n)\n    return n\n",
        );
    let mut client = Client::start(&scenario, &[], OLDER);
    let params = json!({"name": "flow", "arguments": {"n": 4}, "_meta": {"progressToken": "p"}});
    let answer = client.ask("tools/call", params);
    assert_eq!(text(&answer["result"]), "4", "{answer}");
    let heard = client.heard.iter().filter(|heard| heard["method"] == "notifications/progress");
    let said: Vec<_> = heard.filter_map(|heard| heard["params"]["message"].as_str()).collect();
    assert!(said.last().is_some_and(|last| last.starts_with("half of") && !last.contains('\n')), "{said:?}");
    client.leave(&scenario);
}

#[test]
fn integer_of_more_than_64_bits_is_refused_with_a_reason() {
    for speaks in [OLDER, Speaks::Rounds] {
        let scenario = desk();
        let mut client = Client::start(&scenario, &[], speaks);
        let meta = match speaks {
            Speaks::Older { .. } => "{}",
            _ => {
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#
            }
        };
        for (id, number) in [(900, "12345678901234567890123"), (901, "-9223372036854775809")] {
            client.write(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"greeter","arguments":{{"name":{number}}},"_meta":{meta}}}}}"#
            ));
            let refused = client.answer(id);
            let message = refused["error"]["message"].as_str().unwrap_or_default();
            assert!(refused["error"]["code"] == -32602 && message.contains(number), "{refused}");
        }
        assert_eq!(text(&client.call("greeter", json!({"name": "Ada"}))), "Hello!");
        client.leave(&scenario);
        assert_eq!(scenario.runs().len(), 1);
    }
}

#[test]
fn wrong_calls_are_answered_and_start_no_run() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    for (params, code) in [
        (json!({"name": "nobody", "arguments": {}}), -32602),
        (
            json!({"name": "greeter", "arguments": {"name": "Ada"}, "_meta": {"llm-do/idempotency-key": 7}}),
            -32602,
        ),
    ] {
        assert_eq!(client.ask("tools/call", params)["error"]["code"], code);
    }
    for (tool, arguments, says) in [
        ("greeter", json!({}), "missing: `name`"),
        ("greeter", json!({"name": 7}), "does not fit"),
        ("greeter", json!({"name": "Ada", "nmae": "x"}), "does not fit"),
        ("greeter", json!({"name": "Ada", "attachments": ["/etc/passwd"]}), "no parameter `attachments`"),
        ("greeter", json!({"name": "Ada", "instructions": "obey"}), "no parameter `instructions`"),
    ] {
        let result = client.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains(says), "{result}");
    }
    assert!(scenario.runs().is_empty());
    client.leave(&scenario);
}

#[test]
fn garbage_does_not_disturb_the_next_request() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    for line in
        ["", "{", "]", "null", "7", "\u{0}\u{1}", "Content-Length: 99999999", "{\"jsonrpc\": \"2.0\"}"]
    {
        client.write(line);
    }
    client.write(&format!("{{\"jsonrpc\": \"2.0\", \"id\": 99, \"method\": \"{}\"}}", "x".repeat(17 << 20)));
    client.write(r#"{"jsonrpc": "2.0", "id": 98, "method": "tools/call", "params": 7}"#);
    client.write(r#"{"jsonrpc": "2.0", "id": 97, "method": "tools/call", "params": {"name": ["greeter"]}}"#);
    client.write(r#"{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}"#);
    client
        .write(r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}}"#);
    assert!(client.ask("no/such", json!({}))["error"].is_object());
    assert_eq!(text(&client.call("greeter", json!({"name": "Ada"}))), "Hello!");
    client.write_part(r#"{"jsonrpc": "2.0", "id": 96, "method": "tools/call", "params": {"name": "gree"#);
    let told = client.leave(&scenario);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.runs().len(), 1);
}

#[test]
fn calls_run_at_once_and_each_can_be_cancelled() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    let calls =
        [(); 2].map(|()| client.send("tools/call", json!({"name": "slow", "arguments": {"input": "x"}})));
    assert_eq!(text(&client.call("greeter", json!({"name": "Ada"}))), "Hello!");
    assert_eq!(scenario.runs().len(), 3);
    for id in calls {
        client.cancel(id);
        client.cancel(id);
    }
    assert_eq!(text(&client.call("greeter", json!({"name": "Bea"}))), "Hello!");
    let told = client.leave(&scenario);
    assert_eq!(told.code, Some(0), "{told}");
    let ends: Vec<_> = scenario.runs().iter().map(|run| end(run)).collect();
    assert_eq!(ends.iter().filter(|end| *end == "interrupted").count(), 2, "{ends:?}");
    assert_eq!(ends.iter().filter(|end| *end == "done").count(), 2, "{ends:?}");
}

#[test]
fn runs_end_with_a_client_that_vanishes() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    client.send("tools/call", json!({"name": "slow", "arguments": {"input": "x"}}));
    assert!(client.ask("ping", json!({})).get("result").is_some());
    let told = client.leave(&scenario);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.runs().iter().map(|run| end(run)).collect::<Vec<_>>(), ["interrupted"]);
}

#[test]
fn repeated_call_with_a_key_is_one_run() {
    let scenario = desk();
    let mut client = Client::start(&scenario, &[], OLDER);
    let keyed = |name: &str| json!({"name": "greeter", "arguments": {"name": name}, "_meta": {"llm-do/idempotency-key": "k1"}});
    let ids = [(); 3].map(|()| client.send("tools/call", keyed("Ada")));
    let runs = ids.map(|id| client.answer(id)["result"]["_meta"]["llm-do/run"].clone());
    assert!(runs.iter().all(|run| *run == runs[0] && run.is_string()), "{runs:?}");
    let mut other = client.ask("tools/call", keyed("Bea"));
    let other = other["result"].take();
    assert_eq!(other["isError"], true);
    assert!(text(&other).contains("another call"), "{other}");
    client.leave(&scenario);
    assert_eq!(scenario.runs().len(), 1);
}

#[test]
fn mistakes_of_the_operator_are_reported_before_anything_is_served() {
    let scenario = desk().file("workers/bad.worker", "---\nmodle: x\n---\nx\n");
    for (arguments, says) in [
        (&["mcp", "serve", "nowhere"][..], "nowhere"),
        (&["mcp", "serve", ".", "--operator", "fd:3"], "the client is asked"),
        (&["mcp", "serve", ".", "--entry", "bad"], "modle"),
        (&["mcp", "serve", ".", "--http", "0.0.0.0:0"], "loopback"),
        (&["mcp", "serve", ".", "--token-file", "t"], "--http"),
    ] {
        let told = scenario.run(arguments);
        assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{told}");
        assert!(told.stderr.contains(says), "{told}");
    }
    let told = scenario.run(&["mcp", "serve", ".", "--json"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("stdout carries the protocol"), "{told}");
}

/// Returns the status with which a run ended.
fn end(run: &std::path::Path) -> String {
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    let last = journal.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
    last.and_then(|last| Some(last["status"].as_str()?.to_owned())).unwrap_or_else(|| "open".into())
}
