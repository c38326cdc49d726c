//! The result of a tuning, as data.

use crate::{
    search::{Ended, Round},
    split::Parts,
};
use llm_do_cases::statistics::{ALPHA, sign_test, wilson};
use llm_do_core::{model::Usage, price::Usd};
use serde::Serialize;
use std::path::PathBuf;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// The conclusion of a tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The changed instructions pass more test cases, and chance does not explain it.
    Gain,
    /// No change passes reliably more cases.
    NoReliableGain,
    /// The cases or the budget do not suffice to decide.
    Undecided,
}

impl Outcome {
    /// Judges the comparison on a test split that has been used `looks` times. Each use is a further chance to find a
    /// gain by accident, so the probability is multiplied by their number (C. E. Bonferroni).
    pub fn of(test: &Compared, looks: usize) -> Self {
        match test.better > test.worse && test.p * looks as f64 <= ALPHA {
            true => Self::Gain,
            false => Self::NoReliableGain,
        }
    }
}

/// The cases of a split that pass, before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The cases that pass with the instructions as they are.
    pub before: Share,
    /// The cases that pass with the changed instructions.
    pub after: Share,
    /// The number of cases that pass more often.
    pub better: u64,
    /// The number of cases that pass less often.
    pub worse: u64,
    /// The probability that chance alone makes the two numbers so uneven ([`sign_test`]).
    pub p: f64,
}

/// A number of cases that pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The cases all of whose repeats pass.
    pub passed: u64,
    /// The cases.
    pub of: u64,
    /// The interval of 95 % of the share ([`wilson`]).
    pub interval: (f64, f64),
}

impl Share {
    fn of(scores: &[f64]) -> Self {
        let (passed, of) = (scores.iter().filter(|score| **score >= 1.0).count() as u64, scores.len() as u64);
        Self { passed, of, interval: wilson(passed, of) }
    }
}

impl Compared {
    /// Compares the scores of the same cases.
    pub fn of(before: &[f64], after: &[f64]) -> Self {
        let pairs = || before.iter().zip(after);
        let better = pairs().filter(|(before, after)| after > before).count() as u64;
        let worse = pairs().filter(|(before, after)| after < before).count() as u64;
        Self {
            before: Share::of(before),
            after: Share::of(after),
            better,
            worse,
            p: sign_test(worse, better),
        }
    }
}

/// The report of a tuning.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The worker.
    pub worker: String,
    /// The file of the instructions, relative to the program's root.
    pub file: String,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model of the proposer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposer: Option<String>,
    /// The numbers of cases.
    pub cases: Parts,
    /// The conclusion.
    pub outcome: Outcome,
    /// The reason of the conclusion, for people.
    pub reason: String,
    /// The reason why the search ended; absent if it did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The rounds of the search.
    pub rounds: Vec<Round>,
    /// The number of candidates.
    pub candidates: usize,
    /// The number of candidates on the front.
    pub front: usize,
    /// The validation split. The best candidate was chosen by it, so the gain there is too large on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Compared>,
    /// The test split; absent if it was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Compared>,
    /// The number of times that the test split has been used for this worker, with this one.
    pub test_uses: usize,
    /// The number of runs, those of earlier commands included. The next two fields count the same runs.
    pub runs: u64,
    /// The tokens and cost.
    pub usage: Usage,
    /// The cost of this command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_usd: Option<Usd>,
    /// The folder of the runs.
    pub runs_dir: PathBuf,
    /// The change of the file; empty if there is none to recommend.
    pub diff: String,
    /// The changed instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// True if the file was changed.
    pub written: bool,
    /// The scores of the test cases with the best instructions, for comparisons of models.
    #[serde(skip)]
    pub(crate) test_scores: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_better_cases_decide_and_five_do_not() {
        let gain = |better: usize, looks| {
            let after: Vec<f64> = (0..12).map(|case| if case < better { 1.0 } else { 0.0 }).collect();
            Outcome::of(&Compared::of(&[0.0; 12], &after), looks)
        };
        assert_eq!(gain(5, 1), Outcome::NoReliableGain);
        assert_eq!(gain(6, 1), Outcome::Gain);
        assert_eq!(gain(6, 2), Outcome::NoReliableGain, "a second look needs more");
        assert_eq!(gain(7, 2), Outcome::Gain);
        let worse = Compared::of(&[1.0; 12], &[0.0; 12]);
        assert!(worse.p < 0.001 && Outcome::of(&worse, 1) == Outcome::NoReliableGain);
    }

    #[test]
    fn a_case_passes_if_all_its_repeats_do() {
        let compared = Compared::of(&[0.5, 1.0, 0.0], &[1.0, 0.5, 0.5]);
        assert_eq!((compared.before.passed, compared.after.passed), (1, 1));
        assert_eq!((compared.better, compared.worse), (2, 1));
    }
}
