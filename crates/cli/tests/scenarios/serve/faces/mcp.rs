//! The Model Context Protocol at `/mcp`: the protocol's own client, and requests that it would not send.

use super::{
    desk,
    official_clients::{clients, file, heard},
};
use crate::serve::client::{Response, Server, TOKEN_OF_CI, ci_token};
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn python_sdk_calls_workers_and_approves_in_either_era_of_the_protocol() {
    let Some(clients) = clients() else { return };
    for mode in ["legacy", "auto"] {
        let scenario = desk();
        let server = Server::start(&scenario, &[]);
        let mut command = Command::new(clients.join("venv/bin/python"));
        command.arg(file("tools.py")).args([&server.address, &server.token, mode]);
        let heard = heard(&mut command);
        assert_eq!(heard["tools"][0], "reader", "{mode}: {heard}");
        assert_eq!(heard["read"], "The note says: buy milk.", "{mode}: {heard}");
        assert!(heard["progress"].as_u64() > Some(0), "{mode}: {heard}");
        assert_eq!(heard["sorted"], json!({"urgent": true}), "{mode}: {heard}");
        assert_eq!(heard["written"], json!([false, "Both written."]), "{mode}: {heard}");
        assert_eq!(heard["asked"].as_array().map(Vec::len), Some(2), "{mode}: {heard}");
        assert_eq!(heard["failed"][0], true, "{mode}: {heard}");
        assert_eq!(scenario.read("out/other.txt").as_deref(), Some("noted\n"), "{mode}");
        let listed = server.get("/v1/runs").send().body;
        assert_eq!(
            listed["runs"].as_array().map(Vec::len),
            Some(4),
            "calls are runs of the service: {listed}"
        );
        assert_eq!(server.stop(), Some(130));
    }
}

/// A call without a session, as the newest revision makes it.
fn call(server: &Server, path: &str, token: &str, tool: &str, more: Value) -> Response {
    let mut params = json!({"name": tool, "arguments": {"input": "Write."}});
    params.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
    ask(server, path, token, "tools/call", tool, params, json!({"elicitation": {}}))
}

/// Such a request of a client with these capabilities.
fn ask(
    server: &Server,
    path: &str,
    token: &str,
    method: &str,
    name: &str,
    mut params: Value,
    capabilities: Value,
) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    server
        .post(path, &body)
        .token(token)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method)
        .header("Mcp-Name", name)
        .send()
}

/// The message of a response, whether it is a stream or not.
fn message(response: &Response) -> Value {
    let data = response
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .find(|data| data.contains("\"id\""));
    serde_json::from_str(data.unwrap_or(&response.text)).unwrap_or_else(|_| panic!("{response:?}"))
}

#[test]
fn token_without_the_scope_answer_is_told_who_answers() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let waits = message(&call(&server, "/mcp", TOKEN_OF_CI, "writer", json!({})));
    let text = waits["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(waits["result"]["isError"], true, "{waits}");
    assert!(text.contains("waits for the operator") && text.contains("/#/runs/"), "{waits}");

    let asked = message(&call(&server, "/mcp", &server.token, "writer", json!({})));
    let requests = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let id = requests.keys().next().expect("a question").clone();
    let answer = json!({"requestState": asked["result"]["requestState"], "inputResponses": {id: {"action": "accept", "content": {"decision": "approve"}}}});
    let foreign = message(&call(&server, "/mcp", TOKEN_OF_CI, "writer", answer.clone()));
    assert_eq!(foreign["result"]["isError"], true, "it does not see the run: {foreign}");
    let other = message(&call(&server, "/mcp", &server.token, "echo", answer.clone()));
    assert_eq!(other["error"]["code"], -32602, "it is the state of another tool's call: {other}");
    assert_eq!(scenario.read("out/note.txt"), None);
    let done = message(&call(&server, "/mcp", &server.token, "writer", answer));
    assert_eq!(done["result"]["content"][0]["text"], "Written.", "{done}");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
}

