//! Why a run can't start.

use super::missing;
use crate::{
    grant::{BadGrantsFile, MissingGrant},
    resume::ResumeError,
};
use llm_do_core::model::ModelName;
use llm_do_program::{BindError, Diagnostics, signature::InputError};
use llm_do_runs::CreateError;
use std::{path::PathBuf, sync::Arc};

/// Why a run can't start. Nothing has been sent to a model.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The program is wrong.
    #[error("{}", .0.0.first().map(|d| d.message.as_str()).unwrap_or_default())]
    Program(Diagnostics),
    /// It asks for what the operator has not granted (SPEC §6.5).
    #[error("the program asks for more than its own folder")]
    Grants(Vec<MissingGrant>),
    /// What was granted before can't be read.
    #[error("cannot read what was granted before: {0}")]
    GrantsFile(#[from] BadGrantsFile),
    /// The input doesn't fit the entry.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file to attach can't be read.
    #[error("cannot attach `{}`: {reason}", path.display())]
    Attachment {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The user's configuration can't be read.
    #[error("cannot read {}: {reason}", path.display())]
    UserConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A model can't be used.
    #[error("`{worker}`: {message}")]
    Model {
        /// The worker whose model it is.
        worker: Arc<str>,
        /// The model, if one was named.
        model: Option<ModelName>,
        /// What is wrong and what to do.
        message: String,
    },
    /// Nothing names a model and none was found.
    #[error("no model: nothing names one, and no provider is configured")]
    NoModel,
    /// A run would fail before its first request.
    #[error("{0}")]
    Preview(llm_do_core::engine::Failure),
    /// The packages of its Python tools can't be installed.
    #[error("cannot prepare the program's Python environment: {0}")]
    Packages(String),
    /// The run can't be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The journal can't be made.
    #[error(transparent)]
    Journal(#[from] CreateError),
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Input(error) => Self::Input(error),
            BindError::Beyond(required) => Self::Grants(required.iter().map(missing::place).collect()),
        }
    }
}

impl Problem {
    /// The exit code of SPEC §3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Grants(_) => 3,
            Self::Journal(_) => 1,
            _ => 2,
        }
    }
}
