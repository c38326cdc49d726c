//! `/rules`: rules that the user makes in a chat, and decisions that the user takes back.

use crate::{
    scenario::{Finished, Scenario},
    terminal_session::Session,
};
use serde_json::{Value, json};

/// A worker that writes the file that the user names, and one below it that does the same.
fn writer() -> Scenario {
    let script = |file: &str| {
        format!(
            "answers:\n  - when: {{last_regex: '^write'}}\n    calls: [{{tool: write_file, arguments: {{path: {file}, content: x}}}}]\n  \
             - when: {{last_regex: '^delete'}}\n    calls: [{{tool: delete_file, arguments: {{path: {file}}}}}]\n  \
             - when: {{last_regex: '^delegate'}}\n    calls: [{{tool: helper, arguments: {{input: write}}}}]\n  - text: done\n"
        )
    };
    Scenario::new()
        .file("project.yaml", "entry: main\napproval: {tools: {delete_file: blocked}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:main.yaml\ntoolsets: {filesystem: {}, delegation: {allowed_workers: [helper]}}\n---\nWork.\n",
        )
        .file("workers/helper.worker", "---\nmodel: script:helper.yaml\ntoolsets: [filesystem]\n---\nWork.\n")
        .file("main.yaml", &script("a.txt"))
        .file("helper.yaml", &script("b.txt"))
}

/// Runs a chat over pipes, with no operator. Tools that write are offered, because a rule allows some of their calls.
fn chat(scenario: &Scenario, flags: &[&str], lines: &str) -> Finished {
    let offered = ["chat", "--project", ".", "--allow", "write_file(never)", "--allow", "append_file(never)"];
    scenario.run_with_stdin(&[&offered, flags].concat(), lines)
}

/// The kinds of the answers that the user gave, in order.
fn answers(journal: &[Value]) -> Vec<&str> {
    let answered = journal.iter().filter(|record| record["kind"] == "answered");
    answered.filter_map(|record| record["answer"].as_str()).collect()
}

/// Returns the verdicts on the calls of that tool, in order.
fn verdicts(scenario: &Scenario, tool: &str) -> Vec<(String, String)> {
    let journal = scenario.journal();
    let calls =
        journal.iter().filter(|record| record["kind"] == "call_started" && record["function"] == tool);
    let verdict = |call: &Value| {
        let verdict = |record: &&Value| record["kind"] == "verdict" && record["path"] == call["path"];
        journal.iter().find(verdict).map(|verdict| {
            let by = &verdict["by"];
            let by = by["rule"]["origin"].as_str().map_or_else(|| by.to_string(), str::to_owned);
            (verdict["rule"].as_str().unwrap_or_default().to_owned(), by)
        })
    };
    calls.filter_map(verdict).collect()
}

fn replays(scenario: &Scenario) {
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
}

/// Texts that are shown with a question.
const QUESTIONS: &[&str] = &["wants to call write_file", "1 = restore"];

/// Types lines in a chat on a terminal, each when the text beside it is shown. Returns all output.
fn on_terminal(scenario: &Scenario, lines: &[(&str, &str)]) -> String {
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", ".", "--plain"]));
    for (shown, line) in lines {
        session.expect(shown);
        // An answer is shown before the chat can be told something.
        if !shown.starts_with("you") && !QUESTIONS.contains(shown) {
            session.expect("you: ");
        }
        session.type_keys(&format!("{line}\n"));
    }
    session.expect("you: ");
    session.type_keys("\u{4}");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    shown
}

#[test]
fn a_rule_of_a_chat_holds_until_it_is_taken_back() {
    let scenario = writer();
    let shown = on_terminal(
        &scenario,
        &[
            ("you: ", "write"),
            ("wants to call write_file", "a"),
            ("main: done", "/rules allow write_file(a.txt)"),
            ("from now on: allow write_file(a.txt)", "write"),
            ("main: done", "/rules"),
            ("1  allow  write_file(a.txt)", "/rules forget 1"),
            ("it holds no more", "write"),
            ("wants to call write_file", "d no"),
            ("main: done", "/rules"),
        ],
    );
    assert_eq!(answers(&scenario.journal()), ["approve", "rule", "give", "forget", "give", "deny"]);
    let ruled = ("preApproved".to_owned(), "/rules allow write_file(a.txt)".to_owned());
    assert_eq!(verdicts(&scenario, "write_file")[1], ruled);
    assert_eq!(shown.matches("made in this chat").count(), 1, "{shown}");
    replays(&scenario);
}

