//! The state of a run: what it is doing, or how it ended.

use llm_do_core::journal::RunStatus;
use serde::Serialize;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum RunState {
    /// The run has ended.
    Ended(RunStatus),
    /// The run has no end: it is running, or was cut off.
    Open(OpenRun),
}

/// A journal without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenRun {
    /// A process is writing it.
    Running,
    /// No process is writing it: the process was killed, or the machine went down.
    CutOff,
    /// No process is writing it, and its first or last line is no record.
    Damaged,
}

impl RunState {
    /// Returns one or two words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended(RunStatus::Done) => "done",
            Self::Ended(RunStatus::Failed) => "failed",
            Self::Ended(RunStatus::Limit) => "limit reached",
            Self::Ended(RunStatus::Refused) => "refused",
            Self::Ended(RunStatus::Suspended) => "waiting",
            Self::Ended(RunStatus::Interrupted) => "interrupted",
            Self::Open(OpenRun::Running) => "running",
            Self::Open(OpenRun::CutOff) => "cut off",
            Self::Open(OpenRun::Damaged) => "damaged",
        }
    }
}
