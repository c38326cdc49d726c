//! The one place that writes to stdout and stderr while something runs, so that lines, the live status, the streamed
//! answer and prompts never run into each other.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// How often the live line is drawn anew.
const TICK: Duration = Duration::from_millis(100);
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// What is shown while something runs.
pub(crate) struct Screen {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the live line says, and since when.
    status: Option<(String, Instant)>,
    /// The live line is on the screen, with the cursor at its start.
    drawn: bool,
    /// Streamed text has left the cursor in the middle of a line.
    mid_line: bool,
    /// A prompt has the screen: everything else waits here.
    paused: Option<Vec<Piece>>,
    /// Nobody reads stdout any more.
    broken: bool,
    tick: usize,
}

enum Piece {
    Line(String),
    Answer(String),
}

/// Holds the screen for a prompt until dropped; then what was held back is shown.
pub(crate) struct Paused(Arc<Screen>);

impl Screen {
    /// A screen without a live line.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default() })
    }

    /// Keeps a line up on stderr, which is a terminal, that says what is going on ([`Screen::status`]).
    pub(crate) fn go_live(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        // It only decorates: without it the lines still come.
        let _ = thread::Builder::new().name("live line".into()).spawn(move || spin(&weak));
    }

    /// Shows a whole line, or several, on stderr.
    pub(crate) fn line(&self, text: &str) {
        let mut state = self.lock();
        match &mut state.paused {
            Some(held) => held.push(Piece::Line(text.to_owned())),
            None => state.line(text),
        }
    }

    /// Shows more of the answer on stdout, which is a terminal.
    pub(crate) fn answer(&self, text: &str) {
        let mut state = self.lock();
        match &mut state.paused {
            Some(held) => held.push(Piece::Answer(text.to_owned())),
            None => state.answer(text),
        }
    }

    /// Ends the line on which the streamed answer stopped.
    pub(crate) fn finish_answer(&self) {
        self.lock().end_line();
    }

    /// Writes the result, or a part of it, to stdout as it is. `false`: nobody reads it any more.
    pub(crate) fn result(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.broken {
            return false;
        }
        state.end_line();
        state.clear();
        let mut out = io::stdout().lock();
        state.broken = out.write_all(bytes).and_then(|()| out.flush()).is_err();
        !state.broken
    }

    /// Whether the reader of stdout has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.lock().broken
    }

    /// Says on the live line what is going on; it appears with the next tick.
    pub(crate) fn status(&self, text: Option<String>) {
        let mut state = self.lock();
        match text {
            None => {
                state.clear();
                state.status = None;
            }
            Some(text) if state.status.as_ref().is_some_and(|(shown, _)| *shown == text) => {}
            Some(text) => state.status = Some((text, Instant::now())),
        }
    }

    /// Clears the live line and holds back what would be shown, until the guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> Paused {
        let mut state = self.lock();
        state.end_line();
        state.clear();
        state.paused.get_or_insert_default();
        drop(state);
        Paused(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        for piece in state.paused.take().into_iter().flatten() {
            match piece {
                Piece::Line(text) => state.line(&text),
                Piece::Answer(text) => state.answer(&text),
            }
        }
    }
}

impl State {
    fn line(&mut self, text: &str) {
        self.end_line();
        self.clear();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // There is nowhere to say that stderr is gone.
        let _ = write!(io::stderr().lock(), "{text}{end}");
    }

    fn answer(&mut self, text: &str) {
        let Some(last) = text.chars().next_back() else { return };
        self.clear();
        let mut out = io::stdout().lock();
        self.broken |= out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
        self.mid_line = last != '\n';
    }

    fn end_line(&mut self) {
        if self.mid_line {
            self.answer("\n");
        }
    }

    fn clear(&mut self) {
        if self.drawn {
            let _ = io::stderr().lock().write_all(b"\r\x1b[2K");
            self.drawn = false;
        }
    }

    fn draw(&mut self) {
        if self.mid_line || self.paused.is_some() {
            return;
        }
        let Some((text, since)) = &self.status else { return };
        let elapsed = since.elapsed();
        // What is over before anyone could read it is not shown.
        if elapsed < 2 * TICK {
            return;
        }
        let seconds = elapsed.as_secs_f32();
        let spinner = SPINNER[self.tick % SPINNER.len()];
        self.tick += 1;
        // Without automatic wrapping a long line is cut at the edge, so that one line is all there is to clear.
        let _ = write!(
            io::stderr().lock(),
            "\r\x1b[2K\x1b[?7l\x1b[2m{spinner} {text} {seconds:.1}s\x1b[0m\x1b[?7h\r"
        );
        self.drawn = true;
    }
}

fn spin(screen: &Weak<Screen>) {
    loop {
        thread::sleep(TICK);
        let Some(screen) = screen.upgrade() else { return };
        screen.lock().draw();
    }
}
