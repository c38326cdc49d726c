//! Problems that prevent a run from starting.

use crate::{
    fit::Misfit,
    grant::{BadGrantsFile, MissingGrant},
    resume::ResumeError,
};
use llm_do_core::model::ModelName;
use llm_do_host::Obstacle;
use llm_do_program::{
    Diagnostics,
    diagnostics::render::{Colour, render},
    signature::InputError,
};
use llm_do_runs::{CreateError, UntrustedListError};
use std::{path::PathBuf, sync::Arc};

/// A problem that prevents a run from starting. Nothing has been sent to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The program is wrong.
    #[error("{}", .0.0.first().map(|d| d.message.as_str()).unwrap_or_default())]
    Program(Diagnostics),
    /// The program needs grants that the operator has not given.
    #[error("the program asks for more than its own folder")]
    Grants(Vec<MissingGrant>),
    /// The remembered grants can't be read.
    #[error("cannot read the remembered grants: {0}")]
    GrantsFile(#[from] BadGrantsFile),
    /// The input doesn't fit the entry.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file to attach can't be read.
    #[error("cannot attach `{}`: {reason}", path.display())]
    Attachment {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The user's configuration can't be read.
    #[error("cannot read {}: {reason}", path.display())]
    UserConfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// An environment variable that the program's Python functions get can't be given to them.
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
    /// An MCP server can't be inspected.
    #[error("the MCP server `{server}`: {reason}")]
    Server {
        /// The name of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// Another worker of a lone file was asked for.
    #[error("`{worker}` can't be called: the program is a single worker file")]
    NoProject {
        /// The worker.
        worker: String,
    },
    /// A run would fail before its first request.
    #[error("{0}")]
    Preview(llm_do_core::engine::Failure),
    /// The packages of its Python tools can't be installed.
    #[error("cannot prepare the program's Python environment: {0}")]
    Packages(String),
    /// The program can't run on a cluster.
    #[error("the program cannot run on a cluster: {reason}")]
    NotOnCluster {
        /// The reason, and what to do.
        reason: String,
    },
    /// The run can't be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// An option of the embedding program can't be read.
    #[error("`{option}`: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// A description of the error.
        reason: String,
    },
    /// A tool or toolset of the embedding program can't be registered.
    #[error("the tool or toolset `{name}` can't be registered: {reason}")]
    Toolset {
        /// The name of the tool or toolset.
        name: &'static str,
        /// The reason.
        reason: String,
    },
    /// The outputs of a worker don't fit the type that the embedding program takes.
    #[error(transparent)]
    Returns(Box<Misfit>),
    /// The workers' signatures are not those that the embedding program has types for.
    #[error(
        "the types were generated for other signatures of the workers ({expected}, now {found}): generate them again with \
         `llm-do stubs --rust`"
    )]
    Stubs {
        /// The hash of the signatures that the types are for.
        expected: String,
        /// The hash of the program's signatures.
        found: String,
    },
    /// No temporary folder for journals could be made.
    #[error("cannot make a temporary folder for journals: {0}")]
    TemporaryFolder(std::io::Error),
    /// The list of the places that untrusted words were written to can't be used.
    #[error(transparent)]
    Untrusted(#[from] UntrustedListError),
    /// The key that seals journals can't be read or made.
    #[error(transparent)]
    Key(#[from] NoKey),
    /// The journal can't be made.
    #[error(transparent)]
    Journal(#[from] CreateError),
}

/// The key that seals this user's journals can't be read or made. A run without the key could not be resumed, so it
/// does not start.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read or make the key of the journals in {}: {source}. Make that folder readable and writable, or name another in \
     LLM_DO_HOME.",
    home.display()
)]
pub struct NoKey {
    /// The user's folder.
    pub home: PathBuf,
    /// The cause.
    pub source: std::io::Error,
}

impl Problem {
    /// Returns the whole problem as text: every finding with its place in the file, every missing grant.
    pub fn explained(&self) -> String {
        match self {
            Self::Program(found) => render(&found.0, Colour::Never).trim_end().to_owned(),
            Self::Grants(missing) => {
                let lines: Vec<String> = missing
                    .iter()
                    .map(|one| format!("\n  {one} (asked for at {}): grant `{}`", one.asked_at, one.grant))
                    .collect();
                format!("{self}:{}", lines.concat())
            }
            _ => self.to_string(),
        }
    }
}

impl From<Obstacle> for Problem {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Program(found) => Self::Program(found),
            Obstacle::Grants(missing) => Self::Grants(missing),
            Obstacle::Input(error) => Self::Input(error),
            Obstacle::Attachment { path, reason } => Self::Attachment { path, reason },
            Obstacle::Variable { name, asked_by, reason } => Self::Variable { name, asked_by, reason },
            Obstacle::Model { worker, model, message } => Self::Model { worker, model, message },
            Obstacle::NoModel => Self::NoModel,
            Obstacle::NoProject { worker } => Self::NoProject { worker },
            Obstacle::Preview(failure) => Self::Preview(failure),
            Obstacle::Halt(halt) => Self::Resume(ResumeError::Halt(halt)),
        }
    }
}
