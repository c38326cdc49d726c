//! Another program answers the questions: over a socket on which it listens, or over an inherited descriptor.

use crate::{recorded_examples::examples, scenario::Scenario};
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Child, Stdio},
};

fn writer() -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - when: {turn: 1}\n    calls: [{tool: write_file, arguments: {path: b.txt, content: b}}]\n  - text: both\n",
        )
}

/// The program that answers.
pub(crate) struct Client(BufReader<UnixStream>);

impl Client {
    pub(crate) fn of(stream: UnixStream) -> Self {
        let mut client = Self(BufReader::new(stream));
        assert_eq!(client.hears()["type"], "hello");
        client
    }
    pub(crate) fn hears(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("as arranged");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
    pub(crate) fn says(&mut self, what: &Value) {
        self.0.get_mut().write_all(format!("{what}\n").as_bytes()).expect("as arranged");
    }
}

pub(crate) fn start(scenario: &Scenario, channel: &str, arguments: &[&str]) -> Child {
    let arguments = [arguments, &["--operator", channel]].concat();
    scenario.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("as arranged")
}

#[test]
fn listening_program_answers_each_question() {
    let scenario = writer();
    let path = scenario.home().join("operator.sock");
    let listener = UnixListener::bind(&path).expect("as arranged");
    let child = start(&scenario, &format!("unix:{}", path.display()), &["."]);
    let mut client = Client::of(listener.accept().expect("as arranged").0);
    let asked = client.hears();
    assert_eq!((&asked["question"], &asked["call"]), (&json!("approval"), &json!("0/0.0")));
    assert_eq!(asked["function"], "write_file");
    assert_eq!(asked["chain"], json!(["main"]));
    assert_eq!(asked["preview"]["after"], "a");
    let misfit = json!({"path": "c.txt", "contents": "edited"});
    client.says(&json!({"call": "0/0.0", "step": "ask", "answer": "edit", "input": misfit}));
    let told = client.hears();
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.contains("stays open: the arguments do not fit `write_file`: "), "{told}");
    let edited = json!({"path": "c.txt", "content": "edited"});
    client.says(&json!({"call": "0/0.0", "step": "ask", "answer": "edit", "input": edited}));
    assert_eq!(client.hears()["type"], "accepted");
    assert_eq!(client.hears()["call"], "0/1.0");
    client.says(&json!({"call": "0/1.0", "step": "ask", "answer": "deny", "reason": "not b"}));
    let told = scenario.finished(child.wait_with_output().expect("as arranged"));
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "both\n"), "{told}");
    assert_eq!((scenario.read("a.txt"), scenario.read("b.txt")), (None, None));
    assert_eq!(scenario.read("c.txt").as_deref(), Some("edited"));
    let journal = scenario.journal();
    let answered: Vec<_> = journal.iter().filter(|record| record["kind"] == "answered").collect();
    assert_eq!((&answered[0]["input"], &answered[1]["reason"]), (&edited, &json!("not b")));
    assert_eq!((&answered[1]["by"], &answered[1]["via"]), (&json!("operator"), &json!("operator protocol")));
}

#[test]
fn inherited_descriptor_is_a_channel_and_is_not_inherited_by_tools() {
    let tool = "import os\n\ndef fds() -> list:\n    \"\"\"Inodes of what is open.\"\"\"\n    found = []\n    for fd in range(256):\n        try:\n            found.append(os.fstat(fd).st_ino)\n        except OSError:\n            pass\n    return found\n";
    let scenario = writer()
        .file("tools.py", tool)
        .file("s.yaml", "answers:\n  - when: {turn: 0}\n    calls: [{tool: fds}, {tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n");
    let (ours, theirs) = UnixStream::pair().expect("as arranged");
    fcntl_setfd(&theirs, FdFlags::empty()).expect("as arranged");
    let channel = format!("fd:{}", theirs.as_raw_fd());
    let line = rustix::fs::fstat(&theirs).expect("as arranged").st_ino;
    let child = start(&scenario, &channel, &["."]);
    drop(theirs);
    let mut client = Client::of(ours);
    assert_eq!(client.hears()["call"], "0/0.1");
    client.says(&json!({"call": "0/0.1", "step": "ask", "answer": "approve"}));
    let told = scenario.finished(child.wait_with_output().expect("as arranged"));
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
    let journal = scenario.journal();
    let of_tool = |record: &&Value| record["kind"] == "tool_ended" && record["path"] == "0/0.0";
    let seen = journal.iter().find(of_tool).expect("as arranged")["ending"]["output"].clone();
    let seen = seen.as_array().expect("as arranged");
    assert!(seen.len() >= 3 && !seen.contains(&json!(line)), "{line}: {seen:?}");
}

