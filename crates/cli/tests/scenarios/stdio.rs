//! `llm-do serve --stdio`, over its pipes: the client owns the process, and can still send nonsense.

use crate::scenario::{Scenario, journal_in, lines};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A process with a client of a few lines. Dropped, it is killed.
struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    next: i64,
    /// Messages that came while the test waited for another.
    early: Vec<Value>,
}

impl Pipe {
    fn open(scenario: &Scenario, options: &[&str]) -> Self {
        let all = [&["serve", ".", "--stdio"], options].concat();
        let mut command = scenario.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stderr = child.stderr.take().expect("a pipe");
        let log = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { stdin: child.stdin.take(), child, stdout, stderr: Some(log), next: 0, early: Vec::new() }
    }

    fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).expect("it reads");
    }

    fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).expect("text"), 0, "it has ended");
        let message: Value = serde_json::from_str(&line).expect("every line is JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// The first message that fits; those before it are kept.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&fits) {
            return self.early.remove(at);
        }
        loop {
            let message = self.read();
            if fits(&message) {
                return message;
            }
            self.early.push(message);
        }
    }

    fn response(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    fn notified(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method)["params"].clone()
    }

    /// Closes the pipe. Returns the exit code and stderr.
    fn end(mut self) -> (Option<i32>, String) {
        self.stdin.take();
        let code = self.child.wait().expect("it ends").code();
        let said = self.stderr.take().expect("a thread").join().expect("it ends");
        (code, said)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn desk() -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: desk\nversion: 1.0.0\nexports: [greeter]\nmodel: script:s.yaml\n")
        .file(
            "workers/greeter.worker",
            "---\ndescription: Greets somebody.\nparameters: {name: string}\ntoolsets: []\n---\nGreet the visitor.\n",
        )
        .file(
            "workers/mail/sorter.worker",
            "---\nparameters: {mail: string}\nreturns: {type: object, properties: {urgent: {type: boolean}}, required: [urgent]}\nmodel: script:typed.yaml\n---\nSort.\n",
        )
        .file(
            "workers/writer.worker",
            "---\nmodel: script:writes.yaml\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [write_file]}}\n---\nWrite.\n",
        )
        .file("workers/slow.worker", "---\nmodel: script:slow.yaml\n---\nThink.\n")
        .file("workers/big.worker", "---\nmodel: script:big.yaml\n---\nTalk.\n")
        .file("workers/broken.worker", "---\nparametres: {}\n---\nBreak.\n")
        .file("s.yaml", "answers:\n  - text: \"Hello, {{ input }}!\"\n    stream: {chars: 2, pause_ms: 1}\n")
        .file("typed.yaml", "answers:\n  - json: {urgent: true}\n")
        .file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 600000\n")
        .file("big.yaml", "answers:\n  - text: \"{{ 'ä' * 5000000 }}\"\n")
        .file(
            "writes.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: out/note.txt, content: noted}}]\n  - text: \"{{ last }}\"\n",
        )
}

#[test]
fn hello_names_every_worker_with_its_schemas_and_a_hash_that_follows_them() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let hello = pipe.ask("hello", &json!({"protocol": 1}))["result"].clone();
    assert_eq!((&hello["program"], &hello["entry"]), (&json!("desk"), &json!("greeter")), "{hello}");
    let names: Vec<_> =
        hello["workers"].as_array().expect("workers").iter().map(|it| &it["worker"]).collect();
    assert_eq!(names, ["big", "greeter", "mail/sorter", "slow", "writer"]);
    assert_eq!(hello["workers"][1]["input"]["required"], json!(["name"]));
    assert_eq!(hello["workers"][2]["output"]["required"], json!(["urgent"]));
    assert_eq!(hello["broken"][0]["worker"], "broken");
    assert_eq!(pipe.end().0, Some(0));

    let scenario = scenario.file(
        "workers/greeter.worker",
        "---\ndescription: Greets others.\nparameters: {name: string}\ntoolsets: []\n---\nGreet them.\n",
    );
    let mut pipe = Pipe::open(&scenario, &[]);
    let same = pipe.ask("hello", &json!({"protocol": 1}))["result"].clone();
    assert_eq!(same["signatures"], hello["signatures"], "instructions are no signature");
    drop(pipe);
    let scenario = scenario.file(
        "workers/greeter.worker",
        "---\nparameters: {name: string, age: integer?}\n---\nGreet the visitor.\n",
    );
    let mut pipe = Pipe::open(&scenario, &[]);
    let other = pipe.ask("hello", &json!({"protocol": 1}))["result"].clone();
    assert_ne!(other["signatures"], hello["signatures"]);
    assert_ne!(other["workers"][1]["signature"], hello["workers"][1]["signature"]);
    assert_eq!(other["workers"][2]["signature"], hello["workers"][2]["signature"]);
    let wrong = pipe.ask("hello", &json!({"protocol": 7}));
    assert!(wrong["error"]["message"].as_str().is_some_and(|text| text.contains("version 7")), "{wrong}");
}

