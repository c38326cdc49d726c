//! Replays of a program over the journal of a run: equal runs, the first difference, and no effects.

use crate::{
    python::has_python,
    scenario::{Scenario, lines},
};
use insta::assert_snapshot;
use std::{fs, path::Path};

const MAIN: &str =
    "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\nlimits: {max_repeats: 3}\n---\nWrite.\n";

/// A run that has written two files.
fn two_writes() -> Scenario {
    let scenario = Scenario::new().file("main.worker", MAIN).file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files}, {tool: write_file, arguments: {path: a.txt, content: a}}]\n  - when: {turn: 1}\n    calls: [{tool: write_file, arguments: {path: b.txt, content: b}}]\n  - text: both\n",
    );
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    scenario
}

/// Every file below a folder, with its content.
fn everything(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).expect("a file")));
        }
    }
    found.sort();
    found
}

#[test]
fn unchanged_program_replays_identically_without_effects() {
    let scenario = two_writes();
    for gone in ["a.txt", "b.txt", "s.yaml"] {
        fs::remove_file(scenario.project().join(gone)).unwrap();
    }
    let before = everything(scenario.home());
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 0
    --- stdout
    the same as [RUN]: 4 calls, 3 model requests, 3 tools
    ");
    assert_snapshot!(scenario.run(&["runs", "replay", "last", "--json"]), @r#"
    exit 0
    --- stdout
    {"run":"[RUN]","same":true,"whole":true,"compared":{"calls":4,"requests":3,"tools":3},"divergence":null}
    "#);
    assert_eq!(everything(scenario.home()), before);
}

#[test]
fn changed_instructions_are_shown_as_a_diff() {
    let scenario = two_writes().file(
        "main.worker",
        "---\nmodel: script:other.yaml\ntoolsets: [filesystem]\nlimits: {max_repeats: 3}\n---\nWrite.\nAnd then read.\n",
    );
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 1
    --- stdout
    differs from [RUN] at 0 (main)
    the beginning of the conversation differs:
    --- recorded instructions
    +++ now instructions
    @@ -1 +1,2 @@
     Write.
    +And then read.
    1 call, 0 model requests, 0 tools up to there
    ");
    // A change that does not affect the request is no difference.
    let scenario = scenario.file("main.worker", &format!("{MAIN}{{# a comment #}}"));
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(0));
}

#[test]
fn changed_tools_and_rules_are_reported() {
    let scenario = two_writes().file(
        "main.worker",
        &MAIN.replace("[filesystem]", "{filesystem: {tools: [list_files, write_file]}}"),
    );
    let told = scenario.run(&["runs", "replay"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stdout.contains("--- recorded tool read_file"), "{told}");
    let scenario = scenario.file(
        "main.worker",
        &MAIN.replace("limits:", "tool_rules: {\"write_file(b.txt)\": blocked}\nlimits:"),
    );
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 1
    --- stdout
    differs from [RUN] at 0/1.0 (main → write_file, turn 1)
    the gate's verdict differs:
    --- recorded by
    +++ now by
    @@ -1 +1 @@
    -mode approve_all
    +main.worker:4
    --- recorded rule
    +++ now rule
    @@ -1 +1 @@
    -preApproved
    +blocked
    4 calls, 2 model requests, 2 tools up to there
    ");
}

#[test]
fn replay_can_use_another_folder() {
    let scenario = two_writes();
    let other = scenario.project().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("main.worker"), MAIN).unwrap();
    let scenario = scenario.file("main.worker", "---\nmodel: script:s.yaml\n---\nSomething else.\n");
    assert_eq!(scenario.run(&["runs", "replay", "last", "--against", "other"]).code, Some(0));
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(1));
    let run = scenario.runs().remove(0);
    let run = run.to_str().unwrap();
    assert_eq!(scenario.run(&["runs", "replay", run, "--against", "other/main.worker"]).code, Some(0));
    assert_eq!(scenario.run(&["runs", "replay", run, "--against", "nowhere"]).code, Some(2));
}

#[test]
fn truncated_journal_is_compared_up_to_its_end() {
    let scenario = two_writes();
    let journal = scenario.runs().remove(0).join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let changed = MAIN.replace("Write.", "Read.");
    let began = whole.lines().position(|line| line.contains("conversation_started")).unwrap();
    for kept in 1..whole.lines().count() {
        let cut: String = whole.lines().take(kept).map(|line| format!("{line}\n")).collect();
        fs::write(&journal, cut).unwrap();
        let told = scenario.run(&["runs", "replay"]);
        assert_eq!(told.code, Some(0), "{kept}: {told}");
        fs::write(scenario.project().join("main.worker"), &changed).unwrap();
        assert_eq!(scenario.run(&["runs", "replay"]).code, Some(i32::from(kept > began)), "{kept}");
        fs::write(scenario.project().join("main.worker"), MAIN).unwrap();
    }
    fs::write(&journal, "").unwrap();
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(2));
}

