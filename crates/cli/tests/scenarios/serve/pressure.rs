//! Clients that ask for too much, too slowly, or at the wrong time.
#![allow(clippy::print_stderr, reason = "a test says what it has measured")]

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk, whole,
};
use crate::scenario::script;
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
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

/// The most memory that a server may keep for clients that ask for too much: far less than the bytes that they send or
/// leave unread.
#[cfg(target_os = "linux")]
const SOME_MEMORY: u64 = 100 << 20;

#[cfg(target_os = "linux")]
#[test]
fn subscriptions_beyond_the_limits_are_refused_and_harm_nobody() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    // By default a token may have 1024.
    let (options, open_for_one, tries): (&[&str], _, _) = match whole() {
        true => (&[], 1024, 10_000),
        false => (&["--max-streams", "90", "--max-streams-per-token", "60"], 60, 600),
    };
    let server = Server::start(&scenario, options);
    let started =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
    let id = started["run"].as_str().expect("an ID");
    let before = server.memory();
    let next = AtomicUsize::new(0);
    let open = Mutex::new(Vec::new());
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= tries {
                        break;
                    }
                    let asking = match number % 2 {
                        0 => server.get("/v1/events"),
                        _ => server.get(&format!("/v1/runs/{id}/events")),
                    };
                    let mut stream = asking.connect();
                    let mut head = [0; 12];
                    stream.read_exact(&mut head).expect("an answer");
                    match &head {
                        b"HTTP/1.1 200" => open.lock().expect("no panic").push(stream),
                        b"HTTP/1.1 429" => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        head => panic!("{}", String::from_utf8_lossy(head)),
                    }
                }
            });
        }
    });
    let open = open.into_inner().expect("no panic");
    assert_eq!((open.len(), refused.into_inner()), (open_for_one, tries - open_for_one));
    let grown = server.memory().saturating_sub(before);
    eprintln!("{tries} subscriptions, {open_for_one} of them open: {} KiB more", grown >> 10);
    assert!(grown < SOME_MEMORY, "{grown} bytes");
    // Another client follows, starts and reads as before.
    drop(server.listen(server.get("/v1/events").token(TOKEN_OF_CI)));
    let begun = Instant::now();
    let run = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).token(TOKEN_OF_CI).send();
    assert_eq!((run.status, &run.body["state"]), (201, &json!("done")), "{run:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let question = &started["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{id}/answers"), &answer).send().status, 204);
    // Those who follow the run hear of its end.
    assert_eq!(server.get(&format!("/v1/runs/{id}?wait=60")).send().body["state"], "done");
    assert_eq!(server.stop(), Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn body_that_does_not_arrive_is_dropped_and_others_are_served() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let before = server.memory();
    let count = if whole() { 500 } else { 20 };
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..count)
        .map(|number| {
            let path = if number % 2 == 0 { "/v1/runs" } else { "/v1/uploads?name=a.bin" };
            let asking = server.ask("POST", path, "{\"input\": ".into());
            // The length of a body of which only the beginning comes.
            asking.header("Content-Length", "16000000").header("Content-Type", "application/json").connect()
        })
        .collect();
    let mut dripping = true;
    while dripping && begun.elapsed() < Duration::from_secs(60) {
        let served = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
        assert_eq!(served.body["state"], "done", "while bodies are on their way: {served:?}");
        // A timeout that counts from the last byte would never end.
        dripping = slow.iter_mut().any(|stream| stream.write_all(b" ").is_ok());
        std::thread::sleep(Duration::from_secs(1));
        if begun.elapsed() > Duration::from_secs(32) {
            break;
        }
    }
    let grown = server.memory().saturating_sub(before);
    eprintln!("{count} slow bodies: {} KiB more", grown >> 10);
    assert!(grown < SOME_MEMORY, "{grown} bytes");
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut answer = Vec::new();
        // A connection with bytes that were not read is reset after the answer.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.is_empty() || answer.contains("too_slow"), "{answer}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// The bytes of the files in a folder.
#[cfg(target_os = "linux")]
fn size(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { size(&path) } else { path.metadata().expect("a file").len() }).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn clients_that_never_read_cost_little_and_slow_no_run() {
    // 64 KiB in each turn, different ones.
    let words = "{{ (turn ~ ' words ') * 8000 }}";
    let scenario = desk()
        .file("workers/writer.worker", "---\nmodel: script:long.yaml\nmode: chat\n---\nTalk.\n")
        .file("long.yaml", &script(&[json!({"text": words})]));
    let server = Server::start(&scenario, &[]);
    let body = json!({"worker": "writer", "message": "Hi.", "chat": true});
    let started = server.post("/v1/runs?wait=60", &body).send().body;
    let id = started["run"].as_str().expect("an ID").to_owned();
    let (count, turns) = if whole() { (1000, 150) } else { (40, 20) };
    let mut step = started["questions"][0]["step"].clone();
    let mut say = || {
        let sent = server.post(&format!("/v1/runs/{id}/messages"), &json!({"text": "More."})).send();
        assert_eq!(sent.status, 202, "{sent:?}");
        let next = |view: &serde_json::Value| view["questions"][0]["step"].clone();
        let view = server.until(&id, |view| !next(view).is_null() && next(view) != step);
        step = next(&view);
    };
    // A half of the records is there before the clients come, the other half afterwards.
    (0..turns / 2).for_each(|_| say());
    let before = server.memory();
    let never_read: Vec<TcpStream> = (0..count)
        .map(|number| match number % 4 {
            0 => server.get("/v1/events").connect(),
            _ => server.get(&format!("/v1/runs/{id}/events")).connect(),
        })
        .collect();
    (0..turns / 2).for_each(|_| say());
    let grown = server.memory().saturating_sub(before);
    let written = size(&scenario.runs()[0]);
    eprintln!(
        "{count} clients that never read a run of {} MiB: {} KiB more for each",
        written >> 20,
        (grown >> 10) / count
    );
    // Some events of each client, and not the journal.
    assert!(grown < SOME_MEMORY + count * (512 << 10), "{grown} bytes, and the journal has {written}");
    let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
    assert_eq!(done["state"], "done", "{done}");
    drop(never_read);
    assert_eq!(server.post(&format!("/v1/runs/{id}/cancel"), &json!({})).send().status, 202);
    assert_eq!(server.get(&format!("/v1/runs/{id}?wait=60")).send().body["state"], "cancelled");
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn client_that_disconnects_while_a_run_starts_leaves_it_whole() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let count = 40;
    let ask = |number: usize| {
        server
            .post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}}))
            .header("Idempotency-Key", &format!("key-{number}"))
    };
    for number in 0..count {
        // Gone at another moment each time.
        let stream = ask(number).connect();
        std::thread::sleep(Duration::from_micros(150 * number as u64));
        drop(stream);
    }
    for number in 0..count {
        let again = ask(number).send();
        assert_eq!(again.body["state"], "done", "{again:?}");
    }
    assert_eq!(scenario.runs().len(), count, "each key has one run");
    let metrics = server.get("/metrics").send().text;
    let ended = format!("llm_do_runs_ended_total{{program=\"desk\",state=\"done\"}} {count}");
    assert!(metrics.contains(&ended), "{metrics}");
    let open = server.get("/v1/runs?state=queued,running,waiting,cut_off").send().body;
    assert_eq!(open["runs"], json!([]), "none is left in the register");
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
