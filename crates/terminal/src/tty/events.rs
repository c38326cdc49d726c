//! Reading the terminal: keys, pasted text, focus, size, and its end.

use super::{Tty, drain, wait};
use crate::{
    event::Event,
    keys::{Decoder, Input},
    screen::Size,
};
use rustix::termios::tcgetattr;
use signal_hook::{
    SigId,
    consts::{SIGCONT, SIGWINCH},
    flag,
    low_level::{pipe, unregister},
};
use std::{
    collections::VecDeque,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The longest time between the bytes of one key.
const WITHIN_A_KEY: Duration = Duration::from_millis(30);

/// Time for which a size must stay the same until it is settled.
const SETTLES: Duration = Duration::from_millis(150);

/// A reader of a terminal's events, one after the other.
pub struct Events {
    tty: Arc<Tty>,
    decoder: Decoder,
    ready: VecDeque<Event>,
    /// The size that was reported last.
    size: Size,
    /// The time at which the size is settled, or `None` if it is.
    settles: Option<Instant>,
    stopped: Arc<AtomicBool>,
    /// A pipe to whose other ends signals and [`Stopper::stop`] write.
    signals: UnixStream,
    stopper: Arc<UnixStream>,
    handlers: Vec<SigId>,
    closed: bool,
}

/// A handle that ends a wait in [`Events::next`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stopped: Arc<AtomicBool>,
    pipe: Arc<UnixStream>,
}

impl Stopper {
    /// Makes [`Events::next`] return [`Event::Closed`] from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _ = (&*self.pipe).write(&[0]);
    }
}

impl Events {
    pub(super) fn new(tty: Arc<Tty>) -> io::Result<Self> {
        let (writer, signals) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        signals.set_nonblocking(true)?;
        let mut events = Self {
            size: tty.size(),
            settles: None,
            tty,
            decoder: Decoder::new(),
            ready: VecDeque::new(),
            stopped: Arc::default(),
            signals,
            stopper: Arc::new(writer.try_clone()?),
            handlers: Vec::new(),
            closed: false,
        };
        // The flag before the pipe, so that it is set when that wakes. The registrations end with `events`.
        events.handlers.push(flag::register(SIGCONT, Arc::clone(&events.tty.continued))?);
        events.handlers.push(pipe::register(SIGCONT, writer.try_clone()?)?);
        events.handlers.push(pipe::register(SIGWINCH, writer)?);
        Ok(events)
    }

    /// Returns a handle that ends the wait for the next event.
    pub fn stopper(&self) -> Stopper {
        Stopper { stopped: Arc::clone(&self.stopped), pipe: Arc::clone(&self.stopper) }
    }

    /// Returns the next event, or `None` after `timeout`. Reads nothing while the keyboard is not taken over
    /// ([`Tty::enter`]). However often the size changes, one event reports the last size, and [`Event::Settled`]
    /// follows if it lasts. If the terminal is gone, each call returns [`Event::Closed`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Option<Event> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.closed || self.stopped.load(Ordering::Acquire) {
                return Some(Event::Closed);
            }
            // While the keyboard is given back, the flag belongs to `Tty::suspend`.
            if self.tty.is_entered() && self.tty.continued.swap(false, Ordering::AcqRel) {
                // A shell put its own modes back while this process was stopped by another's hand.
                if self.tty.enter().is_err() {
                    return Some(self.close());
                }
                return Some(Event::Resumed);
            }
            // Before what came with it, which is drawn for the size that the terminal has now.
            if let Some(event) = self.resized() {
                return Some(event);
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let now = Instant::now();
            if self.settles.take_if(|settles| *settles <= now).is_some() {
                return Some(Event::Settled);
            }
            if until.is_some_and(|until| until <= now) {
                return None;
            }
            let next = until.into_iter().chain(self.settles).min();
            let left = next.map(|next| next - now);
            let pending = self.decoder.is_pending();
            let wanted =
                if pending { Some(left.map_or(WITHIN_A_KEY, |left| left.min(WITHIN_A_KEY))) } else { left };
            if self.read(wanted, pending).is_err() {
                return Some(self.close());
            }
        }
    }

    /// Waits for bytes and decodes them. `pending`: a key is complete if no more bytes follow.
    fn read(&mut self, timeout: Option<Duration>, pending: bool) -> io::Result<()> {
        let tty = self.tty.is_entered().then_some(&self.tty.file);
        let ready = wait(tty, [&self.signals, &self.tty.woken], timeout)?;
        drain(&self.signals);
        drain(&self.tty.woken);
        let mut inputs = Vec::new();
        // Looked at again: another thread may have given the keyboard to a program meanwhile.
        if ready.tty && self.tty.is_entered() {
            let mut buffer = [0; 4096];
            match (&self.tty.file).read(&mut buffer) {
                Ok(0) if ready.gone || tcgetattr(&self.tty.file).is_err() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(count) => self.decoder.feed(&buffer[..count], &mut inputs),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        } else if ready.gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        } else if pending && ready.timeout {
            self.decoder.flush(&mut inputs);
        }
        for input in inputs {
            self.ready.push_back(match input {
                Input::Key(key) => Event::Key(key),
                Input::Paste(text) => Event::Paste(text),
                Input::Focus(focused) => Event::Focus(focused),
                Input::KeyboardProtocol => {
                    self.tty.use_keyboard_protocol();
                    continue;
                }
            });
        }
        Ok(())
    }

    fn resized(&mut self) -> Option<Event> {
        let size = self.tty.size();
        (size != self.size).then(|| {
            self.size = size;
            self.settles = Some(Instant::now() + SETTLES);
            Event::Resize(size)
        })
    }

    fn close(&mut self) -> Event {
        self.closed = true;
        Event::Closed
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            unregister(handler);
        }
    }
}
