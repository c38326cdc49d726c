//! Errors of the package manager.

use llm_do_program::Diagnostic;
use std::fmt;

/// A sentence, or findings in files.
#[derive(Clone, Debug)]
pub enum Error {
    /// A sentence with solutions.
    Message(Box<Message>),
    /// Findings in the files of a project or a library.
    Found(Vec<Diagnostic>),
}

/// The error of a command, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// True if the command, a file or the input is wrong; false if the machine or another program failed.
    pub is_mistake: bool,
    /// The problem and its place.
    pub text: String,
    /// Solutions.
    pub hints: Vec<String>,
}

impl Message {
    /// Returns an error for a wrong command or file.
    pub(crate) fn wrong(text: impl Into<String>) -> Self {
        Self { is_mistake: true, text: text.into(), hints: Vec::new() }
    }

    /// Returns an error for a failure that is not the user's mistake.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { is_mistake: false, ..Self::wrong(text) }
    }

    /// Adds a solution.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<Message> for Error {
    fn from(message: Message) -> Self {
        Self::Message(Box::new(message))
    }
}

impl From<Diagnostic> for Error {
    fn from(one: Diagnostic) -> Self {
        Self::Found(vec![one])
    }
}

impl Error {
    /// Returns an error for a wrong command, file or input.
    pub fn mistake(text: impl Into<String>) -> Self {
        Message::wrong(text).into()
    }

    /// Adds the place of the error.
    pub(crate) fn during(self, place: &str) -> Self {
        match self {
            Self::Message(mut message) => {
                message.text = format!("{place}: {}", message.text);
                Self::Message(message)
            }
            Self::Found(mut found) => {
                for one in found.iter_mut().filter(|one| one.is_error()) {
                    one.notes.push(place.to_owned());
                }
                Self::Found(found)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(&message.text),
            Self::Found(found) => {
                let mut lines = found.iter().map(ToString::to_string);
                f.write_str(&lines.next().unwrap_or_default())?;
                lines.try_for_each(|line| write!(f, "\n{line}"))
            }
        }
    }
}

impl std::error::Error for Error {}