#[test]
fn call_gives_the_run_with_its_output_and_any_worker_can_be_called() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let called =
        pipe.ask("call", &json!({"worker": "mail/sorter", "input": {"mail": "x"}}))["result"].clone();
    assert_eq!((&called["state"], &called["output"]), (&json!("done"), &json!({"urgent": true})), "{called}");
    let again = pipe.ask("run", &json!({"run": called["run"]}))["result"].clone();
    assert_eq!(again, called);
    let listed = pipe.ask("runs", &json!({}))["result"].clone();
    assert_eq!(listed["runs"][0]["run"], called["run"], "{listed}");
    let first = &scenario.journal()[0];
    assert_eq!(first["invocation"].get("client"), None, "it is the operator's own run: {first}");

    let wrong = |pipe: &mut Pipe, params: Value| pipe.ask("call", &params)["error"].clone();
    let error = wrong(&mut pipe, json!({"worker": "greeter", "input": {"nam": "x"}}));
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32602), &json!("bad_input")), "{error}");
    let error = wrong(&mut pipe, json!({"worker": "nobody", "message": "x"}));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nobody")), "{error}");
    let error = wrong(&mut pipe, json!({"worker": "greeter", "message": "x", "allow": ["shell"]}));
    assert_eq!(error["code"], -32602, "{error}");
    let error = wrong(&mut pipe, json!({"worker": "greeter", "message": "x", "approval": "approve_all"}));
    assert_eq!(error["data"]["code"], "forbidden", "{error}");
    assert_eq!(pipe.end().0, Some(0));
}

#[test]
fn paths_and_attachments_are_files_of_the_machine_as_on_the_command_line() {
    let scenario = desk()
        .file(
            "workers/reader.worker",
            "---\nparameters: {document: path}\nmodel: script:reads.yaml\nsandbox: {paths: {}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nRead.\n",
        )
        .file("workers/looker.worker", "---\nmodel: script:looks.yaml\nsandbox: {paths: {}}\n---\nLook.\n")
        .file("letters/letter.txt", "Dear Ada\n")
        .file(
            "reads.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: read_file, arguments: {path: /document}}]\n  - text: \"{{ last }}\"\n",
        )
        .file("looks.yaml", "answers:\n  - text: seen\n");
    let mut pipe = Pipe::open(&scenario, &[]);
    // The worker sees no folder, so that only the caller's word can hand it the file.
    let read = pipe.ask("call", &json!({"worker": "reader", "input": {"document": "letters/letter.txt"}}));
    assert!(read["result"]["output"].as_str().is_some_and(|text| text.contains("Dear Ada")), "{read}");
    let looks =
        |path: &str| json!({"worker": "looker", "message": "Look.", "attachments": [path], "events": true});
    let seen = pipe.ask("call", &looks("letters/letter.txt"));
    assert_eq!(seen["result"]["output"], "seen", "{seen}");
    let first = pipe.notified("event");
    assert!(first.to_string().contains("letter.txt"), "{first}");
    let missing = pipe.ask("call", &looks("letters/none.txt"));
    assert_eq!(missing["error"]["data"]["code"], "bad_input", "{missing}");
}

#[test]
fn options_of_the_http_server_are_refused() {
    let scenario = desk();
    for options in [&["--edit"][..], &["--max-queue", "9"], &["--listen", "127.0.0.1:0"]] {
        let said = scenario.run(&[&["serve", ".", "--stdio"], options].concat());
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.stderr.contains("cannot be used with"), "{said}");
    }
}

#[test]
fn nonsense_on_the_pipe_is_answered_and_harms_no_other_request() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let slow = pipe.send("call", &json!({"worker": "slow", "message": "x"}));
    for (line, code) in [
        ("no json".to_owned(), -32700),
        ("\u{0}\u{feff}{}".to_owned(), -32700),
        ("[]".to_owned(), -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"hello\"}".to_owned(), -32600),
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":{slow},\"method\":\"hello\"}}"), -32600),
        ("[".repeat(100_000), -32700),
        ("x".repeat((16 << 20) + 1), -32600),
    ] {
        pipe.line("");
        pipe.line(&line);
        let answer = pipe.until(|message| message.get("id") == Some(&Value::Null));
        assert_eq!(answer["error"]["code"], code, "{}", &line[..line.len().min(80)]);
    }
    assert_eq!(pipe.ask("shutdown", &json!({}))["error"]["code"], -32601);
    assert_eq!(pipe.ask("runs", &json!({"limit": "all"}))["error"]["code"], -32602);
    pipe.line(r#"{"jsonrpc":"2.0","method":"anything"}"#);
    pipe.line(&json!({"jsonrpc": "2.0", "method": "cancel", "params": {"request": slow}}).to_string());
    assert_eq!(pipe.response(slow)["result"]["state"], "cancelled");
    let called = pipe.ask("call", &json!({"worker": "greeter", "message": "Ada"}));
    assert_eq!(called["result"]["output"], "Hello, Ada!", "{called}");
    // What is cut off is no line.
    pipe.stdin.as_mut().expect("open").write_all(b"{\"jsonrpc\"").expect("it reads");
    assert_eq!(pipe.end().0, Some(0));
}

