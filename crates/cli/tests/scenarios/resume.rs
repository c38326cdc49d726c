//! Resumed runs: after a deferred approval, after a kill, after Ctrl-C.

use crate::scenario::{Scenario, lines};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;

fn two_writes() -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files}, {tool: write_file, arguments: {path: a.txt, content: a}}]\n  - when: {turn: 1}\n    calls: [{tool: write_file, arguments: {path: b.txt, content: b}}]\n  - text: both\n",
        )
}

/// The journal of the only run.
fn journal(scenario: &Scenario) -> Vec<serde_json::Value> {
    assert_eq!(scenario.runs().len(), 1);
    scenario.journal()
}

#[test]
fn a_call_that_waits_for_an_approval_is_not_done() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let shown = |call: &str| scenario.run(&["runs", "show", "last", "--call", call]).stdout;
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    assert_eq!(first(shown("0/0.1")), "0/0.1  write_file  waits for approval");
    assert_eq!(first(shown("0/0.0")), "0/0.0  list_files  done");
    assert_eq!(first(shown("0")), "0  main  suspended");
}

#[test]
fn approved_deferred_call_resumes_the_run() {
    let scenario = two_writes();
    assert_snapshot!(scenario.run(&[".", "--approval", "defer"]), @r#"
    exit 5
    --- stderr
    suspended: the run waits for 1 approval:
      0/0.1  main wants to call write_file {"path":"a.txt","content":"a"}
    hint: decide with `llm-do runs resume [RUN] --approve 0/0.1` or `--deny 0/0.1`
    "#);
    assert_snapshot!(scenario.run(&["runs", "resume"]), @r#"
    exit 5
    --- stderr
    suspended: the run waits for 1 approval:
      0/0.1  main wants to call write_file {"path":"a.txt","content":"a"}
    hint: decide with `llm-do runs resume last --approve 0/0.1` or `--deny 0/0.1`
    "#);
    let told = scenario.run(&["runs", "resume", "last", "."]);
    assert!(
        told.stderr.contains("`llm-do runs resume last . --approve 0/0.1`"),
        "the hint works as it stands: {told}"
    );
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]), @"
    exit 2
    --- stderr
    error: nothing waits at `0/0.0:ask`
    hint: `llm-do runs resume RUN` without decisions says what it waits for
    ");
    assert_eq!(scenario.read("a.txt"), None);
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--approve", "0/0.1"]), @r#"
    exit 5
    --- stderr
    suspended: the run waits for 1 approval:
      0/1.0  main wants to call write_file {"path":"b.txt","content":"b"}
    hint: decide with `llm-do runs resume [RUN] --approve 0/1.0` or `--deny 0/1.0`
    "#);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--approve", "0/0.1"]), @"
    exit 2
    --- stderr
    error: `0/0.1:ask` is already decided, by operator (command line)
    ");
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--deny", "0/1.0=not today"]), @"
    exit 0
    --- stdout
    both

    --- stderr
    warning: 1 call was refused
    ");
    assert_eq!(scenario.read("b.txt"), None);
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--deny", "0/1.0"]), @"
    exit 2
    --- stderr
    error: `0/1.0:ask` is already decided, by operator (command line)
    ");
    let records = journal(&scenario);
    let of = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((of("model_requested"), of("tool_started"), of("run_resumed")), (3, 2, 2));
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], number);
    }
}

#[test]
fn resumed_run_repeats_no_finished_call() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let dir = scenario.runs().remove(0);
    let whole = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let undisturbed = whole.lines().count();
    for kept in 1..undisturbed {
        let mut cut: String = whole.lines().take(kept).map(|line| format!("{line}\n")).collect();
        // In the middle of the next record.
        let next = whole.lines().nth(kept).unwrap();
        cut.push_str(&next[..next.len() / 2]);
        fs::write(dir.join("journal.jsonl"), cut).unwrap();
        let _ = (
            fs::remove_file(scenario.project().join("a.txt")),
            fs::remove_file(scenario.project().join("b.txt")),
        );
        let told = scenario.run(&["runs", "resume"]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "both\n"), "{kept}: {told}");
        let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
        let records = lines(&text);
        let ends = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
        assert_eq!((ends("model_answered"), ends("tool_ended"), ends("run_ended")), (3, 3, 1), "{kept}");
    }
}

