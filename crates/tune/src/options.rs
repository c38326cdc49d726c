//! The options of a tuning, and its progress.

use llm_do::{Canceller, Settings};
use llm_do_core::{
    model::{ModelName, Usage},
    price::Usd,
};

/// The options of a tuning.
pub struct Options<'a> {
    /// Makes the settings of a run of the worker, each time the same.
    pub settings: &'a dyn Fn() -> Settings,
    /// Makes the settings of a run of the proposer, whose file holds [`PROPOSER`](crate::PROPOSER).
    pub proposer: &'a dyn Fn() -> Settings,
    /// The model of the proposer, in place of the worker's own.
    pub proposer_model: Option<ModelName>,
    /// The largest cost of all runs, those of earlier commands included.
    pub max_cost: Option<Usd>,
    /// The largest number of proposals.
    pub rounds: u32,
    /// The largest length of instructions, as a multiple of their length before.
    pub max_growth: f64,
    /// True if the test split is measured even if no other instructions were found: for a comparison of models.
    pub always_tests: bool,
    /// Called after each round.
    pub on_progress: &'a dyn Fn(&Progress),
    /// Ends the tuning.
    pub canceller: Canceller,
}

/// The state of a tuning after a round.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The number of rounds that have ended.
    pub rounds: usize,
    /// The largest number of rounds.
    pub of: u32,
    /// The number of candidates on the front.
    pub front: usize,
    /// The sum of the validation scores of the first instructions. The next field has that of the best ones.
    pub first: f64,
    /// The sum of the validation scores of the best instructions.
    pub best: f64,
    /// The number of validation cases.
    pub validation: usize,
    /// The tokens and cost so far.
    pub usage: Usage,
}
