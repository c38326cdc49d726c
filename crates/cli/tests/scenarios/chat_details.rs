//! Details of a chat: the file of `/save`, paths that do not exist, options, stopped answers, chats of other workers.

use crate::{
    scenario::{Finished, Scenario},
    terminal_session::Session,
};
use std::{thread, time::Duration};

fn program() -> Scenario {
    Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:main.yaml\n---\nTalk.\n")
        .file("workers/other.worker", "---\nmodel: script:main.yaml\n---\nTalk, too.\n")
        .file("main.yaml", "answers:\n  - text: \"an answer\\u202E\"\n")
        .file(
            "workers/summarise.worker",
            "---\nmodel: script:s.yaml\nparameters:\n  file: path\n---\nSummarise.\n",
        )
        .file("s.yaml", "answers:\n  - text: \"A SUMMARY\\nof two lines\"\n")
        .file("notes.txt", "notes\n")
}

fn chat(scenario: &Scenario, flags: &[&str], lines: &str) -> Finished {
    scenario.run_with_stdin(&[&["chat", "--project", "."], flags].concat(), lines)
}

#[test]
fn what_is_saved_holds_kept_results_and_compactions() {
    let long = "a long answer ".repeat(200);
    let script = format!(
        "answers:\n  - when: {{purpose: summary}}\n    text: \"older\\u202E turns\"\n  - text: \"an answer\\u202E {long}\"\n"
    );
    let scenario = program().file("main.yaml", &script);
    let lines = "hello\n/summarise notes.txt\n/keep\nand?\nmore\n/compact\n/save talk.md\n";
    let done = chat(&scenario, &[], lines);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let saved = scenario.read("talk.md").unwrap_or_default();
    for part in [
        "## You\n\nand?\n\n*(with result of summarise)*\n\n> A SUMMARY\n> of two lines\n\n",
        "## main\n\nan answer\\u{202e} a long answer",
        "    ✓ summarise file=\"notes.txt\"  ",
        "*(compacted: ",
        "> older\\u{202e} turns\n",
    ] {
        assert!(saved.contains(part), "{part:?}: {saved}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_not_handed_over() {
    let scenario = program();
    let done = chat(&scenario, &[], "hello\n/summarise nothing.txt\n/run summarise file=nothing.txt\n");
    let refused = "error: `file`: `nothing.txt` does not exist\n  nothing was run";
    assert_eq!(done.stderr.matches(refused).count(), 2, "{}", done.stderr);
    assert!(!done.stdout.contains("SUMMARY"), "{}", done.stdout);
}

#[test]
fn options_that_a_chat_can_not_have_are_errors() {
    let scenario = program();
    let done = chat(&scenario, &["--operator", "unix:o.sock"], "hello\n");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--operator is not available for chat"), "{}", done.stderr);
    let done = chat(&scenario, &["--set", "max_context_tokens=10"], "hello\n");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("at least 1000, not `10`"), "{}", done.stderr);
    let done = chat(&scenario, &["--set", "max_context_tokens=50000"], "hello\n/cost\n");
    assert!(done.stderr.contains(" of 50,000 tokens"), "{}", done.stderr);
}

#[test]
fn a_chat_of_another_worker_is_resumed_by_another_command() {
    let scenario = program();
    let other = scenario.run_with_stdin(&["chat", "--project", ".", "--entry", "other"], "hello\n");
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let dir = scenario.runs().into_iter().next().unwrap_or_default();
    let run = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let done = chat(&scenario, &[], &format!("hello\n/resume {run}\n"));
    for shown in ["is a chat with other, and this chat is with main", "llm-do chat --resume "] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
}

#[test]
fn an_answer_that_is_stopped_before_its_first_word_is_not_shown_as_text() {
    let scenario = program().file("main.yaml", "answers:\n  - text: late\n    delay_ms: 60000\n");
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("hello\r");
    session.expect("answering 0s");
    session.type_keys("\u{3}");
    session.expect("stopped before the answer had any text");
    session.type_keys("/save talk.md\r");
    session.expect("saved to talk.md");
    session.type_keys("\u{4}");
    let (code, shown) = session.end();
    assert_eq!((code, shown.contains("(empty answer)")), (Some(0), false), "{shown}");
    assert_eq!(scenario.read("talk.md").as_deref(), Some("## You\n\nhello\n\n## main\n\n*(cut off)*\n\n"));
    let again = scenario.run_with_stdin(&["chat", "--continue", "--project", "."], "");
    assert!(!again.stdout.contains("(empty answer)"), "{}", again.stdout);
}

#[test]
fn lists_of_chats_show_how_each_began_and_the_last_used_is_continued() {
    let scenario = program();
    let first = chat(&scenario, &[], "the first one\u{1b}[2J\n");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let older = scenario.runs().remove(0);
    chat(&scenario, &[], "the second one\n");
    let id = older.file_name().and_then(|name| name.to_str()).expect("the ID of a run");
    let listed = scenario.run(&["runs", "list", "--chats", "--project", "."]).stdout;
    for message in ["the first one\\x1b[2J", "the second one"] {
        assert!(listed.lines().any(|row| row.ends_with(&format!("  \"{message}\""))), "{listed}");
    }
    let resumed = chat(&scenario, &["--resume", id], "and again\n");
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let continued = chat(&scenario, &["--continue"], "/resume\n");
    assert!(continued.stdout.contains("you: and again"), "{}", continued.stdout);
    assert!(continued.stderr.contains("  (this chat)"), "{}", continued.stderr);
}

#[test]
fn the_result_of_a_chat_is_printed() {
    let finish = "answers:\n  - calls: [{tool: finish, arguments: {note: \"a *b* c\"}}]\n";
    let scenario = program()
        .file("main.worker", "---\nmodel: script:main.yaml\nreturns: {note: string}\n---\nTalk.\n")
        .file("main.yaml", finish);
    let done = chat(&scenario, &[], "hello\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("\"note\": \"a *b* c\""), "{}{}", done.stdout, done.stderr);
}

