//! A run that is killed at each record and resumed: no finished call is repeated and no record is lost
//! (docs/guides/runs.md).
//!
//! The process is killed at an exact byte: a limit on the size of files (`RLIMIT_FSIZE`) sends it a signal when it would
//! write beyond that byte of its journal, the largest file that it writes. The test traces it (ptrace(2)) and kills it
//! before the signal is delivered, so that it has no chance to clean up.

use crate::{
    python::fixture::{assert_no_process_is_left, has_python},
    scenario::{Finished, Scenario},
    terminal_session::Session,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const TOOLS: &str = "from pathlib import Path\n\n\
    def post(out: Path, text: str) -> str:\n    \"Posts a line, for all to see.\"\n    \
    with open(out / 'posted.txt', 'a') as posted:\n        posted.write(text + '\\n')\n    return f'posted {text}'\n";

fn worker(toolsets: &str) -> String {
    format!("---\nmodel: script:s.json\ndescription: Works.\ntoolsets: {toolsets}\n---\nWork.\n")
}

/// Three workers, two of them concurrent, every kind of file change, and a tool whose effect llm-do cannot verify.
fn program() -> Scenario {
    let call = |tool: &str, arguments: Value| json!({"tool": tool, "arguments": arguments});
    let write = |path: &str, content: &str| call("write_file", json!({"path": path, "content": content}));
    let post = |text: &str| call("post", json!({"out": "/out", "text": text}));
    let mut answers = Vec::new();
    let mut says = |worker: &str, turns: Vec<Vec<Value>>, last: &str| {
        for (turn, calls) in turns.iter().enumerate() {
            answers.push(json!({"when": {"worker": worker, "turn": turn}, "calls": calls}));
        }
        answers.push(json!({"when": {"worker": worker}, "text": last}));
    };
    let more = |text: &str| json!({"path": "/out/plan.md", "content": text});
    says(
        "main",
        vec![
            vec![write("/out/plan.md", "first\n"), call("list_files", json!({}))],
            vec![call("north", json!({"input": "go"})), call("south", json!({"input": "go"}))],
            vec![
                call("append_file", more("second\n")),
                call("edit_file", json!({"path": "/out/plan.md", "old_text": "first", "new_text": "1st"})),
                call("copy_file", json!({"source": "/out/plan.md", "destination": "/out/copy.md"})),
            ],
            vec![post("main")],
            vec![
                call("move_file", json!({"source": "/out/copy.md", "destination": "/out/kept.md"})),
                call("delete_file", json!({"path": "/out/scrap.md"})),
            ],
        ],
        "all is done",
    );
    says(
        "north",
        vec![
            vec![write("/out/north.md", "north\n"), write("/out/scrap.md", "to go")],
            vec![call("read_file", json!({"path": "/out/north.md"}))],
            vec![post("north")],
            vec![call("file_exists", json!({"path": "/out/north.md"}))],
        ],
        "north is done",
    );
    says(
        "south",
        vec![vec![post("south 1")], vec![write("/out/south.md", "s"), post("south 2")]],
        "south is done",
    );
    Scenario::new()
        .file("project.yaml", "name: crash\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n")
        .file(
            "main.worker",
            &worker("{filesystem: {}, custom: {}, workers: {allowed_workers: [north, south]}}"),
        )
        .file("workers/north.worker", &worker("[filesystem, custom]"))
        .file("workers/south.worker", &worker("[filesystem, custom]"))
        .file("tools.py", TOOLS)
        .file("s.json", &json!({ "answers": answers }).to_string())
}

const RUN: &[&str] = &[".", "--approval", "approve_all"];

/// The same with a prepared Python host, so that the journal is the largest file that is written.
fn prepared(by: &Scenario) -> Scenario {
    let scenario = program();
    let cache = |scenario: &Scenario| scenario.home().join("home/.llm-do");
    fs::create_dir(cache(&scenario)).expect("a folder");
    let copied = Command::new("cp").arg("-r").arg(cache(by).join("cache")).arg(cache(&scenario)).status();
    assert!(copied.expect("cp starts").success());
    scenario
}

/// Runs the program until its journal would grow beyond so many bytes, and kills it then. Returns its exit code if it
/// ended before.
#[expect(clippy::zombie_processes, reason = "`waitpid` reaps it")]
pub(crate) fn run_until(scenario: &Scenario, arguments: &[&str], bytes: u64) -> Option<i32> {
    let mut command = scenario.command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only these system calls are made.
    unsafe {
        command.pre_exec(move || {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
            setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: None })?;
            match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let child = command.spawn().expect("the binary starts");
    let program = i32::try_from(child.id()).expect("a process number");
    // SAFETY: these calls change nothing in this process but `status`, which lives through them.
    unsafe {
        let mut status = 0;
        // It stops when it is executed.
        assert_eq!(libc::waitpid(program, &raw mut status, libc::__WALL), program);
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        assert_eq!(libc::ptrace(libc::PTRACE_SETOPTIONS, program, 0, options), 0);
        libc::ptrace(libc::PTRACE_CONT, program, 0, 0);
        loop {
            // The program and its threads.
            let stopped = libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD);
            assert!(stopped > 0, "{}", std::io::Error::last_os_error());
            if !libc::WIFSTOPPED(status) {
                match stopped == program {
                    true => return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
                    false => continue,
                }
            }
            match libc::WSTOPSIG(status) {
                libc::SIGXFSZ => drop(libc::kill(program, libc::SIGKILL)),
                // A new thread, in its parent and in itself.
                libc::SIGTRAP | libc::SIGSTOP => drop(libc::ptrace(libc::PTRACE_CONT, stopped, 0, 0)),
                signal => drop(libc::ptrace(libc::PTRACE_CONT, stopped, 0, signal)),
            }
        }
    }
}

/// The files that the program leaves, with every posted line.
fn left(scenario: &Scenario) -> BTreeMap<String, String> {
    let entries = fs::read_dir(scenario.project().join("out")).expect("there is a folder").flatten();
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("a text");
        // Two workers post concurrently.
        let mut lines: Vec<&str> = text.lines().collect();
        if name == "posted.txt" {
            lines.sort_unstable();
        }
        (name, lines.join("\n"))
    };
    // A killed write leaves a temporary file, under a name that no tool sees (docs/faults.md).
    let is_left_over = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".llm-do-tmp-");
    entries.filter(|entry| !is_left_over(entry)).map(file).collect()
}

