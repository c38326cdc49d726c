//! What the log of a service says.

use std::fmt;

/// Something that the operator can read in the log. It may hold text of clients, with nothing hidden in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// What happened, for programs.
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
    /// What happened beyond that, for people.
    pub text: String,
}

/// On one line, for people.
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
