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
    /// The same call with the same arguments, in a row or not, in one conversation.
    pub max_repeats: u32,
    /// Further attempts at a failed request.
    pub request_retries: u32,
    /// Further attempts at an invalid output.
    pub output_retries: u32,
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
        let Self { max_turns, max_tool_calls, timeout_ms, max_tokens, max_cost_usd, .. } = *self;
        Budget { max_turns, max_tool_calls, max_tokens, max_cost_usd, timeout_ms }
    }
}
