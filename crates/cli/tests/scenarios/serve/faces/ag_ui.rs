//! AG-UI: the protocol's own clients, and requests that they would not send.

use super::{
    desk,
    official_clients::{clients, file, heard},
};
use crate::{
    scenario::Scenario,
    serve::client::{Server, TOKEN_OF_CI, ci_token},
};
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn javascript_client_runs_a_worker_and_resumes_its_interrupt() {
    let Some(clients) = clients() else { return };
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let mut command = Command::new("node");
    command.arg(file("agent.mjs")).arg(clients.join("node_modules")).args([&server.address, &server.token]);
    let heard = heard(&mut command);
    let kinds: Vec<&str> =
        heard["kinds"].as_array().expect("kinds").iter().filter_map(Value::as_str).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"RUN_STARTED"), Some(&"RUN_FINISHED")), "{heard}");
    let contents = kinds.iter().filter(|kind| **kind == "TEXT_MESSAGE_CONTENT").count();
    assert!(contents > 3, "the text is streamed: {heard}");
    assert!(kinds.contains(&"TOOL_CALL_RESULT"), "{heard}");
    let messages = heard["messages"].as_array().expect("messages");
    assert_eq!(messages.last().map(|last| &last[1]), Some(&json!("The note says: buy milk.")), "{heard}");
    assert_eq!(heard["usage"][0]["totalTokens"], 70, "{heard}");
    assert_eq!(heard["result"], json!({"urgent": true}));
    assert_eq!(heard["interrupt"], json!(["interrupt", "tool_approval", ["approved"]]), "{heard}");
    assert_eq!(heard["call"], true, "{heard}");
    let resumed = heard["resumed"].as_array().expect("kinds");
    assert!(
        resumed.contains(&json!("TOOL_CALL_RESULT")) && !resumed.contains(&json!("TOOL_CALL_START")),
        "{heard}"
    );
    assert_eq!(heard["text"], "Written.");
    assert_eq!(heard["late"], json!([409, "already_decided"]), "{heard}");
    assert!(
        heard["failed"].as_str().is_some_and(|what| what == "RUN_ERROR" || what.contains("no such luck")),
        "{heard}"
    );
    assert_eq!(heard["talk"], json!(["You said: More.", true]), "{heard}");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
}

#[test]
fn python_types_know_every_event_and_field() {
    let Some(clients) = clients() else { return };
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    for (worker, outcome, last) in [
        ("reader", json!("success"), "RUN_FINISHED"),
        ("writer", json!("interrupt"), "RUN_FINISHED"),
        ("asker", json!("interrupt"), "RUN_FINISHED"),
    ] {
        let mut command = Command::new(clients.join("venv/bin/python"));
        command.arg(file("agent.py")).args([&server.address, &server.token, worker]);
        let heard = heard(&mut command);
        assert_eq!((&heard["outcome"], &heard["extra"]), (&outcome, &json!([])), "{worker}: {heard}");
        assert_eq!(heard["kinds"].as_array().and_then(|kinds| kinds.last()), Some(&json!(last)));
        assert_eq!(heard["type"], "text/event-stream");
    }
}

#[test]
fn requests_that_are_none_start_nothing() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let path = "/v1/ag-ui/desk/echo";
    let hello = json!([{"id": "1", "role": "user", "content": "Hello"}]);
    for (body, status, says) in [
        (json!({}), 400, "threadId"),
        (json!({"threadId": "t", "runId": "r", "messages": []}), 400, "no message"),
        (
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "assistant", "content": "Hi"}]}),
            400,
            "the last message",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": hello, "tools": [{"name": "f", "description": "f"}]}),
            400,
            "add `client` to its `toolsets`",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": hello, "state": {"a": 1}}),
            400,
            "`echo` has no parameter `state`",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "http://127.0.0.1/a.png"}}]}]}),
            400,
            "fetches nothing",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}]}]}),
            400,
            "no image",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": hello, "resume": [{"interruptId": "x", "status": "resolved"}]}),
            404,
            "interrupt",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": hello, "resume": [{"interruptId": "20261121-221530-4f2a_00", "status": "resolved"}]}),
            404,
            "no run",
        ),
    ] {
        let refused = server.post(path, &body).send();
        assert_eq!(refused.status, status, "{body}: {refused:?}");
        assert!(
            refused.body["detail"].as_str().is_some_and(|detail| detail.contains(says)),
            "{body}: {refused:?}"
        );
    }
    let body = json!({"threadId": "t", "runId": "r", "messages": hello});
    for path in ["/v1/ag-ui/desk/nobody", "/v1/ag-ui/other/echo", "/v1/ag-ui/desk/../echo"] {
        assert_eq!(server.post(path, &body).send().status, 404, "{path}");
    }
    assert_eq!(server.post(path, &body).without_token().send().status, 401);
    assert_eq!(scenario.runs().len(), 0);

    let asked = server.post("/v1/ag-ui/desk/writer", &body).token(TOKEN_OF_CI).send();
    let last =
        asked.text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().expect("an event");
    let last: Value = serde_json::from_str(last).expect("JSON");
    let id = last["outcome"]["interrupts"][0]["id"].clone();
    let resume = |payload: Value| json!({"threadId": "t", "runId": "r2", "messages": [], "resume": [{"interruptId": id, "status": "resolved", "payload": payload}]});
    let refused =
        server.post("/v1/ag-ui/desk/writer", &resume(json!({"approved": true}))).token(TOKEN_OF_CI).send();
    assert_eq!(refused.status, 403, "it has no scope `answer`: {refused:?}");
    assert_eq!(server.post("/v1/ag-ui/desk/writer", &resume(json!({}))).send().status, 400);
    assert_eq!(server.post("/v1/ag-ui/desk/echo", &resume(json!(true))).send().status, 404);
    let edited = json!({"approved": true, "arguments": {"path": "out/other.txt", "content": "edited\n"}});
    let done = server.post("/v1/ag-ui/desk/writer", &resume(edited)).send();
    assert!(done.text.contains("\"success\""), "{done:?}");
    assert_eq!(scenario.read("out/other.txt").as_deref(), Some("edited\n"));
    assert_eq!(scenario.read("out/note.txt"), None);
}

