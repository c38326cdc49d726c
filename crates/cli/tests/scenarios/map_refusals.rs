//! Handling by `llm-do map` of requests that a provider refuses for another reason than their rate, and of answers
//! without a price.

use crate::{
    scenario::{Scenario, lines},
    wire_formats::{Way, project},
};
use llm_do_testserver::{Reply, Role, Script, Seen, TestServer};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const WORKER: &str = "---\nparameters: {text: string}\ntoolsets: [filesystem]\n---\nLook.\n";
const COMMAND: [&str; 8] =
    ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited", "--json"];

fn table(rows: usize) -> String {
    let rows: String = (0..rows).map(|row| format!("row {row}.\n")).collect();
    format!("text\n{rows}")
}

/// Returns the number of records of that kind for each row.
fn counts(scenario: &Scenario, kind: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(scenario.project().join("out.jsonl.map")).expect("the state") {
        let path = entry.expect("an entry").path();
        if path.file_name().expect("a name").to_string_lossy().starts_with("journal-") {
            for line in lines(&fs::read_to_string(path).expect("a segment")) {
                if line["record"]["kind"] == kind {
                    *counts.entry(line["row"].as_str().expect("a row").to_owned()).or_default() += 1;
                }
            }
        }
    }
    counts
}

fn refusal(status: u16) -> Reply {
    Reply::status(status).body("{\"error\": {\"message\": \"not this\"}}")
}

fn asks_for(seen: &Seen, row: usize) -> bool {
    seen.messages().iter().any(|message| message.text.contains(&format!("row {row}.")))
}

#[test]
fn a_row_whose_key_is_refused_in_its_middle_continues_with_the_next_command() {
    for (status, rows) in [(401, 4), (401, 1), (404, 1), (404, 4), (403, 4)] {
        let refused = Arc::new(AtomicBool::new(true));
        let is_refused = Arc::clone(&refused);
        let server = TestServer::start(Script::route(move |seen| {
            match seen.messages().last().is_some_and(|message| message.role == Role::Tool) {
                true if is_refused.load(Ordering::Relaxed) => refusal(status),
                true => Reply::text("done"),
                false => Reply::tool("list_files", json!({})),
            }
        }));
        let scenario = project(&server, Way::OpenAi).file("w.worker", WORKER).file("in.csv", &table(rows));
        for _ in 0..2 {
            let told = scenario.run(&COMMAND);
            assert!(
                told.code == Some(1) && told.stderr.contains("run the command again"),
                "{status}: {told}"
            );
            assert!(scenario.read("out.jsonl.failures.jsonl").is_none(), "{status}: no row fails");
        }
        refused.store(false, Ordering::Relaxed);
        let told = scenario.run(&COMMAND);
        assert_eq!(told.code, Some(0), "{status}: {told}");
        for (kind, times) in [("model_answered", 2), ("tool_started", 1)] {
            let counts = counts(&scenario, kind);
            assert!(
                counts.len() == rows && counts.values().all(|count| *count == times),
                "{status} {kind}: {counts:?}"
            );
        }
    }
}

#[test]
fn a_refusal_of_one_row_fails_this_row() {
    let worker = "---\nparameters: {text: string}\n---\nRepeat.\n";
    for (status, row, concurrency) in
        [(403, 0, "64"), (403, 7, "64"), (403, 3, "1"), (404, 7, "1"), (403, 7, "2"), (404, 0, "64")]
    {
        let server = TestServer::start(Script::route(move |seen| match asks_for(seen, row) {
            true => refusal(status),
            // Others are under way when the refusal comes.
            false => Reply::text("fine").delay(Duration::from_millis(20)),
        }));
        let scenario = project(&server, Way::OpenAi).file("w.worker", worker).file("in.csv", &table(8));
        let told = scenario.run(&[&COMMAND[..], &["--concurrency", concurrency]].concat());
        let report: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
        let (done, failed) = (&report["rows"]["done"], &report["rows"]["failed"]);
        assert_eq!((told.code, done, failed), (Some(1), &7.into(), &1.into()), "{status} {row}: {told}");
        let failures = lines(&scenario.read("out.jsonl.failures.jsonl").unwrap());
        assert_eq!(failures[0]["$failure"]["row"], row + 1);
    }
}

#[test]
fn a_refusal_of_the_first_requests_ends_the_map() {
    for status in [403, 404] {
        let server = TestServer::start(Script::route(move |_| refusal(status)));
        let scenario = project(&server, Way::OpenAi).file("w.worker", WORKER).file("in.csv", &table(100));
        let told = scenario.run(&COMMAND);
        assert!(told.code == Some(1) && told.stderr.contains("not this"), "{told}");
        assert!(server.request_count() <= 10, "{}", server.request_count());
        assert!(scenario.read("out.jsonl.failures.jsonl").is_none());
        let told = scenario.run(&[&COMMAND[..], &["--concurrency", "1"]].concat());
        assert_eq!(told.code, Some(1), "{told}");
        assert!(server.request_count() <= 11, "{}", server.request_count());
    }
    // A key that is no longer allowed to use the model: not each of the other rows fails.
    let server = TestServer::start(Script::route(|seen| match (0..30).any(|row| asks_for(seen, row)) {
        true => Reply::text("fine"),
        false => refusal(403),
    }));
    let scenario = project(&server, Way::OpenAi)
        .file("w.worker", "---\nparameters: {text: string}\n---\nRepeat.\n")
        .file("in.csv", &table(100));
    let told = scenario.run(&COMMAND);
    assert!(told.code == Some(1) && told.stderr.contains("not this"), "{told}");
    assert!(scenario.read("out.jsonl.failures.jsonl").is_none());
    assert_eq!(lines(&scenario.read("out.jsonl").unwrap()).len(), 30);
}

#[test]
fn a_limit_of_the_cost_holds_where_the_cost_is_not_known() {
    let server = TestServer::start(Script::route(|_| Reply::text("fine").usage(0, 0)));
    let prices = "prices:\n  'openai:*': {input: 1, output: 10}\n";
    let worker = "---\nparameters: {text: string}\n---\nRepeat.\n";
    let known = project(&server, Way::OpenAi)
        .file("w.worker", worker)
        .file("in.csv", &table(50))
        .home_file("config.yaml", prices);
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "5usd"];
    assert_eq!(known.run(&words).code, Some(0), "zero tokens are known");
    let server = without_usage();
    let unknown = Scenario::new()
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        .env("LLM_DO_MODEL", "openai:test-model")
        .file("w.worker", worker)
        .file("in.csv", &table(50))
        .home_file("config.yaml", prices);
    let told = unknown.run(&words);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(
        told.stderr.contains("reported no token counts") && told.stdout.contains("--max-cost unlimited"),
        "{told}"
    );
    assert!(server.request_count() < 30, "{}", server.request_count());
    assert_eq!(
        unknown.run(&["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"]).code,
        Some(0)
    );
}

/// A server whose answers count no tokens.
fn without_usage() -> TestServer {
    TestServer::start(Script::route(|_| {
        Reply::text("fine").edit_chunks(|chunks| {
            for chunk in chunks {
                let text = String::from_utf8_lossy(chunk).into_owned();
                *chunk = text.replace("\"usage\"", "\"unused\"").into_bytes();
            }
        })
    }))
}
