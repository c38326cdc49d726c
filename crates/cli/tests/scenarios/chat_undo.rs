//! `/undo`, `/retry` and `/edit` in a chat: files that are restored, files that are not, and answers that are forgotten.

use crate::{emulator::Emulator, scenario::Scenario};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _};

const CHAT: &[&str] = &["chat", ".", "--approval", "approve_all"];

/// A worker whose first turns make these calls, one turn each, and then answer.
fn worker(calls: &[Value]) -> Scenario {
    let mut answers: Vec<Value> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        answers.push(json!({"when": {"turn": 2 * number}, "calls": [call]}));
        answers.push(json!({"when": {"turn": 2 * number + 1}, "text": format!("done {number}")}));
    }
    answers.push(json!({"text": "more"}));
    Scenario::new()
        .file("project.yaml", "name: undo\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n")
        .file("main.worker", "---\nmodel: script:s.json\ntoolsets: {filesystem: {}, shell: {rules: [{pattern: \"true\", approval_required: false}]}}\n---\nWork.\n")
        .file("s.json", &json!({ "answers": answers }).to_string())
        .file("out/old.txt", "one\ntwo\n")
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

fn edit() -> Value {
    call("edit_file", json!({"path": "/out/old.txt", "old_text": "two", "new_text": "2"}))
}

fn of_kind<'a>(journal: &'a [Value], kind: &str) -> Vec<&'a Value> {
    journal.iter().filter(|record| record["kind"] == kind).collect()
}

#[test]
fn undo_restores_what_file_tools_changed() {
    let scenario = worker(&[
        edit(),
        call("write_file", json!({"path": "/out/new.txt", "content": "new"})),
        call("move_file", json!({"source": "/out/old.txt", "destination": "/out/moved.txt"})),
    ]);
    let said = "keep this\none\ntwo\n/undo\nrestore\n/undo\nrestore\n";
    let done = scenario.run_with_stdin(CHAT, said);
    assert_eq!(done.code, Some(0), "{done}");
    // The change of the first message is left.
    assert_eq!(scenario.read("out/old.txt").as_deref(), Some("one\n2\n"), "{done}");
    assert_eq!((scenario.read("out/new.txt"), scenario.read("out/moved.txt")), (None, None), "{done}");
    for shown in ["--- (new file)", "+++ (removed)", "/out/old.txt was restored", "1 = restore; 2 = leave"] {
        assert!(format!("{done}").contains(shown), "{shown}: {done}");
    }
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    let again = scenario.run_with_stdin(&["chat", "--continue"], "/undo\nrestore\n");
    assert_eq!(scenario.read("out/old.txt").as_deref(), Some("one\ntwo\n"), "{again}");
}

#[test]
fn files_are_left_if_the_user_wants_that() {
    let scenario = worker(&[edit()]);
    let done = scenario.run_with_stdin(CHAT, "go\n/undo\nleave\n");
    assert_eq!(scenario.read("out/old.txt").as_deref(), Some("one\n2\n"), "{done}");
    assert!(of_kind(&scenario.journal(), "restored").is_empty());
}

#[test]
fn a_retried_message_follows_the_answer_about_files() {
    let scenario = worker(&[edit()]);
    let done = scenario.run_with_stdin(CHAT, "go\n/retry\nrestore\n");
    assert_eq!((done.code, done.stdout.ends_with("main: more\n")), (Some(0), true), "{done}");
    assert_eq!(scenario.read("out/old.txt").as_deref(), Some("one\ntwo\n"), "{done}");
    let journal = scenario.journal();
    let said: Vec<&Value> = of_kind(&journal, "answered").iter().map(|record| &record["value"]).collect();
    assert_eq!(said, [&Value::Null, &json!("restore"), &json!("go")]);
}

#[test]
fn a_file_that_was_changed_since_is_named_and_left() {
    let scenario = worker(&[edit(), call("shell", json!({"command": "true"}))]);
    scenario.run_with_stdin(CHAT, "go\n");
    fs::write(scenario.project().join("out/old.txt"), "mine").expect("a file");
    let done = scenario.run_with_stdin(&["chat", "--continue"], "and run\n/undo\n/undo\n");
    assert_eq!((done.code, scenario.read("out/old.txt").as_deref()), (Some(0), Some("mine")), "{done}");
    assert!(done.stderr.contains("/out/old.txt is left as it is: it was changed since"), "{done}");
    assert!(done.stderr.contains("what these have done is not undone: shell"), "{done}");
}