#[test]
fn the_time_of_a_call_is_without_that_in_which_it_waits_for_the_user() {
    let ask = "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Well?}}]\n  - text: asked\n";
    let scenario = program().file("s.yaml", ask).file(
        "workers/survey.worker",
        "---\nmodel: script:s.yaml\ninteraction: user\nparameters: {topic: string}\n---\nAsk.\n",
    );
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("/survey trips\r");
    session.expect("Ctrl-G: answer");
    let waits = Duration::from_secs(4);
    thread::sleep(waits);
    session.type_keys("\u{7}yes\r");
    session.expect("survey topic=\"trips\"  ");
    session.type_keys("\u{4}");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    let times =
        shown.split("survey topic=\"trips\"  ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let seconds = |time: &str| match time.strip_suffix("ms") {
        Some(time) => time.parse::<f64>().map(|time| time / 1000.0).ok(),
        None => time.strip_suffix('s')?.parse().ok(),
    };
    let times: Vec<f64> = times.filter_map(seconds).collect();
    assert!(!times.is_empty() && times.iter().all(|time| *time < waits.as_secs_f64()), "{times:?}: {shown}");
}

#[test]
fn questions_in_labelled_lines_are_without_rules() {
    let write = "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: \"a\\n\"}}]\n  - text: done\n";
    let scenario = program()
        .file("main.worker", "---\nmodel: script:main.yaml\ntoolsets: [filesystem]\n---\nTalk.\n")
        .file("main.yaml", write);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", ".", "--plain"]));
    session.expect("you: ");
    session.type_keys("write\n");
    session.expect("question: main wants to call write_file  (risk: write)\n  │ asked because of: ");
    session.type_keys("a\n");
    session.expect("main: done");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a\n"));
}
