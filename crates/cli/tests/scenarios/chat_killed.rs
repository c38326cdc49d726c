//! A chat that is killed at any moment and goes on: the same conversation, the same files, and nothing is done twice
//! (docs/guides/chat.md).
//!
//! The user of these tests looks only at what the run waits for. The same question gets the same answer in every
//! process, so a chat that was killed can be compared with one that was not.

use crate::{
    scenario::{Scenario, journal_in},
    terminal_session::Session,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env, thread,
    time::{Duration, Instant},
};

/// How long a run may take between two questions.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);
const SETTLED: Duration = Duration::from_millis(100);

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

/// A chat whose worker writes with an approval, and calls a planner whose interviewer talks to the user. Each of the three
/// appends to a file, so that a call that is made twice can be seen.
fn program() -> Scenario {
    let add = |text: &str| call("append_file", json!({"path": "/out/log.txt", "content": text}));
    let write = |text: &str| call("write_file", json!({"path": "/out/note.txt", "content": text}));
    let mut answers = Vec::new();
    let mut says = |worker: &str, turn: usize, answer: Value| {
        let mut answer = answer;
        answer["when"] = json!({"worker": worker, "turn": turn});
        answers.push(answer);
    };
    says("main", 0, json!({"calls": [add("main 0\n")]}));
    says("main", 1, json!({"calls": [call("plan", json!({"input": "a trip"}))]}));
    says("main", 2, json!({"text": "It is planned."}));
    says("main", 3, json!({"calls": [write("draft"), add("main 3\n")]}));
    says("main", 4, json!({"text": "A draft is written."}));
    says("main", 5, json!({"calls": [write("final"), add("main 5\n")]}));
    says("main", 6, json!({"text": "It is final."}));
    says("plan", 0, json!({"calls": [add("plan\n")]}));
    says("plan", 1, json!({"calls": [call("interview", json!({"input": "ask"}))]}));
    says("plan", 2, json!({"text": "Two days in Rome."}));
    says("interview", 0, json!({"text": "Where to?"}));
    says("interview", 1, json!({"calls": [add("interview\n")]}));
    says("interview", 2, json!({"text": "For how long?"}));
    says("interview", 3, json!({"calls": [call("finish", json!({"city": "Rome"}))]}));
    let worker = |more: &str| format!("---\nmodel: script:s.json\ndescription: Works.\n{more}---\nWork.\n");
    let project = "name: killed\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n\
         approval: {rules: [{tool: append_file, then: preApproved}, {tool: write_file, then: ask}]}\n";
    Scenario::new()
        .file("project.yaml", project)
        .file("main.worker", &worker("toolsets: [filesystem]\nallow_workers: [plan]\n"))
        .file("workers/plan.worker", &worker("toolsets: [filesystem]\nallow_workers: [interview]\n"))
        .file(
            "workers/interview.worker",
            &worker("toolsets: [filesystem]\nmode: chat\ninteraction: user\nreturns: {city: string}\n"),
        )
        .file("s.json", &json!({ "answers": answers }).to_string())
        .file("out/note.txt", "before")
}

/// What the user types at a question; `None`: the chat is left.
fn keys(path: &str, step: &str, question: &str) -> Option<&'static str> {
    Some(match (path, step, question) {
        (_, _, "approval") => "\u{7}a",
        ("0", "message.1", _) => "write\r",
        // The second message is taken back with what it did, and said in other words.
        ("0", "message.2", _) => "/undo\r",
        ("0", "restore.2", _) => "\u{7}1\r",
        ("0", "message.3", _) => "\u{3}write the final one\r",
        ("0", ..) => return None,
        (_, "message.1", _) => "Rome\r",
        _ => "two days\r",
    })
}

fn journal(scenario: &Scenario) -> Vec<Value> {
    journal_in(&scenario.project().join(".llm-do/runs"))
}

/// The question that waits for its answer.
fn waiting(journal: &[Value]) -> Option<&Value> {
    let last = journal.iter().rfind(|record| record["kind"] == "asked")?;
    let is_answer = |record: &&Value| {
        record["kind"] == "answered" && record["path"] == last["path"] && record["step"] == last["step"]
    };
    journal.iter().find(is_answer).is_none().then_some(last)
}

