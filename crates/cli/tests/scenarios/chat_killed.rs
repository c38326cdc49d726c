//! A chat that is killed at any moment and continued: the same conversation, the same files, and nothing is done twice
//! (docs/guides/chat.md).
//!
//! The user of these tests only sees the question that the run waits for. The same question gets the same answer in
//! every process, so a chat that was killed can be compared with one that was not.

use crate::{
    emulator::Emulator,
    scenario::{Scenario, journal_in},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The longest time between two questions of a run.
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(2);
/// Number of chats that run at once.
const AT_ONCE: usize = 3;
/// The report that the window loses the focus: from then on the terminal is notified of each question.
const FOCUS_OUT: &str = "\u{1b}[O";
/// The beginning of a notification (OSC 9), without the escape character.
const NOTICE: &str = "]9;";

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

/// A chat whose worker writes with an approval, and calls a planner whose interviewer talks to the user and asks for a
/// choice. Each of the three appends to a file, so that a call that is made twice can be seen.
fn program() -> Scenario {
    let add = |text: &str| call("append_file", json!({"path": "/out/log.txt", "content": text}));
    let write = |text: &str| call("write_file", json!({"path": "/out/note.txt", "content": text}));
    let ask = call("ask_user", json!({"question": "By train?", "choices": ["yes", "no"]}));
    let summary = json!({"when": {"purpose": "summary"}, "text": "They planned two days in Rome."});
    let mut answers = vec![summary];
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
    says("main", 7, json!({"calls": [add("main 7\n")]}));
    says("main", 8, json!({"text": "You are welcome."}));
    says("plan", 0, json!({"calls": [add("plan\n")]}));
    says("plan", 1, json!({"calls": [call("interview", json!({"input": "ask"}))]}));
    says("plan", 2, json!({"text": "Two days in Rome."}));
    says("interview", 0, json!({"text": "Where to?"}));
    says("interview", 1, json!({"calls": [add("interview\n")]}));
    says("interview", 2, json!({"calls": [ask]}));
    says("interview", 3, json!({"text": "For how long?"}));
    says("interview", 4, json!({"calls": [call("finish", json!({"city": "Rome"}))]}));
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

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

/// Returns true if the question is the one for the next message.
fn is_turn(question: &Value) -> bool {
    text(question, "question") == "input" && text(question, "step").starts_with("message")
}

/// Returns the keys that the user types at a question, or `None` if the user leaves the chat.
fn keys(question: &Value) -> Option<&'static str> {
    if !is_turn(question) {
        // An approval is given. Of choices, the first is taken.
        return Some(if text(question, "question") == "approval" { "\u{7}a" } else { "\u{7}1\r" });
    }
    Some(match (text(question, "path"), text(question, "step")) {
        ("0", "message.1") => "write\r",
        // The second message is taken back with what it did, and said in other words.
        ("0", "message.2") => "/undo\r",
        ("0", "message.3") => "\u{3}write the final one\r",
        ("0", "message.4") => "/compact\r",
        ("0", "message.5") => "thank you\r",
        ("0", _) => return None,
        (_, "message.1") => "Rome\r",
        _ => "two days\r",
    })
}

fn journal(scenario: &Scenario) -> Vec<Value> {
    journal_in(&scenario.project().join(".llm-do/runs"))
}

/// Returns the open question.
fn waiting(journal: &[Value]) -> Option<&Value> {
    let last = journal.iter().rfind(|record| record["kind"] == "asked")?;
    let is_answer = |record: &&Value| {
        record["kind"] == "answered" && record["path"] == last["path"] && record["step"] == last["step"]
    };
    journal.iter().find(is_answer).is_none().then_some(last)
}

/// The user at the terminal. Answers a question only when the terminal shows it: its record is written before.
struct User {
    window: Emulator,
    /// Questions that were answered in this process.
    answered: usize,
    /// True if the last keys were a command after which the terminal is not notified, because the worker has said
    /// nothing new.
    aside: bool,
}

impl User {
    fn start(scenario: &Scenario, arguments: &[&str]) -> Self {
        let window = Emulator::start(scenario.command_on_terminal(arguments), 100, 40);
        Self { window, answered: 0, aside: false }
    }

    /// Waits until the terminal shows the question.
    fn wait_for(&mut self, question: &Value) {
        if self.answered > 0 && !self.aside {
            // There is one notification for each question since the focus was lost with the first keys.
            self.window.session().expect(NOTICE);
        } else if is_turn(question) {
            if self.aside {
                self.window.wait_for("older turns summarised");
            }
            self.window.wait_for_prompt("main");
        } else {
            self.window.wait_for("Ctrl-G");
        }
    }

    fn type_keys(&mut self, keys: &str) {
        let focus = if self.answered == 0 { FOCUS_OUT } else { "" };
        self.window.type_keys(&format!("{focus}{keys}"));
        self.answered += 1;
        self.aside = keys.starts_with("/compact");
    }
}

/// Runs the chat in one process, until the user leaves or the journal has `most` records: then the process is killed.
/// Returns true if the user left.
fn hold(scenario: &Scenario, arguments: &[&str], most: usize) -> bool {
    // Counted before the process exists, which adds to them.
    let before = journal(scenario).len();
    let mut user = User::start(scenario, arguments);
    let (mut answered, mut since) = (None, Instant::now());
    if before == 0 {
        user.window.wait_for("/help");
        user.type_keys("go\r");
    }
    loop {
        let journal = journal(scenario);
        if journal.len() >= most {
            user.window.kill();
            return false;
        }
        // A question that waited before is put again by this process, which records that it resumes the run.
        let resumed = before == 0
            || journal[before.min(journal.len())..].iter().any(|record| record["kind"] == "run_resumed");
        if resumed
            && let Some(question) = waiting(&journal)
            && answered.as_ref() != Some(&question["seq"])
        {
            answered = Some(question["seq"].clone());
            user.wait_for(question);
            let Some(keys) = keys(question) else {
                assert_eq!(user.window.leave(), Some(0));
                return true;
            };
            user.type_keys(keys);
            since = Instant::now();
        }
        assert!(
            since.elapsed() < PATIENCE,
            "it does not go on: {:#?}\n{}",
            journal.last(),
            user.window.picture()
        );
        thread::sleep(POLL);
    }
}

/// Returns the messages and effects of each call, without the parts that differ between two executions.
fn told(journal: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    // How a call that was cut off was settled is not part of what was done, nor is that a run waited.
    let counts = |record: &&Value| record["step"] != "settle" && record["ending"] != "suspended";
    for record in journal.iter().filter(counts) {
        let what = match text(record, "kind") {
            "model_answered" => record["message"]["parts"].clone(),
            "answered" => json!([record["answer"], record["value"]]),
            "tool_ended" | "call_ended" => record["ending"].clone(),
            "compacted" => record["summary"]["text"].clone(),
            "undone" | "restored" => {
                let files = record["files"].as_array().into_iter().flatten();
                files.map(|file| json!([file["path"], file["state"]])).collect()
            }
            _ => continue,
        };
        told.entry(text(record, "path").to_owned()).or_default().push(json!([record["step"], what]));
    }
    told
}

fn left(scenario: &Scenario) -> [Option<String>; 2] {
    ["out/log.txt", "out/note.txt"].map(|file| scenario.read(file))
}

/// Returns true if `scripts/prove chat` runs the test, which kills at every record and cuts at every byte.
fn whole() -> bool {
    env::var_os("LLM_DO_TEST_WHOLE").is_some()
}

/// Does the work for each number below `count`, several at once.
fn at_once(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

#[test]
fn chat_killed_at_any_moment_goes_on_as_if_nothing_had_happened() {
    let undisturbed = program();
    assert!(hold(&undisturbed, &["chat", "."], usize::MAX));
    let all = journal(&undisturbed);
    let (expected, files) = (told(&all), left(&undisturbed));
    // The append of the undone turn is restored, too.
    let log = "main 0\nplan\ninterview\nmain 5\nmain 7\n";
    assert_eq!(files, [Some(log.into()), Some("final".into())]);
    for kind in ["undone", "restored", "compacted"] {
        assert!(all.iter().any(|record| record["kind"] == kind), "{kind}");
    }
    let step = if whole() { 1 } else { all.len() / 6 };
    let kills: Vec<usize> = (1..all.len()).step_by(step).collect();
    at_once(kills.len(), |number| {
        let most = kills[number];
        let scenario = program();
        let at = format!("killed at {most} of {} records", all.len());
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
    });
}

fn journal_file(scenario: &Scenario) -> PathBuf {
    scenario.runs().remove(0).join("journal.jsonl")
}

/// Kills the chat at each question and cuts off the end of its journal, byte by byte: back to the last call that began
/// to change something, or the last answer of the user. The model is asked again for the lost messages, and the chat
/// waits at the same question with the same transcript and the same files.
#[test]
fn chat_whose_last_records_are_cut_off_waits_at_the_same_question() {
    let undisturbed = program();
    assert!(hold(&undisturbed, &["chat", "."], usize::MAX));
    let all = journal(&undisturbed);
    let questions: Vec<usize> =
        (0..all.len()).filter(|number| all[*number]["kind"] == "asked").map(|number| number + 1).collect();
    assert!(questions.len() > 10, "{}", questions.len());
    at_once(questions.len(), |number| {
        let scenario = program();
        assert!(!hold(&scenario, &["chat", "."], questions[number]));
        let text = fs::read(journal_file(&scenario)).expect("a journal");
        let (expected, files) = (told(&journal(&scenario)), left(&scenario));
        let resumed = || {
            let done = scenario.run_with_stdin(&["chat", "--continue"], "");
            assert!([Some(0), Some(5)].contains(&done.code), "{done}");
            done.stdout
        };
        let transcript = resumed();
        let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect();
        let lines = || [0].into_iter().chain(ends.iter().copied()).zip(&ends);
        // The end of the last record of these kinds.
        let last = |kinds: &[&str]| {
            let is_one = |(start, end): &(usize, &usize)| {
                let record: Value = serde_json::from_slice(&text[*start..**end]).expect("a record");
                kinds.contains(&self::text(&record, "kind"))
            };
            lines().filter(is_one).last().map_or(0, |(_, end)| *end)
        };
        let from = last(&["run_started", "answered", "tool_started"]);
        // Of the conversations in the middle of a run, a transcript has those that have not ended.
        let ended = last(&["call_ended"]);
        // The last records at every byte, those before them at their ends and here and there.
        let every_byte = ends[ends.len().saturating_sub(4)];
        let is_tried = |cut: &usize| {
            ends.contains(cut)
                || cut.is_multiple_of(if whole() { 31 } else { 997 })
                || whole() && *cut > every_byte
        };
        for cut in (from..=text.len()).filter(is_tried) {
            fs::write(journal_file(&scenario), &text[..cut]).expect("the journal of a killed run");
            let at = format!("question {number}, cut at {cut} of {} bytes", text.len());
            let shown = resumed();
            assert!(cut < ended || shown == transcript, "{at}: {shown}\nnot {transcript}");
            assert_eq!(told(&journal(&scenario)), expected, "{at}");
            assert_eq!(left(&scenario), files, "{at}");
        }
    });
}