#[test]
fn interrupted_call_can_be_given_its_result() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let dir = scenario.runs().remove(0);
    let whole = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let started =
        whole.lines().position(|line| line.contains("tool_started") && line.contains("write_file")).unwrap();
    let cut: String = whole.lines().take(started + 1).map(|line| format!("{line}\n")).collect();
    fs::write(dir.join("journal.jsonl"), cut).unwrap();
    fs::write(scenario.project().join("a.txt"), "by somebody else").unwrap();
    assert_snapshot!(scenario.run(&["runs", "resume"]), @"
    exit 5
    --- stderr
    suspended: the run waits for 1 decision:
      0/0.1  write_file was cut off before it ended; only you can know whether its effect took place
    hint: decide with `llm-do runs resume [RUN] --again 0/0.1` to run it again, or with `--result 0/0.1=JSON` to count it as done
    ");
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--result", "0/0.1=\"written\""]), @"
    exit 0
    --- stdout
    both
    ");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("by somebody else"));
    let settled = |record: &Value| record["step"] == "settle" && record["kind"] == "answered";
    let records = journal(&scenario);
    let settled: Vec<&Value> = records.iter().filter(|record| settled(record)).collect();
    assert_eq!((&settled[0]["answer"], &settled[0]["via"]), (&json!("done"), &json!("command line")));
}

#[test]
fn edit_that_does_not_fit_the_schema_spends_no_question() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let before = journal(&scenario).len();
    let edit = |path: &str| {
        format!("0/0.1:ask={{\"answer\":\"edit\",\"input\":{{\"path\":{path},\"content\":\"e\"}}}}")
    };
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--answer", &edit("5")]), @r#"
    exit 2
    --- stderr
    error: the new arguments for `0/0.1:ask` don't fit the schema of `write_file`: /path: 5 is not of type "string"
    "#);
    assert_eq!(journal(&scenario).len(), before);
    assert!(scenario.run(&["runs", "show"]).stdout.contains("waits for approval"));
    let told = scenario.run(&["runs", "resume", "last", "--answer", &edit("\"e.txt\"")]);
    assert_eq!(scenario.read("e.txt").as_deref(), Some("e"), "{told}");
}

#[test]
fn moved_project_resumes_its_runs() {
    for target in [None, Some(".")] {
        let scenario = two_writes();
        assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
        let moved = scenario.home().join("moved");
        fs::rename(scenario.project(), &moved).expect("it moves");
        let resume = |target: Option<&str>| {
            let mut arguments = vec!["runs", "resume", "last"];
            arguments.extend(target);
            arguments.extend(["--approve", "all"]);
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_llm-do"));
            command.args(arguments).current_dir(&moved).env_clear();
            command.env("HOME", scenario.home().join("home")).stdin(std::process::Stdio::null());
            scenario.finished(command.output().expect("the binary starts"))
        };
        // The file lies elsewhere than the one that the question was about, so the call is asked about again.
        let told = resume(target);
        assert!(told.code == Some(5) && told.stderr.contains("a.txt"), "{told}");
        let told = resume(target);
        assert!(told.code == Some(5) && told.stderr.contains("b.txt"), "{told}");
        assert_eq!(fs::read_to_string(moved.join("a.txt")).ok().as_deref(), Some("a"), "{told}");
        let mut replay = std::process::Command::new(env!("CARGO_BIN_EXE_llm-do"));
        replay.args(["runs", "replay", "last"]).current_dir(&moved).env_clear();
        replay.env("HOME", scenario.home().join("home")).stdin(std::process::Stdio::null());
        let told = scenario.finished(replay.output().expect("the binary starts"));
        assert_eq!(told.code, Some(0), "{told}");
        // The program must still be the recorded one.
        fs::write(moved.join("main.worker"), "---\nmodel: script:s.yaml\n---\nOther.\n").expect("a file");
        let told = resume(target);
        assert!(told.code == Some(2) && told.stderr.contains("has changed since the run began"), "{told}");
    }
}

/// The project was named from the folder around it, and lies elsewhere when it is resumed.
#[test]
fn run_of_a_project_that_was_moved_or_copied_continues_where_its_journal_lies() {
    for copied in [true, false] {
        for target in ["project", "project/main.worker"] {
            let scenario = two_writes();
            // The script of a model is relative to the current folder.
            let answers = scenario.home().join("s.yaml");
            fs::rename(scenario.project().join("s.yaml"), &answers).expect("it moves");
            let text = scenario.read("main.worker").expect("a worker");
            let text = text.replace("script:s.yaml", &format!("script:{}", answers.display()));
            let scenario = scenario.file("main.worker", &text);
            let in_parent = |arguments: &[&str]| {
                let mut command = scenario.command(arguments);
                scenario.finished(command.current_dir(scenario.home()).output().expect("the binary starts"))
            };
            assert_eq!(in_parent(&[target, "--approval", "defer"]).code, Some(5));
            let elsewhere = scenario.home().join("elsewhere");
            if copied {
                let copy = std::process::Command::new("cp")
                    .arg("-r")
                    .arg(scenario.project())
                    .arg(&elsewhere)
                    .status();
                assert!(copy.expect("cp starts").success());
            } else {
                fs::rename(scenario.project(), &elsewhere).expect("it moves");
            }
            // The file lies elsewhere than the one that the question was about, so the call is asked about again.
            for _ in 0..2 {
                let told = in_parent(&["runs", "resume", "last", "elsewhere", "--approve", "all"]);
                assert_eq!(told.code, Some(5), "{copied} {target}: {told}");
            }
            let at = format!("copied: {copied}, named `{target}`");
            assert_eq!(fs::read_to_string(elsewhere.join("a.txt")).ok().as_deref(), Some("a"), "{at}");
            assert_eq!(scenario.read("a.txt"), None, "{at}: nothing is written in the place of before");
            let replayed = in_parent(&["runs", "replay", "last", "elsewhere"]);
            assert_eq!(replayed.code, Some(0), "{at}: {replayed}");
        }
    }
}

