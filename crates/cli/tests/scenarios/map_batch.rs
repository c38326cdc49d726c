//! `llm-do map --batch`, against servers that speak the batch interfaces of OpenAI and Anthropic.

use crate::scenario::{Finished, Scenario, lines};
use llm_do_testserver::{BatchServer, Fate};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const WORKER: &str = "---\nparameters: {text: string}\n---\nRepeat.\n";

/// A worker whose model is at this server, behind both interfaces.
fn both(server: &BatchServer) -> [Scenario; 2] {
    let scenario = || Scenario::new().file("w.worker", WORKER);
    let prices = |model: &str| format!("prices:\n  '{model}': {{input: 1, output: 10}}\n");
    [
        scenario()
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
            .env("LLM_DO_MODEL", "openai:test-model")
            .home_file("config.yaml", &prices("openai:test-model")),
        scenario()
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef")
            .env("LLM_DO_MODEL", "anthropic:test-model")
            .home_file("config.yaml", &prices("anthropic:test-model")),
    ]
}

fn table(rows: usize) -> String {
    let rows: String = (0..rows).map(|row| format!("row {row}\n")).collect();
    format!("text\n{rows}")
}

const COMMAND: [&str; 10] =
    ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "5usd", "--batch", "--pilot", "0"];

fn map(scenario: &Scenario) -> Finished {
    scenario.run(&COMMAND)
}

fn output(scenario: &Scenario) -> Vec<Value> {
    lines(&scenario.read("out.jsonl").expect("an output"))
}

/// The user's words in a request of either interface.
fn said(body: &Value) -> String {
    body["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .map(|message| message["content"].to_string())
        .unwrap_or_default()
}

fn echo(body: &Value) -> Fate {
    let said = said(body);
    let row = said.split("row ").nth(1).unwrap_or("?");
    Fate::Text(row.chars().take_while(char::is_ascii_digit).collect())
}

#[test]
fn all_rows_are_one_batch_at_half_the_price_and_results_in_any_order_find_their_rows() {
    let server = BatchServer::start(2, echo);
    for scenario in both(&server) {
        let before = server.batches().len();
        let scenario = scenario.file("in.csv", &table(25));
        let told = map(&scenario);
        assert_eq!(told.code, Some(0), "{told}");
        for (row, line) in output(&scenario).iter().enumerate() {
            assert_eq!(line["output"], row.to_string());
            // Directly it would be 0.0002 USD.
            assert_eq!(line["usage"]["cost_usd"], 0.0001, "{line}");
        }
        let batches = server.batches();
        assert_eq!(batches[before..].iter().map(Vec::len).collect::<Vec<_>>(), [25]);
        assert_eq!(map(&scenario).code, Some(0));
        assert_eq!(server.batches().len(), before + 1, "nothing was left to ask");
    }
    server.assert_valid();
}

#[test]
fn a_line_that_fails_fails_its_row_and_one_that_expires_is_asked_again() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let server = BatchServer::start(1, move |body| match said(body) {
        said if said.contains("row 1") => Fate::Error("invalid_request_error".into(), "not this one".into()),
        // Both times that its results are read, and then not.
        said if said.contains("row 2") && counted.fetch_add(1, Ordering::Relaxed) < 2 => Fate::Expired,
        _ => echo(body),
    });
    for scenario in both(&server) {
        let before = server.batches().len();
        seen.store(0, Ordering::Relaxed);
        let scenario = scenario.file("in.csv", &table(4));
        let told = map(&scenario);
        assert_eq!(told.code, Some(1), "{told}");
        let rows: Vec<Value> = output(&scenario).iter().map(|line| line["row"].clone()).collect();
        assert_eq!(rows, [json!(1), json!(3), json!(4)]);
        let failed = lines(&scenario.read("out.jsonl.failures.jsonl").unwrap());
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0]["text"], "row 1");
        assert!(failed[0]["$failure"]["message"].to_string().contains("not this one"), "{}", failed[0]);
        let batches = server.batches();
        assert_eq!(batches[before].len(), 4);
        assert!(batches[before + 1..].iter().all(|batch| batch.len() == 1), "{batches:?}");
    }
    server.assert_valid();
}

