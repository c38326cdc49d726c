//! What a map is told, and what it tells.

use crate::{board::Counts, columns::Renamed};
use std::{path::PathBuf, str::FromStr};

/// What a map is told.
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
    /// Whether the operator wrote the rows. Otherwise they are untrusted.
    pub trusted: bool,
    /// Lines of the output come as rows end.
    pub unordered: bool,
    /// Lines of the output have the columns of their row, or the name of its file.
    pub keep: bool,
    /// Most rows, and most requests to a provider, at the same time.
    pub concurrency: usize,
    /// When so many failures are too many.
    pub max_failures: Option<MaxFailures>,
    /// The most that this command may cost, in dollars.
    pub max_cost: Option<f64>,
    /// Whether requests are sent in batches.
    pub batch: bool,
    /// Whether rows that failed in an earlier command run again.
    pub retry_failed: bool,
}

/// How many rows may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxFailures {
    /// So many.
    Rows(u64),
    /// This part of all rows.
    Percent(f64),
}

impl MaxFailures {
    /// The number of rows that may fail among so many.
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

/// What the input holds, and what is done of it.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All rows.
    pub rows: u64,
    /// Rows with an output from an earlier command.
    pub done: u64,
    /// Rows that failed in an earlier command.
    pub failed: u64,
    /// Rows that an earlier command has begun: they continue.
    pub unfinished: u64,
    /// Rows that are no input for the worker.
    pub unreadable: u64,
    /// What is wrong with some of them.
    pub examples: Vec<String>,
    /// The definitions, the model or the settings differ from those of the last command.
    pub changed: bool,
}

impl Survey {
    pub(crate) const EXAMPLES: usize = 3;

    /// Rows that are to run.
    pub fn missing(&self) -> u64 {
        self.rows - self.done - self.failed
    }
}

/// Why rows stopped to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All have ended.
    Done,
    /// So many as were wanted have ended.
    Pilot,
    /// One more could cost more than may be spent.
    MaxCost,
    /// There is a limit of the cost, and what a row has cost is not known.
    UnknownCost,
    /// Too many have failed.
    MaxFailures,
    /// From outside.
    Interrupted,
}

/// What came of a map.
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