#[test]
fn disconnected_operator_suspends_the_run_and_another_resumes_it() {
    let scenario = writer();
    let path = scenario.home().join("operator.sock");
    let listener = UnixListener::bind(&path).expect("as arranged");
    let channel = format!("unix:{}", path.display());
    let child = start(&scenario, &channel, &["."]);
    let mut client = Client::of(listener.accept().expect("as arranged").0);
    assert_eq!(client.hears()["call"], "0/0.0");
    drop(client);
    let told = scenario.finished(child.wait_with_output().expect("as arranged"));
    assert_eq!(told.code, Some(5), "{told}");
    let child = start(&scenario, &channel, &["runs", "resume"]);
    let mut client = Client::of(listener.accept().expect("as arranged").0);
    for id in ["0/0.0", "0/1.0"] {
        assert_eq!(client.hears()["call"], id);
        client.says(&json!({"call": id, "step": "ask", "answer": "approve"}));
        assert_eq!(client.hears()["type"], "accepted");
    }
    let told = scenario.finished(child.wait_with_output().expect("as arranged"));
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(
        (scenario.read("a.txt").as_deref(), scenario.read("b.txt").as_deref()),
        (Some("a"), Some("b"))
    );
}

#[test]
fn invalid_channel_is_reported_before_the_run() {
    let scenario = writer();
    for (channel, says) in
        [("unix:/nowhere/operator.sock", "No such file"), ("fd:63", "descriptor 63"), ("tcp:80", "unix:PATH")]
    {
        let told = scenario.run(&[".", "--operator", channel]);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains(says), "{told}");
    }
    assert!(scenario.runs().is_empty());
}

/// `examples/interview/answering.py` is the other side of its example.
#[test]
fn the_example_program_answers_an_interview() {
    let read = |path: &str| fs::read_to_string(examples().join(path)).expect("an example");
    let interview = || {
        Scenario::new()
            .file("project.yaml", &read("interview/project.yaml"))
            .file("main.worker", &read("interview/main.worker"))
            .file("workers/interview.worker", &read("interview/workers/interview.worker"))
            .file("script.yaml", &read("scripts/interview.yaml"))
    };
    let program = examples().join("interview/answering.py");
    let answered = |scenario: &Scenario, lines: &str| {
        let mut command = scenario.command_of(Path::new("python3"));
        command.arg(&program).arg(env!("CARGO_BIN_EXE_llm-do"));
        command.args([".", "Plan a weekend", "--model", "script:script.yaml"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
        scenario.finished(child.wait_with_output().expect("as arranged"))
    };
    let scenario = interview();
    let told = answered(&scenario, "Two days in Ghent\n/done\n");
    assert_eq!(told.code, Some(0), "{told}");
    let first = "main > interview: Where would you like to go, and for how long?\n";
    assert!(
        told.stdout.starts_with(first) && told.stdout.contains("\"title\":\"Two days in Ghent\""),
        "{told}"
    );
    let journal = scenario.journal();
    let answers = journal.iter().filter(|record| record["kind"] == "answered");
    let answers: Vec<_> =
        answers.map(|record| (&record["answer"], &record["value"], &record["via"])).collect();
    let via = &json!("operator protocol");
    assert_eq!(
        answers,
        [(&json!("give"), &json!("Two days in Ghent"), via), (&json!("end"), &Value::Null, via)]
    );
    // Where the lines end, the run waits.
    let told = answered(&interview(), "");
    assert_eq!((told.code, told.stdout.as_str()), (Some(5), first), "{told}");
}
