//! Money, and the prices of models.

use crate::model::Usage;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, iter::Sum};

/// Picodollars in a dollar: fine enough for the price of one token, given a price per million.
const PICO: f64 = 1e12;

/// An amount of US dollars. Counted in whole picodollars, so that sums don't depend on their order; a number of dollars
/// in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount in dollars. `None` if it is negative, not finite, or beyond some millions.
    pub fn dollars(amount: f64) -> Option<Self> {
        let pico = (amount * PICO).round();
        (amount >= 0.0 && pico < u64::MAX as f64).then_some(Self(pico as u64))
    }

    /// The amount as a number of dollars.
    pub fn as_dollars(self) -> f64 {
        self.0 as f64 / PICO
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Half of it, rounded up.
    #[must_use]
    pub fn half(self) -> Self {
        Self(self.0.div_ceil(2))
    }

    /// The amount multiplied by a number.
    fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The cost of that many tokens at this price per million. Rounded up.
    fn for_tokens(self, tokens: u64) -> Self {
        let pico = (u128::from(self.0) * u128::from(tokens)).div_ceil(1_000_000);
        Self(u64::try_from(pico).unwrap_or(u64::MAX))
    }

    /// The number of tokens that this amount buys at that price per million; `None` if they are free.
    fn tokens_at(self, price: Self) -> Option<u64> {
        let tokens = (u128::from(self.0) * 1_000_000).checked_div(u128::from(price.0))?;
        Some(u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::plus)
    }
}

impl fmt::Display for Usd {
    /// Formats the amount as `0.50 USD`; small amounts have as many digits as they need to differ from zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.as_dollars();
        match self.0 {
            0 => f.write_str("0 USD"),
            _ if dollars >= 0.1 => write!(f, "{dollars:.2} USD"),
            _ if dollars >= 0.000_1 => write!(f, "{dollars:.4} USD"),
            _ if dollars >= 0.000_001 => write!(f, "{dollars:.6} USD"),
            _ => write!(f, "{} USD", format!("{dollars:.12}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_f64(self.as_dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let amount = f64::deserialize(input)?;
        Self::dollars(amount).ok_or_else(|| D::Error::custom(format!("{amount} is not an amount of dollars")))
    }
}

/// The prices of a model, in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens sent.
    pub input: Usd,
    /// Tokens sent that were read from the provider's cache; the price of `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Usd>,
    /// Tokens sent that were written to the provider's cache; the price of `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Usd>,
    /// Tokens produced, reasoning included.
    pub output: Usd,
    /// Price of one use of a tool that the provider runs, in dollars; unknown if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_use: Option<Usd>,
    /// The prices of long requests, if the provider has others for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
}

impl Price {
    /// The price of a model that costs nothing.
    pub const FREE: Self = Self {
        input: Usd::ZERO,
        cached_input: None,
        cache_write: None,
        output: Usd::ZERO,
        server_use: Some(Usd::ZERO),
        above: None,
    };
}

/// The prices of a request that sends more tokens than a threshold. They apply to all tokens of the request, as at
/// OpenAI, Google and xAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Above {
    /// The threshold: these prices apply to a request that sends more tokens.
    pub tokens: u64,
    /// Tokens sent; see [`Price::input`].
    pub input: Usd,
    /// Tokens read from the provider's cache; see [`Price::cached_input`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Usd>,
    /// Tokens written to the provider's cache; see [`Price::cache_write`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Usd>,
    /// Tokens produced; see [`Price::output`].
    pub output: Usd,
}

impl Price {
    /// A price for each token that is sent and for each that is produced, per million, whatever its kind.
    pub fn flat(input: Usd, output: Usd) -> Self {
        Self { input, cached_input: None, cache_write: None, output, server_use: None, above: None }
    }

    /// The prices of a request that sends that many tokens.
    fn for_request(&self, input: u64) -> Self {
        match self.above {
            Some(above) if input > above.tokens => Self {
                input: above.input,
                cached_input: above.cached_input,
                cache_write: above.cache_write,
                output: above.output,
                server_use: self.server_use,
                above: None,
            },
            _ => *self,
        }
    }

    /// Changes each price by a function, except the price of tools that the provider runs.
    #[must_use]
    pub fn map_tokens(&self, change: impl Fn(Usd) -> Usd) -> Self {
        Self {
            input: change(self.input),
            cached_input: self.cached_input.map(&change),
            cache_write: self.cache_write.map(&change),
            output: change(self.output),
            server_use: self.server_use,
            above: self.above.map(|above| Above {
                tokens: above.tokens,
                input: change(above.input),
                cached_input: above.cached_input.map(&change),
                cache_write: above.cache_write.map(&change),
                output: change(above.output),
            }),
        }
    }

