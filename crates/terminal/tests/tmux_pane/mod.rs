//! A pane of tmux that runs a program. `LLM_DO_TEST_TMUX` names tmux (`.ci/run` installs one).

use std::{
    env,
    path::PathBuf,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

/// Timeout of every wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// A tmux server with one pane. Ends when dropped.
pub(crate) struct Pane {
    tmux: PathBuf,
    folder: tempfile::TempDir,
}

impl Pane {
    /// A pane that runs a command, or `None` with a message where there is no tmux.
    #[allow(clippy::print_stderr, reason = "a test that skips says so")]
    pub(crate) fn open(columns: usize, rows: usize, command: &str) -> Option<Self> {
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

    pub(crate) fn tmux(&self, arguments: &[&str]) -> Output {
        let socket = self.folder.path().join("socket");
        let mut command = Command::new(&self.tmux);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-u").arg("-S").arg(socket).args(arguments);
        command.output().expect("tmux runs")
    }

    /// Types a text, or presses a key by tmux's name.
    pub(crate) fn keys(&self, keys: &[&str]) {
        let sent = self.tmux(&["send-keys"].into_iter().chain(keys.iter().copied()).collect::<Vec<_>>());
        assert!(sent.status.success(), "{sent:?}");
    }

    pub(crate) fn resize(&self, columns: usize, rows: usize) {
        let resized = self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        assert!(resized.status.success(), "{resized:?}");
    }

    /// Scrollback and screen, wrapped rows joined.
    pub(crate) fn text(&self) -> Vec<String> {
        let captured = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
        let text = String::from_utf8_lossy(&captured.stdout).into_owned();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until something is shown.
    pub(crate) fn wait(&self, what: &str, shown: impl Fn(&[String]) -> bool) -> Vec<String> {
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

    pub(crate) fn wait_line(&self, line: &str) -> Vec<String> {
        self.wait(line, |text| text.iter().any(|shown| shown == line))
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