#[test]
fn events_come_in_order_before_the_result_and_deltas_among_them() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let id = pipe.send("call", &json!({"worker": "greeter", "message": "Ada", "events": true}));
    let started = pipe.notified("started");
    let result = pipe.response(id);
    assert_eq!((&started["request"], &started["run"]), (&json!(id), &result["result"]["run"]));
    let events: Vec<Value> = pipe
        .early
        .iter()
        .filter(|message| message["method"] == "event")
        .map(|it| it["params"].clone())
        .collect();
    assert!(events.iter().all(|event| event["request"] == id && event["run"] == started["run"]));
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(text, "Hello, Ada!");
    let numbers: Vec<_> = events.iter().filter_map(|event| event["record"]["seq"].as_u64()).collect();
    assert_eq!(numbers, (0..scenario.journal().len() as u64).collect::<Vec<_>>());
    let rest = pipe.send("follow", &json!({"run": started["run"], "events": true, "after": 2}));
    pipe.early.clear();
    assert_eq!(pipe.response(rest)["result"], result["result"]);
    assert_eq!(pipe.early[0]["params"]["record"]["seq"], 3);
}

/// Thousands of deltas for a client that reads none of them while the run lasts.
#[test]
fn slow_client_loses_deltas_and_no_records_and_slows_no_run() {
    let scenario = desk().file(
        "s.yaml",
        "answers:\n  - text: \"{{ 'word ' * 20000 }}\"\n    stream: {chars: 1, pause_ms: 0}\n",
    );
    let mut pipe = Pipe::open(&scenario, &[]);
    let id = pipe.send("call", &json!({"worker": "greeter", "message": "Ada", "events": true}));
    let runs = scenario.project().join(".llm-do/runs");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !journal_in(&runs).last().is_some_and(|record| record["kind"] == "run_ended") {
        assert!(Instant::now() < deadline, "the run waits for its reader");
        thread::sleep(Duration::from_millis(20));
    }
    let result = pipe.response(id);
    assert_eq!(result["result"]["state"], "done");
    let of = |field: &str| pipe.early.iter().filter(|it| it["params"].get(field).is_some()).count();
    assert_eq!(of("record"), scenario.journal().len());
    assert!(of("delta") < 100_000, "no delta was lost");
}

#[test]
fn questions_come_to_the_client_which_approves_denies_and_edits() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let mut answered = |answer: Value| {
        let id = pipe.send("call", &json!({"worker": "writer", "message": "go", "questions": true}));
        let asked = pipe.until(|message| message["method"] == "question")["params"].clone();
        assert_eq!((&asked["request"], &asked["function"]), (&json!(id), &json!("write_file")), "{asked}");
        let mut params = json!({"run": asked["run"], "call": asked["call"], "step": asked["step"], "digest": asked["digest"]});
        params.as_object_mut().expect("an object").extend(answer.as_object().expect("an object").clone());
        assert_eq!(pipe.ask("answer", &params)["result"], json!({}), "{params}");
        let late = pipe.ask("answer", &params);
        assert!(late.get("error").is_some(), "{late}");
        pipe.response(id)["result"].clone()
    };
    let denied = answered(json!({"answer": "deny", "reason": "not before Monday"}));
    assert!(denied["output"].as_str().is_some_and(|text| text.contains("not before Monday")), "{denied}");
    assert_eq!(scenario.read("out/note.txt"), None);
    answered(json!({"answer": "edit", "input": {"path": "out/note.txt", "content": "edited"}}));
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("edited"));
    answered(json!({"answer": "approve"}));
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted"));
    let given =
        scenario.journal().into_iter().find(|record| record["kind"] == "answered").expect("an answer");
    assert_eq!((&given["by"], &given["via"]), (&json!("operator"), &json!("stdio")), "{given}");
}

