//! Entries of the log of a service.

use std::fmt;

/// Something that the operator can read in the log. It may hold text of clients, with nothing hidden in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// The name of the event, for programs.
    pub event: &'static str,
    /// The run that it is about.
    pub run: Option<String>,
    /// The program that it is about.
    pub program: Option<String>,
    /// The worker that the run started with.
    pub worker: Option<String>,
    /// The name of the token whose client did it.
    pub by: Option<String>,
    /// The state that the run has then.
    pub state: Option<&'static str>,
    /// The details of the event, for people.
    pub text: String,
}

/// Text on one line, for people.
impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.run, &self.program) {
            (Some(run), _) => write!(f, "run {run}: ")?,
            (None, Some(program)) => write!(f, "program {program}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.text)
    }
}
