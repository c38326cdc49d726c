//! The amount of reasoning (`reasoning_effort`).

use llm_do_core::model::ModelSettings;
use std::str::FromStr;

/// The amount of reasoning before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
    /// A budget of tokens.
    Budget(u32),
}

/// The text names no effort.
#[derive(Debug)]
pub(crate) struct NoEffort;

impl FromStr for Effort {
    type Err = NoEffort;

    fn from_str(text: &str) -> Result<Self, NoEffort> {
        Ok(match text {
            "none" | "zero" => Self::None,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::XHigh,
            "max" => Self::Max,
            number => Self::Budget(number.parse().map_err(|_| NoEffort)?),
        })
    }
}

impl Effort {
    /// Returns the effort that the settings name. The settings were checked before.
    pub(crate) fn of(settings: &ModelSettings) -> Option<Self> {
        settings.reasoning_effort.as_ref()?.parse().ok()
    }

    /// Returns the word of OpenAI's interfaces, which have no budgets.
    pub(crate) fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
            Self::Budget(_) => return None,
        })
    }

    /// Returns the tokens of a budget. Models that have budgets and no words get these numbers for the words.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Minimal | Self::Low => 1024,
            Self::Medium => 8000,
            Self::High | Self::XHigh | Self::Max => 24_000,
            Self::Budget(tokens) => tokens,
        }
    }
}