#[test]
fn copies_are_for_the_owner_alone_and_go_with_the_run() {
    let scenario = worker(&[edit(), call("read_file", json!({"path": "/.llm-do/runs"}))]);
    let done = scenario.run_with_stdin(CHAT, "go\nread\n");
    let run = scenario.runs().remove(0);
    let copies: Vec<_> = fs::read_dir(run.join("before")).expect("copies").flatten().collect();
    assert_eq!(copies.len(), 1, "{done}");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&copies[0].path()), mode(&run.join("before"))), (0o600, 0o700));
    let removed = scenario.run(&["runs", "clean", "--keep", "0", "--suspended"]);
    assert!(!run.exists(), "{removed}");
}

#[test]
fn no_copies_are_kept_outside_of_conversations() {
    let scenario = worker(&[edit()]);
    let done = scenario.run(&[".", "go", "--approval", "approve_all"]);
    assert_eq!(done.code, Some(0), "{done}");
    assert!(!scenario.runs().remove(0).join("before").exists());
}

/// Between the tool's change and `/undo` a process swaps the folder for a link to another place, which holds a file that
/// looks the same.
#[test]
fn restoring_follows_no_link_to_another_place() {
    for inside in [true, false] {
        let edit = call("edit_file", json!({"path": "/out/sub/a.txt", "old_text": "two", "new_text": "2"}));
        let write = call("write_file", json!({"path": "/out/sub/b.txt", "content": "new"}));
        let scenario = worker(&[edit, write]).file("out/sub/a.txt", "two").file("secret/x", "");
        scenario.run_with_stdin(CHAT, "go\nmore\n");
        let sub = scenario.project().join("out/sub");
        let target = scenario.project().join(if inside { "out/other" } else { "secret" });
        fs::rename(&sub, scenario.project().join("out/aside")).expect("moved");
        fs::create_dir_all(&target).expect("a folder");
        fs::write(target.join("a.txt"), "2").expect("a file");
        fs::write(target.join("b.txt"), "new").expect("a file");
        std::os::unix::fs::symlink(&target, &sub).expect("a link");
        let done = scenario.run_with_stdin(&["chat", "--continue"], "/undo\nrestore\n/undo\nrestore\n");
        assert_eq!(fs::read_to_string(target.join("a.txt")).expect("it is there"), "2", "{done}");
        assert_eq!(fs::read_to_string(target.join("b.txt")).expect("it is there"), "new", "{done}");
        assert!(!done.stderr.contains("was restored"), "{done}");
    }
}

#[test]
fn a_forged_copy_is_not_restored() {
    let scenario = worker(&[edit()]);
    scenario.run_with_stdin(CHAT, "go\n");
    let copies = fs::read_dir(scenario.runs().remove(0).join("before")).expect("copies");
    copies.flatten().for_each(|copy| fs::write(copy.path(), "forged").expect("a file"));
    let done = scenario.run_with_stdin(&["chat", "--continue"], "/undo\n");
    assert_eq!(scenario.read("out/old.txt").as_deref(), Some("one\n2\n"), "{done}");
    assert!(done.stderr.contains("its earlier content was not kept"), "{done}");
}

#[test]
fn an_answer_that_was_remembered_in_an_undone_turn_is_forgotten() {
    let write = || call("write_file", json!({"path": "/out/a.txt", "content": "a"}));
    let scenario = worker(&[write(), write(), write()]);
    let mut window = Emulator::start(scenario.command_on_terminal(&["chat", "."]), 100, 40);
    window.wait_for("/help");
    window.type_keys("first\r");
    window.wait_for("Ctrl-G");
    window.type_keys("\u{7}r\r");
    window.wait_for("done 0");
    window.wait_for_prompt("main");
    window.type_keys("/undo\r");
    window.wait_for("Restore the files");
    window.wait_for("Ctrl-G");
    window.type_keys("\u{7}2\r");
    window.wait_for_prompt("main");
    window.type_keys("\u{3}second\r");
    // It is asked about again, because the approval belonged to the undone turn.
    window.wait_for("Ctrl-G");
    window.type_keys("\u{7}r\r");
    window.wait_for("done 1");
    window.type_keys("third\r");
    window.wait_for("done 2");
    window.wait_for_prompt("main");
    assert_eq!(window.leave(), Some(0));
    let journal = scenario.journal();
    let asked = of_kind(&journal, "asked").into_iter().filter(|record| record["question"] == "approval");
    assert_eq!(asked.count(), 2);
    let remembered = of_kind(&journal, "answered").into_iter().filter(|record| record["via"] == "memory");
    assert_eq!(remembered.count(), 1);
    // A resume and a replay know the same from the records alone.
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}