/// The events of a run of that worker.
fn events(server: &Server, worker: &str, body: &Value, token: Option<&str>) -> Vec<Value> {
    let asked = server.post(&format!("/v1/ag-ui/desk/{worker}"), body);
    let response = match token {
        Some(token) => asked.token(token).send(),
        None => asked.send(),
    };
    assert_eq!(response.status, 200, "{response:?}");
    let lines = response.text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The message of the assistant in these events, and the run that they are of.
fn said(events: &[Value]) -> (Value, String) {
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let text: String =
        of("TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    let id = &of("TEXT_MESSAGE_START").first().expect("a message")["messageId"];
    let run = events.last().expect("an event")["metadata"]["run"].as_str().expect("an ID").to_owned();
    (json!({"id": id, "role": "assistant", "content": text}), run)
}

#[test]
fn chat_worker_keeps_its_run_over_the_turns_of_a_thread() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let user = |text: &str| json!({"id": text, "role": "user", "content": text});
    let ask = |messages: &[Value], context: Value, token: Option<&str>| {
        let body = json!({"threadId": "t", "runId": "r", "messages": messages, "context": context});
        said(&events(&server, "talker", &body, token))
    };
    let (first, run) = ask(&[user("Hello.")], json!([]), None);
    assert_eq!(first["content"], "You said: Hello.", "{first}");
    let more = [user("Hello."), first.clone(), user("More.")];
    let (second, same) = ask(&more, json!([]), None);
    assert_eq!((&second["content"], &same), (&json!("You said: More."), &run), "{second}");
    let third = [&more[..], &[second, user("Third.")]].concat();
    let (said, same) = ask(&third, json!([{"description": "Page", "value": "3"}]), None);
    let said = said["content"].as_str().expect("text");
    assert!(said.contains("<application>\nPage: 3") && said.contains("<user>\nThird."), "{said}");
    assert_eq!((same, scenario.runs().len()), (run.clone(), 1));

    let branch = [user("Hello."), first.clone(), user("Other.")];
    let (said, other) = ask(&branch, json!([]), None);
    assert!(said["content"].as_str().is_some_and(|said| said.contains("<assistant>\nYou said: Hello.")));
    assert_ne!(other, run, "a changed conversation is another run");
    let (_, foreign) = ask(&third, json!([]), Some(TOKEN_OF_CI));
    assert!(foreign != run && foreign != other, "no token talks in a run that it does not see");
    assert_eq!(scenario.runs().len(), 3);
}

#[test]
fn state_is_the_input_of_a_worker_that_has_a_parameter_for_it() {
    let scenario = Scenario::new()
        .file("project.yaml", "name: desk\nversion: 1.0.0\nexports: [page]\n")
        .file(
            "workers/page.worker",
            "---\nmodel: script:page.yaml\nparameters: {question: string, state: {type: object}}\n---\n{{ question }} Page {{ state.page }}\n",
        )
        .file("page.yaml", "answers:\n  - text: seen\n");
    let server = Server::start(&scenario, &[]);
    let body = |content: &str, state: Value| json!({"threadId": "t", "runId": "r", "state": state, "messages": [{"id": "1", "role": "user", "content": content}]});
    let (said, _) = said(&events(&server, "page", &body("What is it?", json!({"page": 3})), None));
    assert_eq!(said["content"], "seen");
    let input = json!({"question": "What is it?", "state": {"page": 3}});
    let records = scenario.journal();
    assert!(records.iter().any(|record| record["input"] == input), "{records:?}");
    events(&server, "page", &body("What is it?", json!({})), None);
}