/// Holds the chat in one process, until it is left or its journal has so many records: then the process is killed.
/// Returns whether it was left.
fn hold(scenario: &Scenario, arguments: &[&str], most: usize) -> bool {
    let mut session = Session::start(scenario.command_on_terminal(arguments));
    let before = journal(scenario).len();
    let mut answered = None;
    let mut since = Instant::now();
    session.wait_for_keys();
    if before == 0 {
        session.type_keys("go\r");
    }
    loop {
        let journal = journal(scenario);
        if journal.len() >= most {
            session.kill();
            return false;
        }
        // What waited before is put again by this process, which says so with a record.
        let resumed = before == 0
            || journal[before.min(journal.len())..].iter().any(|record| record["kind"] == "run_resumed");
        if resumed
            && let Some(question) = waiting(&journal)
            && answered.as_ref() != Some(&question["seq"])
        {
            answered = Some(question["seq"].clone());
            let text = |name: &str| question[name].as_str().unwrap_or_default();
            let Some(keys) = keys(text("path"), text("step"), text("question")) else {
                session.type_keys("\u{3}\u{4}");
                assert_eq!(session.end().0, Some(0));
                return true;
            };
            match text("question") {
                "approval" => session.expect("wants to call"),
                _ if question["schema"].is_object() => session.expect("Restore the files"),
                _ => {}
            }
            // The record is written just before the terminal hears of the question.
            thread::sleep(SETTLED);
            session.type_keys(keys);
            since = Instant::now();
        }
        assert!(since.elapsed() < PATIENCE, "it does not go on: {:#?}", journal.last());
        thread::sleep(POLL);
    }
}

/// What was said and done, call by call, without what differs between two executions.
fn told(journal: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    // How a call that was cut off was settled is not part of what was done.
    for record in journal.iter().filter(|record| record["step"] != "settle") {
        let what = match record["kind"].as_str().unwrap_or_default() {
            "model_answered" => record["message"]["parts"].clone(),
            "answered" => json!([record["answer"], record["value"]]),
            "tool_ended" | "call_ended" => record["ending"].clone(),
            "undone" | "restored" => {
                let files = record["files"].as_array().into_iter().flatten();
                files.map(|file| json!([file["path"], file["state"]])).collect()
            }
            _ => continue,
        };
        let path = record["path"].as_str().unwrap_or_default();
        told.entry(path.to_owned()).or_default().push(json!([record["step"], what]));
    }
    told
}

fn left(scenario: &Scenario) -> [Option<String>; 2] {
    ["out/log.txt", "out/note.txt"].map(|file| scenario.read(file))
}

#[test]
fn chat_killed_at_any_moment_goes_on_as_if_nothing_had_happened() {
    let undisturbed = program();
    assert!(hold(&undisturbed, &["chat", "."], usize::MAX));
    let whole = journal(&undisturbed);
    let (expected, files) = (told(&whole), left(&undisturbed));
    let log = "main 0\nplan\ninterview\nmain 3\nmain 5\n";
    // The append of the undone turn is restored, too.
    let log = log.replace("main 3\n", "");
    assert_eq!(files, [Some(log), Some("final".into())]);
    // `scripts/prove chat` kills at every record.
    let step = match env::var_os("LLM_DO_TEST_WHOLE") {
        Some(_) => 1,
        None => whole.len() / 6,
    };
    for most in (1..whole.len()).step_by(step.max(1)) {
        let scenario = program();
        let at = format!("killed at {most} of {} records", whole.len());
        if !hold(&scenario, &["chat", "."], most) {
            let cut = journal(&scenario);
            let arguments: &[&str] = if cut.is_empty() { &["chat", "."] } else { &["chat", "--continue"] };
            assert!(hold(&scenario, arguments, usize::MAX), "{at}");
            assert_eq!(journal(&scenario)[..cut.len()], cut, "{at}: no record is lost");
        }
        assert_eq!(left(&scenario), files, "{at}");
        assert_eq!(told(&journal(&scenario)), expected, "{at}");
        let replayed = scenario.run(&["runs", "replay", "last"]);
        assert_eq!(replayed.code, Some(0), "{at}: {replayed}");
    }
}
