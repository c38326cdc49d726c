//! Errors of a tuning.

use llm_do_cases::{Stopped, SuiteError};
use std::{io, path::PathBuf, sync::Arc};

/// An error that stops a tuning. Runs that have ended stay in its log.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The program or its cases can't be used.
    #[error(transparent)]
    Program(#[from] llm_do::Problem),
    /// The program has no cases.
    #[error("there are no cases of `{worker}` in {}", root.display())]
    NoCases {
        /// The worker.
        worker: String,
        /// The root of the program.
        root: PathBuf,
    },
    /// The worker has no instructions that can be replaced.
    #[error("{what}")]
    NotTunable {
        /// The reason.
        what: String,
        /// The way out.
        hint: String,
    },
    /// A case can't run.
    #[error(transparent)]
    Case(Stopped),
    /// A model can't be asked. The run is made again by the next command.
    #[error("a model failed, and without its answer nothing can be judged: {0}")]
    Model(String),
    /// The log can't be read or written.
    #[error("cannot use {}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The log was written elsewhere.
    #[error("the state in {} was not written by this user's llm-do, or was changed", .0.display())]
    Foreign(PathBuf),
    /// Another command tunes the same worker.
    #[error("another llm-do tune is writing {}", .0.display())]
    Running(PathBuf),
    /// The file has changed since the command began.
    #[error("{} has changed since the command began, so nothing was written to it", .0.display())]
    Changed(PathBuf),
    /// The changed file can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The command was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A run reached the limit of the cost.
    #[error("the limit of --max-cost was reached before the result could be measured")]
    Cost,
    /// A budget over time has refused a request.
    #[error("{0}")]
    Budget(Arc<str>),
}

impl From<SuiteError> for Problem {
    fn from(error: SuiteError) -> Self {
        match error {
            SuiteError::Problem(problem) => Self::Program(problem),
            SuiteError::None(root) => Self::NoCases { worker: "the program".into(), root },
        }
    }
}

impl Problem {
    /// Returns the hints for the user.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoCases { .. } => "write them in WORKER.cases.yaml beside the worker, or below tests/".into(),
            Self::NotTunable { hint, .. } => hint.clone(),
            Self::Model(_) | Self::State { .. } => {
                "run the command again when this is mended: it continues, and runs that have ended are not paid again".into()
            }
            Self::Foreign(path) => format!("remove {}: then all runs are made again", path.display()),
            Self::Running(_) => "wait for its end, or stop that process".into(),
            Self::Changed(_) => "run the command again: it continues with the file as it is".into(),
            Self::Cost => "run the command again with a higher --max-cost: it continues".into(),
            Self::Budget(_) => "run the command again when the budget is open: it continues".into(),
            _ => return Vec::new(),
        };
        vec![hint]
    }
}
