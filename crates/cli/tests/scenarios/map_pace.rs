//! Handling by `llm-do map` of a provider that refuses requests.

use crate::{
    scenario::{Scenario, lines},
    wire_formats::{Way, project},
};
use llm_do_testserver::{Reply, Script, TestServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const WORKER: &str = "---\nparameters: {text: string}\n---\nRepeat.\n";
const COMMAND: [&str; 8] =
    ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited", "--json"];

fn rows(scenario: Scenario, rows: usize) -> Scenario {
    let table: String = (0..rows).map(|row| format!("row {row}\n")).collect();
    scenario.file("w.worker", WORKER).file("in.csv", &format!("text\n{table}"))
}

#[test]
fn a_refused_request_is_sent_again_and_is_no_attempt_of_its_row() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // More refusals in sequence than a request has attempts.
    let server = TestServer::start(Script::route(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
        2..12 => Reply::rate_limited(Some(Duration::ZERO)),
        _ => Reply::text("fine"),
    }));
    let scenario = rows(project(&server, Way::OpenAi), 20);
    let told = scenario.run(&COMMAND);
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((told.code, &report["rows"]["done"]), (Some(0), &20.into()), "{told}");
    assert_eq!(report["refused_requests"], 10);
    assert_eq!(server.request_count(), 30);
}

#[test]
fn a_provider_that_refuses_everything_for_an_hour_can_be_waited_for_or_not() {
    let server = TestServer::start(Script::route(|_| Reply::rate_limited(Some(Duration::from_secs(3600)))));
    let scenario = rows(project(&server, Way::Anthropic), 20);
    let child = scenario.command(&COMMAND).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.wait_for_requests(1);
    // It says nothing more to the provider, and uses no processor.
    thread::sleep(Duration::from_millis(500));
    let requests = server.request_count();
    let before = processor_time(child.id());
    thread::sleep(Duration::from_millis(1000));
    assert_eq!(server.request_count(), requests);
    assert!(processor_time(child.id()) - before < 20, "it burns processor time");
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let told = scenario.finished(child.wait_with_output().unwrap());
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (told.code, &report["status"], &report["rows"]["missing"]),
        (Some(130), &"interrupted".into(), &20.into()),
        "{told}"
    );
}

/// Returns the processor time of a process, in hundredths of a second.
fn processor_time(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    ticks(11) + ticks(12)
}

#[test]
fn a_key_that_is_refused_ends_the_map_and_fails_no_row() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = TestServer::start(Script::route(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
        5..30 => Reply::status(401).body("{\"error\": {\"message\": \"no such key\"}}"),
        _ => Reply::text("fine"),
    }));
    let scenario = rows(project(&server, Way::OpenAi), 200);
    let told = scenario.run(&COMMAND);
    assert!(told.code == Some(1) && told.stderr.contains("OPENAI_API_KEY"), "{told}");
    assert!(server.request_count() < 30, "it stops with the first refusals");
    assert!(scenario.read("out.jsonl.failures.jsonl").is_none());
    count.store(1000, Ordering::Relaxed);
    let told = scenario.run(&COMMAND);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(lines(&scenario.read("out.jsonl").unwrap()).len(), 200);
}
