//! A chat on a terminal (docs/guides/chat.md): lines that stream while the window changes, long texts, and hostile text, keys
//! and windows.

#[path = "../../../terminal/tests/tmux_pane/mod.rs"]
mod tmux_pane;

use crate::{
    scenario::{Scenario, script},
    terminal_session::Session,
};
use serde_json::{Value, json};
use std::{env, fmt::Write as _, fs, process::Command};
use tmux_pane::Pane;

/// A chat with these answers, one after the other.
pub(crate) fn chat(answers: &[Value]) -> Scenario {
    let numbered = answers.iter().enumerate().map(|(turn, answer)| {
        let mut answer = answer.clone();
        answer["when"] = json!({ "turn": turn });
        answer
    });
    let answers: Vec<Value> = numbered.chain([json!({"text": "more"})]).collect();
    Scenario::new()
        .file("hi.worker", "---\nmodel: script:s.json\ntoolsets: [filesystem]\n---\nBe friendly.\n")
        .file("s.json", &script(&answers))
}

/// Long checks run whole with `scripts/prove chat`.
pub(crate) fn whole() -> bool {
    env::var_os("LLM_DO_TEST_WHOLE").is_some()
}

/// The command as a shell takes it, for tmux.
fn in_shell(command: &Command) -> String {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"));
    let mut line = format!(
        "cd {} && exec env -i TERM=screen-256color",
        quoted(command.get_current_dir().expect("a folder").as_os_str())
    );
    // A String takes everything.
    for (name, value) in command.get_envs() {
        let _ = write!(line, " {}={}", name.to_string_lossy(), quoted(value.expect("a value")));
    }
    for word in [command.get_program()].into_iter().chain(command.get_args()) {
        let _ = write!(line, " {}", quoted(word));
    }
    line
}

#[test]
fn answers_that_stream_while_the_window_changes_are_there_once_in_order() {
    let lines = || {
        (0..500).map(|number| {
            format!("line {number:03} {}", "abcdefghij ".repeat(number % 9)).trim_end().to_owned()
        })
    };
    // Two spaces at the end of a line break it in Markdown.
    let text = lines().collect::<Vec<_>>().join("  \n");
    let scenario = chat(&[json!({"text": text, "stream": {"chars": 200, "pause_ms": 10}})]);
    let command = in_shell(&scenario.command_on_terminal(&["chat", "hi.worker"]));
    let Some(pane) = Pane::open(40, 10, &command) else { return };
    pane.wait_line("chat with hi; /help shows the commands");
    pane.keys(&["go", "Enter"]);
    for (number, columns) in [120, 60, 40, 120, 60].into_iter().enumerate() {
        let reached = format!("line {:03}", number * 90 + 20);
        pane.wait(&reached, |text| text.iter().any(|line| line.starts_with(&reached)));
        pane.resize(columns, 10);
    }
    pane.wait("the end", |text| text.iter().any(|line| line.starts_with("line 499")));
    let all = pane.wait("the composer", |text| text.iter().any(|line| line.starts_with('>')));
    let shown: Vec<String> = all.into_iter().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(shown, lines().collect::<Vec<_>>());
}

/// Text that would do harm if a terminal took it as it is.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}b\u{200b}c\u{2066}d\u{feff}e\r\u{8}f";

/// Nothing in it moves a cursor, sets a title or reorders text.
fn assert_plain(text: &str) {
    let harmful = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!text.contains(harmful), "{text:?}");
}

#[test]
fn plain_lines_hold_only_printable_text() {
    let read = json!({"tool": "read_file", "arguments": {"path": HOSTILE}});
    let answers =
        [json!({"text": HOSTILE}), json!({"calls": [read]}), json!({"text": "水 👩‍👩‍👧 e\u{301} שלום"})];
    let scenario = chat(&answers);
    let done = scenario.run_with_stdin(
        &["chat", "hi.worker", "--plain"],
        &format!("{HOSTILE}\nread\n/tools\n/cost\n/help\n"),
    );
    assert_eq!(done.code, Some(0), "{done}");
    assert!(done.stdout.contains("e\u{301} שלום"), "{done}");
    // The joiner of an emoji is part of what is shown.
    assert_plain(&done.stdout.replace("👩‍👩‍👧", ""));
    assert_plain(&done.stderr);
    let resumed = scenario.run_with_stdin(&["chat", "--continue", "--plain"], "");
    assert_plain(&resumed.stdout.replace("👩‍👩‍👧", ""));
}