#[test]
fn without_questions_calls_are_denied_as_unattended_which_is_said_once() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    for _ in 0..2 {
        let called = pipe.ask("call", &json!({"worker": "writer", "message": "go"}));
        assert_eq!(called["result"]["state"], "done", "{called}");
    }
    assert_eq!(scenario.read("out/note.txt"), None);
    let (code, said) = pipe.end();
    assert_eq!((code, said.matches("takes no questions").count()), (Some(0), 1), "{said}");

    let mut pipe = Pipe::open(&scenario, &["--allow", "write_file"]);
    pipe.ask("call", &json!({"worker": "writer", "message": "go"}));
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted"));
    assert_eq!(
        pipe.ask("call", &json!({"worker": "writer", "message": "go", "deny": ["write_file"]}))["result"]["state"],
        "done"
    );
}

#[test]
fn two_hundred_calls_at_once_share_the_process() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &["--max-runs", "50"]);
    let mut open: HashMap<i64, String> = (0..200)
        .map(|number| {
            let name = format!("Ada {number}");
            (pipe.send("call", &json!({"worker": "greeter", "message": name})), name)
        })
        .collect();
    while !open.is_empty() {
        let answer = pipe.until(|message| message.get("id").is_some());
        let name = answer["id"].as_i64().and_then(|id| open.remove(&id)).expect("a request");
        assert_eq!(answer["result"]["output"], json!(format!("Hello, {name}!")), "{answer}");
    }
    assert_eq!(scenario.runs().len(), 200);
}

#[test]
fn call_that_is_cancelled_while_it_waits_for_room_starts_no_run() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &["--max-runs", "1"]);
    let slow = pipe.send("call", &json!({"worker": "slow", "message": "x"}));
    pipe.notified("started");
    let waits = pipe.send("call", &json!({"worker": "greeter", "message": "Ada"}));
    let next = pipe.send("call", &json!({"worker": "greeter", "message": "Bob"}));
    pipe.ask("cancel", &json!({"request": waits}));
    assert_eq!(pipe.response(waits)["error"]["code"], -32800);
    assert_eq!(scenario.runs().len(), 1);
    pipe.ask("cancel", &json!({"request": slow}));
    assert_eq!(pipe.response(slow)["result"]["state"], "cancelled");
    let called = pipe.response(next);
    assert_eq!(called["result"]["output"], "Hello, Bob!", "{called}");
}

#[test]
fn output_of_ten_megabytes_is_one_line() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    let called = pipe.ask("call", &json!({"worker": "big", "message": "x"}));
    assert_eq!(
        called["result"]["output"].as_str().map(str::len),
        Some(10_000_000),
        "{:.300}",
        called.to_string()
    );
    drop(pipe);
    // Records this long are beyond what the scenarios' own check of journals compares.
    fs::remove_dir_all(scenario.project().join(".llm-do/runs")).expect("the journals");
}

#[test]
fn end_of_the_pipe_cancels_what_runs_and_suspends_what_waits() {
    let scenario = desk();
    let mut pipe = Pipe::open(&scenario, &[]);
    pipe.send("call", &json!({"worker": "slow", "message": "x"}));
    let slow = pipe.notified("started")["run"].clone();
    pipe.send("call", &json!({"worker": "writer", "message": "x", "questions": true}));
    let waits = pipe.notified("question")["run"].clone();
    assert_eq!(pipe.end().0, Some(0));
    let status = |run: &Value| {
        let journal =
            scenario.project().join(".llm-do/runs").join(run.as_str().expect("an ID")).join("journal.jsonl");
        let records = lines(&fs::read_to_string(journal).expect("a journal"));
        records.last().expect("a record")["status"].clone()
    };
    assert_eq!((status(&slow), status(&waits)), (json!("interrupted"), json!("suspended")));
    let resumed = scenario.run(&["runs", "resume", waits.as_str().expect("an ID"), "--approve", "0/0.0"]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted"));
}

/// The pipe stays open, because this test holds it: only the parent is gone.
#[test]
fn process_ends_when_its_parent_is_killed_whoever_holds_the_pipe() {
    let scenario = desk();
    let (stdin, mut held) = std::io::pipe().expect("a pipe");
    // In a shell without job control a background process has no stdin, unless it is named.
    let script = format!("exec 3<&0; {} serve . --stdio <&3 & wait", env!("CARGO_BIN_EXE_llm-do"));
    let mut shell = scenario.command_of(Path::new("/bin/sh"));
    shell.args(["-c", &script]).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().expect("a shell");
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "call", "params": {"worker": "slow", "message": "x"}});
    writeln!(held, "{call}").expect("it reads");
    let mut stdout = BufReader::new(shell.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert!(line.contains("started"), "{line}");
    shell.kill().and_then(|()| shell.wait()).expect("it is killed");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("the process ends and closes its end");
    assert!(rest.contains("cancelled"), "{rest}");
    drop(held);
}
