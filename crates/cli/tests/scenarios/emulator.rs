//! A process on a pseudo-terminal whose output goes to an emulator in this process. It shows what a user would see in a
//! window that wraps rows again when its width changes.

use crate::terminal_session::Session;
use std::{
    process::Command,
    time::{Duration, Instant},
};

/// A timeout that only a hang exceeds, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// A window.
pub(crate) struct Emulator {
    session: Session,
    screen: avt::Terminal,
    /// Bytes of the output that the emulator has seen.
    fed: usize,
}

impl Emulator {
    /// Starts the command in a window of that size.
    pub(crate) fn start(command: Command, columns: u16, rows: u16) -> Self {
        let screen = avt::Terminal::with_scrollback(columns.into(), rows.into(), None).expect("a size");
        Self { session: Session::start_in(command, rows, columns), screen, fed: 0 }
    }

    /// The terminal itself.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.session.type_keys(keys);
    }

    /// Gives the window another size, after it has shown what was written so far. What the process writes before it hears
    /// of the size meets the new one, as in any window. An update that is to be shown in one step is not cut in two: between a
    /// carriage return and its line feed the cursor is on the first row of a line, and not on its last.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let is_whole = |raw: &[u8]| {
            let count = |mark: &[u8]| raw.windows(mark.len()).filter(|bytes| *bytes == mark).count();
            count(b"\x1b[?2026h") == count(b"\x1b[?2026l")
        };
        loop {
            while self.session.read(Duration::ZERO) {}
            if is_whole(self.session.raw()) {
                break;
            }
            self.session.read(POLL);
        }
        self.feed();
        self.screen.resize(columns.into(), rows.into());
        self.session.resize_to(rows, columns);
    }

    /// The rows of the screen.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.screen.screen().visible_lines().map(|line| line.text().trim_end().to_owned()).collect()
    }

    /// The screen as text, without blank rows at its end.
    pub(crate) fn picture(&self) -> String {
        self.rows().join("\n").trim_end().to_owned()
    }

    /// The lines of scrollback and screen, wrapped rows joined.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.screen.screen().text().into_iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Returns true if a row of the screen contains a text.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.rows().iter().any(|row| row.contains(text))
    }

    /// Waits until the window is as wanted.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self) {
            assert!(Instant::now() < deadline, "{what} is not shown:\n{}", self.picture());
            self.session.read(POLL);
            self.feed();
        }
    }

    /// Waits until a row of the screen contains a text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait(text, |window| window.shows(text));
    }

    /// Waits until the chat with that worker waits for the next message: its status row names nothing that is being done. Only
    /// then a command about the conversation is taken; a message that is sent earlier waits.
    #[track_caller]
    pub(crate) fn wait_for_prompt(&mut self, worker: &str) {
        let is_idle = |row: &str| {
            row.strip_prefix(worker).is_some_and(|rest| rest.starts_with(" · ") || rest.starts_with(" → "))
        };
        self.wait("the prompt", |window| {
            window.rows().iter().rfind(|row| !row.is_empty()).is_some_and(|row| is_idle(row))
        });
    }

    /// Waits until nothing has been written for a moment.
    pub(crate) fn settle(&mut self) {
        self.session.settle();
        self.feed();
    }

    /// Leaves the chat with Ctrl-D and returns its exit code. Ctrl-C before it removes a draft.
    #[track_caller]
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.type_keys("\u{3}\u{4}");
        self.session.end().0
    }

    /// Waits for the end. Returns the exit code, and the last output.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.session.end()
    }

    pub(crate) fn kill(self) {
        self.session.kill();
    }

    fn feed(&mut self) {
        let new = &self.session.raw()[self.fed..];
        // A character may have arrived in part.
        let whole = match std::str::from_utf8(new) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&new[..error.valid_up_to()]).expect("it is valid so far"),
        };
        self.screen.feed(whole);
        self.fed += whole.len();
    }
}