#[test]
fn changed_program_is_not_resumed() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let scenario =
        scenario.file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nOther.\n");
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--approve", "all"]), @"
    exit 2
    --- stderr
    error: `main` (main.worker) has changed since the run began: a run can be resumed only with the workers that it began with
    hint: put the file back as it was, or start a new run
    ");
    assert_eq!(scenario.read("a.txt"), None);
}

#[test]
fn changed_code_is_not_resumed() {
    if !super::python::has_python() {
        return;
    }
    let tools = "import helper\n\ndef look() -> str:\n    return helper.WORD\n";
    let scenario = two_writes()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem, custom]\n---\nWrite.\n")
        .file("tools.py", tools)
        .file("helper.py", "WORD = 'one'\n");
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let scenario = scenario.file("helper.py", "WORD = 'two'\n");
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--approve", "all"]), @"
    exit 2
    --- stderr
    error: the code of the tools of `main` (main.worker) has changed since the run began: a run can be resumed only with the code that it began with
    hint: put the file back as it was, or start a new run
    ");
    assert_eq!(scenario.read("a.txt"), None);
    // Data and bytecode are no code.
    let scenario = scenario.file("helper.py", "WORD = 'one'\n").file("__pycache__/helper.pyc", "x");
    assert_eq!(scenario.run(&["runs", "resume", "last", "--approve", "all"]).code, Some(5));
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}

#[test]
fn resume_of_a_finished_run_shows_its_recorded_end_and_does_nothing() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let records = journal(&scenario).len();
    fs::remove_file(scenario.project().join("a.txt")).unwrap();
    assert_snapshot!(scenario.run(&["runs", "resume"]), @"
    exit 0
    --- stdout
    both

    --- stderr
    note: the run had ended already; this is its recorded end
    ");
    let told = scenario.run(&["runs", "resume", "--quiet", "-o", "result.txt"]);
    assert_eq!((told.code, scenario.read("result.txt").as_deref()), (Some(0), Some("both\n")), "{told}");
    let told = scenario.run(&["runs", "resume", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!(
        (&report["status"], &report["output"], &report["tools"]),
        (&json!("done"), &json!("both"), &json!(3))
    );
    let told = scenario.run(&["runs", "resume", "--output", "stream-json"]);
    assert!(lines(&told.stdout)[0]["record"]["kind"] == "run_ended", "{told}");
    assert_eq!((journal(&scenario).len(), scenario.read("a.txt")), (records, None), "nothing is done");
    assert_snapshot!(scenario.run(&["runs", "resume", "--approve", "0/0.1"]), @"
    exit 2
    --- stderr
    error: nothing waits at `0/0.1:ask`
    hint: `llm-do runs resume RUN` without decisions says what it waits for
    ");
    let text = fs::read_to_string(scenario.runs()[0].join("journal.jsonl")).unwrap();
    assert_eq!(lines(&text).last().unwrap()["kind"], "run_ended");
}

/// Open questions of such a run wait in the other process, and a call that runs there was not cut off.
#[test]
fn run_of_another_process_is_not_resumed() {
    let scenario = two_writes();
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    let journal = fs::File::open(scenario.runs()[0].join("journal.jsonl")).unwrap();
    journal.lock().unwrap();
    let told = scenario.run(&["runs", "resume"]);
    let shown = told.to_string().replace(&std::process::id().to_string(), "[PROCESS]");
    assert_snapshot!(shown, @"
    exit 2
    --- stderr
    error: the run is running in process [PROCESS]
    hint: wait for its end, or stop that process; `llm-do runs show --follow RUN` shows what it does
    ");
    let decided = scenario.run(&["runs", "resume", "last", "--approve", "0/0.1"]);
    assert_eq!((decided.code, decided.stderr), (told.code, told.stderr));
    drop(journal);
    assert_eq!(scenario.run(&["runs", "resume", "last", "--approve", "0/0.1"]).code, Some(5));
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}