#[test]
fn suspended_run_is_compared_up_to_its_question() {
    let scenario = Scenario::new()
        .file("main.worker", MAIN)
        .file("s.yaml", "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n");
    assert_eq!(scenario.run(&[".", "--approval", "defer"]).code, Some(5));
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 0
    --- stdout
    the same as [RUN]: 2 calls, 1 model request, 0 tools, as far as the record goes
    ");
    assert_eq!(scenario.run(&["runs", "resume", "last", "--deny", "0/0.0=no"]).code, Some(0));
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 0
    --- stdout
    the same as [RUN]: 2 calls, 2 model requests, 0 tools
    ");
    let scenario = scenario
        .file("main.worker", &MAIN.replace("limits:", "tool_rules: {write_file: preApproved}\nlimits:"));
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(1));
}

#[test]
fn changed_messages_are_shown_as_a_diff() {
    let scenario = Scenario::new().file("main.worker", MAIN).file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files}]\n  - when: {turn: 1}\n    calls: [{tool: list_files}]\n  - text: done\n",
    );
    assert_eq!(scenario.run(&["."]).code, Some(0));
    let scenario = scenario.file("main.worker", &MAIN.replace("max_repeats: 3", "max_repeats: 1"));
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 1
    --- stdout
    differs from [RUN] at 0 (main, turn 2)
    the request to the model differs:
    --- recorded messages
    +++ now messages
    @@ -8,5 +8,4 @@
     [3 assistant]
     calls list_files {}
     [4 tools]
    -list_files gives: /main.worker  (84 bytes)
    -/s.yaml  (128 bytes)
    +list_files gives: This same call gave this same result 1 times. It was not made again: use the result or do something else.
    2 calls, 3 model requests, 1 tool up to there
    ");
}

#[test]
fn replay_needs_no_attached_files() {
    let scenario = Scenario::new()
        .file("main.worker", MAIN)
        .file("s.yaml", "answers:\n  - text: seen\n")
        .file("letter.txt", "Dear all");
    assert_eq!(scenario.run(&[".", "-m", "Look", "--attach", "letter.txt"]).code, Some(0));
    fs::remove_file(scenario.project().join("letter.txt")).unwrap();
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(0));
}

#[test]
fn foreign_journal_grants_nothing_in_a_replay() {
    let scenario = Scenario::new()
        .file("project.yaml", "sandbox: {paths: {data: /usr/share}}\n")
        .file("main.worker", MAIN)
        .file("s.yaml", "answers:\n  - text: done\n");
    assert_eq!(scenario.run(&[".", "--grant", "/usr/share:ro"]).code, Some(0));
    assert_eq!(scenario.run(&["runs", "replay"]).code, Some(0));
    fs::remove_file(scenario.home().join("home/.llm-do/journal.key")).unwrap();
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 3
    --- stderr
    error: the program asks for more than its own folder:
      to read /usr/share (asked for at project.yaml:1)
    hint: if you trust it with that, run it again with --grant /usr/share:ro
    ");
    assert_eq!(scenario.run(&["runs", "replay", "last", "--grant", "/usr/share:ro"]).code, Some(0));
}

#[test]
fn concurrent_workers_are_replayed() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [child]\n---\nAsk.\n")
        .file("workers/child.worker", "---\nmodel: script:s.yaml\nparameters: {n: integer}\n---\nThink about {{ n + 0 }}.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {worker: child}\n    text: thought\n  - when: {turn: 0}\n    calls:\n      - {tool: child, arguments: {n: 1}}\n      - {tool: child, arguments: {n: 2}}\n  - text: done\n",
        );
    assert_eq!(scenario.run(&["."]).code, Some(0));
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 0
    --- stdout
    the same as [RUN]: 3 calls, 4 model requests, 0 tools
    ");
    let scenario = scenario.file(
        "workers/child.worker",
        "---\nmodel: script:s.yaml\nparameters: {n: integer}\n---\nThink about {{ n + n - 1 }}.\n",
    );
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 1
    --- stdout
    differs from [RUN] at 0/0.1 (main → child, turn 0)
    the beginning of the conversation differs:
    --- recorded instructions
    +++ now instructions
    @@ -1 +1 @@
    -Think about 2.
    +Think about 3.
    3 calls, 2 model requests, 0 tools up to there
    ");
}

const FLOW: &str = "\
def main(input: str, ctx) -> str:
    first = ctx.call('child', input='one')
    second = ctx.call('child', input='two')
    ctx.step('note', lambda: open(ctx.sandbox.path('/output') / 'note.txt', 'w').write('x'))
    return f'{first} and {second}'
";

/// The run of a Python program, whose effect was undone. `None` where there is no Python.
fn flow() -> Option<Scenario> {
    if !has_python() {
        return None;
    }
    let scenario = Scenario::new()
        .file("project.yaml", "entry: flow.py:main\nsandbox: {paths: {output: {root: ./output, mode: rw}}}\n")
        .file(
            "flow.py",
            &format!("from llm_do import ToolContext\n\n{}", FLOW.replace("ctx)", "ctx: ToolContext)")),
        )
        .file("workers/child.worker", "---\nmodel: script:s.yaml\n---\nAnswer.\n")
        .file("s.yaml", "answers:\n  - text: \"{{ last }}!\"\n");
    let told = scenario.run(&[".", "-m", "go"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "one! and two!\n"), "{told}");
    fs::remove_file(scenario.project().join("output/note.txt")).expect("the note");
    Some(scenario)
}

