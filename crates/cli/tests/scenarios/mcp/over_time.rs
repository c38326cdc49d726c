//! Servers over time: cancelled calls, progress, late answers, changed lists, kills and resumes.

use super::{allowed, call, ending, failure, offered, output, project, with_faults};
use crate::{
    python::fixture::{assert_no_process_is_left, wait_for},
    scenario::{Finished, Scenario, lines},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    process::{Child, Stdio},
};

const TIMED: &str = "python3 server.py timed";

/// A project with the server `s`, which records the messages that it gets, and answers slowly.
fn timed(settings: &Value, calls: &[Value]) -> Scenario {
    let mut server = json!({"command": "python3", "args": ["server.py", "timed"]});
    for (key, value) in settings.as_object().expect("settings") {
        server[key] = value.clone();
    }
    project(&json!({"servers": {"s": server}}), calls)
}

/// Returns the messages that the server has received, and `"closed"` at the end of its input.
fn heard(scenario: &Scenario) -> Vec<Value> {
    lines(&scenario.read("out/heard.jsonl").unwrap_or_default())
}

/// The request of a call of that tool.
fn called(heard: &[Value], tool: &str) -> Option<Value> {
    let of = |message: &&Value| message["method"] == "tools/call" && message["params"]["name"] == tool;
    heard.iter().find(of).cloned()
}

/// The cancellation of that request.
fn is_cancelled(heard: &[Value], request: &Value) -> bool {
    let of = |message: &Value| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == request["id"]
    };
    heard.iter().any(of)
}

