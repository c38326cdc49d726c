//! Runs that wait for a place.

use super::{client::Server, desk};
use serde_json::{Value, json};

fn slow(server: &Server) -> (u16, Value) {
    let started = server.post("/v1/runs", &json!({"worker": "slow", "message": "Think."})).send();
    (started.status, started.body)
}

fn cancel(server: &Server, run: &Value) {
    let path = format!("/v1/runs/{}/cancel", run["run"].as_str().expect("an ID"));
    assert_eq!(server.post(&path, &json!({})).send().status, 202);
}

#[test]
fn runs_beyond_the_limit_wait_in_order_and_further_ones_are_refused() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--max-runs", "1", "--max-queue", "2"]);
    let (_, first) = slow(&server);
    let (status, second) = slow(&server);
    assert_eq!((status, &second["state"]), (201, &json!("queued")), "{second}");
    let third = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send().body;
    assert_eq!(third["state"], "queued");
    let (status, refused) = slow(&server);
    assert_eq!((status, &refused["code"]), (429, &json!("too_many_runs")), "{refused}");
    let metrics = server.get("/metrics").send().text;
    assert!(metrics.contains("llm_do_runs{state=\"queued\"} 2"), "{metrics}");
    let listed = server.get("/v1/runs?state=queued").send().body;
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(2), "{listed}");
    cancel(&server, &first);
    let id = |run: &Value| run["run"].as_str().expect("an ID").to_owned();
    server.until(&id(&second), |view| view["state"] == "running");
    assert_eq!(
        server.get(&format!("/v1/runs/{}", id(&third))).send().body["state"],
        "queued",
        "it came later"
    );
    cancel(&server, &second);
    let done = server.get(&format!("/v1/runs/{}?wait=60", id(&third))).send().body;
    assert_eq!((&done["state"], &done["output"]), (&json!("done"), &json!("Hello!")), "{done}");
}

#[test]
fn queued_run_can_be_cancelled_and_gives_its_place_in_the_queue_back() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--max-runs", "1", "--max-queue", "1"]);
    let (_, _first) = slow(&server);
    let (_, second) = slow(&server);
    assert_eq!(slow(&server).0, 429);
    cancel(&server, &second);
    let path = format!("/v1/runs/{}?wait=60", second["run"].as_str().expect("an ID"));
    assert_eq!(server.get(&path).send().body["state"], "cancelled");
    let (status, third) = slow(&server);
    assert_eq!((status, &third["state"]), (201, &json!("queued")));
}

#[test]
fn queued_runs_survive_the_end_of_the_server() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--max-runs", "1", "--max-queue", "1"]);
    let (_, first) = slow(&server);
    let second = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send().body;
    assert_eq!(second["state"], "queued");
    drop(server);
    let server = Server::start(&scenario, &["--max-runs", "2"]);
    let path = format!("/v1/runs/{}?wait=60", second["run"].as_str().expect("an ID"));
    server.until(second["run"].as_str().expect("an ID"), |view| view["state"] == "done");
    assert_eq!(server.get(&path).send().body["output"], "Hello!");
    server.until(first["run"].as_str().expect("an ID"), |view| view["state"] == "running");
}