#[test]
fn a_resumed_chat_has_its_rules() {
    let scenario = writer();
    let done = chat(&scenario, &[], "hello\n/rules allow write_file\n/rules deny read_file\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let again = scenario
        .run_with_stdin(&["chat", "--continue", "--project", "."], "/rules forget 2\nwrite\n/rules\n");
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(verdicts(&scenario, "write_file")[0].0, "preApproved");
    assert!(again.stderr.contains("1  allow  write_file\n"), "{}", again.stderr);
    assert!(!again.stderr.contains("deny   read_file"), "{}", again.stderr);
    // In the copy, too.
    let forked = scenario.run_with_stdin(&["chat", "--continue", "--project", "."], "/fork\nwrite\n");
    assert_eq!(forked.code, Some(0), "{}", forked.stderr);
    replays(&scenario);
}

#[test]
fn a_rule_of_a_chat_holds_for_the_workers_below() {
    let scenario = writer();
    let done = chat(
        &scenario,
        &[],
        "/rules allow write_file(b.txt)\ndelegate\n/rules deny write_file(b.*)\ndelegate\n",
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let rules: Vec<String> = verdicts(&scenario, "write_file").into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(rules, ["preApproved", "blocked"], "{}", done.stderr);
    replays(&scenario);
}

#[test]
fn a_rule_of_a_chat_lets_nothing_pass_that_another_rule_forbids() {
    let scenario = writer();
    let flags = ["--deny", "write_file(a.txt)", "--ask", "append_file"];
    let lines = "/rules allow write_file\nwrite\n/rules allow delete_file\ndelete\n/rules allow append_file\n/rules forget 9\n";
    let done = chat(&scenario, &flags, lines);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(
        verdicts(&scenario, "write_file"),
        [("blocked".to_owned(), "--deny write_file(a.txt)".to_owned())]
    );
    for shown in [
        "--deny write_file(a.txt) is stricter",
        "--ask append_file is stricter",
        "delete_file is still not offered",
        "has the number `9`",
    ] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
    assert!(!scenario.project().join("a.txt").exists());
    replays(&scenario);
}

#[test]
fn a_rule_that_can_not_be_made_is_refused() {
    let scenario = writer();
    let lines = "hello\n/rules allow wirte_file\n/rules allow\n/rules allow write_file where path in @list.json\n\
                 /rules deny write_file where paht = x\n/rules loosen it\n/rules deny write_file(\n/rules forget\n";
    let done = chat(&scenario, &[], lines);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for shown in [
        "names `wirte_file`, but there is no such tool",
        "did you mean `write_file`?",
        "/rules allow needs a rule",
        "@list.json is read when a run begins",
        "`paht`",
        "not `loosen`",
        "a `)` is missing",
        "has the number ``",
    ] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
    assert_eq!(answers(&scenario.journal()), Vec::<&str>::new());
}

#[test]
fn a_remembered_answer_is_taken_back() {
    let scenario = writer();
    let shown = on_terminal(
        &scenario,
        &[
            ("you: ", "write"),
            ("wants to call write_file", "r"),
            ("main: done", "write"),
            ("main: done", "/rules"),
            ("1  allow  write_file", "/rules forget 1"),
            ("it holds no more", "write"),
            ("wants to call write_file", "d"),
            ("main: done", "/rules"),
        ],
    );
    assert_eq!(answers(&scenario.journal()), ["approve", "give", "approve", "forget", "give", "deny"]);
    assert_eq!(shown.matches("remembered in this chat").count(), 1, "{shown}");
    replays(&scenario);
}

#[test]
fn what_was_remembered_in_undone_messages_is_not_shown_any_more() {
    let scenario = writer();
    let shown = on_terminal(
        &scenario,
        &[
            ("you: ", "hello"),
            ("main: done", "write"),
            ("wants to call write_file", "r"),
            ("main: done", "/rules"),
            ("1  allow  write_file", "/undo"),
            ("1 = restore", "leave"),
            ("you: ", "/rules"),
        ],
    );
    assert_eq!(shown.matches("remembered in this chat").count(), 1, "{shown}");
}

#[test]
fn another_program_makes_rules_as_the_user_does() {
    let scenario = writer();
    chat(&scenario, &[], "hello\n");
    let resume = |answer: Value| {
        let answer = format!("0:message.{}={answer}", answer["at"]);
        scenario.run(&["runs", "resume", "last", "--answer", &answer, "--project", "."])
    };
    let refused = resume(json!({"at": 1, "answer": "rule", "rule": "preApproved", "calls": "write_file("}));
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    let made = resume(json!({"at": 2, "answer": "rule", "rule": "preApproved", "calls": "write_file"}));
    assert_eq!(made.code, Some(5), "{}", made.stderr);
    let said = resume(json!({"at": 3, "answer": "give", "value": "write"}));
    assert_eq!(said.code, Some(5), "{}", said.stderr);
    assert_eq!(verdicts(&scenario, "write_file")[0].0, "preApproved");
    replays(&scenario);
}