fn edited(scenario: Scenario, from: &str, to: &str) -> Scenario {
    let code = scenario.read("flow.py").expect("its code");
    assert!(code.contains(from));
    scenario.file("flow.py", &code.replace(from, to))
}

#[test]
fn code_runs_again_over_recorded_results() {
    let Some(scenario) = flow() else { return };
    assert_snapshot!(scenario.run(&["runs", "replay"]), @"
    exit 0
    --- stdout
    the same as [RUN]: 5 calls, 2 model requests, 1 tool
    ");
    assert_eq!(scenario.read("output/note.txt"), None);
    let scenario = edited(scenario, "input='two'", "input='three'");
    assert_snapshot!(scenario.run(&["runs", "replay"]), @r#"
    exit 1
    --- stdout
    differs from [RUN] at 0/code/child#215061c26ce2.0 (main → main)
    the call is not in the record:
    --- recorded function
    +++ now function
    @@ -0,0 +1 @@
    +child
    --- recorded arguments
    +++ now arguments
    @@ -0,0 +1,3 @@
    +{
    +  "input": "three"
    +}
    4 calls, 1 model request, 0 tools up to there
    "#);
}

#[test]
fn missing_calls_of_code_are_reported() {
    let Some(scenario) = flow() else { return };
    let scenario = edited(scenario, "ctx.call('child', input='two')", "'two!'");
    assert_snapshot!(scenario.run(&["runs", "replay"]), @r#"
    exit 1
    --- stdout
    differs from [RUN] at 0/code/child#4c48e25b5c10.0 (main → main → child)
    the call is recorded, and is not made any more. Its caller ends with "one! and two!"
    --- recorded function
    +++ now function
    @@ -1 +0,0 @@
    -child
    --- recorded arguments
    +++ now arguments
    @@ -1,3 +0,0 @@
    -{
    -  "input": "two"
    -}
    4 calls, 1 model request, 1 tool up to there
    "#);
}

#[test]
fn code_cannot_write_files_in_a_replay() {
    let Some(scenario) = flow() else { return };
    let scenario = edited(
        scenario,
        "    first =",
        "    (ctx.sandbox.path('/output') / 'own.txt').write_text('x')\n    first =",
    );
    let told = scenario.run(&["runs", "replay"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(
        told.stdout.contains("The tool's process may not touch `[DIR]/project/output/own.txt`"),
        "{told}"
    );
    assert_eq!(scenario.read("output/own.txt"), None);
}

#[test]
fn replay_creates_no_run() {
    let scenario = two_writes();
    scenario.run(&["runs", "replay"]);
    assert_eq!(scenario.runs().len(), 1);
    assert_eq!(
        lines(&fs::read_to_string(scenario.runs()[0].join("journal.jsonl")).unwrap()).last().unwrap()["kind"],
        "run_ended"
    );
}

#[test]
fn recorded_run_can_serve_as_the_model() {
    let scenario = two_writes();
    for gone in ["a.txt", "b.txt"] {
        fs::remove_file(scenario.project().join(gone)).unwrap();
    }
    let told = scenario.run(&[".", "--model", "replay:last", "--approval", "approve_all"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "both\n"), "{told}");
    assert_eq!(
        (scenario.read("a.txt").as_deref(), scenario.read("b.txt").as_deref()),
        (Some("a"), Some("b"))
    );
    // The input differs now: there is another file.
    let run = scenario.runs().remove(0);
    let told =
        scenario.run(&[".", "--model", &format!("replay:{}", run.display()), "--approval", "approve_all"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert_snapshot!(told.stderr, @r#"
    error: replay:[RUN]: at 0, turn 1, the conversation is not the recorded one: message 2 was "list_files: /main.worker  (84 bytes)\n/s.yaml  (224 bytes); write_file: Wrote 1 bytes to `/a.txt`." and is now "list_files: /a.txt  (1 bytes)\n/b.txt  (1 bytes)\n/main.worker  (84 bytes)\n/s.yaml  (224 bytes); write_file: Wrote 1 bytes to `/a.txt`."
    hint: `llm-do runs show [RUN]` shows what it did
    "#);
    assert_snapshot!(scenario.run(&[".", "--model", "replay:none"]), @"
    exit 2
    --- stderr
    error: `main`: replay:none: no run `none` in [DIR]/project/.llm-do/runs; `llm-do runs list` lists the runs
    ");
}

#[test]
fn replay_model_last_excludes_the_current_run() {
    let scenario = two_writes();
    for gone in ["a.txt", "b.txt"] {
        fs::remove_file(scenario.project().join(gone)).unwrap();
    }
    let told = scenario.run(&[".", "--model", "replay:last", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/0.1"]);
    assert_eq!(told.code, Some(5), "{told}");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/1.0"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "both\n"), "{told}");
}