/// A run that was started and is at a call of that tool.
fn started(scenario: &Scenario, tool: &str) -> Child {
    let mut command = scenario.command(&[".", "--grant", &format!("process={TIMED}"), "--allow", "s:*"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    wait_for("the call at the server", || called(&whole(scenario), tool).is_some());
    child
}

/// Returns the messages so far, while the server may be writing the next line.
fn whole(scenario: &Scenario) -> Vec<Value> {
    let text = scenario.read("out/heard.jsonl").unwrap_or_default();
    lines(text.rfind('\n').map_or("", |end| &text[..end]))
}

fn signalled(scenario: &Scenario, child: Child, signal: Signal) -> Finished {
    kill_process(Pid::from_raw(child.id().cast_signed()).expect("a process"), signal).expect("it is there");
    scenario.finished(child.wait_with_output().expect("it ends"))
}

/// Python that leaves a process in a session of its own.
fn child_of_the_server() -> Value {
    let code = "subprocess.Popen(['sleep', '1000'], start_new_session=True); result = 'started'";
    call("run", json!({ "code": code }))
}

#[test]
fn interrupted_run_cancels_its_calls_and_ends_the_whole_server() {
    let scenario = timed(&json!({}), &[child_of_the_server(), call("hang", json!({}))]);
    let told = signalled(&scenario, started(&scenario, "hang"), Signal::INT);
    assert_eq!(told.code, Some(130), "{told}");
    let heard = heard(&scenario);
    let request = called(&heard, "hang").expect("the call");
    assert!(is_cancelled(&heard, &request), "{heard:#?}");
    assert_eq!(heard.last(), Some(&json!("closed")), "its input was closed, and it ended by itself");
    assert_no_process_is_left(&scenario);
}

#[test]
fn call_that_is_given_up_is_cancelled_at_a_server_that_stays() {
    let calls = [call("hang", json!({})), call("echo", json!({"text": "still here"}))];
    let scenario = timed(&json!({}), &calls);
    let worker = scenario.read("main.worker").expect("the worker");
    let limit = "\"tool_rules\":{\"s:hang\":{\"timeout\":\"400ms\"}},\"toolsets\"";
    let scenario = scenario.file("main.worker", &worker.replacen("\"toolsets\"", limit, 1));
    allowed(&scenario, TIMED);
    assert_eq!(output(&scenario, 1), "still here");
    let heard = heard(&scenario);
    let request = called(&heard, "hang").expect("the call");
    assert!(is_cancelled(&heard, &request), "{heard:#?}");
    let starts = heard.iter().filter(|message| message["method"] == "initialize").count();
    assert_eq!(starts, 1, "one process served both calls");
}

#[test]
fn progress_extends_a_call_up_to_its_total() {
    let steps = |count: u32, pause: f64| call("steps", json!({"count": count, "pause": pause}));
    let scenario = timed(&json!({"timeout": 1.0}), &[steps(7, 0.2)]);
    allowed(&scenario, TIMED);
    assert_eq!(output(&scenario, 0), "all steps", "longer than the timeout, with progress");

    let scenario = timed(&json!({"timeout": 1.0, "total_timeout": 1.2}), &[steps(1000, 0.1)]);
    allowed(&scenario, TIMED);
    assert!(failure(&scenario, 0).contains("did not answer within 1.2 s"), "{}", failure(&scenario, 0));
}

#[test]
fn late_answer_belongs_to_no_later_call() {
    let calls = [call("late", json!({"pause": 0.8})), call("echo", json!({"text": "mine"}))];
    let scenario = timed(&json!({"timeout": 0.5}), &calls);
    allowed(&scenario, TIMED);
    assert!(failure(&scenario, 0).contains("did not answer within 0.5 s"), "{}", failure(&scenario, 0));
    assert!(["mine", ""].contains(&output(&scenario, 1).as_str().unwrap_or("")), "never `late`");
}

/// Two conversations of one run with the same server, whose list changes during the first.
fn changing(faults: &[&str]) -> Scenario {
    let scenario = with_faults(faults, &[]);
    let worker = scenario.read("main.worker").expect("the worker");
    let second = worker.replacen("\"model\"", "\"description\":\"The next.\",\"model\"", 1);
    let second = second.replace("s.yaml", "second.yaml");
    let first = worker.replacen("\"mcp\"", "\"workers\":{\"allowed_workers\":[\"second\"]},\"mcp\"", 1);
    let answers = json!({"answers": [
        {"when": {"turn": 0}, "calls": [call("change", json!({}))]},
        {"when": {"turn": 1}, "calls": [call("echo", json!({"text": "as listed"}))]},
        {"when": {"turn": 2}, "calls": [{"tool": "second", "arguments": {"input": "go"}}]},
        {"text": "done"},
    ]});
    scenario
        .file("main.worker", &first)
        .file("workers/second.worker", &second)
        .file("s.yaml", &answers.to_string())
        .file("second.yaml", "answers:\n  - text: done\n")
}

#[test]
fn changed_list_holds_from_the_next_conversation() {
    for faults in [&["timed"][..], &["timed", "newest"]] {
        let scenario = changing(faults);
        let command = format!("python3 server.py {}", faults.join(" "));
        let told = allowed(&scenario, &command);
        assert_eq!(output(&scenario, 1), "as listed", "{faults:?}: this conversation keeps its list");
        for notice in [
            "its list of tools has changed",
            "the tool `echo` is not the one that you accepted",
            "the tool `extra` is not the one that you accepted",
        ] {
            assert!(told.stderr.contains(notice), "{faults:?}: {notice} in {told}");
        }
        let journal = scenario.journal();
        let started = journal.iter().rfind(|record| record["kind"] == "conversation_started");
        let tools = started.expect("a conversation")["tools"].to_string();
        for gone in ["\"s__echo\"", "\"s__extra\"", "\"s__picture\""] {
            assert!(!tools.contains(gone), "{faults:?}: {gone} in {tools}");
        }
        assert!(tools.contains("\"s__add\""), "{faults:?}: {tools}");
        let begun = heard(&scenario).iter().filter(|message| message["method"] == "server/discover").count();
        assert_eq!(begun, 1, "{faults:?}: one server serves both workers, whose views are equal");
    }
}

#[test]
fn list_that_a_server_calls_changed_and_did_not_change_is_no_news() {
    let scenario = with_faults(&["restless"], &[call("echo", json!({"text": "hello"}))]);
    let told = allowed(&scenario, "python3 server.py restless");
    assert_eq!(output(&scenario, 0), "hello");
    assert!(!told.stderr.contains("has changed"), "{told}");
}

/// Kills the run during its only call, and returns the output of a resume.
fn resumed_after_kill(scenario: &Scenario, tool: &str) -> Finished {
    let told = signalled(scenario, started(scenario, tool), Signal::KILL);
    assert_eq!(told.code, None, "{told}");
    assert_no_process_is_left(scenario);
    scenario.run(&["runs", "resume", "last"])
}

#[test]
fn killed_call_of_a_reading_tool_is_repeated() {
    let scenario = timed(&json!({}), &[child_of_the_server(), call("once", json!({}))]);
    let resumed = resumed_after_kill(&scenario, "once");
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_eq!(output(&scenario, 1), "the second time");
    assert_eq!(scenario.read("out/once").as_deref(), Some("xx"));
    let starts = heard(&scenario).iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(starts, 3, "the finished call was not repeated");
}

#[test]
fn killed_call_with_an_effect_is_repeated_only_if_the_operator_says_so() {
    let interrupted = || {
        let scenario = timed(&json!({}), &[call("effect", json!({}))]);
        let resumed = resumed_after_kill(&scenario, "effect");
        assert_eq!(resumed.code, Some(5), "{resumed}");
        assert!(resumed.stderr.contains("s:effect was cut off before it ended"), "{resumed}");
        assert_eq!(scenario.read("out/effect").as_deref(), Some("x"), "it has not run again");
        scenario
    };
    let scenario = interrupted();
    let told = scenario.run(&["runs", "resume", "last", "--again", "0/0.0"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read("out/effect").as_deref(), Some("xx"));
    assert_eq!(output(&scenario, 0), "the second time");

    let scenario = interrupted();
    let told = scenario.run(&["runs", "resume", "last", "--result", "0/0.0=\"done by hand\""]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read("out/effect").as_deref(), Some("x"));
}

#[test]
fn cached_server_that_hangs_keeps_no_conversation_waiting() {
    let server = |faults: &[&str]| {
        let args = [&["server.py"], faults].concat();
        json!({"command": "python3", "args": args})
    };
    let servers = json!({"s": server(&[]), "two": server(&["two"]), "three": server(&["hangs-later"])});
    let scenario = project(&json!({ "servers": servers }), &[call("echo", json!({"text": "hello"}))]);
    let grants = ["python3 server.py", "python3 server.py two", "python3 server.py hangs-later"]
        .map(|command| format!("process={command}"));
    let mut arguments = vec![".", "--allow", "s:*", "--allow", "three:*"];
    arguments.extend(grants.iter().flat_map(|grant| ["--grant", grant]));
    let told = scenario.run(&arguments);
    assert_eq!(told.code, Some(0), "{told}");
    let before = offered(&scenario);
    assert!(before.contains(&"three__echo".to_owned()), "{before:?}");

    let scenario = scenario.file("out/hangs", "");
    let told = scenario.run(&arguments);
    assert_eq!((told.code, output(&scenario, 0)), (Some(0), json!("hello")), "{told}");
    assert_eq!(offered(&scenario), before, "its tools are those that it listed before");
    // After five seconds of waiting it would have been left out.
    assert!(!told.stderr.contains("left out"), "{told}");
    assert_no_process_is_left(&scenario);
}

/// Seconds from the beginning of the last run to its first request to a model.
fn first_request(scenario: &Scenario) -> f64 {
    let journal = scenario.journal();
    let time = |kind: &str| {
        let record = journal.iter().find(|record| record["kind"] == kind);
        let record = record.unwrap_or_else(|| panic!("{kind} in {journal:#?}"));
        record["at_ms"].as_f64().unwrap_or_else(|| panic!("{record}"))
    };
    (time("model_requested") - time("run_started")) / 1000.0
}

#[test]
fn first_request_waits_for_no_known_server_and_at_most_five_seconds_for_others() {
    let server = |fault: &str| json!({"command": "python3", "args": ["server.py", fault]});
    let servers = json!({"one": server("one"), "two": server("two"), "three": server("hangs-later")});
    let commands = ["one", "two", "hangs-later"].map(|fault| format!("process=python3 server.py {fault}"));
    let mut arguments = vec!["."];
    arguments.extend(commands.iter().flat_map(|command| ["--grant", command]));

    let without = project(&json!({"servers": {}}), &[]);
    assert_eq!(without.run(&["."]).code, Some(0));
    let without = first_request(&without);

    // Nothing is known about the servers.
    let scenario = project(&json!({ "servers": servers }), &[]).file("out/hangs", "");
    let told = scenario.run(&arguments);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(
        told.stderr.contains("`three`: left out of this conversation: it did not start within 5 s"),
        "{told}"
    );
    let waited = first_request(&scenario);
    assert!((4.9..8.0).contains(&(waited - without)), "{waited} s, and {without} s without servers");

    // All three are known, and one hangs.
    fs::remove_file(scenario.project().join("out/hangs")).expect("the file");
    assert_eq!(scenario.run(&arguments).code, Some(0));
    let scenario = scenario.file("out/hangs", "");
    let told = scenario.run(&arguments);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!told.stderr.contains("left out"), "{told}");
    let known = first_request(&scenario);
    // A busy machine needs time for three processes, too, and no run waits for them.
    assert!(known < without + 2.0, "{known} s, and {without} s without servers");
    assert_no_process_is_left(&scenario);
}

#[test]
fn server_that_does_not_know_the_question_for_revisions_is_begun_as_an_older_one() {
    for fault in ["knows-all", "discovers-older"] {
        let scenario = with_faults(&[fault], &[call("echo", json!({"text": "hello"}))]);
        let told = allowed(&scenario, &format!("python3 server.py {fault}"));
        assert!(!told.stderr.contains("left out"), "{told}");
        assert_eq!(output(&scenario, 0), "hello", "{fault}");
    }
}

#[test]
fn words_that_answer_nothing_disturb_no_call() {
    let calls = [call("babble", json!({})), call("echo", json!({"text": "hello"}))];
    let scenario = timed(&json!({"timeout": 20}), &calls);
    allowed(&scenario, TIMED);
    assert_eq!(output(&scenario, 0), "after all");
    assert!(ending(&scenario, 0)["log"].to_string().contains("$blob"), "stray lines are in the log");
    assert_eq!(output(&scenario, 1), "hello");
}

#[test]
fn every_answer_ends_its_call() {
    let text = |value: &str| json!([{"type": "text", "text": value}]);
    let unreadable = "can't be read";
    let cases = [
        (json!({"error": {"code": -32602, "message": "no such note"}}), "no such note"),
        (json!({"error": {"code": 7, "message": "busy", "data": {"retry": true}}}), "busy"),
        (json!({"result": {"content": text("no disk"), "isError": true}}), "no disk"),
        (json!({"result": {"content": [], "isError": true}}), "does not say why"),
        (json!({"result": null}), unreadable),
        (json!({"result": 3}), unreadable),
        (json!({"result": {"content": 3}}), unreadable),
        (json!({"result": {"content": [{"type": "text"}]}}), unreadable),
        (json!({"result": {"content": text("x"), "isError": "yes"}}), unreadable),
        (json!({}), unreadable),
        (json!({"error": "text"}), unreadable),
        (json!({"error": {"code": "x"}}), unreadable),
        (json!({"result": {"content": text("x")}, "error": {"code": 1, "message": "both"}}), unreadable),
    ];
    let calls: Vec<Value> =
        cases.iter().map(|(message, _)| call("raw", json!({ "message": message }))).collect();
    // A call that waited for its timeout would take this test minutes.
    let scenario = timed(&json!({"timeout": 100}), &calls);
    allowed(&scenario, TIMED);
    for (turn, (message, says)) in cases.iter().enumerate() {
        let failure = failure(&scenario, turn);
        assert!(failure.contains(says), "{message}: {failure}");
        // The server has worked on the call, whatever its answer is worth.
        assert_eq!(*says == unreadable, failure.contains("may have had its effect"), "{message}: {failure}");
    }
}

#[test]
fn answer_that_is_no_json_ends_its_call() {
    let lines = [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"v":NaN}}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"v":-Infinity}}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","te"#,
        r#"{"result":{"content":[{"type":"text","te"#,
        "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"one\ntwo\"}]},\"jsonrpc\":\"2.0\",\"id\":ID}",
        r#"[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]"#,
        r#"{"jsonrpc":"2.0","id":"ID","result":{"content":[],}}"#,
        r#"done {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#,
    ];
    let mut calls: Vec<Value> = lines.iter().map(|line| call("line", json!({ "line": line }))).collect();
    let quoted = r#"{"jsonrpc":"2.0","id":"ID","result":{"content":[{"type":"text","text":"x"}]}}"#;
    calls.push(call("line", json!({ "line": quoted })));
    calls.push(call("echo", json!({"text": "still here"})));
    // A call that waited for its timeout would take this test minutes.
    let scenario = timed(&json!({"timeout": 100}), &calls);
    allowed(&scenario, TIMED);
    for (turn, line) in lines.iter().enumerate() {
        let failure = failure(&scenario, turn);
        for says in ["its answer can't be read: ", "may have had its effect"] {
            assert!(failure.contains(says), "{line}: {failure}");
        }
    }
    assert_eq!(output(&scenario, lines.len()), "x", "an identifier may be written as a text");
    assert_eq!(output(&scenario, lines.len() + 1), "still here");
    let starts = heard(&scenario).iter().filter(|message| message["method"] == "initialize").count();
    assert_eq!(starts, 1, "one process served all calls");
}