#[test]
fn a_command_that_is_killed_waits_for_its_batch_again_and_asks_nothing_twice() {
    let server = BatchServer::start(1, echo);
    for scenario in both(&server) {
        let before = server.batches().len();
        let scenario = scenario.file("in.csv", &table(10));
        server.hold();
        for _ in 0..3 {
            let mut child =
                scenario.command(&COMMAND).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            while server.batches().len() == before
                || scenario.read("out.jsonl.map/batches.jsonl").is_none_or(|text| !text.contains("submitted"))
            {
                assert!(child.try_wait().unwrap().is_none(), "it ended before its batch");
                thread::sleep(Duration::from_millis(5));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        server.release();
        let told = map(&scenario);
        assert_eq!(told.code, Some(0), "{told}");
        let mut times = BTreeMap::new();
        server.batches()[before..]
            .iter()
            .flatten()
            .for_each(|row| *times.entry(row.clone()).or_insert(0) += 1);
        assert!(times.len() == 10 && times.values().all(|times| *times == 1), "{times:?}");
        let outputs: Vec<String> =
            output(&scenario).iter().map(|line| line["output"].as_str().unwrap().to_owned()).collect();
        assert_eq!(outputs, (0..10).map(|row| row.to_string()).collect::<Vec<_>>());
    }
    server.assert_valid();
}

#[test]
fn only_workers_that_ask_once_can_be_in_a_batch() {
    let server = BatchServer::start(1, echo);
    let [scenario, _] = both(&server);
    let scenario = scenario.file("in.csv", &table(1));
    for (worker, reason) in [
        ("---\nparameters: {text: string}\ntoolsets: [filesystem]\n---\nX\n", "tools or workers to call"),
        ("---\nparameters: {text: string}\nlimits: {timeout: 5s}\n---\nX\n", "`timeout`"),
        ("---\nparameters: {text: string}\nmodel: script:s.yaml\n---\nX\n", "batch interface"),
    ] {
        let scenario = Scenario::new()
            .file("w.worker", worker)
            .file("s.yaml", "answers: [{text: x}]\n")
            .file("in.csv", &table(1))
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
            .env("LLM_DO_MODEL", "openai:test-model");
        let words = [
            "map",
            "w.worker",
            "in.csv",
            "-o",
            "out.jsonl",
            "--max-cost",
            "unlimited",
            "--batch",
            "--pilot",
            "0",
        ];
        let told = scenario.run(&words);
        assert!(told.code == Some(2) && told.stderr.contains(reason), "{told}");
        assert!(!scenario.project().join("out.jsonl.map").exists(), "nothing is left behind");
    }
    drop(scenario);
    assert!(server.batches().is_empty());
}

#[test]
fn a_typed_answer_is_asked_for_with_its_schema_and_only_once() {
    let worker = "---\nparameters: {text: string}\nreturns: {label: [good, bad]}\n---\nClassify.\n";
    let server = BatchServer::start(1, |body| match said(body) {
        said if said.contains("row 0") => Fate::Text("{\"label\": \"good\"}".into()),
        _ => Fate::Text("{\"label\": \"neither\"}".into()),
    });
    let [scenario, _] = both(&server);
    let scenario = scenario.file("w.worker", worker).file("in.csv", &table(2));
    let told = map(&scenario);
    assert_eq!(told.code, Some(1), "{told}");
    assert_eq!(output(&scenario)[0]["output"]["label"], "good");
    let failed = lines(&scenario.read("out.jsonl.failures.jsonl").unwrap());
    assert!(failed[0]["$failure"]["message"].to_string().contains("run it without --batch"), "{}", failed[0]);
    assert_eq!(server.batches().len(), 1);
    server.assert_valid();
}

#[test]
fn a_row_that_was_sent_again_is_not_sent_a_third_time_after_a_kill() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let server = BatchServer::start(1, move |body| match said(body) {
        said if said.contains("row 2") && counted.fetch_add(1, Ordering::Relaxed) < 2 => Fate::Expired,
        _ => echo(body),
    });
    let [scenario, _] = both(&server);
    let scenario = scenario.file("in.csv", &table(4));
    let mut child = scenario.command(&COMMAND).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while server.batches().len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its second batch");
        thread::sleep(Duration::from_millis(5));
    }
    server.hold();
    let submitted = |text: String| text.matches("\"submitted\"").count() == 2;
    while !scenario.read("out.jsonl.map/batches.jsonl").is_some_and(submitted) {
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.release();
    let told = map(&scenario);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(server.batches().iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
    server.assert_valid();
}

#[test]
fn a_batch_that_the_provider_has_no_room_for_is_handed_over_again() {
    let server = BatchServer::start(1, echo);
    let [scenario, _] = both(&server);
    let scenario = scenario.file("in.csv", &table(3));
    server.be_full(2);
    let told = map(&scenario);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(server.batches().iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
    // Nothing is left to wait for.
    assert_eq!(map(&scenario).code, Some(0));
    assert_eq!(server.batches().len(), 3);
    server.assert_valid();
}
