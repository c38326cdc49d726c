//! Options and results of a map.

use crate::{board::Counts, columns::Renamed};
use std::{path::PathBuf, str::FromStr};

/// The options of a map.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// A table, or a folder of files.
    pub inputs: PathBuf,
    /// The output.
    pub outputs: PathBuf,
    /// `--set-column`.
    pub renamed: Vec<Renamed>,
    /// `--ignore-column`.
    pub ignored: Vec<String>,
    /// `--param`: parameters that are the same in all rows.
    pub constants: Vec<(String, String)>,
    /// True if the operator wrote the rows. Otherwise they are untrusted.
    pub trusted: bool,
    /// True if the lines of the output are in the order in which rows end.
    pub unordered: bool,
    /// True if the lines of the output have the columns of their row, or the name of its file.
    pub keep: bool,
    /// The largest number of rows, and of requests to a provider, at the same time.
    pub concurrency: usize,
    /// The limit of failures.
    pub max_failures: Option<MaxFailures>,
    /// The most that this command may cost, in dollars.
    pub max_cost: Option<f64>,
    /// True if requests are sent in batches.
    pub batch: bool,
    /// True if rows that failed in an earlier command run again.
    pub retry_failed: bool,
}

/// The number of rows that may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxFailures {
    /// A number of rows.
    Rows(u64),
    /// A percentage of all rows.
    Percent(f64),
}

impl MaxFailures {
    /// Returns the number of rows that may fail in a total of `rows`.
    pub(crate) fn of(self, rows: u64) -> u64 {
        match self {
            Self::Rows(most) => most,
            Self::Percent(percent) => (rows as f64 * percent / 100.0) as u64,
        }
    }
}

impl FromStr for MaxFailures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("--max-failures takes a number of rows or a percentage, such as 5%; got `{text}`");
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
                (0.0..=100.0).contains(&percent).then_some(Self::Percent(percent)).ok_or_else(wrong)
            }
            None => text.parse().map(Self::Rows).map_err(|_| wrong()),
        }
    }
}

/// The state of the rows before a command runs any.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All rows.
    pub rows: u64,
    /// Rows with an output from an earlier command.
    pub done: u64,
    /// Rows that failed in an earlier command.
    pub failed: u64,
    /// Rows that an earlier command has begun, and that continue.
    pub unfinished: u64,
    /// Rows that are not a valid input for the worker.
    pub unreadable: u64,
    /// Messages about some of the unreadable rows.
    pub examples: Vec<String>,
    /// True if the definitions, the model or the settings differ from those of the last command.
    pub changed: bool,
}

impl Survey {
    pub(crate) const EXAMPLES: usize = 3;

    /// Returns the number of rows that are to run.
    pub fn missing(&self) -> u64 {
        self.rows - self.done - self.failed
    }
}

/// The reason why no more rows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All rows have ended.
    Done,
    /// The requested number of rows has ended.
    Pilot,
    /// Another row could exceed the maximum cost.
    MaxCost,
    /// A maximum cost is set, and the cost of a row is not known.
    UnknownCost,
    /// Too many rows have failed.
    MaxFailures,
    /// The map was stopped from outside.
    Interrupted,
}

/// The result of a map.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The rows and what they used.
    pub counts: Counts,
    /// The output.
    pub outputs: PathBuf,
    /// The rows that failed, if any did.
    pub failures: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_or_a_part_of_all() {
        assert_eq!("3".parse(), Ok(MaxFailures::Rows(3)));
        assert_eq!("2.5%".parse(), Ok(MaxFailures::Percent(2.5)));
        assert_eq!(MaxFailures::Percent(2.5).of(1000), 25);
        for wrong in ["", "%", "-1", "101%", "NaN%", "x", "1.5"] {
            assert!(wrong.parse::<MaxFailures>().is_err(), "{wrong}");
        }
    }
}
