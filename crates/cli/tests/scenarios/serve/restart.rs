//! A server that ends, in order or not, and starts again.

use super::{client::Server, desk};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

fn asking(server: &Server) -> (String, Value) {
    let started = server
        .post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."}))
        .header("Idempotency-Key", "once")
        .send();
    assert_eq!(started.body["state"], "waiting", "{started:?}");
    (started.body["run"].as_str().expect("an ID").to_owned(), started.body["questions"][0].clone())
}

fn approve(server: &Server, run: &str, question: &Value) {
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let taken = server.post(&format!("/v1/runs/{run}/answers"), &answer).send();
    assert_eq!(taken.status, 204, "{taken:?}");
    let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
    assert_eq!(done["output"], "written", "{done}");
}

#[test]
fn run_that_waits_still_waits_after_an_orderly_restart() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let (run, question) = asking(&server);
    let began = server.get(&format!("/v1/runs/{run}")).send().body["started_ms"].clone();
    assert_eq!(server.stop(), Some(130));
    let server = Server::start(&scenario, &[]);
    let view = server.until(&run, |view| view["state"] == "waiting");
    assert_eq!(view["started_ms"], began, "a restart is not another beginning");
    assert_eq!(view["questions"][0]["digest"], question["digest"]);
    let again = server
        .post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."}))
        .header("Idempotency-Key", "once")
        .send();
    assert_eq!((again.status, &again.body["run"]), (200, &json!(run)), "{again:?}");
    approve(&server, &run, &question);
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
}

#[test]
fn killed_server_loses_no_run() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let (waiting, question) = asking(&server);
    let slow = server.post("/v1/runs", &json!({"worker": "slow", "message": "Think."})).send().body;
    let slow = slow["run"].as_str().expect("an ID").to_owned();
    drop(server);
    let server = Server::start(&scenario, &[]);
    server.until(&waiting, |view| view["state"] == "waiting");
    server.until(&slow, |view| view["state"] == "running");
    approve(&server, &waiting, &question);
    assert_eq!(server.post(&format!("/v1/runs/{slow}/cancel"), &json!({})).send().status, 202);
    assert_eq!(server.get(&format!("/v1/runs/{slow}?wait=60")).send().body["state"], "cancelled");
    drop(server);
    let server = Server::start(&scenario, &[]);
    assert_eq!(server.get(&format!("/v1/runs/{slow}")).send().body["state"], "cancelled", "it is over");
}

#[test]
fn server_with_fewer_places_starts_and_continues_the_others_later() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let ask = || {
        let started =
            server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send();
        assert_eq!(started.body["state"], "waiting", "{started:?}");
        started.body["run"].as_str().expect("an ID").to_owned()
    };
    let (first, second) = (ask(), ask());
    drop(server);
    let server = Server::start(&scenario, &["--max-runs", "1"]);
    let view = server.until(&first, |view| view["state"] == "waiting");
    let later = server.get(&format!("/v1/runs/{second}")).send().body;
    assert_eq!(later["state"], "queued", "{later}");
    approve(&server, &first, &view["questions"][0]);
    server.until(&second, |view| view["state"] == "waiting");
}

#[test]
fn run_whose_worker_has_changed_is_not_continued() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let (run, question) = asking(&server);
    assert_eq!(server.stop(), Some(130));
    let file = scenario.project().join("workers/writer.worker");
    let text = std::fs::read_to_string(&file).expect("a worker");
    std::fs::write(&file, text.replace("Write.", "Write everything.")).expect("written");
    let server = Server::start(&scenario, &[]);
    let view = server.get(&format!("/v1/runs/{run}")).send().body;
    assert_eq!(view["state"], "changed", "{view}");
    assert!(
        view["reason"].as_str().unwrap_or_default().contains("has changed since the run began"),
        "{view}"
    );
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let refused = server.post(&format!("/v1/runs/{run}/answers"), &answer).send();
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(scenario.read("out/note.txt"), None);
}

/// The files are the same again as when the run began, and the server was not restarted.
#[test]
fn run_continues_when_its_worker_is_restored_on_disk() {
    for looks in [true, false] {
        let scenario = desk();
        let server = Server::start(&scenario, &[]);
        let (run, question) = asking(&server);
        assert_eq!(server.stop(), Some(130));
        let file = scenario.project().join("workers/writer.worker");
        let text = std::fs::read_to_string(&file).expect("a worker");
        std::fs::write(&file, text.replace("Write.", "Write everything.")).expect("written");
        let server = Server::start(&scenario, &[]);
        assert_eq!(server.get(&format!("/v1/runs/{run}")).send().body["state"], "changed");
        std::fs::write(&file, text).expect("written");
        if looks {
            server.until(&run, |view| view["state"] == "waiting");
        }
        approve(&server, &run, &question);
        assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
    }
}

/// An answer that is in no file is lost with the process.
#[test]
fn answer_to_a_run_whose_journal_was_removed_is_not_acknowledged() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let (run, question) = asking(&server);
    std::fs::remove_dir_all(scenario.project().join(".llm-do")).expect("the journals");
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let refused = server.post(&format!("/v1/runs/{run}/answers"), &answer).send();
    assert!(refused.status >= 500, "{refused:?}");
    assert_eq!(scenario.read("out/note.txt"), None, "no effect without a record");
}

#[test]
fn run_in_progress_may_end_within_the_grace_period() {
    let scenario = desk().file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 700\n");
    let server = Server::start(&scenario, &[]);
    let run = server.post("/v1/runs", &json!({"worker": "slow", "message": "Think."})).send().body;
    assert_eq!(run["state"], "running", "{run}");
    assert_eq!(server.stop(), Some(130));
    let last = scenario.journal().pop().expect("records");
    assert_eq!((&last["kind"], &last["status"]), (&json!("run_ended"), &json!("done")), "{last}");
}

/// `timeout` sends SIGTERM to its child, and then to the group that the child belongs to.
#[test]
fn signals_that_arrive_together_end_the_server_in_order() {
    let scenario = desk().file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 700\n");
    let server = Server::start(&scenario, &[]);
    let run = server.post("/v1/runs", &json!({"worker": "slow", "message": "Think."})).send().body;
    assert_eq!(run["state"], "running", "{run}");
    server.terminate();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.stop(), Some(130));
    let last = scenario.journal().pop().expect("records");
    assert_eq!((&last["kind"], &last["status"]), (&json!("run_ended"), &json!("done")), "{last}");
}

#[test]
fn second_signal_ends_the_server_at_once() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let run = server.post("/v1/runs", &json!({"worker": "slow", "message": "Think."})).send().body;
    assert_eq!(run["state"], "running", "{run}");
    let began = Instant::now();
    server.terminate();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(server.stop(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(8), "it does not wait for the grace period");
}

#[test]
fn server_that_cannot_listen_continues_no_run() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let (run, question) = asking(&server);
    assert_eq!(server.stop(), Some(130));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let refused = scenario.run(&["serve", ".", "--port", &port]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let last = scenario.journal().pop().expect("records");
    assert_eq!((&last["kind"], &last["status"]), (&json!("run_ended"), &json!("suspended")), "{last}");
    let server = Server::start(&scenario, &[]);
    server.until(&run, |view| view["state"] == "waiting");
    approve(&server, &run, &question);
}
