//! Chats over HTTP: stopping, words in between, other models.

use super::client::Server;
use crate::scenario::Scenario;
use serde_json::{Value, json};

fn talker(answers: &str) -> Scenario {
    Scenario::new()
        .file("talker.worker", "---\nmodel: script:s.yaml\nmode: chat\n---\nTalk.\n")
        .file("s.yaml", answers)
        .file("other.yaml", "answers:\n  - text: from the other model\n")
}

fn begin(server: &Server) -> String {
    let started = server.post("/v1/runs", &json!({"message": "Hi.", "chat": true})).send();
    assert_eq!(started.status, 201, "{started:?}");
    started.body["run"].as_str().expect("an ID").to_owned()
}

fn turn(server: &Server, run: &str, answer: Value) -> u16 {
    let view = server.until(run, |view| view["questions"][0]["conversation"].is_object());
    let question = &view["questions"][0];
    let mut body = json!({"call": question["call"], "step": question["step"], "digest": question["digest"]});
    body.as_object_mut().expect("fields").extend(answer.as_object().expect("fields").clone());
    server.post(&format!("/v1/runs/{run}/answers"), &body).send().status
}

#[test]
fn stop_ends_the_answer_and_not_the_chat() {
    let scenario =
        talker("answers:\n  - when: {turn: 0}\n    text: late\n    delay_ms: 600000\n  - text: soon\n");
    let server = Server::start_with(&scenario, &["talker.worker"]);
    let run = begin(&server);
    let stop = format!("/v1/runs/{run}/stop");
    server.until(&run, |view| view["state"] == "running");
    // The journal says when the request was sent.
    let mut following = server.listen(server.get(&format!("/v1/runs/{run}/events")));
    following.until(|event| event.data["record"]["kind"] == "model_requested");
    let stopped = server.ask("POST", &stop, String::new()).send();
    assert_eq!(stopped.status, 202, "{stopped:?}");
    let view = server.until(&run, |view| view["state"] == "waiting");
    assert_eq!(view["questions"][0]["conversation"]["cut_off"], true, "{view}");
    let idle = server.ask("POST", &stop, String::new()).send();
    assert_eq!((idle.status, &idle.body["code"]), (409, &json!("conflict")), "{idle:?}");
    assert_eq!(turn(&server, &run, json!({"answer": "give", "value": "Again."})), 204);
    server.until(&run, |view| view["questions"][0]["prompt"] == "soon");
    assert_eq!(turn(&server, &run, json!({"answer": "end"})), 204);
    server.until(&run, |view| view["state"] == "done");
}

#[test]
fn words_that_no_request_has_delivered_are_the_next_message() {
    let scenario =
        talker("answers:\n  - when: {turn: 0}\n    text: first\n    delay_ms: 1500\n  - text: second\n");
    let server = Server::start_with(&scenario, &["talker.worker"]);
    let run = begin(&server);
    let mut following = server.listen(server.get(&format!("/v1/runs/{run}/events")));
    following.until(|event| event.data["record"]["kind"] == "model_requested");
    let said =
        server.post(&format!("/v1/runs/{run}/messages"), &json!({"text": "And now?", "now": true})).send();
    assert_eq!((said.status, &said.body["delivered"]), (202, &json!(true)), "{said:?}");
    server.until(&run, |view| view["questions"][0]["prompt"] == "second");
    let events: Vec<Value> = scenario_records(&scenario);
    assert!(
        events.iter().any(|record| record.to_string().contains("And now?") && record["via"] == "http"),
        "{events:?}"
    );
}

fn scenario_records(scenario: &Scenario) -> Vec<Value> {
    scenario.journal_of_home()
}

#[test]
fn answer_chooses_only_a_model_that_the_operator_named() {
    let scenario = talker("answers:\n  - text: hello\n");
    let server = Server::start_with(&scenario, &["talker.worker", "--chat-model", "script:other.yaml"]);
    assert_eq!(server.get("/v1/session").send().body["models"], json!(["script:other.yaml"]));
    let run = begin(&server);
    assert_eq!(turn(&server, &run, json!({"answer": "model", "model": "script:s2.yaml"})), 403);
    assert_eq!(turn(&server, &run, json!({"answer": "model", "model": "script:other.yaml"})), 204);
    assert_eq!(turn(&server, &run, json!({"answer": "give", "value": "Who are you?"})), 204);
    server.until(&run, |view| view["questions"][0]["prompt"] == "from the other model");
    drop(server);
    let server = Server::start_with(&scenario, &["talker.worker"]);
    let run = begin(&server);
    assert_eq!(turn(&server, &run, json!({"answer": "model", "model": "script:other.yaml"})), 403);
}

#[test]
fn answer_attaches_a_content_and_never_a_path_of_the_server() {
    let scenario = talker("answers:\n  - text: hello\n").file("secret.txt", "secret\n");
    let server = Server::start_with(&scenario, &["talker.worker"]);
    let run = begin(&server);
    let secret = scenario.project().join("secret.txt").display().to_string();
    assert_eq!(turn(&server, &run, json!({"answer": "attach", "file": secret})), 403);
    let content = json!({"name": "a.txt", "media_type": "text/plain", "data": "aGVsbG8="});
    let mut placed = content.clone();
    placed["places"] = json!(["/etc/passwd"]);
    assert_eq!(turn(&server, &run, json!({"answer": "attach", "file": "a.txt", "content": placed})), 403);
    assert_eq!(turn(&server, &run, json!({"answer": "attach", "file": "a.txt", "content": content})), 204);
    assert_eq!(turn(&server, &run, json!({"answer": "give", "value": "See?", "colour": 1})), 400);
}

#[test]
fn chat_whose_next_message_does_not_come_expires_also_after_a_restart() {
    let scenario = talker("answers:\n  - text: hello\n");
    let server = Server::start_with(&scenario, &["talker.worker", "--chats-expire", "never"]);
    let run = begin(&server);
    server.until(&run, |view| view["state"] == "waiting");
    drop(server);
    let server = Server::start_with(&scenario, &["talker.worker", "--chats-expire", "1s"]);
    let done = server.until(&run, |view| view["state"] == "done");
    assert_eq!(done["output"], "hello", "{done}");
    let records = scenario_records(&scenario);
    let end = records.iter().find(|record| record["kind"] == "answered").expect("an answer");
    assert_eq!((&end["answer"], &end["via"]), (&json!("end"), &json!("expiry")), "{end}");
    server.logged("the chat expired");
    let late = server.post(&format!("/v1/runs/{run}/messages"), &json!({"text": "Late."})).send();
    assert_eq!(late.status, 404, "{late:?}");
}
