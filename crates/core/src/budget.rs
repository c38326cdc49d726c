//! Budgets: the most that a call and everything below it may use.

use crate::price::Usd;
use serde::{Deserialize, Serialize};

/// Limits of a call and everything below it. An absent value is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Model turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Tokens, sent and produced together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Usd>,
    /// Working time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A text that does not parse as a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a budget: write a number and what it counts, such as 0.50usd, 200000tokens, 30turns, 100calls, 10m"
)]
pub struct BadBudget(pub String);

impl Budget {
    /// Parses and adds one limit of the operator: a number and `usd`, `tokens`, `turns`, `calls`, or a unit of time
    /// (`ms`, `s`, `m`, `h`). Of two limits of one kind the tighter applies.
    ///
    /// # Errors
    /// The text is not such a limit.
    pub fn and(mut self, text: &str) -> Result<Self, BadBudget> {
        let bad = || BadBudget(text.to_owned());
        let plain = text.trim().to_ascii_lowercase().replace('_', "");
        let unit = plain.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, unit) = (&plain[..unit], plain[unit..].trim_start());
        let whole = || number.parse::<u64>().map_err(|_| bad());
        let small = || number.parse::<u32>().map_err(|_| bad());
        let time = |of_ms: f64| {
            let amount: f64 = number.parse().map_err(|_| bad())?;
            Ok((amount * of_ms).round() as u64)
        };
        match unit {
            "usd" => {
                let amount = number.parse().ok().and_then(Usd::dollars).ok_or_else(bad)?;
                tighten(&mut self.max_cost_usd, amount);
            }
            "token" | "tokens" => tighten(&mut self.max_tokens, whole()?),
            "turn" | "turns" => tighten(&mut self.max_turns, small()?),
            "call" | "calls" => tighten(&mut self.max_tool_calls, small()?),
            "ms" => tighten(&mut self.timeout_ms, time(1.0)?),
            "s" => tighten(&mut self.timeout_ms, time(1e3)?),
            "m" | "min" => tighten(&mut self.timeout_ms, time(60e3)?),
            "h" => tighten(&mut self.timeout_ms, time(3600e3)?),
            _ => return Err(bad()),
        }
        Ok(self)
    }
}

fn tighten<T: Ord>(limit: &mut Option<T>, other: T) {
    *limit = Some(match limit.take() {
        Some(limit) => limit.min(other),
        None => other,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_the_tighter_holds() {
        let texts = ["0.50usd", "200_000tokens", "3 turns", "7calls", "1.5m", "2usd", "90ms", "1H"];
        let read = texts.iter().try_fold(Budget::default(), |budget, text| budget.and(text));
        let expected = Budget {
            max_turns: Some(3),
            max_tool_calls: Some(7),
            max_tokens: Some(200_000),
            max_cost_usd: Usd::dollars(0.5),
            timeout_ms: Some(90),
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_is_no_budget_is_refused() {
        for wrong in [
            "",
            "5",
            "usd",
            "-1usd",
            "1.5tokens",
            "1e3tokens",
            "5 apples",
            "1..2usd",
            "€5",
            "5000000000turns",
        ] {
            assert_eq!(Budget::default().and(wrong), Err(BadBudget(wrong.to_owned())));
        }
    }
}

/// The reservation for one request to a model, or for the calls of one turn, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reserved {
    /// Model turns that begin.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// Tool calls that are about to be made.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u32,
    /// Tokens sent, as estimated from what is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Maximum tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Maximum cost of both, where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<f64>"))]
    pub cost_usd: Option<Usd>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
