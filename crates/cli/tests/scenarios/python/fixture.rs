//! Scenarios with Python tools: a worker whose scripted model makes one call in each turn, and its run.

use crate::scenario::{Finished, Scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    thread::{JoinHandle, sleep, spawn},
    time::{Duration, Instant},
};

/// A timeout that only a hang exceeds, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The default worker of a scenario.
pub(super) const WORKER: &str = "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nGo.\n";

/// The same with `/out` to write in.
pub(super) const WRITER: &str = "---\nmodel: script:s.yaml\ntoolsets: [custom]\n\
                                 sandbox: {paths: {out: {root: ./out, mode: rw}}}\n---\nGo.\n";

/// Returns true if this machine has Python. In CI it must.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn has_python() -> bool {
    let there = Path::new("/usr/bin/python3").exists();
    assert!(there || std::env::var_os("CI").is_none(), "CI has Python");
    if !there {
        eprintln!("skipped: there is no /usr/bin/python3");
    }
    there
}

/// A project of one worker and its `tools.py`, whose model makes these calls, each in a turn of its own.
pub(super) fn calling(tools: &str, calls: &[Value]) -> Scenario {
    Scenario::new().file("main.worker", WORKER).file("tools.py", tools).file("s.yaml", &script(calls))
}

/// The same with `/out` to write in.
pub(super) fn writing(tools: &str, calls: &[Value]) -> Scenario {
    calling(tools, calls).file("main.worker", WRITER)
}

/// The script of a model that makes these calls one after another and then says "done".
pub(crate) fn script(calls: &[Value]) -> String {
    let mut answers: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(turn, call)| json!({"when": {"turn": turn}, "calls": [call]}))
        .collect();
    answers.push(json!({"text": "done"}));
    json!({ "answers": answers }).to_string()
}

/// A call without arguments.
pub(crate) fn call(tool: &str) -> Value {
    json!({"tool": tool, "arguments": {}})
}

/// Runs the project to its end, and checks that no process is left.
pub(crate) fn run(scenario: &Scenario, arguments: &[&str]) -> Finished {
    let told = Running::start(scenario, arguments).end(scenario);
    assert_no_process_is_left(scenario);
    told
}

/// Runs the project, which must succeed.
pub(crate) fn succeed(scenario: &Scenario, arguments: &[&str]) -> Finished {
    let told = run(scenario, arguments);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// A running process.
pub(super) struct Running {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
}

impl Running {
    pub(super) fn start(scenario: &Scenario, arguments: &[&str]) -> Self {
        Self::of(scenario.command(arguments))
    }

    fn of(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let stdout = drain(child.stdout.take().expect("a pipe"));
        let stderr = drain(child.stderr.take().expect("a pipe"));
        Self { child, stdout, stderr }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Waits for its end.
    pub(super) fn end(mut self, scenario: &Scenario) -> Finished {
        let mut status = None;
        let ended = within(PATIENCE, || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        if !ended {
            let _ = self.child.kill();
            panic!("the run did not end; its processes: {:#?}", processes_of(scenario));
        }
        // A process that holds a pipe open would block the test too.
        let closed = within(PATIENCE, || self.stdout.is_finished() && self.stderr.is_finished());
        assert!(closed, "the run's output stays open: {:#?}", processes_of(scenario));
        scenario.finished(std::process::Output {
            status: status.expect("it has ended"),
            stdout: self.stdout.join().expect("a reader"),
            stderr: self.stderr.join().expect("a reader"),
        })
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.read_to_end(&mut all);
        all
    })
}

/// Returns true if a condition becomes true within the limit.
fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE, holds), "never came: {what}");
}

/// Fails if a process of the runs is left after some time.
pub(crate) fn assert_no_process_is_left(scenario: &Scenario) {
    let gone = within(Duration::from_secs(20), || processes_of(scenario).is_empty());
    assert!(gone, "left behind: {:#?}", processes_of(scenario));
}

/// The processes that see the scenario's folder in their command line, environment, working folder or mounts. A confined
/// process and its children keep the mounts of their namespace.
pub(super) fn processes_of(scenario: &Scenario) -> Vec<String> {
    let name = scenario.home().file_name().expect("a name").to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("procfs").flatten() {
        let path = entry.path();
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let holds = |file: &str| {
            fs::read(path.join(file)).is_ok_and(|content| String::from_utf8_lossy(&content).contains(&*name))
        };
        let stands =
            || fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.to_string_lossy().contains(&*name));
        if holds("cmdline") || holds("environ") || holds("mountinfo") || stands() {
            // A zombie does not count.
            let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
            if !stat.contains(") Z ") {
                found.push(stat);
            }
        }
    }
    found
}

/// The result of the call at this path, as the model or code receives it.
pub(crate) fn ending(scenario: &Scenario, path: &str) -> Value {
    let journal = scenario.journal();
    let last = journal.iter().rev().find(|record| {
        let kind = record["kind"].as_str().unwrap_or_default();
        record["path"] == path && ["tool_ended", "call_ended", "timed_out"].contains(&kind)
    });
    match last {
        Some(record) if record["kind"] == "timed_out" => json!({"timed_out": record["after_ms"]}),
        Some(record) => record["ending"].clone(),
        None => panic!("no call at {path} has ended in {journal:#?}"),
    }
}

/// The output of the call at this path.
pub(crate) fn output(scenario: &Scenario, path: &str) -> Value {
    let ending = ending(scenario, path);
    assert!(ending.get("output").is_some(), "{path} failed: {ending:#}");
    ending["output"].clone()
}

/// The failure of the call at this path.
pub(crate) fn failure(scenario: &Scenario, path: &str) -> String {
    let ending = ending(scenario, path);
    match ending["failure"]["message"].as_str() {
        Some(message) => scenario.steady(message),
        None => panic!("{path} did not fail: {ending:#}"),
    }
}

/// The record of this kind at this path.
pub(super) fn record(scenario: &Scenario, path: &str, kind: &str) -> Value {
    let journal = scenario.journal();
    let found = journal.iter().find(|record| record["path"] == path && record["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} at {path} in {journal:#?}")).clone()
}

/// The names of the tools that the first model was offered.
pub(super) fn offered(scenario: &Scenario) -> Vec<String> {
    let started = record(scenario, "0", "conversation_started");
    let tools = started["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Asserts that a text contains these parts.
pub(crate) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}
