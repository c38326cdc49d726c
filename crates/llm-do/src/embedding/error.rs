//! Errors of calls that end without an output.

use crate::{problem::Problem, run::Report};
use llm_do_core::{
    engine::{End, Halt},
    journal::RunStatus,
    model::Usage,
    outcome::{Failure, FailureKind},
    question::Waiting,
};
use llm_do_program::signature::InputError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt, path::PathBuf, sync::Arc};

/// The reason why a call has no output. Each way in which a call can end has one variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call can't be made. Nothing was sent to a model.
    #[error("{}", .0.explained())]
    NotStarted(Box<Problem>),
    /// The input does not fit the worker. Nothing was sent to a model.
    #[error("{}\n  signature: {}", .0.message, .0.signature)]
    InvalidInput(Box<InputError>),
    /// A rule, the operator or the mode in the operator's place refused the call.
    #[error("{0}")]
    Refused(Box<Ended>),
    /// A limit or the budget ended the run.
    #[error("{0}")]
    LimitReached(Box<Ended>),
    /// The worker gave no valid output, or one that the type of the call can't hold. [`Ended::partial`] is the last one.
    #[error("{0}")]
    InvalidOutput(Box<Ended>),
    /// The run waits for answers. [`Worker::resume`](crate::Worker::resume) continues it.
    #[error("{0}")]
    Suspended(Box<Suspended>),
    /// The run was cancelled.
    #[error("{0}")]
    Cancelled(Box<Ended>),
    /// Any other failure: a tool of the entry, a model that can't be reached, a journal that can't be written.
    #[error("{0}")]
    Failed(Box<Ended>),
}

/// A run that has ended without an output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// ID of the run.
    pub run: Arc<str>,
    /// The folder of its journal.
    pub journal: PathBuf,
    /// The kind of failure.
    pub kind: FailureKind,
    /// A description of the failure, and its solution.
    pub message: String,
    /// The part of an output that exists: the last invalid one, or the text before a limit.
    pub partial: Option<Arc<Value>>,
    /// Usage of the run.
    pub usage: Usage,
}

/// A run that waits for answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Suspended {
    /// ID of the run.
    pub run: Arc<str>,
    /// The folder of its journal.
    pub journal: PathBuf,
    /// The questions that wait.
    pub waiting: Vec<Waiting>,
    /// Usage of the run so far.
    pub usage: Usage,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (run {})", self.message, self.run)
    }
}

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.waiting.iter().map(|waiting| waiting.id.to_string()).collect();
        write!(f, "the run {} waits for {}", self.run, ids.join(", "))
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Input(error) => Self::InvalidInput(Box::new(error)),
            problem => Self::NotStarted(Box::new(problem)),
        }
    }
}

impl Error {
    /// Returns the ID of the run, if one was started.
    pub fn run(&self) -> Option<&Arc<str>> {
        match self {
            Self::NotStarted(_) | Self::InvalidInput(_) => None,
            Self::Suspended(suspended) => Some(&suspended.run),
            Self::Refused(ended)
            | Self::LimitReached(ended)
            | Self::InvalidOutput(ended)
            | Self::Cancelled(ended)
            | Self::Failed(ended) => Some(&ended.run),
        }
    }

    /// Converts the output of a run to a type, or returns the error with which the run ended.
    pub(super) fn output_of<O: DeserializeOwned>(report: Report) -> Result<O, Self> {
        let Report { run, dir: journal, status, end, usage, halt, .. } = report;
        let ended = |Failure { kind, message, partial }: Failure| {
            Box::new(Ended { run: Arc::clone(&run), journal: journal.clone(), kind, message, partial, usage })
        };
        match (end, halt) {
            (End::Failed(failure), Some(Halt::Cancelled)) => Err(Self::Cancelled(ended(failure))),
            // An output without a record does not count.
            (_, Some(halt)) => Err(Self::Failed(ended(Failure::new(FailureKind::Tool, halt.to_string())))),
            (End::Done(value), None) => {
                serde::Deserialize::deserialize(&*value).map_err(|error: serde_json::Error| {
                    let message =
                        format!("the output does not fit the type `{}`: {error}", std::any::type_name::<O>());
                    let failure = Failure::new(FailureKind::InvalidOutput, message);
                    Self::InvalidOutput(ended(Failure { partial: Some(value), ..failure }))
                })
            }
            (End::Suspended(waiting), None) => {
                Err(Self::Suspended(Box::new(Suspended { run, journal, waiting, usage })))
            }
            (End::Failed(failure), None) => {
                let invalid =
                    [FailureKind::InvalidOutput, FailureKind::Postcondition].contains(&failure.kind);
                let ended = ended(failure);
                Err(match status {
                    RunStatus::Refused => Self::Refused(ended),
                    RunStatus::Limit => Self::LimitReached(ended),
                    _ if invalid => Self::InvalidOutput(ended),
                    _ => Self::Failed(ended),
                })
            }
        }
    }
}
