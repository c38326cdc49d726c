//! The value of `--max-cost` of commands that make many runs.

use crate::exit::Complaint;
use llm_do::core::price::Usd;

/// The most that a command may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MaxCost {
    /// An amount of US dollars.
    Dollars(f64),
    /// Any cost.
    Unlimited,
}

impl MaxCost {
    /// Parses `--max-cost AMOUNT`.
    pub(crate) fn parse(text: &str) -> Result<Self, Complaint> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let number = text.strip_suffix("usd").unwrap_or(text).trim();
        let dollars = number.parse::<f64>().ok().filter(|dollars| Usd::dollars(*dollars).is_some());
        dollars.map(Self::Dollars).ok_or_else(|| {
            Complaint::wrong(format!("--max-cost: `{text}` is no amount"))
                .hint("write 5usd, 0.50usd or unlimited")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_an_amount_or_unlimited() {
        assert_eq!(MaxCost::parse("5usd").unwrap(), MaxCost::Dollars(5.0));
        assert_eq!(MaxCost::parse("0.25").unwrap(), MaxCost::Dollars(0.25));
        assert_eq!(MaxCost::parse("unlimited").unwrap(), MaxCost::Unlimited);
        for wrong in ["", "usd", "-1", "5eur", "NaN", "inf", "1e400"] {
            assert!(MaxCost::parse(wrong).is_err(), "{wrong}");
        }
    }
}
