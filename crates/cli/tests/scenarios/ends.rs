//! Output and acknowledgements when a disk, a journal or a process fails at the end.

use crate::scenario::{Scenario, journal_in, lines, script};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

/// The command under a limit of its process.
fn limited(mut command: Command, resource: Resource, most: u64) -> Command {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    // SAFETY: between fork and exec only this system call is made.
    unsafe { command.pre_exec(move || setrlimit(resource, limit).map_err(Into::into)) };
    command
}

/// A worker that appends a line to a file and then answers.
fn writer() -> Scenario {
    let append = json!({"tool": "append_file", "arguments": {"path": "out/log.txt", "content": "once\n"}});
    Scenario::new()
        .file("project.yaml", "name: desk\nmodel: script:s.json\n")
        .file(
            "main.worker",
            "---\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [append_file]}}\n---\nWrite.\n",
        )
        .file("s.json", &script(&[json!({"when": {"turn": 0}, "calls": [append]}), json!({"text": "written"})]))
}

const WRITE: &[&str] = &[".", "--allow", "append_file"];

#[test]
fn result_whose_end_is_not_recorded_is_no_result_until_the_run_continues() {
    for json in [false, true] {
        let scenario = writer();
        assert_eq!(scenario.run(WRITE).code, Some(0));
        let journal = fs::read(scenario.runs()[0].join("journal.jsonl")).expect("a journal");
        fs::remove_file(scenario.project().join("out/log.txt")).expect("the effect");
        fs::remove_dir_all(scenario.project().join(".llm-do")).expect("a run");
        // Room for all records but the last.
        let arguments = [WRITE, if json { &["--json"] } else { &[] }].concat();
        let mut full = limited(scenario.command(&arguments), Resource::Fsize, journal.len() as u64 - 20);
        let told = scenario.finished(full.output().expect("the binary starts"));
        assert_eq!(told.code, Some(1), "{told}");
        assert!(told.stderr.contains("the end of the run is not recorded"), "{told}");
        assert!(told.stderr.contains("has happened, and is not repeated"), "{told}");
        assert!(told.stderr.contains("`llm-do runs resume [RUN]` continues the run"), "{told}");
        if json {
            let report: Value = serde_json::from_str(&told.stdout).expect("one object");
            assert_eq!((&report["status"], &report["output"]), (&json!("failed"), &Value::Null), "{report}");
            let hint = report["error"]["hints"][0].as_str().unwrap_or_default();
            assert!(hint.contains("runs resume"), "{report}");
        } else {
            assert_eq!(told.stdout, "", "{told}");
        }
        assert_ne!(scenario.journal().last().expect("records")["kind"], "run_ended");
        let told = scenario.run(&["runs", "resume", "last"]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "written\n"), "{told}");
        assert_eq!(scenario.read("out/log.txt").as_deref(), Some("once\n"));
    }
}

#[test]
fn too_few_descriptors_are_named_with_what_to_do() {
    let scenario = writer();
    let mut named = 0;
    for most in 3..40 {
        let mut few = limited(scenario.command(WRITE), Resource::Nofile, most);
        let told = scenario.finished(few.output().expect("the binary starts"));
        if told.code == Some(0) {
            break;
        }
        assert!(!told.stderr.to_lowercase().contains("uncategorized"), "{most} descriptors: {told}");
        named += usize::from(told.stderr.to_lowercase().contains("too many open files"));
    }
    assert!(named > 0, "the limit never struck");
}

