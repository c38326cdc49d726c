//! Clients that ask for too much, too slowly, or at the wrong time.

use super::{client::Server, desk};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

#[test]
fn head_that_does_not_arrive_is_cut_off_and_others_are_served() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).expect("it listens");
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: ").expect("sent");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            stream
        })
        .collect();
    assert_eq!(server.get("/health").send().status, 200, "while they keep their connections");
    let begun = Instant::now();
    for stream in &mut slow {
        let mut answer = Vec::new();
        // An end or an answer, and no longer wait than for all of them together.
        let _ = stream.read_to_end(&mut answer);
    }
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn subscriptions_are_limited_for_a_token_and_come_back() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--max-streams", "20", "--max-streams-per-token", "10"]);
    let mut open: Vec<_> = (0..10).map(|_| server.listen(server.get("/v1/events"))).collect();
    for _ in 0..200 {
        let refused = server.get("/v1/events").send();
        assert_eq!((refused.status, &refused.body["code"]), (429, &json!("too_many_streams")), "{refused:?}");
        assert_eq!(refused.header("retry-after"), Some("5"));
    }
    let run = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!(run.status, 201, "runs go on: {run:?}");
    open.clear();
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.get("/v1/questions").send().status != 200 || {
        let mut stream = server.get("/v1/events").connect();
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        &first != b"HTTP/1.1 200"
    } {
        assert!(Instant::now() < deadline, "a stream that was closed gives its place back");
        // It is noticed when something is sent.
        server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    }
}

#[test]
fn client_that_never_reads_slows_no_run() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let started =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
    let id = started["run"].as_str().expect("an ID");
    let _never_read: Vec<TcpStream> = (0..20)
        .map(|number| match number % 2 {
            0 => server.get(&format!("/v1/runs/{id}/events")).connect(),
            _ => server.get("/v1/events").connect(),
        })
        .collect();
    for _ in 0..20 {
        let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
        assert_eq!(done["state"], "done", "{done}");
    }
    let question = &started["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{id}/answers"), &answer).send().status, 204);
    assert_eq!(server.get(&format!("/v1/runs/{id}?wait=60")).send().body["state"], "done");
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn of_two_answers_at_once_one_counts() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    for _ in 0..5 {
        let started =
            server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
        let path = format!("/v1/runs/{}/answers", started["run"].as_str().expect("an ID"));
        let question = &started["questions"][0];
        let answer = |answer: &str| json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": answer});
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let sent: Vec<_> = ["approve", "deny", "approve", "deny"]
                .map(|kind| scope.spawn(|| server.post(&path, &answer(kind)).send().status))
                .into_iter()
                .collect();
            sent.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [204, 404, 409].contains(status)), "{statuses:?}");
    }
}

#[test]
fn what_is_over_takes_no_answer_no_message_and_no_end() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
    let run = format!("/v1/runs/{}", done["run"].as_str().expect("an ID"));
    let answer = json!({"call": "0/0.0", "step": "ask", "digest": "0", "answer": "approve"});
    let answered = server.post(&format!("{run}/answers"), &answer).send();
    assert!([404, 409].contains(&answered.status), "{answered:?}");
    for (path, body) in [("messages", json!({"text": "Hello?"})), ("cancel", json!({})), ("stop", json!({}))]
    {
        let refused = server.post(&format!("{run}/{path}"), &body).send();
        assert!([404, 409].contains(&refused.status), "{path}: {refused:?}");
    }
    assert_eq!(server.get(&run).send().body, done, "nothing has changed");
}

#[cfg(target_os = "linux")]
#[test]
fn run_that_can_not_be_written_is_an_error_and_the_server_goes_on() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!(done.status, 201);
    // As on a disk that takes no more files.
    let runs = scenario.project().join(".llm-do/runs");
    let away = scenario.project().join(".llm-do/away");
    std::fs::rename(&runs, &away).expect("moved");
    std::fs::write(&runs, "no folder").expect("written");
    let failed = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send();
    assert!([500, 507].contains(&failed.status), "{failed:?}");
    assert!(failed.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{failed:?}");
    assert_eq!(server.get("/health").send().status, 200);
    std::fs::remove_file(&runs).expect("removed");
    std::fs::rename(&away, &runs).expect("moved back");
    let again = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!(again.body["state"], "done", "{again:?}");
}
