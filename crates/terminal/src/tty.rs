//! The terminal device: raw mode, keyboard modes, size, and input.

mod events;

pub use events::{Events, Stopper};

use crate::screen::{Reflow, Size};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, kill_current_process_group},
    termios::{OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The sequences that turn on marks around pasted text, and reports of changes of focus.
const MODES_ON: &str = "\x1b[?2004h\x1b[?1004h";
const MODES_OFF: &str = "\x1b[?1004l\x1b[?2004l";
/// The query for kitty's keyboard protocol. Terminals without it ignore the query.
const KEYBOARD_QUERY: &str = "\x1b[?u";
/// The sequence that turns on the protocol, in which keys that otherwise send the same bytes differ, such as Enter and
/// Shift-Enter.
const KEYBOARD_ON: &str = "\x1b[>1u";
const KEYBOARD_OFF: &str = "\x1b[<u";
/// The longest time from sending a stop signal until it reaches this process.
const STOPPING: Duration = Duration::from_millis(100);

/// The controlling terminal of this process. Dropping it restores the terminal's settings.
pub struct Tty {
    file: File,
    mode: Mutex<Mode>,
    /// True if the process was continued after a stop.
    continued: Arc<AtomicBool>,
    /// A pipe that wakes [`Events`] when the mode changes.
    waker: UnixStream,
    /// The other end of `waker`.
    woken: UnixStream,
}

/// Changes made to the terminal.
#[derive(Default)]
struct Mode {
    /// The settings before the change, or `None` if the terminal has them now.
    before: Option<Termios>,
    /// True if kitty's keyboard protocol is on.
    keyboard: bool,
}

impl Tty {
    /// Opens `/dev/tty`, wherever stdin, stdout and stderr are redirected. Changes none of its settings.
    ///
    /// # Errors
    /// The process has no terminal, or no more descriptors.
    pub fn open() -> io::Result<Arc<Self>> {
        Self::of(OpenOptions::new().read(true).write(true).open("/dev/tty")?)
    }

    /// Uses a terminal that is already open.
    ///
    /// # Errors
    /// The file is no terminal, or the process has no more descriptors.
    pub fn of(file: File) -> io::Result<Arc<Self>> {
        tcgetattr(&file)?;
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Arc::new(Self { file, mode: Mutex::default(), continued: Arc::default(), waker, woken }))
    }

    /// Returns columns and rows; 80 by 24 if the terminal doesn't report them.
    pub fn size(&self) -> Size {
        match tcgetwinsize(&self.file) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size::new(size.ws_col.into(), size.ws_row.into())
            }
            _ => Size::new(80, 24),
        }
    }

    /// Takes the keyboard over: keys come one by one, unechoed, Ctrl-C and Ctrl-Z among them.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn enter(&self) -> io::Result<()> {
        let mut mode = self.mode();
        let before = match mode.before.take() {
            Some(before) => before,
            None => {
                // Whoever gave the keyboard back draws again.
                self.continued.store(false, Ordering::Release);
                tcgetattr(&self.file)?
            }
        };
        let mut raw = before.clone();
        raw.make_raw();
        if cfg!(target_os = "macos") {
            // Terminals can't be polled there: a read gives up after a tenth of a second. Elsewhere it does not, because a
            // shell that gets the terminal like that takes it for closed.
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 1;
        }
        // Lines of other programs that share the terminal still begin in the first column.
        raw.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
        tcsetattr(&self.file, OptionalActions::Now, &raw)?;
        mode.before = Some(before);
        (&self.file).write_all(format!("{MODES_ON}{KEYBOARD_QUERY}").as_bytes())?;
        drop(mode);
        self.wake();
        Ok(())
    }

    /// Gives the keyboard back: the terminal is set as it was before [`Tty::enter`]. Until the next [`Tty::enter`], no key
    /// is read, so that another program can. Callable from any thread, and more than once.
    pub fn leave(&self) {
        let mut mode = self.mode();
        let Some(before) = mode.before.take() else { return };
        let keyboard = if std::mem::take(&mut mode.keyboard) { KEYBOARD_OFF } else { "" };
        // A terminal that is gone needs nothing put back.
        let _ = (&self.file).write_all(format!("{keyboard}{MODES_OFF}").as_bytes());
        let _ = tcsetattr(&self.file, OptionalActions::Drain, &before);
        drop(mode);
        self.wake();
    }

    /// Stops this process and its process group, as Ctrl-Z does in other programs, and returns when the process is
    /// continued. The keyboard is given back during the stop. Remove the screen's live rows before
    /// ([`crate::Screen::leave`]) and draw them after. Does nothing if no shell could continue the process.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspend(&self) -> io::Result<()> {
        self.leave();
        self.continued.store(false, Ordering::Release);
        kill_current_process_group(Signal::TSTP)?;
        // Another thread may be the one that is interrupted: this one must not take the keyboard back before.
        let step = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while !self.continued.load(Ordering::Acquire) && waited < STOPPING {
            std::thread::sleep(step);
            waited += step;
        }
        self.enter()
    }

    /// Returns the events of this terminal. There can be one reader at a time.
    ///
    /// # Errors
    /// There are no more descriptors, or signals can't be handled.
    pub fn events(self: &Arc<Self>) -> io::Result<Events> {
        Events::new(Arc::clone(self))
    }

    /// Returns another handle to the terminal, for a program that takes it over.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns the behaviour of a terminal of this environment for rows on a resize. `variable` returns the value of an
    /// environment variable.
    pub fn reflow(variable: impl Fn(&str) -> Option<String>) -> Reflow {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        // tmux wraps again, in whatever terminal it runs.
        if set("TMUX") {
            return Reflow::Wraps;
        }
        let cuts = set("XTERM_VERSION") || set("STY") || term == "linux" || term.starts_with("screen");
        if cuts { Reflow::Cuts } else { Reflow::Wraps }
    }

    /// Returns true if a terminal of this environment shows links (OSC 8). tmux and screen drop them unless they are
    /// configured to know that the terminal around them supports links, and the console of Linux can't follow any.
    /// There, addresses belong into the text.
    pub fn links(variable: impl Fn(&str) -> Option<String>) -> bool {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let inside = set("TMUX") || set("STY") || term.starts_with("tmux") || term.starts_with("screen");
        !inside && term != "linux"
    }

    /// Turns kitty's keyboard protocol on, which the terminal has offered.
    fn use_keyboard_protocol(&self) {
        let mut mode = self.mode();
        if mode.before.is_some() && !mode.keyboard {
            mode.keyboard = (&self.file).write_all(KEYBOARD_ON.as_bytes()).is_ok();
        }
    }

    /// Returns true if keys are read.
    fn is_entered(&self) -> bool {
        self.mode().before.is_some()
    }

    fn mode(&self) -> MutexGuard<'_, Mode> {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.waker).write(&[0]);
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Write for &Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    tty: bool,
    /// True if the terminal has hung up.
    gone: bool,
    /// True if the poll timed out.
    timeout: bool,
}

