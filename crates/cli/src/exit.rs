//! Exit codes and error messages of the program.

use crate::{paint::Paint, visible};
use llm_do::Report;
use llm_do_core::{
    engine::{End, FailureKind},
    journal::RunStatus,
};
use std::{fmt::Write as _, io, path::Path, process::ExitCode};

/// Exit codes. See `docs/reference/commands.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The run failed.
    Failed,
    /// The command, a file or the input is wrong; nothing was sent to a model.
    Wrong,
    /// A grant is missing, or the entry itself was refused.
    Refused,
    /// The root's limit ended the run.
    Limit,
    /// The run waits for an approval.
    Suspended,
    /// The run was interrupted.
    Interrupted,
}

impl Exit {
    /// Returns the exit code as a number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Wrong => 2,
            Self::Refused => 3,
            Self::Limit => 4,
            Self::Suspended => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<RunStatus> for Exit {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Done => Self::Done,
            RunStatus::Failed => Self::Failed,
            RunStatus::Limit => Self::Limit,
            RunStatus::Refused => Self::Refused,
            RunStatus::Suspended => Self::Suspended,
            RunStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl From<&Report> for Exit {
    fn from(report: &Report) -> Self {
        use FailureKind as K;
        let wrong = matches!(&report.end, End::Failed(failure)
            if matches!(failure.kind, K::Definition | K::InvalidInput | K::Authority));
        // A file or the input is wrong, unless a model has worked on it before.
        if report.status == RunStatus::Failed && wrong && report.counts.sent == 0 {
            return Self::Wrong;
        }
        report.status.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// An error that prevents a command from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The problem and its place.
    pub(crate) message: String,
    /// Solutions.
    pub(crate) hints: Vec<String>,
}

impl Complaint {
    /// Returns an error for a wrong command, file or input.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self { exit: Exit::Wrong, message: message.into(), hints: Vec::new() }
    }

    /// Returns an error for a failure that is not the user's mistake.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, ..Self::wrong(message) }
    }

    /// Returns an error for a file that the user has named and that can't be written.
    pub(crate) fn unwritten(file: &Path, error: &io::Error) -> Self {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let why = match folder {
            Some(folder) if error.kind() == io::ErrorKind::NotFound => {
                format!("the folder `{}` does not exist", folder.display())
            }
            _ => error.to_string(),
        };
        Self::wrong(format!("cannot write {}: {why}", file.display()))
    }

    /// Adds a solution.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Formats the error for stderr.
    pub(crate) fn render(&self, paint: Paint) -> String {
        let mut out = String::new();
        // Writing to a `String` does not fail.
        let _ = writeln!(out, "{} {}", paint.error("error:"), visible::text(self.message.trim_end()));
        for hint in &self.hints {
            let _ = writeln!(out, "{} {}", paint.hint("hint:"), visible::text(hint));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_one_style() {
        let complaint = Complaint::wrong("no such file").hint("write its whole path");
        assert_eq!(complaint.render(Paint::NEVER), "error: no such file\nhint: write its whole path\n");
    }
}
