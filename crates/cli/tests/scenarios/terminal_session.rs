//! A process on a pseudo-terminal.

use rustix::{
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// A timeout that only a hang exceeds, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// A text that the test writes after the process has ended: when it is read, all output has been read.
const END: &str = "[end of the session]";

/// A process whose controlling terminal the test reads and types on.
pub(crate) struct Session {
    terminal: File,
    /// The process's side of the pseudo-terminal, kept open so that the last output can still be read.
    line: OwnedFd,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// The output so far, without escape sequences.
    shown: String,
    plain: PlainText,
    raw: Vec<u8>,
    /// The position up to which `expect` has searched.
    seen: usize,
}

impl Session {
    /// Starts the command on a new terminal, which is its stdin, stdout and stderr too where these aren't redirected.
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with(command, true, size(40, 100))
    }

    /// The same on a terminal of another size.
    pub(crate) fn start_in(command: Command, rows: u16, columns: u16) -> Self {
        Self::start_with(command, true, size(rows, columns))
    }

    /// Starts the command with the stdout that the caller has set.
    pub(crate) fn start_keeping_stdout(command: Command) -> Self {
        Self::start_with(command, false, size(40, 100))
    }

    fn start_with(mut command: Command, stdout: bool, size: Winsize) -> Self {
        let terminal =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&terminal).expect("its other end");
        unlockpt(&terminal).expect("its other end");
        let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("a plain name");
        let line: OwnedFd =
            OpenOptions::new().read(true).write(true).open(name).expect("its other end").into();
        tcsetwinsize(&terminal, size).expect("a size");
        let handle = || Stdio::from(line.try_clone().expect("a handle"));
        command.stdin(handle()).stderr(handle());
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        if stdout {
            command.stdout(handle());
        }
        // SAFETY: between fork and exec only these two system calls are made.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                // Stdin is the terminal.
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        let child = command.spawn().expect("the process starts");
        let terminal = File::from(terminal);
        let mut reading = terminal.try_clone().expect("a handle");
        let (send, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let (shown, plain) = (String::new(), PlainText::default());
        Self { terminal, line, child, output, shown, plain, raw: Vec::new(), seen: 0 }
    }

    /// Gives the terminal another width.
    pub(crate) fn resize(&self, columns: u16) {
        self.resize_to(40, columns);
    }

    /// Gives the terminal another size.
    pub(crate) fn resize_to(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.terminal, size(rows, columns)).expect("a size");
    }

    /// Waits until nothing has been written for a moment.
    pub(crate) fn settle(&mut self) {
        while self.written_within(Duration::from_millis(300)) > 0 {}
    }

    /// The bytes that are written within that time.
    pub(crate) fn written_within(&mut self, time: Duration) -> usize {
        let (deadline, before) = (Instant::now() + time, self.raw.len());
        while self.read(deadline.saturating_duration_since(Instant::now())) {}
        self.raw.len() - before
    }

    /// Waits for output. `false`: none came within that time.
    pub(crate) fn read(&mut self, within: Duration) -> bool {
        let Ok(bytes) = self.output.recv_timeout(within) else { return false };
        self.take(&bytes);
        true
    }

    /// The output so far, as it was written.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Types keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until a text is shown, after the texts expected before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut from = self.seen;
        loop {
            if let Some(at) = self.shown[from..].find(text) {
                self.seen = from + at + text.len();
                return;
            }
            // The text may have begun to appear. What was searched is not searched again.
            from = from.max(self.shown.len().saturating_sub(text.len()));
            while !self.shown.is_char_boundary(from) {
                from -= 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(self.read(left), "{text:?} did not appear; shown:\n{}", self.shown);
        }
    }

    /// Waits until a prompt is shown and reads single keys.
    pub(crate) fn expect_prompt(&mut self) {
        self.expect("[v] show all");
        self.wait_for_keys();
    }

    /// Waits until the terminal is in the mode for single keys.
    pub(crate) fn wait_for_keys(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.reads_keys() {
            assert!(Instant::now() < deadline, "the prompt does not read");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns true if the terminal is in the mode of a prompt.
    pub(crate) fn reads_keys(&self) -> bool {
        !tcgetattr(&self.line)
            .expect("its mode")
            .local_modes
            .intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process, which can't do anything about it.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        let _ = self.child.wait();
    }

    /// Closes the terminal while the process runs, and waits for its end.
    #[track_caller]
    pub(crate) fn close(self) -> Option<i32> {
        let Self { terminal, line, mut child, output, .. } = self;
        // The reading thread holds the terminal too, and exits when it reads something after its receiver is gone.
        drop(output);
        File::from(line).write_all(b"closed").expect("it takes it");
        drop(terminal);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().expect("a process") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        panic!("it does not end");
    }

    /// Waits for the end. Returns the exit code and the output.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("it does not end; shown:\n{}", self.shown);
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert!(!self.reads_keys(), "the terminal is left in the mode of a prompt");
        File::from(self.line.try_clone().expect("a handle")).write_all(END.as_bytes()).expect("it takes it");
        self.expect(END);
        let shown = self.shown.strip_suffix(END).expect("nobody else writes").to_owned();
        (status.code(), shown)
    }

    /// Ends like [`Self::end`], and returns the output as it was written.
    #[track_caller]
    pub(crate) fn end_raw(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("a process");
        self.settle();
        (status.code(), String::from_utf8_lossy(&self.raw).into_owned())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        self.plain.feed(bytes, &mut self.shown);
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A filter that removes escape sequences and carriage returns from output. The pieces of the output may end anywhere.
#[derive(Default)]
struct PlainText {
    /// The beginning of a character.
    rest: Vec<u8>,
    within: Within,
}

/// The part of a sequence that the output is in.
#[derive(Clone, Copy, Default)]
enum Within {
    #[default]
    Text,
    /// After the escape character.
    Escape,
    /// Between `ESC [` and the letter that ends it.
    Control,
}

impl PlainText {
    fn feed(&mut self, bytes: &[u8], out: &mut String) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|c| self.take(c, out));
            match std::str::from_utf8(chunk.invalid()).map_err(|error| error.error_len()) {
                Ok(_) => {}
                Err(None) => self.rest = chunk.invalid().to_vec(),
                Err(Some(_)) => self.take(char::REPLACEMENT_CHARACTER, out),
            }
        }
    }

    fn take(&mut self, c: char, out: &mut String) {
        self.within = match (self.within, c) {
            (Within::Control, c) if !c.is_ascii_alphabetic() => Within::Control,
            (Within::Control, _) => Within::Text,
            (Within::Escape, '[') => Within::Control,
            (Within::Text | Within::Escape, '\u{1b}') => Within::Escape,
            (Within::Text | Within::Escape, c) => {
                out.extend(Some(c).filter(|c| *c != '\r'));
                Within::Text
            }
        };
    }
}