/// The records of the run. A partial line at the end does not count.
pub(crate) fn whole_records(scenario: &Scenario) -> Vec<Value> {
    let Some(dir) = scenario.runs().pop() else { return Vec::new() };
    let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn count(journal: &[Value], kind: &str) -> usize {
    journal.iter().filter(|record| record["kind"] == kind).count()
}

/// The operator's decision about each interrupted tool, from whether its line was posted.
fn decisions(scenario: &Scenario, told: &Finished) -> Vec<String> {
    let posted = scenario.read("out/posted.txt").unwrap_or_default();
    // Each question that waits is a line: `  CALL  post was cut off …`.
    let waiting = told.stderr.lines().filter(|line| line.starts_with("  "));
    let mut said = Vec::new();
    for line in waiting {
        let (place, rest) =
            line.trim_start().split_once("  ").unwrap_or_else(|| panic!("a question: {told}"));
        assert!(rest.starts_with("post was cut off"), "only `post` can't tell by itself: {told}");
        let journal = whole_records(scenario);
        let called = |record: &&Value| record["kind"] == "call_started" && record["path"] == place;
        let text = journal.iter().find(called).expect("the call")["input"]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        match posted.lines().any(|line| line == text) {
            true => said.extend(["--result".to_owned(), format!("{place}=\"posted {text}\"")]),
            false => said.extend(["--again".to_owned(), place.to_owned()]),
        }
    }
    said
}

/// Resumes until the run is done.
fn resume(scenario: &Scenario) -> Finished {
    let mut said = Vec::new();
    for _ in 0..4 {
        let mut arguments = vec!["runs", "resume", "last"];
        arguments.extend(said.iter().map(String::as_str));
        let told = scenario.run(&arguments);
        if told.code != Some(5) {
            return told;
        }
        said = decisions(scenario, &told);
    }
    panic!("it is suspended again and again: {said:?}")
}

#[test]
fn run_killed_at_any_record_resumes_to_the_same_result() {
    if !has_python() {
        return;
    }
    let undisturbed = program();
    let told = undisturbed.run(RUN);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "all is done\n"), "{told}");
    let (expected, whole) = (left(&undisturbed), whole_records(&undisturbed));
    let steps = ["model_answered", "tool_ended"].map(|kind| count(&whole, kind));
    assert!(steps.iter().sum::<usize>() >= 30, "{steps:?}");
    let text = fs::read_to_string(undisturbed.runs().remove(0).join("journal.jsonl")).expect("a journal");

    // At the end of each record, and in the middle of every third.
    let mut kills = Vec::new();
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number % 3 == 1 {
            kills.push(end + line.len() as u64 / 2);
        }
        end += line.len() as u64;
        kills.push(end);
    }
    kills.pop();
    let (next, resumed, settled) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(&bytes) = kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scenario = prepared(&undisturbed);
                    if run_until(&scenario, RUN, bytes) == Some(0) {
                        // The two workers ran in the other order, and their records are shorter.
                        continue;
                    }
                    let cut = whole_records(&scenario);
                    let told = match cut.is_empty() {
                        // Killed before the first record: there is nothing to resume.
                        true => scenario.run(RUN),
                        false => resume(&scenario),
                    };
                    let at = format!("killed after {bytes} bytes, {} records", cut.len());
                    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "all is done\n"), "{at}: {told}");
                    assert_eq!(left(&scenario), expected, "{at}");
                    let journal = whole_records(&scenario);
                    assert_eq!(journal[..cut.len()], cut, "{at}: no record is lost");
                    let done = ["model_answered", "tool_ended"].map(|kind| count(&journal, kind));
                    assert_eq!(done, steps, "{at}: each step ended once");
                    for (number, record) in journal.iter().enumerate() {
                        assert_eq!(record["seq"], number, "{at}");
                    }
                    resumed.fetch_add(usize::from(!cut.is_empty()), Ordering::Relaxed);
                    let of_settling = journal.iter().filter(|record| record["step"] == "settle").count();
                    settled.fetch_add(of_settling, Ordering::Relaxed);
                    assert_no_process_is_left(&scenario);
                }
            });
        }
    });
    // The test proves nothing unless the limit struck, and also between an intent and its result.
    assert!(resumed.into_inner() > kills.len() * 9 / 10, "of {} kills", kills.len());
    assert!(settled.into_inner() >= 10);
}

