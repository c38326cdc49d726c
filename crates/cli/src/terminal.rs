//! The operator's terminal: `/dev/tty`, wherever stdin, stdout and stderr are redirected.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// How long a reader waits before it looks whether it is still wanted, in nanoseconds.
const LOOK: i64 = 50_000_000;

/// The controlling terminal. While keys are read it is in another mode; [`Terminal::restore`] puts it back from any
/// thread, so that no way of ending leaves it there.
pub(crate) struct Terminal {
    file: File,
    /// How it was set before keys were read.
    before: Mutex<Option<Termios>>,
    /// The columns for which something was drawn last.
    drawn: AtomicUsize,
}

/// What came from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// These characters, at once.
    Text(String),
    /// A key that makes no character (an arrow, for example).
    Other,
    /// Ctrl-D.
    End,
    /// No key: the terminal has another width than that for which something was drawn. Terminals wrap what they show when
    /// they become narrower, so the question has to be drawn again ([`Terminal::draw`]).
    Resized,
    /// The question was withdrawn, or the terminal was closed. This is not an answer.
    Cancelled,
}

impl Terminal {
    /// The terminal of this process, if it has one that can be read.
    pub(crate) fn open() -> Option<Arc<Self>> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        tcgetattr(&file).ok()?;
        Some(Arc::new(Self { file, before: Mutex::default(), drawn: AtomicUsize::default() }))
    }

    /// Shows text. A terminal that is gone shows nothing.
    pub(crate) fn show(&self, text: &str) {
        let _ = (&self.file).write_all(text.as_bytes());
    }

    /// Shows rows of at most as many columns as it is given. If the terminal needs more columns for a row, it shows less of
    /// the row instead of continuing in the first column of the next.
    pub(crate) fn draw(&self, rows: impl FnOnce(usize) -> String) {
        let columns = self.columns();
        self.drawn.store(columns, Ordering::Relaxed);
        self.show(&format!("\x1b[?7l{}\x1b[?7h", rows(columns)));
    }

    /// As [`Terminal::draw`], in place of what was drawn for another width. That may have been wrapped meanwhile.
    pub(crate) fn redraw(&self, rows: impl FnOnce(usize) -> String) {
        self.show("\x1b[H\x1b[2J");
        self.draw(rows);
    }

    /// Columns, 80 where the terminal doesn't say.
    fn columns(&self) -> usize {
        tcgetwinsize(&self.file).map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col.into() })
    }

    /// Another handle to the terminal, for a program that takes it over.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Switches to single keys without echo. Earlier input is dropped, so that no key typed ahead answers a question that was
    /// not read. Ctrl-C still sends its signal. Does nothing once `cancelled` is set, so that a caller that sets it and then
    /// restores the terminal leaves it in order.
    pub(crate) fn read_keys(&self, cancelled: &AtomicBool) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if cancelled.load(Ordering::Acquire) {
            return;
        }
        let Ok(now) = tcgetattr(&self.file) else { return };
        let keys = key_mode(&now);
        if tcsetattr(&self.file, OptionalActions::Flush, &keys).is_ok() {
            before.get_or_insert(now);
        }
    }

    /// Back to how it was.
    pub(crate) fn restore(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = before.take() {
            let _ = tcsetattr(&self.file, OptionalActions::Drain, &before);
        }
    }

    /// The next thing typed. Blocks its thread, but never past the moment `cancelled` is set by more than a blink.
    pub(crate) fn next(&self, cancelled: &AtomicBool) -> Typed {
        let mut bytes = Vec::new();
        loop {
            if cancelled.load(Ordering::Acquire) {
                return Typed::Cancelled;
            }
            match self.wait() {
                Waited::Nothing if self.drawn.load(Ordering::Relaxed) != self.columns() => {
                    return Typed::Resized;
                }
                Waited::Nothing => {
                    self.keep_key_mode();
                    continue;
                }
                Waited::Gone => return Typed::Cancelled,
                Waited::Ready => {}
            }
            let mut buffer = [0; 256];
            match (&self.file).read(&mut buffer) {
                Ok(0) if tcgetattr(&self.file).is_err() => return Typed::Cancelled,
                Ok(0) => continue,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Typed::Cancelled,
            }
            match bytes.first() {
                Some(0x04) => return Typed::End,
                Some(0x1b) => {
                    // The rest of the sequence may still be on its way; none of its letters is an answer.
                    while self.wait() == Waited::Ready && matches!((&self.file).read(&mut buffer), Ok(1..)) {}
                    return Typed::Other;
                }
                _ => {}
            }
            match std::str::from_utf8(&bytes) {
                Ok(text) => return Typed::Text(text.to_owned()),
                // Half a character: the rest follows.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Typed::Other,
            }
        }
    }

    /// Draws a question, waits for one of these keys, and shows its word. `None`: the terminal is gone, or Ctrl-D.
    pub(crate) fn choose(&self, question: impl Fn(usize) -> String, keys: &[(char, &str)]) -> Option<char> {
        let never = AtomicBool::new(false);
        self.draw(&question);
        self.read_keys(&never);
        let chosen = loop {
            match self.next(&never) {
                Typed::Text(text) => {
                    let typed = text.trim().to_lowercase();
                    if let Some(chosen) = keys.iter().find(|(key, _)| typed == key.to_string()) {
                        break Some(chosen);
                    }
                }
                Typed::Resized => self.redraw(&question),
                Typed::Other => {}
                Typed::End | Typed::Cancelled => break None,
            }
        };
        self.restore();
        self.show(&format!("{}\n", chosen.map_or("no", |(_, word)| *word)));
        chosen.map(|(key, _)| *key)
    }

    fn wait(&self) -> Waited {
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: LOOK })) {
            Ok(0) | Err(Errno::INTR) => Waited::Nothing,
            // Where terminals can't be polled, the read itself gives up after a tenth of a second.
            Ok(_) if fds[0].revents().contains(PollFlags::NVAL) => Waited::Ready,
            Ok(_) if fds[0].revents().contains(PollFlags::IN) => Waited::Ready,
            Ok(_) | Err(_) => Waited::Gone,
        }
    }

    /// A shell puts its own mode back when this process is stopped and continued.
    fn keep_key_mode(&self) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_none() {
            return;
        }
        if let Ok(now) = tcgetattr(&self.file)
            && now.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
        {
            let _ = tcsetattr(&self.file, OptionalActions::Now, &key_mode(&now));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.restore();
    }
}

#[derive(PartialEq, Eq)]
enum Waited {
    Ready,
    Nothing,
    Gone,
}

fn key_mode(now: &Termios) -> Termios {
    let mut keys = now.clone();
    keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    keys.special_codes[SpecialCodeIndex::VMIN] = 0;
    keys.special_codes[SpecialCodeIndex::VTIME] = 1;
    keys
}
