//! The example `echo` in a real terminal: tmux, which wraps rows again when a window changes. `LLM_DO_TEST_TMUX` names the
//! program (`.ci/run` installs one).

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// A tmux server with one pane. Ends when dropped.
struct Pane {
    tmux: PathBuf,
    folder: tempfile::TempDir,
}

/// The program that the tests drive. Cargo builds examples beside the tests.
fn echo() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests are in a folder of their own");
    folder.join("examples/echo")
}

impl Pane {
    /// A pane that runs a command, or `None` with a message where there is no tmux.
    #[allow(clippy::print_stderr, reason = "a test that skips says so")]
    fn open(columns: usize, rows: usize, command: &str) -> Option<Self> {
        let Some(tmux) = env::var_os("LLM_DO_TEST_TMUX") else {
            eprintln!("skipped: LLM_DO_TEST_TMUX names no tmux");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let configuration = folder.path().join("tmux.conf");
        std::fs::write(
            &configuration,
            "set -g history-limit 100000\nset -g status off\nset -g default-terminal screen-256color\n",
        )
        .expect("written");
        let pane = Self { tmux: tmux.into(), folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let arguments = ["new-session", "-d", "-x", &columns, "-y", &rows, command];
        let started =
            pane.tmux(&["-f", configuration.to_str()?].into_iter().chain(arguments).collect::<Vec<_>>());
        assert!(started.status.success(), "{started:?}");
        Some(pane)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let socket = self.folder.path().join("socket");
        let mut command = Command::new(&self.tmux);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-u").arg("-S").arg(socket).args(arguments);
        command.output().expect("tmux runs")
    }

    /// Types a text, or presses a key by tmux's name.
    fn keys(&self, keys: &[&str]) {
        let sent = self.tmux(&["send-keys"].into_iter().chain(keys.iter().copied()).collect::<Vec<_>>());
        assert!(sent.status.success(), "{sent:?}");
    }

    fn resize(&self, columns: usize, rows: usize) {
        let resized = self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        assert!(resized.status.success(), "{resized:?}");
    }

    /// Scrollback and screen, wrapped rows joined.
    fn text(&self) -> Vec<String> {
        let captured = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
        let text = String::from_utf8_lossy(&captured.stdout).into_owned();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until something is shown.
    fn wait(&self, what: &str, shown: impl Fn(&[String]) -> bool) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if shown(&text) {
                return text;
            }
            assert!(Instant::now() < until, "{what} is not shown: {text:#?}");
            thread::sleep(POLL);
        }
    }

    fn wait_line(&self, line: &str) -> Vec<String> {
        self.wait(line, |text| text.iter().any(|shown| shown == line))
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
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
