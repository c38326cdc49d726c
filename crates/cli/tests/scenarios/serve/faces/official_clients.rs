//! Clients of others. `LLM_DO_TEST_OPENAI` names the folder in which `.ci/run` installs them: a Python environment `venv`, and
//! `node_modules`.

use super::desk;
use crate::{scenario::Scenario, serve::client::Server};
use serde_json::{Value, json};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder with the clients. Where there is none, a test says so and does nothing.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(super) fn clients() -> Option<PathBuf> {
    let clients = env::var_os("LLM_DO_TEST_OPENAI").map(PathBuf::from);
    assert!(clients.is_some() || env::var_os("CI").is_none(), "CI has them");
    if clients.is_none() {
        eprintln!("skipped: LLM_DO_TEST_OPENAI names no folder with clients");
    }
    clients
}

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/serve/faces").join(name)
}

/// Runs a client, which prints the answers that it got.
pub(super) fn heard(command: &mut Command) -> Value {
    let output = command.output().expect("the client runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}{errors}", String::from_utf8_lossy(&output.stdout)))
}

fn python(clients: &Path, server: &Server, what: &str) -> Value {
    let mut command = Command::new(clients.join("venv/bin/python"));
    command.arg(file("client.py")).args([&server.address, &server.token, what]);
    heard(&mut command)
}

fn with_python(what: &str, then: impl FnOnce(&Scenario, &Value)) {
    let Some(clients) = clients() else { return };
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let heard = python(&clients, &server, what);
    then(&scenario, &heard);
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn python_chats_with_workers_as_models() {
    with_python("chat", |_, heard| {
        assert_eq!(heard["models"][0], "desk/reader");
        assert_eq!(heard["model"], "desk/reader");
        assert_eq!(heard["text"], "I look.\n\nThe note says: buy milk.", "{heard}");
        assert_eq!(heard["finish"], "stop");
        assert_eq!(heard["streamed"], heard["text"]);
        assert!(heard["pieces"].as_u64() > Some(3), "it is streamed: {heard}");
        assert_eq!((&heard["usage"], &heard["streamed_usage"]), (&json!(70), &json!(70)));
        assert_eq!(heard["parsed"], true);
        let asked = heard["asked"].as_str().expect("a message");
        assert!(
            asked.contains("wants to call write_file (risk: write)`") && asked.contains("/#/runs/"),
            "{asked}"
        );
    });
}

#[test]
fn python_gets_responses_with_the_calls_of_the_worker() {
    with_python("responses", |_, heard| {
        assert_eq!(heard["kinds"], json!(["message", "mcp_call", "message"]), "{heard}");
        assert_eq!(heard["text"], "I look.The note says: buy milk.");
        assert!(heard["call"].as_str().is_some_and(|result| result.contains("Buy milk.")), "{heard}");
        assert_eq!((&heard["same"], &heard["usage"]), (&json!(true), &json!(70)), "{heard}");
        assert_eq!((&heard["parsed"], &heard["numbers"]), (&json!(true), &json!(true)), "{heard}");
        assert_eq!(heard["streamed"], heard["text"]);
    });
}

#[test]
fn python_answers_approval_requests() {
    with_python("approve", |scenario, heard| {
        assert_eq!(heard["name"], "write_file");
        assert_eq!(heard["arguments"], json!({"path": "out/note.txt", "content": "noted\n"}));
        assert_eq!(heard["text"], "Written.", "{heard}");
        assert_eq!(heard["called"], json!([["write_file", "completed"]]));
        assert_eq!(heard["late"], "already_decided", "{heard}");
        assert_eq!(heard["refused"], "Left it.", "{heard}");
        assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
    });
}

#[test]
fn of_several_that_answer_at_once_one_wins_and_gets_the_next_request() {
    with_python("two", |scenario, heard| {
        assert_eq!((&heard["asked"], &heard["conflicts"]), (&json!(1), &json!(3)), "{heard}");
        assert!(heard["twice"].as_str().is_some_and(|why| why.contains("answered twice")), "{heard}");
        assert_eq!(heard["text"], "Both written.", "{heard}");
        assert_eq!(scenario.read("out/other.txt").as_deref(), Some("noted\n"));
    });
}

#[test]
fn python_continues_a_chat_by_its_last_response() {
    with_python("talk", |_, heard| {
        assert_eq!(heard["texts"], json!(["You said: Hello.", "You said: More."]), "{heard}");
        assert_eq!(heard["first_again"], "You said: Hello.", "{heard}");
        assert_eq!(heard["second_again"], "You said: More.", "{heard}");
        assert!(heard["branch"].as_str().is_some_and(|why| why.contains("no branches")), "{heard}");
        assert_eq!(
            (&heard["streamed"], &heard["third"]),
            (&json!("You said: Again."), &json!("You said: Again."))
        );
        assert_eq!(heard["cancelled"], "cancelled");
    });
}

#[test]
fn python_sends_images_and_files_within_the_policy_of_the_worker() {
    with_python("files", |_, heard| {
        for seen in ["seen", "responses"] {
            assert!(heard[seen].as_str().is_some_and(|text| text.contains("secret note")), "{heard}");
        }
        for (what, says) in [("fake", "no image"), ("remote", "fetches nothing"), ("large", "20000")] {
            let told = heard[what].as_str().expect("a message");
            assert!(told.starts_with('4') && told.contains(says), "{what}: {told}");
        }
    });
}

#[test]
fn python_polls_and_cancels_a_response_in_the_background() {
    with_python("background", |_, heard| {
        assert_eq!(
            *heard,
            json!({"begun": "in_progress", "polled": "in_progress", "cancelled": "cancelled"})
        );
    });
}

#[test]
fn javascript_chats_and_approves() {
    let Some(clients) = clients() else { return };
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let mut command = Command::new("node");
    command.arg(file("client.mjs")).arg(clients.join("node_modules")).args([&server.address, &server.token]);
    let heard = heard(&mut command);
    assert_eq!(heard["text"], "I look.\n\nThe note says: buy milk.", "{heard}");
    assert_eq!(heard["streamed"], heard["text"]);
    assert_eq!((&heard["name"], &heard["done"]), (&json!("write_file"), &json!("Written.")), "{heard}");
    assert_eq!(heard["called"], json!(["write_file"]));
    assert_eq!(heard["unknown"], json!([404, "model_not_found", "model"]));
}
