//! The example `echo` in a real terminal: tmux, which wraps rows again when a window changes.

mod tmux_pane;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};
use tmux_pane::{PATIENCE, POLL, Pane};

/// The program that the tests drive. Cargo builds examples beside the tests.
fn echo() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests are in a folder of their own");
    folder.join("examples/echo")
}

fn pane(columns: usize, rows: usize) -> Option<Pane> {
    let pane = Pane::open(columns, rows, echo().to_str()?)?;
    pane.wait_line("Type something. Ctrl-D ends.");
    Some(pane)
}

#[test]
fn lines_that_stream_while_the_window_changes_are_there_once_in_order() {
    let Some(pane) = pane(40, 10) else { return };
    pane.keys(&["/stream 500", "Enter"]);
    for (number, columns) in [120, 60, 40, 120, 60, 100, 60].into_iter().enumerate() {
        let reached = format!("line {:03}", number * 60 + 20);
        pane.wait(&reached, |text| text.iter().any(|line| line.starts_with(&reached)));
        pane.resize(columns, 10);
    }
    let text = pane.wait("the end", |text| text.iter().any(|line| line == "end of the stream"));
    let expected: Vec<String> = (0..500)
        .map(|number| format!("line {number:03} {}", "abcdefghij ".repeat(number % 9)).trim_end().to_owned())
        .collect();
    let shown: Vec<&String> = text.iter().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(shown, expected.iter().collect::<Vec<_>>());
    // What the window had under its old size when it changed may remain of live rows, and nothing else.
    let rest = text.iter().filter(|line| !line.starts_with("line ") && !line.is_empty());
    for line in rest {
        let known = ["Type ", "you: ", "end of", ">", "~"].iter().any(|start| line.starts_with(start));
        assert!(known, "{line:?} in {text:#?}");
    }
}

#[test]
fn keys_go_to_a_question_only_with_the_focus() {
    let Some(pane) = pane(80, 12) else { return };
    pane.keys(&["/ask", "Enter"]);
    pane.wait("the question", |text| text.iter().any(|line| line.contains("Ctrl-G: answer")));
    pane.keys(&["ad"]);
    pane.wait_line("> ad");
    pane.keys(&["C-g", "a"]);
    pane.wait_line("call 1: a");
    pane.wait_line("> ad");
}

#[test]
fn a_pasted_text_is_not_sent() {
    let Some(pane) = pane(80, 12) else { return };
    pane.tmux(&["set-buffer", "one\ntwo\x1b[2J水\n"]);
    pane.tmux(&["paste-buffer", "-p", "-r"]);
    pane.wait_line("  two\\x1b[2J水");
    pane.keys(&["more"]);
    let text = pane.wait_line("  more");
    assert!(!text.iter().any(|line| line.starts_with("you: ")), "{text:#?}");
}

#[test]
fn a_stopped_chat_comes_back_with_its_draft() {
    let Some(pane) = Pane::open(80, 12, "env PS1='$ ' ENV= sh -i") else { return };
    pane.wait_line("$");
    pane.keys(&[echo().to_str().expect("text"), "Enter"]);
    pane.wait_line("Type something. Ctrl-D ends.");
    pane.keys(&["draft"]);
    pane.wait_line("> draft");
    pane.keys(&["C-z"]);
    pane.wait("the prompt", |text| {
        text.iter().rfind(|line| !line.is_empty()).is_some_and(|line| line.starts_with('$'))
    });
    pane.keys(&["echo bet''ween", "Enter"]);
    pane.wait_line("between");
    pane.keys(&["fg", "Enter"]);
    pane.wait("the draft", |text| {
        text.iter().rfind(|line| !line.is_empty()).is_some_and(|line| line == "> draft")
    });
    // The shell has its terminal as it was.
    pane.keys(&["C-c", "C-d"]);
    pane.keys(&["echo af''ter", "Enter"]);
    let text = pane.wait_line("after");
    assert_eq!(text.iter().filter(|line| *line == "> draft").count(), 0, "{text:#?}");
}

#[test]
fn a_chat_ends_with_its_terminal() {
    let Some(pane) = pane(80, 12) else { return };
    let pid = pane.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let pid = String::from_utf8_lossy(&pid.stdout).trim().to_owned();
    // Only the terminal goes: the signal that comes with it is ignored by many programs.
    pane.tmux(&["kill-server"]);
    let until = Instant::now() + PATIENCE;
    let runs =
        || Command::new("kill").args(["-0", &pid]).output().is_ok_and(|output| output.status.success());
    while runs() {
        assert!(Instant::now() < until, "the chat runs without its terminal");
        thread::sleep(POLL);
    }
}