/// A run that was killed while its last tool was at work.
fn cut_off_in_a_tool() -> Scenario {
    let undisturbed = program();
    assert_eq!(undisturbed.run(RUN).code, Some(0));
    let text = fs::read_to_string(undisturbed.runs().remove(0).join("journal.jsonl")).expect("a journal");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let started = |line: &&str| line.contains("\"tool_started\"") && line.contains("\"path\":\"0/3.0\"");
    let intent = lines.iter().position(started).expect("the tool has begun");
    let scenario = prepared(&undisturbed);
    run_until(&scenario, RUN, lines[..=intent].iter().map(|line| line.len() as u64).sum());
    scenario
}

#[test]
fn killed_run_that_waits_for_a_decision_is_suspended() {
    if !has_python() {
        return;
    }
    let scenario = cut_off_in_a_tool();
    assert!(scenario.run(&["runs", "list"]).stdout.contains("cut off"));
    for _ in 0..2 {
        let told = scenario.run(&["runs", "resume", "last", "--approve", "all"]);
        assert!(told.code == Some(5) && told.stderr.contains("nothing was decided"), "{told}");
        assert_eq!(count(&whole_records(&scenario), "run_ended"), 1, "{told}");
    }
    let told = scenario.run(&["runs", "list"]);
    assert!(told.stdout.contains("  waiting  "), "{told}");
    let told = scenario.run(&["runs", "show"]);
    assert!(told.stdout.contains("waiting for a decision about a call that was cut off"), "{told}");
    let told = scenario.run(&["runs", "clean", "--keep", "0"]);
    assert!(told.stderr.contains("nothing to remove"), "{told}");
}

#[test]
fn operator_settles_an_interrupted_tool_on_the_terminal() {
    if !has_python() {
        return;
    }
    let scenario = cut_off_in_a_tool();
    let mut session = Session::start(scenario.command_on_terminal(&["runs", "resume"]));
    session.expect("decide later");
    session.wait_for_keys();
    session.type_keys("q");
    assert_eq!(session.end().0, Some(5));
    let mut session = Session::start(scenario.command_on_terminal(&["runs", "resume"]));
    session.expect("decide later");
    session.wait_for_keys();
    session.type_keys("d");
    session.expect("its result");
    session.wait_for_keys();
    session.type_keys("by hand\r");
    assert_eq!(session.end().0, Some(0));
    assert!(whole_records(&scenario).iter().any(|record| record["ending"]["output"] == "by hand"));
}
