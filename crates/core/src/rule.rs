//! Rules about calls, and the sources of decisions.

use crate::risk::Risk;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The channel of a remembered answer.
pub const MEMORY: &str = "memory";

/// The effect of a rule. Ordered by strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// Run without asking.
    PreApproved,
    /// Ask the operator.
    Ask,
    /// Refuse without asking.
    Blocked,
}

impl Rule {
    /// The rule's word on the command line: `allow`, `ask`, `deny`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::PreApproved => "allow",
            Self::Ask => "ask",
            Self::Blocked => "deny",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PreApproved => "preApproved",
            Self::Ask => "ask",
            Self::Blocked => "blocked",
        })
    }
}

/// The effect of `ask` (`docs/reference/approvals.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The operator is asked.
    #[default]
    Interactive,
    /// The call runs.
    ApproveAll,
    /// The call is refused.
    AutoDeny,
    /// The run is suspended until an operator decides.
    Defer,
}

impl Mode {
    /// The stricter of two: a program's files may only tighten the operator's mode. `defer` is as strict as
    /// `interactive`; neither runs a call without approval.
    #[must_use]
    pub fn tighten(self, other: Self) -> Self {
        fn looseness(mode: Mode) -> u8 {
            match mode {
                Mode::ApproveAll => 2,
                Mode::Interactive | Mode::Defer => 1,
                Mode::AutoDeny => 0,
            }
        }
        if looseness(other) < looseness(self) { other } else { self }
    }

    /// The mode's notation in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::ApproveAll => "approve_all",
            Self::AutoDeny => "auto_deny",
            Self::Defer => "defer",
        }
    }
}

/// The origin of a decision about a call. It is data; `Display` makes the sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule that is written somewhere.
    Rule {
        /// Where: `--deny write_file`, `main.worker:12`.
        #[serde(rename = "origin")]
        written_at: Arc<str>,
        /// Whether it is a rule of a caller further up, which can only block.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_caller: bool,
    },
    /// An `approval` block, by the risk of the call or by its default.
    Policy {
        /// Where the block is written.
        #[serde(rename = "origin")]
        written_at: Arc<str>,
        /// The risk that it names; absent for its default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        risk: Option<Risk>,
    },
    /// A file of the program pre-approves the call, and its effect is outside the mounts that the program declares: the
    /// operator decides.
    OutsideMounts {
        /// What pre-approves it.
        rule: Box<DecidedBy>,
    },
    /// A file of the program pre-approves the call, and it changes a file that other programs execute: the operator
    /// decides.
    ExecutedFile {
        /// What pre-approves it.
        rule: Box<DecidedBy>,
    },
    /// The operator has approved the call, but something changed before it could run: the operator decides again.
    Changed {
        /// What changed.
        what: Arc<str>,
        /// What asked in the first place.
        rule: Box<DecidedBy>,
    },
    /// A file of the program pre-approves the call, and words that others wrote could steer it: the operator decides.
    Untrusted {
        /// What pre-approves it.
        rule: Box<DecidedBy>,
    },
    /// The approval of a mount that the call touches.
    Mount {
        /// Where it is mounted.
        at: Arc<str>,
    },
    /// The approval function of the tool.
    Function {
        /// The tool.
        function: Arc<str>,
    },
    /// The toolset, by these arguments.
    Toolset {
        /// Its reason.
        why: Arc<str>,
    },
    /// No rule matches the call: its risk decides.
    Default(Risk),
    /// The mode in the operator's place.
    Mode(Mode),
    /// The operator, who was asked.
    Operator {
        /// The person or program that answered.
        by: Arc<str>,
        /// The channel.
        via: Arc<str>,
        /// Whether the arguments were edited.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        edited: bool,
    },
    /// The operator, who started the run with this call.
    Start,
    /// The delegation that this call makes is judged in its place.
    Delegation,
}

impl DecidedBy {
    /// Returns true if the operator decided, by an answer or by starting the run.
    pub fn is_operator(&self) -> bool {
        matches!(self, Self::Operator { .. } | Self::Start)
    }

    /// A rule of the caller, the program or the command line.
    pub fn rule(written_at: &Arc<str>) -> Self {
        Self::Rule { written_at: Arc::clone(written_at), of_caller: false }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { written_at, of_caller: false } => f.write_str(written_at),
            Self::Rule { written_at, of_caller: true } => write!(f, "{written_at} (a caller's rule)"),
            Self::Policy { written_at, risk: Some(risk) } => write!(f, "{written_at}: risk `{risk}`"),
            Self::Policy { written_at, risk: None } => write!(f, "{written_at}: default"),
            Self::OutsideMounts { rule } => write!(
                f,
                "{rule} (the effect is outside the mounts that the program declares, so the operator decides)"
            ),
            Self::Changed { what, rule } => {
                write!(f, "{what} after you approved this call; first asked because of {rule}")
            }
            Self::ExecutedFile { rule } => {
                write!(
                    f,
                    "{rule} (the call changes a file that other programs execute, so the operator decides)"
                )
            }
            Self::Untrusted { rule } => {
                write!(f, "{rule} (untrusted words could steer the call, so the operator decides)")
            }
            Self::Mount { at } => write!(f, "mount `{at}`"),
            Self::Function { function } => write!(f, "the approval function of `{function}`"),
            Self::Toolset { why } => f.write_str(why),
            Self::Default(risk) => write!(f, "default for risk `{risk}`"),
            Self::Mode(mode) => write!(f, "mode {}", mode.as_str()),
            Self::Operator { by, edited: true, .. } => write!(f, "{by}, with edited arguments"),
            Self::Operator { by, via, .. } if **via == *MEMORY => {
                write!(f, "{by}, remembered")
            }
            Self::Operator { by, .. } => f.write_str(by),
            Self::Start => f.write_str("operator, who starts the run"),
            Self::Delegation => f.write_str("the delegation that it makes is asked about"),
        }
    }
}
