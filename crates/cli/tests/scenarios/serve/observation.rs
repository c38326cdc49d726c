//! Logs, counts and traces.

use super::{client::Server, desk};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

/// A collector of OpenTelemetry that takes every request.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, taken) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().expect("a length");
                }
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_ok() {
                let _ = sender.send(serde_json::from_slice(&body).expect("JSON"));
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = reader.get_mut().write_all(answer);
            }
        }
    });
    (address, taken)
}

fn run_of(trace: &Value) -> String {
    let attributes = trace["resourceSpans"][0]["resource"]["attributes"].as_array().expect("attributes");
    let run = attributes.iter().find(|attribute| attribute["key"] == "llm_do.run").expect("the run");
    run["value"]["stringValue"].as_str().expect("text").to_owned()
}

#[test]
fn trace_of_a_run_is_sent_once_when_it_is_over() {
    let (address, taken) = collector();
    let scenario = desk();
    let server = Server::start(&scenario, &["--otel", &address]);
    let waiting =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
    let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
    let first = taken.recv_timeout(Duration::from_secs(60)).expect("a trace");
    assert_eq!(run_of(&first), done["run"].as_str().expect("an ID"));
    assert!(!first.to_string().contains("Ada"), "contents are left out");
    assert_eq!(server.stop(), Some(130));
    assert!(taken.try_recv().is_err(), "a run that waits has no trace yet");
    let server = Server::start(&scenario, &["--otel", &address, "--otel-content"]);
    let run = waiting["run"].as_str().expect("an ID");
    let view = server.until(run, |view| view["state"] == "waiting");
    let question = &view["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    let second = taken.recv_timeout(Duration::from_secs(60)).expect("a trace");
    assert_eq!(run_of(&second), run);
    assert!(second.to_string().contains("noted"), "contents are included");
    assert_eq!(server.stop(), Some(130));
    assert_eq!(scenario.run(&["runs", "replay", run]).code, Some(0));
    assert!(taken.try_recv().is_err(), "neither a restart nor a replay sends it again");
}

#[test]
fn log_in_json_names_the_run_on_each_line() {
    let scenario = desk();
    let server = Server::start_json(&scenario, &[]);
    let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
    let run = done["run"].as_str().expect("an ID");
    let log = server.logged("run_ended");
    let entries: Vec<Value> =
        log.iter().map(|line| serde_json::from_str(line).expect("JSON on each line")).collect();
    let of_run: Vec<_> =
        entries.iter().filter(|entry| entry["run"] == run).map(|entry| &entry["event"]).collect();
    assert_eq!(of_run, ["run_started", "run_ended"], "{entries:?}");
    assert!(entries.iter().all(|entry| entry["at"].is_string()), "{entries:?}");
    let started = entries.iter().find(|entry| entry["event"] == "run_started").expect("an entry");
    assert_eq!(
        (&started["by"], &started["worker"], &started["program"]),
        (&json!("operator"), &json!("greeter"), &json!("desk"))
    );
}

#[test]
fn metrics_have_durations_and_the_time_to_the_first_event() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    let metrics = server.get("/metrics").send().text;
    for line in [
        "llm_do_run_duration_seconds_count{program=\"desk\",state=\"done\"} 1",
        "llm_do_first_event_seconds_count{program=\"desk\"} 1",
        "llm_do_runs{state=\"queued\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
