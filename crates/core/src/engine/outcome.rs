//! How calls end.

use crate::{
    call_path::CallPath,
    journal::{Ending, RecordKind},
    model::{Blob, Usage},
    operator::Ask,
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

/// What kind of failure; decides the exit code of a run whose entry failed so.
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
    /// The model can't be asked, or not any more.
    Model,
    /// The model declined.
    Refusal,
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
    /// What there was of an answer: the last invalid output, the text before a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Arc<Value>>,
}

impl Failure {
    /// A failure of that kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), partial: None }
    }
    /// With what there was of an answer.
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

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With a value.
    Done(Arc<Value>),
    /// With a failure that its caller can act on.
    Failed(Failure),
    /// It waits for the operator's answer to these.
    Suspended(Vec<Ask>),
}

impl End {
    /// As recorded.
    pub fn to_ending(&self) -> Ending {
        match self {
            Self::Done(value) => Ending::Output(Arc::clone(value)),
            Self::Failed(failure) => Ending::Failure(failure.clone()),
            Self::Suspended(_) => Ending::Suspended,
        }
    }
}

/// How a call ended, and the tokens of it and all below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What it used.
    pub usage: Usage,
    /// Images and files beside its value, for a model that reads them.
    pub blobs: Vec<Blob>,
}

impl Outcome {
    /// An end that used no model.
    pub fn free(end: End) -> Self {
        Self::of(end, Usage::default())
    }
    /// An end that used so much.
    pub fn of(end: End, usage: Usage) -> Self {
        Self { end, usage, blobs: Vec::new() }
    }
}

/// Why a run can't go on. Only the infrastructure raises it; what a model should hear is an [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The operator interrupted the run.
    #[error("interrupted")]
    Cancelled,
    /// The journal can't be written: going on would do things that nobody could account for.
    #[error("the journal cannot be written: {0}")]
    Journal(String),
    /// The records don't fit what the program does now.
    #[error("the journal does not fit this program at {path}, step `{step}`: {reason}")]
    Diverged {
        /// The call.
        path: CallPath,
        /// The step.
        step: String,
        /// What differs.
        reason: String,
    },
    /// A leaf had begun and not ended when the run was cut off, and only the operator can know whether its effect took
    /// place.
    #[error("`{function}` at {path} had begun and not ended when the run was cut off")]
    Unsettled {
        /// The call.
        path: CallPath,
        /// Its function.
        function: Arc<str>,
    },
}

impl Halt {
    /// A step whose record is of another kind than the step makes.
    pub fn unexpected(path: &CallPath, step: &str, found: &RecordKind) -> Self {
        let found = serde_json::to_value(found).ok();
        let kind = found.as_ref().and_then(|v| v["kind"].as_str()).unwrap_or("?").to_owned();
        Self::Diverged {
            path: path.clone(),
            step: step.to_owned(),
            reason: format!("found a record `{kind}`"),
        }
    }
}
