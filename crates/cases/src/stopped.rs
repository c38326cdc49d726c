//! The error that stops a suite before its end.

use crate::copy::CopyError;
use llm_do::Problem;
use llm_do_core::model::ModelName;
use std::{io, path::PathBuf, sync::Arc};

/// The error that stopped a suite before its end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// [`Options::canceller`](crate::Options::canceller) has interrupted a run.
    #[error("interrupted")]
    Interrupted,
    /// [`Options::max_cost`](crate::Options::max_cost) has ended a run.
    #[error("the models have cost as much as they may")]
    Cost,
    /// A budget over time has refused a request, so the run says nothing about its case.
    #[error("{0}")]
    Budget(Arc<str>),
    /// No case has a recording, and the suite would ask this hosted model without a request for live answers and
    /// without a cost limit.
    #[error("no case has a recording, so the cases would ask {0}, a hosted model, without a limit")]
    Hosted(ModelName),
    /// A run can't start.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// A case has no copy to run on.
    #[error("cannot copy the program for a case: {0}")]
    Copy(CopyError),
    /// A recording or a page can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A grant would let a case write beside its copy.
    #[error(
        "`--grant {0}` would let a case write outside of its copy: a test is granted places for reading only"
    )]
    WritesOutside(String),
}

impl From<CopyError> for Stopped {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Interrupted => Self::Interrupted,
            error => Self::Copy(error),
        }
    }
}
