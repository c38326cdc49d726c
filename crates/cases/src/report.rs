//! The results of cases, as data.

use crate::statistics::wilson;
use llm_do_core::{model::Usage, price::Usd};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// The results of a suite. A baseline is a report that was kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// [`FORMAT`].
    pub format: u32,
    /// Each case, with each model.
    pub cases: Vec<CaseReport>,
    /// The cost of the models; absent if the cost of one of them is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// The number of cases of which no repeat ran because the cost had reached its limit, or because the suite was
    /// interrupted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_run: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The result of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    /// The file of cases, relative to the program's root.
    pub file: String,
    /// The worker.
    pub worker: String,
    /// The case.
    pub case: String,
    /// The model of the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True if the answers came from a recording.
    #[serde(default)]
    pub recorded: bool,
    /// The number of repeats that passed.
    pub passed: u64,
    /// The number of repeats that ran.
    pub of: u64,
    /// The number of repeats that did not run because the suite ended before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_run: u64,
    /// The interval of 95 % of the share that passes ([`wilson`]).
    pub interval: (f64, f64),
    /// Each repeat.
    pub runs: Vec<RunReport>,
}

/// The result of one repeat of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// True if all expectations held.
    pub pass: bool,
    /// The expectations that did not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The output, if it is not the expected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<Differs>,
    /// The first request that is not the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// The tokens and cost of the models.
    #[serde(default)]
    pub usage: Usage,
    /// The duration in milliseconds, if models were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// An output beside what was expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differs {
    /// The output with each part that does not match replaced by what the case expects there.
    pub expected: Value,
    /// The output.
    pub output: Value,
}

/// A request that is not the recorded one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    /// The place of the request: `at 0/1.0 (main → summarizer, turn 2)`.
    pub place: String,
    /// The differences, each as a diff.
    pub diffs: Vec<String>,
}

impl CaseReport {
    /// Fills the fields that count its repeats.
    #[must_use]
    pub fn counted(mut self) -> Self {
        (self.passed, self.of) = self.share();
        self.interval = wilson(self.passed, self.of);
        self
    }

    /// Returns the number of repeats that passed, and the number of repeats.
    pub fn share(&self) -> (u64, u64) {
        (self.runs.iter().filter(|run| run.pass).count() as u64, self.runs.len() as u64)
    }

    /// Returns true if all repeats ran and passed.
    pub fn passes(&self) -> bool {
        self.not_run == 0 && !self.fails()
    }

    /// Returns true if a repeat failed. A case that neither passes nor fails was interrupted.
    pub fn fails(&self) -> bool {
        self.runs.iter().any(|run| !run.pass)
    }

    /// Returns the title, `tests/price.cases.yaml: pear`, with the model of a matrix.
    pub fn title(&self) -> String {
        match &self.model {
            Some(model) => format!("{}: {} [{model}]", self.file, self.case),
            None => format!("{}: {}", self.file, self.case),
        }
    }
}

impl SuiteReport {
    /// Returns true if every case passed.
    pub fn passes(&self) -> bool {
        self.cases.iter().all(CaseReport::passes)
    }

    /// Returns the number of cases that passed.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passes()).count()
    }

    /// Reads a report.
    ///
    /// # Errors
    /// The text is not a report, or has another format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.format != FORMAT {
            return Err(format!(
                "it has format {}, and this version of llm-do reads format {FORMAT}",
                report.format
            ));
        }
        Ok(report)
    }
}