    /// The cost of a request. `None` if its tokens or the price of a part are unknown, which differs from zero.
    pub fn of(&self, usage: &Usage) -> Option<Usd> {
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        let uses = match usage.server_uses {
            None | Some(0) => Usd::ZERO,
            Some(uses) => self.server_use?.times(uses),
        };
        let cached = usage.cached_tokens.unwrap_or(0).min(input);
        let written = usage.cache_write_tokens.unwrap_or(0).min(input - cached);
        let price = self.for_request(input);
        let parts = [
            price.input.for_tokens(input - cached - written),
            price.cached_input.unwrap_or(price.input).for_tokens(cached),
            price.cache_write.unwrap_or(price.input).for_tokens(written),
            price.output.for_tokens(output),
            uses,
        ];
        Some(parts.into_iter().sum())
    }

    /// The maximum cost of a request, with no cache hits at the provider.
    pub fn at_most(&self, input: u64, output: u64) -> Usd {
        let price = self.for_request(input);
        price.dearest_input().for_tokens(input).plus(price.output.for_tokens(output))
    }

    /// The number of output tokens that this amount buys after that many input tokens. `None` if there is no limit.
    pub fn output_for(&self, money: Usd, input: u64) -> Option<u64> {
        let price = self.for_request(input);
        let input = price.dearest_input().for_tokens(input);
        match input > money {
            true => Some(0),
            false => money.minus(input).tokens_at(price.output),
        }
    }

    fn dearest_input(&self) -> Usd {
        [Some(self.input), self.cached_input, self.cache_write]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(amount: f64) -> Usd {
        Usd::dollars(amount).unwrap()
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let price = Price {
            cached_input: Some(usd(0.3)),
            cache_write: Some(usd(3.75)),
            ..Price::flat(usd(3.0), usd(15.0))
        };
        let usage = Usage {
            input_tokens: Some(1_000_000),
            cached_tokens: Some(400_000),
            cache_write_tokens: Some(100_000),
            output_tokens: Some(10_000),
            ..Usage::default()
        };
        assert_eq!(price.of(&usage), Some(usd(1.5 + 0.12 + 0.375 + 0.15)));
        assert_eq!(price.at_most(1_000_000, 10_000), usd(3.75 + 0.15));
        assert_eq!(price.of(&Usage { output_tokens: None, ..usage }), None, "unknown is not nothing");
        let searched = Usage { server_uses: Some(2), ..usage };
        assert_eq!(price.of(&searched), None, "a search has a price that is not known");
        let known = Price { server_use: Some(usd(0.01)), ..price };
        assert_eq!(known.of(&searched), Some(usd(1.5 + 0.12 + 0.375 + 0.15 + 0.02)));
        assert_eq!(price.output_for(usd(0.15), 0), Some(10_000));
        assert_eq!(price.output_for(usd(3.0), 1_000_000), Some(0));
    }

    #[test]
    fn a_long_request_has_its_own_prices_for_all_its_tokens() {
        let above = Above {
            tokens: 200_000,
            input: usd(4.0),
            cached_input: Some(usd(0.4)),
            cache_write: None,
            output: usd(18.0),
        };
        let price = Price { above: Some(above), ..Price::flat(usd(2.0), usd(12.0)) };
        let usage = |input, cached| Usage {
            input_tokens: Some(input),
            cached_tokens: Some(cached),
            output_tokens: Some(1_000_000),
            ..Usage::default()
        };
        assert_eq!(price.of(&usage(200_000, 0)), Some(usd(0.4 + 12.0)), "the threshold itself is short");
        assert_eq!(price.of(&usage(300_000, 100_000)), Some(usd(0.8 + 0.04 + 18.0)));
        assert_eq!(price.at_most(300_000, 0), usd(1.2));
        assert_eq!(price.output_for(usd(19.2), 300_000), Some(1_000_000));
        let half = price.map_tokens(Usd::half);
        assert_eq!(half.of(&usage(300_000, 100_000)), Some(usd(0.4 + 0.02 + 9.0)));
    }

    #[test]
    fn amounts_survive_json_and_are_never_lost() {
        for amount in [0.0, 0.000_000_000_001, 0.037_5, 0.5, 1_234.567_890_123] {
            let text = serde_json::to_string(&usd(amount)).unwrap();
            assert_eq!(serde_json::from_str::<Usd>(&text).unwrap(), usd(amount), "{text}");
        }
        for wrong in [-0.1, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Usd::dollars(wrong), None, "{wrong}");
        }
        assert_eq!(usd(0.000_001).for_tokens(1), Usd(1), "rounded up");
    }

    #[test]
    fn amounts_read_as_people_write_them() {
        let shown = |amount| usd(amount).to_string();
        assert_eq!(
            [0.0, 0.5, 0.012_34, 0.000_012, 0.000_000_002, 0.000_000_000_001].map(shown),
            ["0 USD", "0.50 USD", "0.0123 USD", "0.000012 USD", "0.000000002 USD", "0.000000000001 USD"]
        );
    }
}
