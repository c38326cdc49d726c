//! Endings of calls.

use crate::{
    call_path::CallPath,
    model::{Blob, Usage},
    origin::Origins,
    question::Waiting,
    step_name::StepName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// On whose behalf a call is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// The person or program that started the run.
    Operator,
    /// A worker, by ID.
    Worker(Arc<str>),
    /// A tool, on behalf of a worker.
    Tool {
        /// The tool.
        tool: Arc<str>,
        /// The worker that called it.
        worker: Arc<str>,
    },
}

/// The kind of a failure, which decides the exit code of a run whose entry failed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No such function, or a definition that can't be used.
    Definition,
    /// The input breaks its schema.
    InvalidInput,
    /// The caller's authority doesn't reach that far.
    Authority,
    /// A rule blocks it.
    Blocked,
    /// The operator, or the mode in the operator's place, refused.
    Denied,
    /// The tool's own error.
    Tool,
    /// It did not end in time.
    Timeout,
    /// A limit was reached.
    Limit,
    /// The model can't be reached, or can't be reached any more.
    Model,
    /// The model declined.
    Refusal,
    /// The user stopped the answer that it was part of.
    Stopped,
    /// No valid output after all attempts.
    InvalidOutput,
    /// No output that meets the worker's `ensures` after all attempts.
    Postcondition,
}

/// A call that failed, as a value for its caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// What happened and what to try, for a model and for people.
    pub message: String,
    /// The partial answer: the last invalid output, or the text before a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Arc<Value>>,
}

impl Failure {
    /// A failure of that kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), partial: None }
    }
    /// Adds the partial answer.
    #[must_use]
    pub fn with_partial(mut self, partial: Option<Value>) -> Self {
        self.partial = partial.map(Arc::new);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// How a tool or call ended, as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this value.
    Output(Arc<Value>),
    /// With a failure that the caller receives.
    Failure(Failure),
    /// It waits for approvals of calls below it.
    Suspended,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The call has ended with a value.
    Done(Arc<Value>),
    /// The call has ended with a failure that its caller can act on.
    Failed(Failure),
    /// The call waits for the operator's answers to these questions.
    Suspended(Vec<Waiting>),
}

impl End {
    /// The end in the form that is recorded.
    pub fn to_ending(&self) -> Ending {
        match self {
            Self::Done(value) => Ending::Output(Arc::clone(value)),
            Self::Failed(failure) => Ending::Failure(failure.clone()),
            Self::Suspended(_) => Ending::Suspended,
        }
    }
}

/// The end of a call, and the token usage of the call and all calls below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The end of the call.
    pub end: End,
    /// The token usage.
    pub usage: Usage,
    /// Images and files beside the value, for a model that reads them.
    pub blobs: Vec<Blob>,
    /// The origins of the value or failure.
    #[serde(default, skip_serializing_if = "Origins::is_trusted")]
    pub origins: Origins,
    /// The operator's words within the call: messages and answers in its conversations and in those below it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub said: Box<[Arc<Value>]>,
    /// True if the value is the content that the arguments of the call name: a leaf that only reads has returned it
    /// (`docs/reference/origins.md`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_source: bool,
}

impl Outcome {
    /// An end that used no model.
    pub fn free(end: End) -> Self {
        Self::of(end, Usage::default())
    }
    /// An end with that usage.
    pub fn of(end: End, usage: Usage) -> Self {
        Self {
            end,
            usage,
            blobs: Vec::new(),
            origins: Origins::TRUSTED,
            said: Box::default(),
            is_source: false,
        }
    }
}

/// The reason why a run can't continue. Only the infrastructure raises it; errors for a model are an [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    /// The operator interrupted the run.
    #[error("interrupted")]
    Cancelled,
    /// The journal can't be written. Continuing would cause effects without a record.
    #[error("the journal cannot be written: {0}")]
    Journal(String),
    /// The records don't match the current program.
    #[error("the journal does not fit this program at {path}, step `{step}`: {reason}")]
    Diverged {
        /// The call.
        path: CallPath,
        /// The step.
        step: StepName,
        /// The difference.
        reason: String,
    },
    /// The operator ended the run in answer to a question about a leaf that had started and not ended.
    #[error("the operator ended the run at {path}, where `{function}` had been cut off")]
    Aborted {
        /// The call.
        path: CallPath,
        /// The call's function.
        function: Arc<str>,
    },
}

/// The reason why a call stops before it has a value: `?` passes it up to the end of the call.
#[derive(Debug)]
pub enum Stop {
    /// The call ends with this failure, which its caller receives.
    Failed(Failure),
    /// The call waits for the operator's answers to these questions.
    Suspended(Vec<Waiting>),
    /// The run itself can't continue.
    Halt(Halt),
}

impl Stop {
    /// A failure of that kind.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(kind, message))
    }

    /// Converts the reason to the end of the call.
    ///
    /// # Errors
    /// The call does not end, because the run can't continue.
    pub fn end(self) -> Result<End, Halt> {
        match self {
            Self::Failed(failure) => Ok(End::Failed(failure)),
            Self::Suspended(waiting) => Ok(End::Suspended(waiting)),
            Self::Halt(halt) => Err(halt),
        }
    }

    /// Adds the partial answer to a failure.
    #[must_use]
    pub fn with_partial(self, partial: impl FnOnce() -> Option<Value>) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.with_partial(partial())),
            other => other,
        }
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The failure for the caller of a leaf that was stopped at its deadline. It depends only on the records.
pub(crate) fn timed_out(function: &str, after_ms: u64) -> Failure {
    let seconds = after_ms as f64 / 1000.0;
    Failure::new(
        FailureKind::Timeout,
        format!("`{function}` did not finish in {seconds:.1} s and was stopped."),
    )
}