#[test]
fn hostile_text_on_a_terminal_is_shown_and_not_obeyed() {
    let scenario = chat(&[json!({"text": format!("begin {HOSTILE} end")})]);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    // Pasted, with the end of a paste in the middle and a key after it that would send it.
    session.type_keys(&format!("\u{1b}[200~{}\u{1b}[201~", HOSTILE.replace('\u{1b}', "")));
    session.type_keys("\r");
    session.expect("begin");
    session.expect("end");
    session.type_keys("\u{4}");
    let (code, _) = session.end();
    assert_eq!(code, Some(0));
}

#[test]
fn characters_of_all_scripts_pass_through_composer_and_transcript() {
    const TEXTS: &[&str] = &["水と火", "👩‍👩‍👧 👍🏽", "e\u{301}a\u{308}", "שלום עולם", "مرحبا"];
    let scenario =
        chat(&TEXTS.iter().map(|text| json!({"text": format!("you said {text}")})).collect::<Vec<_>>());
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    for text in TEXTS {
        // What is typed, taken back by one key a grapheme, and typed again is what is sent.
        session.type_keys(text);
        session.type_keys("\u{15}");
        session.type_keys(text);
        session.type_keys("\r");
        session.expect(&format!("you said {text}"));
    }
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    let journal = scenario.journal_of_home();
    let said: Vec<&Value> =
        journal.iter().filter(|record| record["kind"] == "answered").map(|record| &record["value"]).collect();
    assert_eq!(
        said,
        TEXTS[1..].iter().map(|text| json!(text)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
}

#[test]
fn long_lines_and_many_lines_are_whole() {
    let (characters, count) = if whole() { (10_000_000, 100_000) } else { (300_000, 3_000) };
    let lines = (0..count).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n");
    let scenario = chat(&[json!({"text": lines}), json!({"text": "x".repeat(characters)})]);
    let done =
        scenario.run_with_stdin(&["chat", "hi.worker"], &format!("{}\nnext\n", "y".repeat(characters)));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stdout, format!("hi: {lines}\nhi: {}\n", "x".repeat(characters)));
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.type_keys("go\r");
    session.expect(&format!("line {}", count - 1));
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    // The end of a scenario checks each record against its schema, which limits the size of a value.
    fs::remove_dir_all(scenario.home().join("home/.llm-do/runs")).expect("they are there");
}

/// A chat with a long history is resumed in a real terminal: all of it can be scrolled, and the chat continues below.
#[test]
fn a_long_history_is_whole_in_the_scrollback() {
    let (answers, lines) = (20, if whole() { 900 } else { 60 });
    let answer = |answer: usize| -> Vec<String> {
        let line = |line: usize| {
            let text = format!("answer {answer:02} line {line:03} {}", "abcdefghij ".repeat(line % 9));
            text.trim_end().to_owned()
        };
        (0..lines).map(line).collect()
    };
    let source: Vec<String> = (0..answers).flat_map(answer).collect();
    assert!(!whole() || source.iter().map(String::len).sum::<usize>() > 1_000_000);
    // Two spaces at the end of a line break it in Markdown.
    let texts: Vec<Value> = (0..answers).map(|number| json!({"text": answer(number).join("  \n")})).collect();
    let scenario = chat(&texts);
    let done = scenario.run_with_stdin(&["chat", "hi.worker"], &"go\n".repeat(answers));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let command = in_shell(&scenario.command_on_terminal(&["chat", "--continue"]));
    let Some(pane) = Pane::open(100, 30, &command) else { return };
    let all = pane.wait("the end", |text| text.iter().any(|line| line.ends_with(" continues")));
    let shown: Vec<String> = all.into_iter().filter(|line| line.starts_with("answer ")).collect();
    assert!(shown == source, "{} lines of {}", shown.len(), source.len());
    pane.keys(&["and now?", "Enter"]);
    pane.wait_line("more");
    pane.keys(&["C-d"]);
}

#[test]
fn a_chat_works_in_windows_of_any_size() {
    let scenario = chat(&[json!({"text": "hello there"}), json!({"text": "again"})]);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.resize_to(1, 1);
    session.type_keys("hi\r");
    // A storm of changes.
    for size in 1..200 {
        session.resize_to(size % 40 + 1, size % 97 + 1);
    }
    session.resize_to(40, 100);
    session.type_keys("more\r");
    session.expect("again");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn a_terminal_that_knows_nothing_gets_labelled_lines() {
    for (variable, value, arguments) in [
        ("TERM", "dumb", &["chat", "hi.worker"][..]),
        ("ACCESSIBLE", "1", &["chat", "hi.worker"][..]),
        ("NO_COLOR", "1", &["chat", "hi.worker", "--plain"][..]),
    ] {
        let scenario = chat(&[json!({"text": "**hello**"})]).env(variable, value);
        let mut session = Session::start(scenario.command_on_terminal(arguments));
        session.expect("you: ");
        session.type_keys("hi\n");
        session.expect("hi: **hello**");
        session.expect("you: ");
        session.type_keys("\u{4}");
        let (code, shown) = session.end_raw();
        assert_eq!((code, shown.contains('\u{1b}')), (Some(0), false), "{variable}: {shown:?}");
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let scenario = chat(&[json!({"text": "**hello** `code`"})]).env("NO_COLOR", "1");
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.type_keys("hi\r");
    session.expect("code");
    session.type_keys("\u{4}");
    let (code, shown) = session.end_raw();
    let coloured = shown.split("\u{1b}[").skip(1).any(|rest| {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        rest[end..].starts_with('m') && rest[..end].split(';').any(|number| number.len() == 2)
    });
    assert_eq!((code, coloured), (Some(0), false), "{shown:?}");
}

#[test]
fn a_stopped_chat_comes_back_with_its_draft() {
    let scenario = chat(&[json!({"text": "hello"})]);
    let Some(pane) = Pane::open(80, 12, "env PS1='$ ' ENV= sh -i") else { return };
    pane.wait_line("$");
    pane.keys(&[&format!("({})", in_shell(&scenario.command_on_terminal(&["chat", "hi.worker"]))), "Enter"]);
    pane.wait_line("chat with hi; /help shows the commands");
    pane.keys(&["draft", "C-z"]);
    let shell_waits = |text: &[String]| {
        text.iter().rfind(|line| !line.is_empty()).is_some_and(|line| line.starts_with('$'))
    };
    pane.wait("the prompt", shell_waits);
    pane.keys(&["fg", "Enter"]);
    pane.wait("the draft", |text| text.iter().any(|line| line == "> draft"));
    pane.keys(&["Enter"]);
    pane.wait_line("hello");
    pane.keys(&["C-d"]);
    pane.wait("the prompt", shell_waits);
}

#[test]
fn a_second_client_is_refused_and_told_why() {
    let scenario = chat(&[json!({"text": "hello"})]);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.type_keys("hi\r");
    session.expect("hello");
    let second = scenario.run_with_stdin(&["chat", "--continue"], "me too\n");
    assert_eq!(second.code, Some(2), "{second}");
    assert!(second.stderr.contains(&format!("process {}", session.id())), "{second}");
    session.type_keys("still here?\r");
    session.expect("more");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn a_chat_whose_terminal_goes_away_can_be_resumed() {
    let scenario = chat(&[json!({"text": "hello"})]);
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.type_keys("hi\r");
    session.expect("hello");
    session.settle();
    session.close();
    let resumed = scenario.run_with_stdin(&["chat", "--continue"], "again\n");
    assert_eq!(resumed.stdout, "you: hi\nhi: hello\nhi: more\n", "{resumed}");
}

#[test]
fn a_chat_on_a_full_disk_says_so_and_goes_on_later() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::{io::Write as _, os::unix::process::CommandExt as _, process::Stdio};
    let long = || json!({"text": "x".repeat(3000)});
    let scenario = chat(&[json!({"text": "hello"}), long(), long(), long()]);
    let mut command = scenario.command(&["chat", "hi.worker"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(|| {
            setrlimit(Resource::Fsize, Rlimit { current: Some(12_288), maximum: None })?;
            Ok(())
        });
    }
    let mut child = command.spawn().expect("the binary starts");
    let _ = child.stdin.take().expect("a pipe").write_all(b"hi\na\nb\nc\n");
    let done = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!(done.code, Some(1), "{done}");
    assert!(done.stderr.contains("the journal cannot be written"), "{done}");
    assert!(done.stderr.contains("continues this chat"), "{done}");
    let resumed = scenario.run_with_stdin(&["chat", "--continue"], "");
    assert_eq!(resumed.code, Some(0), "{resumed}");
}
