//! The commands of a chat, over pipes and on a terminal.

use crate::{
    python::fixture::wait_for,
    scenario::{Finished, Scenario, journal_in},
    terminal_session::Session,
};
use serde_json::{Value, json};

/// A chat beside a worker with parameters.
fn program() -> Scenario {
    Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:main.yaml\n---\nTalk.\n")
        .file(
            "main.yaml",
            "answers:\n  - when: {last_regex: 'SUMMARY'}\n    text: I see the summary\n  \
             - when: {last_regex: 'inside the file'}\n    text: I see the file\n  - text: I see nothing\n",
        )
        .file("notes.txt", "inside the file\n")
        .file(
            "workers/summarise.worker",
            "---\ndescription: Summarises a text.\nmodel: script:summarise.yaml\nparameters:\n  text: string\n  \
             style: {enum: [short, long], default: short}\n---\nSummarise.\n",
        )
        .file("summarise.yaml", "answers:\n  - text: SUMMARY\n")
}

fn chat(scenario: &Scenario, lines: &str) -> Finished {
    scenario.run_with_stdin(&["chat", "--project", "."], lines)
}

/// The kinds of the answers that the user gave, in order.
fn answers(journal: &[Value]) -> Vec<&str> {
    let answered = journal.iter().filter(|record| record["kind"] == "answered");
    answered.filter_map(|record| record["answer"].as_str()).collect()
}

