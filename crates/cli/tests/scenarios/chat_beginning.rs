//! A chat in which the user does something before saying anything: another model, a call, rules.

use crate::scenario::{Finished, Scenario};
use serde_json::{Value, json};

fn program() -> Scenario {
    Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:a.yaml\ntoolsets: [filesystem]\n---\nTalk.\n")
        .file(
            "a.yaml",
            "answers:\n  - when: {last_regex: SUMMARY}\n    text: I see the summary\n  - text: from a\n",
        )
        .file("b.yaml", "answers:\n  - text: from b\n")
        .file("notes.txt", "inside the file\n")
        .file(
            "workers/summarise.worker",
            "---\nmodel: script:s.yaml\nparameters:\n  text: string\n---\nSummarise.\n",
        )
        .file("s.yaml", "answers:\n  - text: SUMMARY\n")
}

fn chat(scenario: &Scenario, flags: &[&str], lines: &str) -> Finished {
    scenario.run_with_stdin(&[&["chat", "--project", "."], flags].concat(), lines)
}

/// Resumes, replays and shows the chat.
fn is_whole(scenario: &Scenario) {
    let resumed = scenario.run_with_stdin(&["chat", "--continue", "--project", "."], "");
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    for command in ["replay", "show"] {
        let done = scenario.run(&["runs", command, "last"]);
        assert_eq!(done.code, Some(0), "{command}: {}{}", done.stdout, done.stderr);
    }
}

#[test]
fn another_model_answers_the_first_message() {
    let scenario = program();
    let done = chat(&scenario, &[], "/model script:b.yaml\none\n/undo\ntwo\n");
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "main: from b\nmain: from b\n"),
        "{}",
        done.stderr
    );
    let journal = scenario.journal();
    let begun = journal.iter().find(|record| record["kind"] == "conversation_started");
    assert_eq!(
        begun.map(|begun| (&begun["listens"], &begun["message"]["parts"])),
        Some((&json!(true), &json!([])))
    );
    is_whole(&scenario);
}

#[test]
fn a_worker_is_called_before_the_first_message_and_its_result_joins_it() {
    let scenario = program();
    let done = chat(&scenario, &[], "/attach notes.txt\n/summarise words\n/keep\nand now?\n/save talk.md\n");
    assert_eq!(done.stdout, "summarise: SUMMARY\nmain: I see the summary\n", "{}", done.stderr);
    let asked: Vec<Value> =
        scenario.journal().into_iter().filter(|record| record["kind"] == "model_requested").collect();
    assert_eq!(asked.len(), 2, "the model is not asked before the user has said something");
    let saved = scenario.read("talk.md").unwrap_or_default();
    assert!(saved.starts_with("    ✓ summarise text=\"words\"  "), "{saved}");
    assert!(saved.contains("\n\n## You\n\nand now?\n"), "{saved}");
    assert!(saved.contains("(with notes.txt)"), "{saved}");
    is_whole(&scenario);
}

#[test]
fn a_chat_that_was_left_before_the_first_message_is_resumed() {
    let scenario = program();
    chat(&scenario, &[], "/rules allow write_file\n");
    let again = scenario.run_with_stdin(&["chat", "--continue", "--project", "."], "/rules\nhello\n");
    assert_eq!(again.stdout, "main: from a\n", "{}", again.stderr);
    assert!(again.stderr.contains("1  allow  write_file"), "{}", again.stderr);
    is_whole(&scenario);
}

#[test]
fn instructions_that_hold_the_first_message_need_it_first() {
    let scenario = program().file("main.worker", "---\nmodel: script:a.yaml\n---\nTalk about {{ input }}.\n");
    let done = chat(&scenario, &[], "/summarise words\nbees\n");
    assert!(done.stderr.contains("this chat has to begin with your first message"), "{}", done.stderr);
    assert_eq!(done.stdout, "main: from a\n", "{}", done.stderr);
    let given = chat(&scenario, &["--attach", "notes.txt"], "/summarise words\nbees\n");
    assert!(given.stderr.contains("gives the worker more than a message"), "{}", given.stderr);
}

#[test]
fn tools_are_shown_before_the_first_message_with_those_that_are_not_offered() {
    let scenario = program();
    let flags = ["--deny", "delete_file", "--approval", "auto_deny"];
    let done = chat(&scenario, &flags, "/tools\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for shown in [
        "read_file  ",
        "not offered:\n",
        "delete_file  blocked by --deny delete_file",
        "write_file  it needs an approval, and the mode auto_deny refuses calls that do",
    ] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
    assert!(scenario.runs().is_empty(), "nothing was begun");
    let later = chat(&scenario, &flags, "hello\n/tools\n");
    assert!(later.stderr.contains("delete_file  blocked by --deny delete_file"), "{}", later.stderr);
    let shown = scenario.run(&["runs", "show", "last", "--call", "0"]);
    assert!(
        shown.stdout.contains("not offered: delete_file (blocked by --deny delete_file)"),
        "{}",
        shown.stdout
    );
}
