//! The risk of a call: its possible effects.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The risk of a call, which decides when no rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Reads and changes nothing.
    Read,
    /// Changes files inside the sandbox.
    Write,
    /// Talks to other machines.
    Network,
    /// Runs a process or foreign code.
    Exec,
    /// Removes data irrecoverably.
    Destructive,
    /// Calls a worker.
    Delegate,
}

impl Risk {
    /// Returns true if calls of this risk read, on this machine or on others, and have no other known effect.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::Network)
    }

    /// Returns true if calls of this risk run one after another within a turn.
    pub fn is_barrier(self) -> bool {
        matches!(self, Self::Write | Self::Exec | Self::Destructive)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Network => "network",
            Self::Exec => "exec",
            Self::Destructive => "destructive",
            Self::Delegate => "delegate",
        })
    }
}