/// Resumes and replays the chat: both follow its records.
fn resumes_and_replays(scenario: &Scenario) {
    let resumed = scenario.run_with_stdin(&["chat", "--continue", "--project", "."], "");
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn help_shows_the_commands_and_the_workers() {
    let scenario = program();
    let done = chat(&scenario, "/help\n/help run\n/help summarise\n/help nothing\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for shown in [
        "/run WORKER [ARGUMENTS]",
        "/summarise  Summarises a text.",
        "with quotes as in a shell",
        "/summarise(text: string, style: ",
        "\nerror: there is no command /nothing",
    ] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
}

#[test]
fn arguments_that_are_no_parameters_run_nothing() {
    let scenario = program();
    let done = chat(&scenario, "hello\n/summarise stlye=short\n/run summarise foo=1 A text.\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for name in ["stlye", "foo"] {
        let refused = format!(
            "\nerror: `summarise` has no parameter `{name}`\n  signature: summarise(text: string, style: "
        );
        assert!(done.stderr.contains(&refused), "{}", done.stderr);
    }
    assert_eq!(done.stderr.matches("\n  nothing was run\n").count(), 2, "{}", done.stderr);
    assert!(answers(&scenario.journal()).is_empty());
    // Behind words of the text, and in quotes, it is text.
    let scenario = program();
    let done = chat(&scenario, "hello\n/summarise solve x=1 style=long\n/summarise \"x=1 and y=2\"\n");
    assert_eq!(done.stdout.matches("SUMMARY").count(), 2, "{}{}", done.stdout, done.stderr);
    let journal = scenario.journal();
    let called = journal.iter().filter(|record| record["kind"] == "call_started" && record["path"] != "0");
    let inputs: Vec<&Value> = called.map(|record| &record["input"]).collect();
    assert_eq!(inputs[0], &json!({"text": "solve x=1", "style": "long"}));
    assert_eq!(inputs[1]["text"], "x=1 and y=2");
}

#[test]
fn the_result_of_a_worker_joins_the_next_message_only_if_it_is_kept() {
    let scenario = program();
    let lines =
        "hello\n/summarise a long text\nand?\n/run summarise text='a b' style=long\n/keep\nand now?\n";
    let done = chat(&scenario, lines);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(
        done.stdout,
        "main: I see nothing\nsummarise: SUMMARY\nmain: I see nothing\nsummarise: SUMMARY\nmain: I see the summary\n"
    );
    let journal = scenario.journal();
    assert_eq!(answers(&journal), ["run", "give", "run", "keep", "give"]);
    let called: Vec<&Value> =
        journal.iter().filter(|record| record["kind"] == "call_started" && record["path"] != "0").collect();
    assert_eq!(called[0]["path"], json!("0/run.1"));
    assert_eq!(called[0]["principal"], json!("operator"));
    assert_eq!(called[1]["input"], json!({"text": "a b", "style": "long"}));
    resumes_and_replays(&scenario);
}

#[test]
fn arguments_that_do_not_fit_run_nothing() {
    let scenario = program();
    let done = chat(
        &scenario,
        "hello\n/summarise a style=medium\n/summarise style=short\n/run nothing\n/summarise 'a\n",
    );
    for shown in ["style", "`text`", "nothing was run", "nothing", "the quote ' is not closed"] {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
    assert_eq!(answers(&scenario.journal()), Vec::<&str>::new());
}

#[test]
fn a_retry_sends_what_had_joined_the_message() {
    let scenario = program();
    let done = chat(&scenario, "hello\n/summarise a\n/keep\nand?\n/retry\n/save talk.md\n");
    assert!(done.stdout.ends_with("main: I see the summary\nmain: I see the summary\n"), "{}", done.stdout);
    let saved = scenario.read("talk.md").unwrap_or_default();
    assert!(saved.contains("and?\n\n*(with result of summarise)*"), "{saved}");
    resumes_and_replays(&scenario);
}

#[test]
fn files_join_the_first_message_and_later_ones() {
    let scenario = program();
    let first = chat(&scenario, "read @notes.txt, please\n");
    assert_eq!(first.stdout, "main: I see the file\n", "{}", first.stderr);
    let lines = "hello\n/attach notes.txt\n/attach\nread\nagain @notes.txt\n/attach notes.txt\n/detach\n/detach\nbye\n";
    let done = chat(&scenario, lines);
    assert_eq!(
        done.stdout, "main: I see nothing\nmain: I see the file\nmain: I see the file\nmain: I see nothing\n",
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("With your next message:\n"), "{}", done.stderr);
    assert!(done.stderr.contains("nothing joins your next message"), "{}", done.stderr);
    resumes_and_replays(&scenario);
}

#[test]
fn a_file_that_the_worker_does_not_take_is_not_sent_and_neither_is_the_message() {
    let scenario = program().file(
        "main.worker",
        "---\nmodel: script:main.yaml\nattachment_policy: {denied_suffixes: [.txt]}\n---\nTalk.\n",
    );
    let done = chat(&scenario, "hello\nread @notes.txt\n/attach nothing.txt\n");
    assert_eq!(done.stdout, "main: I see nothing\n");
    assert!(done.stderr.contains("does not take the attachment `notes.txt`"), "{}", done.stderr);
    assert!(done.stderr.contains("not attached"), "{}", done.stderr);
}

#[test]
fn now_is_said_with_the_next_request_of_the_answer() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWork.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    delay_ms: 3000\n    calls: [{tool: list_files, arguments: {}}]\n  \
             - when: {last_regex: 'while you were working'}\n    text: I heard you\n  - text: I heard nothing\n",
        );
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "main.worker"]));
    session.expect("/help");
    session.type_keys("go\r");
    // What is said before a request is sent joins that one.
    let runs = scenario.project().join(".llm-do/runs");
    wait_for("the first request", || {
        journal_in(&runs).iter().any(|record| record["kind"] == "model_requested")
    });
    session.type_keys("/now be quick\r");
    session.expect("with the next request");
    session.expect("I heard you");
    session.type_keys("/now and then\r");
    session.expect("I heard nothing");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    let journal = scenario.journal();
    let said: Vec<&Value> =
        journal.iter().filter(|record| record["kind"] == "answered").map(|record| &record["step"]).collect();
    assert_eq!(said, [&json!("now.1"), &json!("message.1")]);
    // The words are part of the conversation: a resumed chat shows them, and they are saved.
    let resumed = scenario.run_with_stdin(&["chat", "--continue"], "/save\n");
    assert!(resumed.stdout.contains("you: go\nyou: be quick\nmain: I heard you\n"), "{resumed}");
    let saved = scenario.read("chat.md").unwrap_or_default();
    assert!(saved.contains("## You, meanwhile\n\nbe quick\n\n## main\n\nI heard you"), "{saved}");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn a_worker_that_the_user_calls_may_talk_to_the_user() {
    let scenario = program().file(
        "workers/interview.worker",
        "---\nmodel: script:interview.yaml\nmode: chat\ninteraction: user\nreturns: {city: string}\n---\nAsk.\n",
    );
    let scenario = scenario.file(
        "interview.yaml",
        "answers:\n  - when: {turn: 0}\n    text: Where to?\n  - calls: [{tool: finish, arguments: {city: Rome}}]\n",
    );
    let done = chat(&scenario, "hello\n/interview a trip\nRome\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("interview: Where to?\n"), "{}", done.stdout);
    assert!(done.stdout.contains("\"city\": \"Rome\""), "{}", done.stdout);
    resumes_and_replays(&scenario);
}

/// The IDs of the chats, oldest first.
fn chats(scenario: &Scenario) -> Vec<String> {
    let mut runs: Vec<String> =
        scenario.runs().iter().filter_map(|dir| Some(dir.file_name()?.to_str()?.to_owned())).collect();
    runs.sort();
    runs
}

#[test]
fn a_fork_goes_on_and_the_first_chat_can_be_resumed() {
    let scenario = program();
    let done = chat(&scenario, "hello\n/fork\nmore\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.ends_with("main: I see nothing\n"), "{}", done.stdout);
    let runs = chats(&scenario);
    assert_eq!(runs.len(), 2, "{runs:?}");
    resumes_and_replays(&scenario);
    let first = scenario.run_with_stdin(&["chat", "--resume", &runs[0], "--project", "."], "other\n");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(first.stdout, "you: hello\nmain: I see nothing\nmain: I see nothing\n");
}

#[test]
fn a_chat_goes_on_with_another_one() {
    let scenario = program();
    chat(&scenario, "the first\n");
    let first = chats(&scenario).remove(0);
    let done = chat(&scenario, &format!("the second\n/resume\n/resume {first}\nback\n/resume nothing\n"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("[RUN]  20"), "{}", done.stderr);
    assert!(
        done.stdout.ends_with("you: the first\nmain: I see nothing\nmain: I see nothing\n"),
        "{}",
        done.stdout
    );
    assert!(done.stderr.contains("nothing"), "{}", done.stderr);
}

#[test]
fn a_new_chat_takes_what_a_pipe_has_given() {
    let scenario = program();
    let done = chat(&scenario, "one\n/new\ntwo\n");
    assert_eq!(done.stdout, "main: I see nothing\nmain: I see nothing\n", "{}", done.stderr);
    assert_eq!(chats(&scenario).len(), 2);
}

#[test]
fn what_was_typed_is_found_in_later_chats_but_no_secret() {
    let scenario = program().env("OPENAI_API_KEY", "sk-very-secret-key-0123456789");
    let file = ".llm-do/chat-history.jsonl";
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("remember this line\r");
    session.expect("I see nothing");
    session.type_keys("my key is sk-very-secret-key-0123456789\r");
    session.expect("I see nothing");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    let kept = scenario.read(file).unwrap_or_default();
    assert!(
        kept.starts_with("{\"text\":\"remember this line\",\"seal\":") && kept.lines().count() == 1,
        "{kept}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(scenario.project().join(file)).map(|file| file.permissions().mode());
        assert_eq!(mode.ok().map(|mode| mode & 0o777), Some(0o600));
    }
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("\u{12}ember");
    session.expect("remember this line");
    session.type_keys("\u{3}\u{4}");
    assert_eq!(session.end().0, Some(0));
    // Without the history nothing is kept.
    let off = program().env("LLM_DO_HISTORY", "0");
    let mut session = Session::start(off.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("remember\r");
    session.expect("I see nothing");
    session.type_keys("\u{4}");
    session.end();
    assert_eq!(off.read(file), None);
}

#[test]
fn a_project_from_elsewhere_brings_no_history() {
    let foreign = "{\"text\":\"/run evil\",\"seal\":\"AAAAAAAAAAAAAAAAAAAAAA\"}\n{\"text\":\"evil\"}\n";
    let scenario = program().file(".llm-do/chat-history.jsonl", foreign);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    // Up would bring the newest line.
    session.type_keys("\u{1b}[Amine\r");
    session.expect("I see nothing");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    let first = scenario.journal().iter().find(|record| record["kind"] == "call_started").cloned();
    assert_eq!(first.map(|record| record["input"].clone()), Some(json!({"input": "mine"})));
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_history_is_not_followed() {
    let scenario = program().file("victim.txt", "untouched\n");
    std::fs::create_dir(scenario.project().join(".llm-do")).expect("a folder");
    std::os::unix::fs::symlink("../victim.txt", scenario.project().join(".llm-do/chat-history.jsonl"))
        .expect("a link");
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "--project", "."]));
    session.expect("/help");
    session.type_keys("hello\r");
    session.expect("I see nothing");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(scenario.read("victim.txt").as_deref(), Some("untouched\n"));
}

#[test]
fn another_model_answers_from_the_next_message_on() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:a.yaml\ncompatible_models: [\"script:*.yaml\"]\n---\nTalk.\n",
        )
        .file("a.yaml", "answers:\n  - text: from a\n")
        .file("b.yaml", "answers:\n  - text: from b\n");
    let lines = "one\n/model\n/model nothing\n/model openai:gpt-4\n/model script:b.yaml\ntwo\n/cost\n";
    let done = scenario.run_with_stdin(&["chat", "main.worker"], lines);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "main: from a\nmain: from b\n"),
        "{}",
        done.stderr
    );
    for shown in
        ["now: script:a.yaml", "compatible_models of main", "the model stays", "script:b.yaml answers from"]
    {
        assert!(done.stderr.contains(shown), "{shown}: {}", done.stderr);
    }
    let resumed = scenario.run_with_stdin(&["chat", "--continue"], "three\n");
    assert!(resumed.stdout.ends_with("main: from b\nmain: from b\n"), "{}{}", resumed.stdout, resumed.stderr);
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
    let locked = scenario.file("main.worker", "---\nmodel: script:a.yaml\nlocked: true\n---\nTalk.\n");
    let done = locked.run_with_stdin(&["chat", "main.worker"], "one\n/model script:b.yaml\ntwo\n");
    assert_eq!(done.stdout, "main: from a\nmain: from a\n");
    assert!(done.stderr.contains("is locked to its model"), "{}", done.stderr);
}

#[test]
fn rules_are_shown_with_their_places_and_what_is_remembered() {
    let scenario = Scenario::new()
        .file("project.yaml", "entry: main\napproval: {tools: {delete_file: blocked}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\ntool_rules: {read_file: ask}\n---\nWork.\n",
        )
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n",
        );
    let arguments = ["chat", "--project", ".", "--deny", "move_file", "--ask", "write_file"];
    let mut session = Session::start(scenario.command_on_terminal(&arguments));
    session.expect("/help");
    session.type_keys("go\r");
    session.expect("wants to call write_file");
    session.type_keys("\u{7}r");
    session.expect("done");
    session.type_keys("/rules\r");
    for shown in [
        "mode: interactive",
        "command line:",
        "deny   move_file  (--deny move_file)",
        "tool_rules of main:",
        "ask    read_file  (main.worker:",
        "project:",
        "deny   delete_file  (project.yaml:",
        "remembered in this chat:",
        "allow  write_file",
    ] {
        session.expect(shown);
    }
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
}
