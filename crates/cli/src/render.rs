//! The output of a run: progress and warnings on stderr, only the result on stdout.

mod lines;
mod progress;
mod result;

use crate::{
    args::{Format, Global},
    paint::Paint,
    rows::wrapped,
    screen::Screen,
    visible,
};
use lines::EventLines;
use llm_do_core::{
    event::Event,
    gate::Withheld,
    journal::RecordKind,
    rule::{DecidedBy, Mode},
};
use llm_do_runs::EventSink;
use progress::Progress;
use serde_json::Value;
use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub(crate) use result::{how_to_answer, show_how_to_answer, show_report, show_waiting};

/// The output streams, and the settings for them.
#[derive(Clone)]
pub(crate) struct Output {
    /// The format of the result.
    pub(crate) format: Format,
    /// Show only errors and questions.
    pub(crate) quiet: bool,
    /// Number of `--verbose` flags.
    pub(crate) verbose: u8,
    /// Colours of stdout and stderr.
    pub(crate) out: Paint,
    pub(crate) err: Paint,
    /// True if stdout is a terminal. The next field is the same for stderr.
    pub(crate) out_terminal: bool,
    pub(crate) err_terminal: bool,
    /// The writer of all output while something runs.
    pub(crate) screen: Arc<Screen>,
}

impl Output {
    /// Returns the output for the general flags and the streams.
    pub(crate) fn new(global: &Global) -> Self {
        let (out_terminal, err_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let err = global.colour.paint(err_terminal);
        Self {
            format: global.format(),
            quiet: global.quiet,
            verbose: global.verbose,
            out: global.colour.paint(out_terminal),
            err,
            out_terminal,
            err_terminal,
            screen: Screen::new(),
        }
    }

    /// Sends the result to a file in place of stdout.
    pub(crate) fn send_to(&mut self, file: &Path) -> io::Result<()> {
        self.screen.send_to(file)?;
        (self.out, self.out_terminal) = (Paint::NEVER, false);
        Ok(())
    }

    /// Shows a line on stderr. On a terminal it is wrapped behind a bar, because it may contain words of other people.
    pub(crate) fn line(&self, text: &str) {
        match self.err_terminal {
            true => self.screen.line(&wrapped(text, columns(io::stderr()))),
            false => self.screen.line(text),
        }
    }

    /// Shows a warning, unless the output is quiet.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            self.line(&format!("{} {}", self.err.warning("warning:"), visible::text(text)));
        }
    }

    /// Shows a note that needs no action.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.line(&format!("{} {}", self.err.dim("note:"), visible::text(text)));
        }
    }

    /// Prints text to stdout.
    pub(crate) fn print(&self, text: &str) {
        let shown = if self.out_terminal { visible::output(text) } else { text.into() };
        self.screen.result(shown.as_bytes());
    }

    /// Prints JSON to stdout: indented for a person, on one line for a program.
    pub(crate) fn print_json(&self, value: &Value) {
        if self.out_terminal {
            self.screen.result(visible::json(&format!("{value:#}\n")).as_bytes());
        } else {
            self.screen.result(format!("{value}\n").as_bytes());
        }
    }

    /// Returns the columns of the terminal on stdout.
    pub(crate) fn columns(&self) -> usize {
        columns(io::stdout())
    }

    /// Returns true if calls are shown while they run.
    fn shows_progress(&self) -> bool {
        !self.quiet && (self.err_terminal || self.verbose > 0)
    }

    /// Returns true if the root's answer is shown while it is made. This needs a person at stdout, who can be told that
    /// a part does not count.
    fn streams_answer(&self) -> bool {
        !self.quiet && self.format == Format::Text && self.out_terminal && self.err_terminal
    }
}

fn columns(terminal: impl AsFd) -> usize {
    rustix::termios::tcgetwinsize(terminal)
        .map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col.into() })
}

/// The reason why a run refuses calls that need an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// The run asks, or the operator knows the reason.
    AsMeant,
    /// No terminal is available for questions, and the operator has not been told.
    WithoutTerminal,
}

/// Explains why calls are refused, and how to allow them.
fn say_no_terminal(output: &Output) {
    output.note(
        "no terminal to ask on: calls that need an approval are refused \
         (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)",
    );
}

/// Returns true if a record shows that an approval was needed: a call is refused, or a tool is not shown to the model.
fn lacks_approval(record: &RecordKind) -> bool {
    match record {
        RecordKind::Verdict { by: DecidedBy::Mode(Mode::AutoDeny), .. } => true,
        RecordKind::ConversationStarted { withheld, .. } => {
            let unapproved = Withheld::Unapproved.to_string();
            withheld.iter().any(|tool| *tool.why == *unapproved)
        }
        _ => false,
    }
}

/// The display of a run's events.
pub(crate) struct Renderer {
    output: Output,
    /// True if the note about the missing terminal is still to be shown, with the first refused call.
    explains: AtomicBool,
    lines: Option<EventLines>,
    progress: Option<Progress>,
}

impl Renderer {
    /// Returns a renderer for one run. `gone` is called when the reader of the events on stdout has closed it.
    pub(crate) fn new(
        output: Output,
        refuses: Refuses,
        gone: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let lines = (output.format == Format::StreamJson)
            .then(|| EventLines::new(Arc::clone(&output.screen), output.out_terminal, gone));
        let progress = output.shows_progress().then(|| Progress::new(&output));
        if progress.is_some() && output.err_terminal {
            output.screen.go_live();
        }
        let explains = AtomicBool::new(refuses == Refuses::WithoutTerminal);
        Arc::new(Self { output, explains, lines, progress })
    }

    /// Sets if the output is typed. If it is, only its final form is shown, and not the answer while it is made.
    pub(crate) fn expects(&self, typed: bool) {
        if let Some(progress) = &self.progress {
            progress.expects(typed);
        }
    }

    /// Returns the text of the root's last turn that is on the screen already.
    pub(crate) fn streamed(&self) -> Option<String> {
        self.progress.as_ref().and_then(Progress::streamed)
    }

    /// Stops the display: no more events come.
    pub(crate) fn stop(&self) {
        self.output.screen.live(Vec::new());
    }
}

impl EventSink for Renderer {
    fn event(&self, event: Event) {
        if let Some(lines) = &self.lines {
            lines.event(&event);
        }
        if let Event::Record { record } = &event
            && lacks_approval(&record.body)
            && self.explains.swap(false, Ordering::Relaxed)
        {
            say_no_terminal(&self.output);
        }
        if let Some(progress) = &self.progress {
            progress.event(&event);
        }
    }

    fn wants_deltas(&self) -> bool {
        self.lines.is_some() || self.output.streams_answer()
    }
}