#[test]
fn map_that_a_full_disk_ends_has_started() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nparameters: {text: string}\nmodel: script:s.json\n---\nSort.\n")
        .file("s.json", &script(&[json!({"text": "sorted"})]))
        .file(
            "rows.jsonl",
            &(0..40).map(|n| json!({"text": n.to_string()}).to_string() + "\n").collect::<String>(),
        );
    let map = ["map", ".", "rows.jsonl", "-o", "out.jsonl", "--max-cost", "unlimited", "--json"];
    // Room for the index of the rows, and for the records of some of them.
    let mut full = limited(scenario.command(&map), Resource::Fsize, 40_000);
    let told = scenario.finished(full.output().expect("the binary starts"));
    let report: Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!(
        (told.code, &report["status"], &report["rows"]["all"]),
        (Some(1), &json!("error"), &json!(40)),
        "{told}"
    );
    assert!(report["error"]["message"].is_string() && report["error"]["hints"][0].is_string(), "{report}");
    assert_eq!(scenario.run(&map).code, Some(0));
    assert_eq!(lines(&scenario.read("out.jsonl").expect("rows")).len(), 40);
}

#[test]
fn help_lists_no_operator_where_it_is_refused() {
    let scenario = Scenario::new();
    for command in [&["chat"][..], &["map"], &["serve"], &["mcp", "serve"], &["acp"], &["test"]] {
        let told = scenario.run(&[command, &["--help"]].concat());
        assert!(told.code == Some(0) && !told.stdout.contains("--operator"), "{command:?}: {told}");
    }
    for command in [&["run"][..], &["runs", "resume"]] {
        let told = scenario.run(&[command, &["--help"]].concat());
        assert!(told.stdout.contains("--operator"), "{command:?}: {told}");
    }
}

/// The counts of a script outlive the process, as everything does that a run depends on.
#[test]
fn entry_of_a_script_with_times_is_used_up_by_an_earlier_process() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - times: 1\n    error: {status: 429, message: slow down, retry_after_ms: 1}\n  \
             - times: 1\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n",
        );
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let told = scenario.run(&["runs", "resume", "last", "--approve", "all"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
    let failed = scenario.journal().into_iter().filter(|record| record["kind"] == "model_failed").count();
    assert_eq!(failed, 1);
}

#[test]
fn next_command_removes_what_a_killed_one_left_in_a_folder() {
    let scenario = Scenario::new()
        .file("project.yaml", "name: x\nmodel: script:s.yaml\n")
        .file("main.worker", "---\nlocked: yes\n---\nGo.\n")
        .file("s.yaml", "answers:\n  - text: done\n")
        .file(".llm-do-tmp-0123456789abcdef", "half a worker")
        .file("mine.tmp", "mine");
    let told = scenario.run(&["check", "--fix"]);
    assert!(scenario.read("main.worker").expect("a worker").contains("locked: true"), "{told}");
    assert_eq!(scenario.read(".llm-do-tmp-0123456789abcdef"), None, "{told}");
    assert_eq!(scenario.read("mine.tmp").as_deref(), Some("mine"));
}

/// A resumed run that still waits prints its open questions for a program, and not only its exit code.
#[test]
fn resume_that_still_waits_prints_its_questions_as_json() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n",
        );
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let told = scenario.run(&["runs", "resume", "last", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((told.code, &report["status"]), (Some(5), &json!("suspended")), "{told}");
    assert_eq!(report["waiting"][0]["call"], "0/0.0", "{report}");
}

#[test]
fn text_that_comes_after_the_run_has_begun_is_not_dropped_silently() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n")
        .file("s.yaml", "answers:\n  - text: done\n    stream: {chars: 1, pause_ms: 1}\n    delay_ms: 400\n");
    let mut command = scenario.command(&[".", "summarise", "--output", "stream-json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    // The first event says that the run has begun.
    let mut first = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("an event");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"too late\n").expect("room in the pipe");
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("came on standard input after the run had begun") && told.contains("--attach"),
        "{told}"
    );
}