/// Waits for the terminal, if it is wanted, or for one of the pipes.
fn wait(tty: Option<&File>, pipes: [&UnixStream; 2], timeout: Option<Duration>) -> io::Result<Ready> {
    let mut descriptors: Vec<_> = pipes.iter().map(|pipe| PollFd::new(*pipe, PollFlags::IN)).collect();
    descriptors.extend(tty.map(|tty| PollFd::new(tty, PollFlags::IN)));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut descriptors, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
        Ok(0) => return Ok(Ready { timeout: true, ..Ready::default() }),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let Some(tty) = descriptors.get(pipes.len()).map(PollFd::revents) else { return Ok(Ready::default()) };
    Ok(Ready {
        // Where terminals can't be polled, reading has to find out.
        tty: tty.intersects(PollFlags::IN | PollFlags::NVAL),
        gone: tty.intersects(PollFlags::HUP | PollFlags::ERR),
        timeout: false,
    })
}

/// Empties a pipe that is only used to wake.
fn drain(pipe: &UnixStream) {
    let mut buffer = [0; 64];
    while matches!((&*pipe).read(&mut buffer), Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn links_are_for_terminals_that_pass_them_on() {
        assert!(Tty::links(of(&[("TERM", "xterm-256color")])));
        assert!(Tty::links(of(&[("TERM", "xterm-256color"), ("TMUX", "")])));
        assert!(!Tty::links(of(&[("TERM", "xterm-256color"), ("TMUX", "/tmp/tmux-1/default,1,0")])));
        assert!(!Tty::links(of(&[("TERM", "tmux-256color")])));
        assert!(!Tty::links(of(&[("TERM", "linux")])));
    }
}
