//! Changes that the server has acknowledged exist after a kill.

use super::{
    client::{Response, Server},
    desk,
};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::fs;

const QUICK: &str = "answers:\n  - when: {last: fail}\n    error: {status: 400, message: no such thing}\n  - text: 'heard {{ last }}'\n";

fn talker(answers: &str) -> Scenario {
    Scenario::new()
        .file("talker.worker", "---\nmodel: script:s.yaml\nmode: chat\n---\nTalk.\n")
        .file("s.yaml", answers)
}

fn serve(scenario: &Scenario) -> Server {
    Server::start_with(scenario, &["talker.worker"])
}

fn begin(server: &Server) -> String {
    let started = server.post("/v1/runs", &json!({"message": "Hi.", "chat": true})).send();
    assert_eq!(started.status, 201, "{started:?}");
    started.body["run"].as_str().expect("an ID").to_owned()
}

fn say(server: &Server, run: &str, message: &Value) -> Response {
    let said = server.post(&format!("/v1/runs/{run}/messages"), message).send();
    assert_eq!(said.status, 202, "{said:?}");
    said
}

fn heard(server: &Server, run: &str, prompt: &str) {
    server.until(run, |view| view["state"] == "waiting" && view["questions"][0]["prompt"] == prompt);
}

#[test]
fn messages_to_a_busy_chat_are_delivered_after_a_kill() {
    let scenario = talker("answers:\n  - text: late\n    delay_ms: 600000\n");
    let server = serve(&scenario);
    let run = begin(&server);
    server.until(&run, |view| view["state"] == "running");
    for text in ["one", "two"] {
        assert_eq!(say(&server, &run, &json!({"text": text})).body["delivered"], false);
    }
    drop(server);
    fs::write(scenario.project().join("s.yaml"), QUICK).expect("a script");
    let server = serve(&scenario);
    heard(&server, &run, "heard two");
    let gave: Vec<Value> = scenario.journal_of_home();
    let messages: Vec<&Value> = gave
        .iter()
        .filter(|record| record["kind"] == "answered" && record["step"].to_string().contains("message."))
        .map(|record| &record["value"])
        .collect();
    assert_eq!(messages, [&json!("one"), &json!("two")], "each once");
}

#[test]
fn chat_with_an_answer_that_failed_is_continued_after_a_kill() {
    let scenario = talker(QUICK);
    let server = serve(&scenario);
    let run = begin(&server);
    heard(&server, &run, "heard Hi.");
    say(&server, &run, &json!({"text": "fail"}));
    server.until(&run, |view| {
        view["questions"][0]["conversation"]["failure"].to_string().contains("no such thing")
    });
    assert_eq!(say(&server, &run, &json!({"text": "again"})).body["delivered"], true);
    heard(&server, &run, "heard again");
    drop(server);
    let server = serve(&scenario);
    heard(&server, &run, "heard again");
    say(&server, &run, &json!({"text": "more"}));
    heard(&server, &run, "heard more");
}

#[test]
fn answer_is_in_the_journal_and_stands_after_a_kill() {
    let scenario = desk();
    let mut server = Server::start(&scenario, &[]);
    for _ in 0..3 {
        let started =
            server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
        let run = started["run"].as_str().expect("an ID").to_owned();
        let question = &started["questions"][0];
        let answer = json!({
            "call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"
        });
        let path = format!("/v1/runs/{run}/answers");
        assert_eq!(server.post(&path, &answer).send().status, 204);
        drop(server);
        let journal =
            fs::read_to_string(scenario.project().join(format!(".llm-do/runs/{run}/journal.jsonl")));
        let journal = journal.expect("a journal");
        assert!(journal.contains("\"kind\":\"answered\""), "{journal}");
        server = Server::start(&scenario, &[]);
        let again = server.post(&path, &answer).send();
        assert_eq!((again.status, &again.body["code"]), (409, &json!("already_decided")), "{again:?}");
        server.until(&run, |view| view["state"] == "done");
    }
}

#[test]
fn without_a_key_there_is_no_run_and_the_next_tries_again() {
    let scenario = desk();
    let key = scenario.home().join("home/.llm-do/journal.key");
    let server = Server::start(&scenario, &[]);
    let _ = fs::remove_file(&key);
    fs::create_dir_all(&key).expect("something that is no key");
    let ask = || server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send();
    let refused = ask();
    assert_eq!(refused.body["code"], "storage", "{refused:?}");
    assert!(scenario.runs().is_empty(), "no folder is left");
    fs::remove_dir(&key).expect("an empty folder");
    let started = ask();
    assert_eq!(started.body["state"], "waiting", "{started:?}");
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    drop(server);
    let server = Server::start(&scenario, &[]);
    server.until(&run, |view| view["state"] == "waiting");
}
