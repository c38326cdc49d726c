//! Limits of one worker.

use crate::{budget::Budget, price::Usd};
use serde::{Deserialize, Serialize};

/// Default limit of model turns in one conversation.
pub const DEFAULT_TURNS: u32 = 50;

/// Limits of one worker's call and of everything below it (`docs/reference/loop.md`). An absent value is no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Model turns of the call and everything below it. If it is absent, a conversation has [`DEFAULT_TURNS`] and
    /// each callee has its own limit.
    pub max_turns: Option<u32>,
    /// Tool calls of the call and everything below it.
    pub max_tool_calls: Option<u32>,
    /// Working time of one call, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Tokens of the call and everything below it.
    pub max_tokens: Option<u64>,
    /// Cost of the call and everything below it.
    pub max_cost_usd: Option<Usd>,
    /// Depth of delegation below this worker.
    pub max_depth: Option<u32>,
    /// Number of equal calls with equal arguments, consecutive or not, in one conversation.
    pub max_repeats: u32,
    /// Further attempts at a failed request.
    pub request_retries: u32,
    /// Further attempts at an invalid output.
    pub output_retries: u32,
    /// Tokens of one request. If it is absent, the model's window, if that is known.
    pub max_context_tokens: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: None,
            max_tool_calls: None,
            timeout_ms: None,
            max_tokens: None,
            max_cost_usd: None,
            max_depth: None,
            max_repeats: 5,
            request_retries: 4,
            output_retries: 2,
            max_context_tokens: None,
        }
    }
}

impl Limits {
    /// Maximum model turns of one conversation.
    pub fn turns(&self) -> u32 {
        self.max_turns.unwrap_or(DEFAULT_TURNS)
    }

    /// The budget of the call and everything below it.
    pub fn budget(&self) -> Budget {
        let Self { max_tokens, max_cost_usd, .. } = *self;
        Budget { max_tokens, max_cost_usd, ..self.of_answer() }
    }

    /// The budget of a conversation with the user and everything below it.
    pub fn of_conversation(&self) -> Budget {
        let Self { max_tokens, max_cost_usd, .. } = *self;
        Budget { max_tokens, max_cost_usd, ..Budget::default() }
    }

    /// The budget of each answer in such a conversation.
    pub fn of_answer(&self) -> Budget {
        let Self { max_turns, max_tool_calls, timeout_ms, .. } = *self;
        Budget { max_turns, max_tool_calls, timeout_ms, ..Budget::default() }
    }
}

/// Limits of a single source. An absent value states no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GivenLimits {
    /// [`Limits::max_turns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// [`Limits::max_tool_calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// [`Limits::timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// [`Limits::max_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// [`Limits::max_cost_usd`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Usd>,
    /// [`Limits::max_depth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// [`Limits::max_repeats`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_repeats: Option<u32>,
    /// [`Limits::request_retries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_retries: Option<u32>,
    /// [`Limits::output_retries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_retries: Option<u32>,
    /// [`Limits::max_context_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
}

impl GivenLimits {
    /// The limits of two sources: the tighter one of each.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        fn tighter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Self {
            max_turns: tighter(self.max_turns, other.max_turns),
            max_tool_calls: tighter(self.max_tool_calls, other.max_tool_calls),
            timeout_ms: tighter(self.timeout_ms, other.timeout_ms),
            max_tokens: tighter(self.max_tokens, other.max_tokens),
            max_cost_usd: tighter(self.max_cost_usd, other.max_cost_usd),
            max_depth: tighter(self.max_depth, other.max_depth),
            max_repeats: tighter(self.max_repeats, other.max_repeats),
            request_retries: tighter(self.request_retries, other.request_retries),
            output_retries: tighter(self.output_retries, other.output_retries),
            max_context_tokens: tighter(self.max_context_tokens, other.max_context_tokens),
        }
    }

    /// Replaces the limits in `limits` by these, if they are present.
    #[must_use]
    pub fn over(&self, limits: &Limits) -> Limits {
        Limits {
            max_turns: self.max_turns.or(limits.max_turns),
            max_tool_calls: self.max_tool_calls.or(limits.max_tool_calls),
            timeout_ms: self.timeout_ms.or(limits.timeout_ms),
            max_tokens: self.max_tokens.or(limits.max_tokens),
            max_cost_usd: self.max_cost_usd.or(limits.max_cost_usd),
            max_depth: self.max_depth.or(limits.max_depth),
            max_repeats: self.max_repeats.unwrap_or(limits.max_repeats),
            request_retries: self.request_retries.unwrap_or(limits.request_retries),
            output_retries: self.output_retries.unwrap_or(limits.output_retries),
            max_context_tokens: self.max_context_tokens.or(limits.max_context_tokens),
        }
    }
}