#[test]
fn run_that_waits_is_a_task_which_the_app_answers() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start]", ""));
    let server = Server::start(&scenario, &[]);
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let ask = |token: &str, method: &str, name: &str, params: Value| {
        message(&ask(&server, "/mcp", token, method, name, params, tasks.clone()))
    };
    let write = json!({"name": "writer", "arguments": {"input": "Write."}});
    let task = ask(&server.token, "tools/call", "writer", write.clone())["result"].take();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert!(task["statusMessage"].as_str().is_some_and(|text| text.contains("/#/runs/")), "{task}");
    let run = task["taskId"].as_str().expect("an ID");
    let id = json!({"taskId": run});
    let get = |token: &str| ask(token, "tasks/get", run, id.clone());
    assert_eq!(get(&server.token)["result"]["status"], "working");
    assert_eq!(get(TOKEN_OF_CI)["error"]["code"], -32602, "it does not see the run");
    let waits = ask(TOKEN_OF_CI, "tools/call", "writer", write.clone())["result"].take();
    assert_eq!((waits.get("taskId"), &waits["isError"]), (None, &json!(true)), "it reads no runs: {waits}");

    let question = server.get(&format!("/v1/runs/{run}")).send().body["questions"][0].take();
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    server.until(run, |view| view["state"] == "done");
    let done = get(&server.token)["result"].take();
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["content"][0]["text"], "Written.", "{done}");

    let other = ask(&server.token, "tools/call", "writer", write)["result"]["taskId"].take();
    let other = other.as_str().expect("an ID");
    let cancelled = ask(&server.token, "tasks/cancel", other, json!({"taskId": other}));
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    server.until(other, |view| view["state"] == "cancelled");
}

#[test]
fn session_belongs_to_the_token_that_began_it() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start]", ""));
    let server = Server::start(&scenario, &[]);
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let accept = "application/json, text/event-stream";
    let begun = server.post("/mcp", &begin).header("Accept", accept).send();
    let session = begun.header("mcp-session-id").unwrap_or_else(|| panic!("{begun:?}")).to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let ask = |token: &str| {
        server
            .post("/mcp", &list)
            .token(token)
            .header("Accept", accept)
            .header("Mcp-Session-Id", &session)
            .send()
    };
    let foreign = ask(TOKEN_OF_CI);
    assert_eq!((foreign.status, &foreign.body["code"]), (404, &json!("not_found")), "{foreign:?}");
    assert_eq!(ask(&server.token).status, 200);
    let ended = server.ask("DELETE", "/mcp", String::new()).header("Mcp-Session-Id", &session).send();
    assert!(ended.status < 300, "{ended:?}");
    assert_eq!(ask(&server.token).status, 404);
}

#[test]
fn checks_of_every_request_hold_here_as_well() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[read]", ""));
    let server = Server::start(&scenario, &["--max-runs", "1"]);
    for (header, value, status) in [
        ("Authorization", "Bearer wrong", 401),
        ("Authorization", &format!("Bearer {TOKEN_OF_CI}"), 403),
        ("Host", "evil.example", 403),
        ("Origin", "https://evil.example", 403),
        ("Content-Length", "99999999999", 413),
    ] {
        let refused = server.post("/mcp", &json!({})).header(header, value).send();
        assert_eq!(refused.status, status, "{header}: {value}: {refused:?}");
    }
    assert_eq!(server.post("/mcp/nobody", &json!({})).send().status, 404);
    let slow = json!({"worker": "slow", "message": "Think."});
    assert_eq!(server.post("/v1/runs", &slow).send().status, 201);
    let busy = message(&call(&server, "/mcp/desk", &server.token, "echo", json!({})));
    assert_eq!(busy["result"]["isError"], true, "{busy}");
    assert!(
        busy["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|why| why.contains("quota `runs` of this token")),
        "{busy}"
    );
}
