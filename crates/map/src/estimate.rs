//! The estimate of the tokens and the cost of the remaining rows, based on those that have run.

use llm_do_core::model::Usage;

/// The estimated tokens and cost of the remaining rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The number of rows that were measured.
    pub measured: u64,
    /// The number of remaining rows.
    pub rows: u64,
    /// The range of tokens.
    pub tokens: Range,
    /// The range of the cost in dollars, if the prices are known.
    pub dollars: Option<Range>,
}

impl Estimate {
    /// Returns the same estimate at half the price.
    #[must_use]
    pub(crate) fn at_half_price(self) -> Self {
        let half = |Range { low, mean, high }| Range { low: low / 2.0, mean: mean / 2.0, high: high / 2.0 };
        Self { dollars: self.dollars.map(half), ..self }
    }
}

/// A range from the least to the most, with the expected value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The expected value.
    pub mean: f64,
    /// The most.
    pub high: f64,
}

/// The tokens and costs of the rows that were measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    tokens: Sample,
    dollars: Sample,
}

/// Sums of values and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    count: f64,
    sum: f64,
    squares: f64,
    most: f64,
}

impl Sample {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
        self.most = self.most.max(value);
    }

    /// Estimates the sum of that many rows: two standard errors around the mean, and at least a tenth, because the
    /// measured rows are the first ones and not a random sample.
    fn of_rows(&self, rows: u64) -> Range {
        let rows = rows as f64;
        let mean = self.sum / self.count;
        let variance =
            (self.squares / self.count - mean * mean).max(0.0) * self.count / (self.count - 1.0).max(1.0);
        let error = (2.0 * (variance / self.count).sqrt()).max(mean / 10.0);
        Range { low: (mean - error).max(0.0) * rows, mean: mean * rows, high: (mean + error) * rows }
    }
}

impl Measured {
    /// Adds a row that has ended.
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.tokens.add(usage.total() as f64);
        if let Some(cost) = usage.cost_usd {
            self.dollars.add(cost.as_dollars());
        }
    }

    /// Returns true if no row was measured yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.count == 0.0
    }

    /// Returns the highest cost of a row, in dollars.
    pub(crate) fn dearest(&self) -> f64 {
        self.dollars.most
    }

    /// Estimates the tokens and the cost of that many rows. Returns `None` before any row was measured.
    pub(crate) fn of_rows(&self, rows: u64) -> Option<Estimate> {
        (self.tokens.count > 0.0).then(|| Estimate {
            measured: self.tokens.count as u64,
            rows,
            tokens: self.tokens.of_rows(rows),
            // A row of unknown cost makes the sum unknown.
            dollars: (self.dollars.count == self.tokens.count).then(|| self.dollars.of_rows(rows)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::price::Usd;

    fn usage(tokens: u64, dollars: Option<f64>) -> Usage {
        let cost_usd = dollars.and_then(Usd::dollars);
        Usage { input_tokens: Some(tokens), cost_usd, ..Usage::default() }
    }

    #[test]
    fn the_range_holds_the_mean_and_is_as_wide_as_the_rows_differ() {
        let mut even = Measured::default();
        assert_eq!(even.of_rows(10), None);
        (0..20).for_each(|_| even.add(&usage(100, Some(0.01))));
        let estimate = even.of_rows(1000).unwrap();
        assert!((estimate.tokens.mean - 100_000.0).abs() < 1.0);
        let dollars = estimate.dollars.unwrap();
        assert!((dollars.low - 9.0).abs() < 0.01 && (dollars.high - 11.0).abs() < 0.01, "{dollars:?}");
        let mut uneven = Measured::default();
        (0..20).for_each(|n| uneven.add(&usage(if n % 2 == 0 { 10 } else { 190 }, None)));
        let estimate = uneven.of_rows(1000).unwrap();
        assert!(estimate.tokens.low < 70_000.0 && estimate.tokens.high > 130_000.0, "{estimate:?}");
        assert_eq!(estimate.dollars, None);
    }
}
