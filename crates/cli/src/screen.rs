//! The only writer to stdout and stderr while something runs, so that lines, the live status, the streamed answer and
//! prompts do not mix.

use crate::{visible, whole_file::WholeFile};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// Time between two draws of the live rows.
const TICK: Duration = Duration::from_millis(100);
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// A live row: work in progress.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Columns that it is indented by.
    pub(crate) indent: usize,
    /// The work.
    pub(crate) text: String,
    /// The time at which the work began.
    pub(crate) since: Instant,
}

/// The display while something runs.
pub(crate) struct Screen {
    state: Mutex<LiveArea>,
}

#[derive(Default)]
struct LiveArea {
    /// The live rows.
    live: Vec<Row>,
    /// True if live rows are on the screen, with the cursor at the start of the first.
    drawn: bool,
    /// True if streamed text has left the cursor in the middle of a line.
    mid_line: bool,
    /// Output that waits while a prompt has the screen.
    paused: Option<Vec<Piece>>,
    /// The file that gets results in place of stdout.
    file: Option<ResultFile>,
    /// The reason why results can't be written any more.
    broken: Option<Broken>,
    tick: usize,
}

/// The file that results are written to.
struct ResultFile {
    path: PathBuf,
    /// The file, begun with the first part of a result: a process that is killed before leaves nothing in the folder.
    begun: Option<WholeFile>,
}

/// The reason why results can't be written.
enum Broken {
    /// The reader of stdout has closed it, as `head` does. This is no error.
    Gone,
    /// Results are lost.
    Lost(io::Error),
}

enum Piece {
    Line(String),
    Answer(String),
}

/// A guard that holds the screen for a prompt. When it is dropped, the waiting output is shown.
pub(crate) struct Paused(Arc<Screen>);

impl Screen {
    /// Returns a screen without live rows.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default() })
    }

    /// Keeps rows on stderr, which is a terminal, that show the work under way ([`Screen::live`]).
    pub(crate) fn go_live(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        // It only decorates: without it the lines still come.
        let _ = thread::Builder::new().name("live rows".into()).spawn(move || spin(&weak));
    }

    /// Shows one or several whole lines on stderr.
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

    /// Sends results to a file, which is written whole or not at all.
    pub(crate) fn send_to(&self, path: &Path) -> io::Result<()> {
        // What can't be written is said now, and not after the work is done.
        drop(WholeFile::create(path)?);
        self.lock().file = Some(ResultFile { path: path.to_owned(), begun: None });
        Ok(())
    }

    /// Writes the result, or a part of it, as it is. Returns false if it can't be written any more.
    pub(crate) fn result(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        state.end_line();
        state.clear();
        state.write(bytes);
        state.broken.is_none()
    }

    /// Returns true if results can't be written any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.lock().broken.is_some()
    }

    /// Completes the file of the results. Returns an error for lost results. A closed stdout is no error.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let mut state = self.lock();
        let file = state.file.take();
        let kept = match (file, state.broken.take()) {
            (_, Some(Broken::Gone)) | (None, None) => return Ok(()),
            (Some(file), Some(Broken::Lost(error))) => Err((Some(file.path), error)),
            (None, Some(Broken::Lost(error))) => Err((None, error)),
            (Some(ResultFile { path, begun: Some(file) }), None) => {
                file.keep().map_err(|error| (Some(path), error))
            }
            (Some(_), None) => Ok(()),
        };
        kept.map_err(|(path, error)| {
            let place = path.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
            format!("cannot write the result to {place}: {error}")
        })
    }

    /// Sets the live rows; they appear with the next tick.
    pub(crate) fn live(&self, rows: Vec<Row>) {
        let mut state = self.lock();
        if rows.is_empty() {
            state.clear();
        }
        state.live = rows;
    }

    /// Removes the live rows and holds back further output, until the guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> Paused {
        let mut state = self.lock();
        state.end_line();
        state.clear();
        state.paused.get_or_insert_default();
        drop(state);
        Paused(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, LiveArea> {
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

impl LiveArea {
    fn line(&mut self, text: &str) {
        self.end_line();
        self.clear();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // There is nowhere to say that stderr is gone.
        let _ = write!(io::stderr().lock(), "{}{end}", visible::output(text));
    }

    fn answer(&mut self, text: &str) {
        let Some(last) = text.chars().next_back() else { return };
        self.clear();
        self.write(text.as_bytes());
        self.mid_line = last != '\n';
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        let written = match &mut self.file {
            Some(ResultFile { path, begun }) => {
                let file = match begun {
                    Some(file) => Ok(file),
                    None => WholeFile::create(path).map(|file| begun.insert(file)),
                };
                file.and_then(|file| file.write_all(bytes))
            }
            None => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
        };
        self.broken = written.err().map(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Broken::Gone,
            _ => Broken::Lost(error),
        });
    }

    fn end_line(&mut self) {
        if self.mid_line {
            self.answer("\n");
        }
    }

    fn clear(&mut self) {
        if self.drawn {
            let _ = io::stderr().lock().write_all(b"\r\x1b[0J");
            self.drawn = false;
        }
    }

    fn draw(&mut self) {
        if self.mid_line || self.paused.is_some() {
            return;
        }
        // A line that would vanish before a person could read it is not shown.
        let rows: Vec<&Row> = self.live.iter().filter(|row| row.since.elapsed() >= 2 * TICK).collect();
        if rows.is_empty() {
            return self.clear();
        }
        let spinner = SPINNER[self.tick % SPINNER.len()];
        self.tick += 1;
        let columns = columns();
        // Rows are no wider than the terminal and are not wrapped, so that the way back to the first is known.
        let mut text = String::from("\r\x1b[0J\x1b[?7l\x1b[2m");
        for (number, Row { indent, text: what, since }) in rows.iter().enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            let row = format!("{:indent$}{spinner} {what} {:.1}s", "", since.elapsed().as_secs_f32());
            let row = row.chars().take(columns).collect::<String>();
            // Writing to a `String` does not fail.
            let _ = write!(text, "{end}{row}");
        }
        text.push_str("\x1b[0m\x1b[?7h");
        if rows.len() > 1 {
            let _ = write!(text, "\x1b[{}A", rows.len() - 1);
        }
        text.push('\r');
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.drawn = true;
    }
}

/// Returns the columns of the terminal on stderr.
fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stderr())
        .map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col.into() })
}

fn spin(screen: &Weak<Screen>) {
    loop {
        thread::sleep(TICK);
        let Some(screen) = screen.upgrade() else { return };
        screen.lock().draw();
    }
}
