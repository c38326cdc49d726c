//! Signals that other threads send to the main loop of a chat.

use llm_do::{FromRun, Report};

/// A signal to the main loop.
pub(super) enum Signal {
    /// A message of the run.
    Run(FromRun),
    /// The run has ended.
    Ended(Box<Report>),
    /// An event of the terminal.
    Terminal(llm_do_terminal::Event),
    /// A line was typed, or piped. `None`: there are no more.
    Line(Option<String>),
    /// Ctrl-C that came as a signal.
    Interrupt,
    /// A request to end the process.
    Terminate,
}
