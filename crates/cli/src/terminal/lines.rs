//! Lines of a terminal in its normal mode.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::tcgetattr,
};
use std::{
    fs::File,
    io::{self, Read as _},
    sync::atomic::{AtomicBool, Ordering},
};

/// Time after which a waiting reader checks if it is still wanted, in nanoseconds.
const LOOK: i64 = 50_000_000;

/// A line of input.
pub(super) enum Line {
    /// The text, without its line break.
    Text(String),
    /// The user pressed Ctrl-D.
    End,
    /// No line was read: it is not wanted any more, or the terminal is gone.
    Gone,
}

/// Reads a line.
pub(super) fn read(mut terminal: &File, withdrawn: &AtomicBool) -> io::Result<Line> {
    loop {
        if withdrawn.load(Ordering::Acquire) {
            return Ok(Line::Gone);
        }
        let mut fds = [PollFd::new(terminal, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: LOOK })) {
            Ok(0) | Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            // Where terminals can't be polled, the read itself waits.
            Ok(_) if fds[0].revents().intersects(PollFlags::IN | PollFlags::NVAL) => {}
            Ok(_) => return Ok(Line::Gone),
        }
        let mut buffer = [0; 4096];
        return match terminal.read(&mut buffer) {
            Ok(0) if tcgetattr(terminal).is_err() => Ok(Line::Gone),
            Ok(0) => Ok(Line::End),
            Ok(count) => {
                let text = String::from_utf8_lossy(&buffer[..count]);
                Ok(Line::Text(text.trim_end_matches(['\n', '\r']).to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}