#[test]
fn nothing_is_offered_to_a_server_but_a_pong() {
    let question = |method: &str| call("question", json!({ "method": method }));
    let calls =
        [question("ping"), question("roots/list"), question("sampling/createMessage"), question("no/such")];
    let scenario = timed(&json!({}), &calls);
    allowed(&scenario, TIMED);
    let answers: Vec<Value> = (0..calls.len())
        .map(|turn| serde_json::from_str(output(&scenario, turn).as_str().expect("a text")).expect("JSON"))
        .collect();
    assert_eq!(answers[0], json!({"result": {}, "code": null}));
    for answer in &answers[1..] {
        assert_eq!(answer["code"], -32601, "{answer}");
    }
}

#[test]
fn server_without_a_usable_list_is_left_out_with_the_reason() {
    for (fault, says) in [
        ("endless-list", "lists more than 512 tools"),
        ("no-list", "answered with an error: the list is lost"),
        ("huge-list", "more than 32 MiB"),
        ("flooding", "more than 32 MiB"),
        ("deep-list", "its answer can't be read"),
        ("uncaught", "left out of this conversation: its process has ended (exit code 1): Error: no module"),
    ] {
        let scenario = with_faults(&[fault], &[call("echo", json!({"text": "hello"}))]);
        let told = allowed(&scenario, &format!("python3 server.py {fault}"));
        assert!(told.stderr.contains(says), "{fault}: {told}");
        assert_eq!(offered(&scenario), Vec::<String>::new(), "{fault}");
    }
    // A list that repeats itself, and a hundred megabytes of log, do no harm.
    for fault in ["same-page", "noisy"] {
        let scenario = with_faults(&[fault], &[call("echo", json!({"text": "hello"}))]);
        allowed(&scenario, &format!("python3 server.py {fault}"));
        assert_eq!(output(&scenario, 0), "hello", "{fault}");
        let log = scenario.runs().remove(0);
        let size: u64 = fs::read_dir(log.join("blobs")).map_or(0, |blobs| {
            blobs.flatten().map(|blob| blob.metadata().map_or(0, |metadata| metadata.len())).sum()
        });
        assert!(size < 1 << 20, "{fault}: {size} bytes were kept");
    }
}

#[test]
fn server_is_started_in_the_root_of_its_program() {
    let scenario = with_faults(&[], &[call("run", json!({"code": "result = os.getcwd()"}))]);
    let worker = json!({
        "model": "script:s.yaml",
        "toolsets": {"mcp": {"servers": {
            "s": {"command": "python3", "args": ["servers/server.py"], "paths": ["servers"]},
        }}},
        "sandbox": {"paths": {"notes": {"root": "./data/notes", "mode": "rw"}}},
    });
    let server = scenario.read("server.py").expect("the server");
    let scenario = scenario
        .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
        .file("servers/server.py", &server)
        .file("data/notes/a.txt", "a");
    allowed(&scenario, "python3 servers/server.py");
    let root = fs::canonicalize(scenario.project()).expect("the project");
    assert_eq!(output(&scenario, 0), json!(root.display().to_string()));
}