/// Lines that are no answer are passed over, and the end of the pipe ends the chat.
#[test]
fn piped_chat_ends_whatever_lines_meet_its_question_about_files() {
    let write = json!({"tool": "write_file", "arguments": {"path": "out/new.txt", "content": "new"}});
    for said in ["go\n/undo\nneither\nnor\nrestore\n", "go\n/undo\nneither\nnor\n"] {
        let scenario = Scenario::new()
            .file("project.yaml", "name: x\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n")
            .file(
                "main.worker",
                "---\nmode: chat\nmodel: script:s.json\ntoolsets: [filesystem]\n---\nTalk.\n",
            )
            .file(
                "s.json",
                &script(&[json!({"when": {"turn": 0}, "calls": [write]}), json!({"text": "more"})]),
            );
        let mut command = scenario.command_of(std::path::Path::new("/usr/bin/timeout"));
        command.args(["60", env!("CARGO_BIN_EXE_llm-do"), "chat", ".", "--allow", "write_file"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        child.stdin.take().expect("a pipe").write_all(said.as_bytes()).expect("it is read");
        let told = scenario.finished(child.wait_with_output().expect("it ends"));
        assert!(told.code.is_some_and(|code| code != 124), "it hangs: {told}");
        let left = scenario.read("out/new.txt");
        assert_eq!(left.is_none(), said.ends_with("restore\n"), "{told}");
    }
}

#[test]
fn refused_message_of_a_chat_is_named_and_taken_back_by_undo() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmode: chat\nmodel: script:s.yaml\n---\nTalk.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {last: bad}\n    error: {status: 400, message: not this}\n  - text: 'heard {{ last }}'\n",
        );
    let told = scenario.run_with_stdin(&["chat", "."], "bad words\n/undo\ngood\n");
    let shown = format!("{}{}", told.stdout, told.stderr);
    assert!(shown.contains("your message stays in the conversation; /undo takes it back"), "{told}");
    assert!(shown.contains("heard good") && !shown.contains("heard bad"), "{told}");
}

/// Some editors begin files with a byte order mark.
#[test]
fn files_with_a_byte_order_mark_are_read_without_it() {
    let scenario = Scenario::new()
        .file("project.yaml", "name: x\nmodel: script:s.yaml\n")
        .file("main.worker", "---\nschema_in_ref: order.json\n---\n{{ item }}\n")
        .file("schemas/order.json", "\u{feff}{\"type\": \"object\", \"properties\": {\"item\": {\"type\": \"string\"}}, \"required\": [\"item\"]}")
        .file("s.yaml", "answers:\n  - text: done\n")
        .file("in.json", "\u{feff}{\"item\": \"pear\"}\n")
        .file("mcp.json", "\u{feff}{\"mcpServers\": {\"notes\": {\"command\": \"python3\", \"args\": [\"notes.py\"]}}}\n");
    let told = scenario.run(&[".", "--input", "@in.json"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
    let told = scenario.run(&["mcp", "add", "--from", "mcp.json"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(scenario.read("project.yaml").expect("a manifest").contains("notes"), "{told}");
}

/// A process that is killed before Python is up has not begun the call: it had no effect, and needs no settlement.
#[test]
fn call_whose_python_never_started_is_made_when_the_run_continues() {
    use crate::python::fixture::{has_python, wait_for};
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nGo.\n")
        .file("tools.py", "def post(text: str) -> str:\n    \"Posts.\"\n    return 'posted ' + text\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: post, arguments: {text: a}}]\n  - text: done\n",
        );
    // Finds the functions, so that the next process knows them.
    assert_eq!(scenario.run(&[".", "--allow", "post"]).code, Some(0));
    let runs = scenario.project().join(".llm-do/runs");
    let has = |kind: &str| {
        journal_in(&runs).iter().any(|record| record["kind"] == kind && record["path"] == "0/0.0")
    };
    let mut killed = 0;
    for _ in 0..12 {
        fs::remove_dir_all(&runs).expect("the runs before");
        let mut child = scenario.command(&[".", "--allow", "post"]).spawn().expect("the binary starts");
        // As soon as the model has called, while Python starts.
        wait_for("the call", || has("call_started"));
        child.kill().expect("a kill");
        child.wait().expect("an end");
        if !has("tool_started") {
            killed += 1;
            let told = scenario.run(&["runs", "resume", "last"]);
            assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
            break;
        }
    }
    assert!(killed > 0, "no kill came before the call began");
}
