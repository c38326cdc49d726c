//! Reasons why a program can't be opened or a run can't start, whatever the host.

use crate::grant::MissingGrant;
use llm_do_core::{
    model::ModelName,
    outcome::{Failure, Halt},
};
use llm_do_program::{Diagnostics, signature::InputError};
use std::{path::PathBuf, sync::Arc};

/// A reason why a program can't be opened or a run can't start. A host adds reasons of its own
/// ([`Host::Problem`](crate::Host::Problem)).
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// The program is wrong.
    #[error("{}", .0.0.first().map(|d| d.message.as_str()).unwrap_or_default())]
    Program(Diagnostics),
    /// The program needs grants that the operator has not given.
    #[error("the program asks for more than its own folder")]
    Grants(Vec<MissingGrant>),
    /// The input doesn't fit the entry.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file can't be attached.
    #[error("cannot attach `{}`: {reason}", path.display())]
    Attachment {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// An environment variable that the program's code gets can't be given to it.
    #[error("the variable {name}, which {asked_by} names in its `sandbox`, {reason}")]
    Variable {
        /// The name of the variable.
        name: Arc<str>,
        /// The worker that lists it.
        asked_by: Arc<str>,
        /// The reason.
        reason: &'static str,
    },
    /// A model can't be used.
    #[error("`{worker}`: {message}")]
    Model {
        /// The worker whose model it is.
        worker: Arc<str>,
        /// The model, if one was named.
        model: Option<ModelName>,
        /// A description of the error, and its solution.
        message: String,
    },
    /// Nothing names a model and none was found.
    #[error("no model: nothing names one, and no provider is configured")]
    NoModel,
    /// Another worker of a lone file was asked for.
    #[error("`{worker}` can't be called: the program is a single worker file")]
    NoProject {
        /// The worker.
        worker: String,
    },
    /// A run would fail before its first request.
    #[error("{0}")]
    Preview(Failure),
    /// A run can't be replayed.
    #[error(transparent)]
    Halt(#[from] Halt),
}
