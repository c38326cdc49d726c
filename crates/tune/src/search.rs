//! The search for better instructions, without I/O: reflective mutation and a Pareto front.
//!
//! The algorithm is that of L. A. Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning"
//! (arXiv:2507.19457), without the merging of candidates. A round draws a parent from the [front](crate::front) and a
//! minibatch from the train split, asks for a rewrite, and scores the rewrite on the same minibatch. If it is better
//! there, it becomes a candidate and is scored on the validation split.
//!
//! The search depends on nothing but its options and the answers of [`Trials`]. Answers that are kept under keys make it
//! come to the same place again.

use crate::front::frequencies;
use serde::Serialize;
use std::sync::Arc;

/// The number of cases of a minibatch, as in the paper.
pub const MINIBATCH: usize = 3;

/// The options of a search.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of train cases.
    pub train: usize,
    /// The number of validation cases.
    pub validation: usize,
    /// The largest number of proposals.
    pub rounds: u32,
    /// The seed of the draws.
    pub seed: u64,
}

/// The runs of a search.
pub trait Trials {
    /// An error that ends the search without a result.
    type Error;

    /// Scores instructions on a train case, by its number: from 0, all runs fail, to 1, all pass.
    fn train(&self, instructions: &Arc<str>, case: usize) -> impl Future<Output = Result<f64, Self::Error>>;

    /// Scores instructions on a validation case.
    fn validation(
        &self,
        instructions: &Arc<str>,
        case: usize,
    ) -> impl Future<Output = Result<f64, Self::Error>>;

    /// Asks for a rewrite of instructions that fail at these train cases. `refused` is the reason why the last rewrite of
    /// the same instructions was refused.
    fn propose(
        &self,
        round: u32,
        instructions: &Arc<str>,
        failed: &[usize],
        refused: Option<&str>,
    ) -> impl Future<Output = Result<Proposed, Self::Error>>;

    /// Returns true if the budget of the search is used up. Called before each trial.
    fn is_spent(&self) -> bool;

    /// Returns true if an error means that the budget was used up during a trial.
    fn is_budget(&self, error: &Self::Error) -> bool;

    /// Called after each round.
    fn progress(&self, state: &Searched);
}

/// The answer of a proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// Instructions to try.
    Instructions(Arc<str>),
    /// The proposal can't be tried, for this reason.
    Refused(String),
}

/// Instructions with a score for each validation case.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The instructions.
    pub instructions: Arc<str>,
    /// The scores on the validation split.
    pub scores: Vec<f64>,
    /// The last reason why a rewrite of it was refused.
    refused: Option<String>,
}

impl Candidate {
    fn new(instructions: Arc<str>, scores: Vec<f64>) -> Self {
        Self { instructions, scores, refused: None }
    }

    /// Returns the sum of its scores.
    pub fn sum(&self) -> f64 {
        self.scores.iter().sum()
    }
}

/// The course of a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The number of the parent among the candidates.
    pub parent: usize,
    /// The result.
    #[serde(flatten)]
    pub result: RoundResult,
}

impl Round {
    /// Returns true if the proposal was refused before a run.
    pub fn is_refused(&self) -> bool {
        matches!(self.result, RoundResult::Refused { .. })
    }
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum RoundResult {
    /// The proposal was refused before a run.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The proposal was no better on the minibatch.
    NotBetter {
        /// The sum of the parent's scores.
        before: f64,
        /// The sum of the proposal's scores.
        after: f64,
    },
    /// The proposal became the candidate of this number.
    Accepted {
        /// The number of the candidate.
        candidate: usize,
    },
}

/// The reason why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All rounds were made.
    Rounds,
    /// [`Trials::is_spent`].
    Budget,
    /// A candidate passes all validation cases.
    Perfect,
    /// The candidates of the front pass all train cases.
    NoFailures,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Searched {
    /// The candidates. The first has the instructions with which the search began.
    pub candidates: Vec<Candidate>,
    /// The rounds.
    pub rounds: Vec<Round>,
    /// The reason of the end.
    pub ended: Ended,
}

impl Searched {
    /// Returns the candidate with the highest score, the earliest of equal ones. `None`: the budget ended before the first
    /// was scored.
    pub fn best(&self) -> Option<usize> {
        let sums = self.candidates.iter().map(Candidate::sum).enumerate();
        sums.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
    }

    /// Returns the number of candidates on the front.
    pub fn front(&self) -> usize {
        frequencies(&self.scores()).into_iter().filter(|frequency| *frequency > 0).count()
    }

    fn scores(&self) -> Vec<Vec<f64>> {
        self.candidates.iter().map(|candidate| candidate.scores.clone()).collect()
    }
}

/// Searches for instructions that pass more validation cases than `first`.
///
/// # Errors
/// A trial has failed.
pub async fn search<T: Trials>(trials: &T, plan: Plan, first: Arc<str>) -> Result<Searched, T::Error> {
    let mut this = Searched { candidates: Vec::new(), rounds: Vec::new(), ended: Ended::Budget };
    let Some(scores) = validated(trials, plan, &first).await? else { return Ok(this) };
    this.candidates.push(Candidate::new(first, scores));
    trials.progress(&this);
    let mut draws = Draws(plan.seed);
    let mut batches = Batches { order: (0..plan.train).collect(), next: plan.train };
    let mut without_failure = 0;
    while this.rounds.len() < plan.rounds as usize {
        if this.candidates.iter().any(|candidate| candidate.sum() >= plan.validation as f64) {
            this.ended = Ended::Perfect;
            return Ok(this);
        }
        let parent = draws.weighted(&frequencies(&this.scores()));
        let instructions = Arc::clone(&this.candidates[parent].instructions);
        let batch = batches.draw(&mut draws);
        let Some(before) = scored(trials, &instructions, &batch).await? else { return Ok(this) };
        let failed: Vec<usize> =
            batch.iter().zip(&before).filter(|(_, score)| **score < 1.0).map(|(case, _)| *case).collect();
        if failed.is_empty() {
            without_failure += 1;
            // Each candidate has met each case several times by then.
            if without_failure > 4 * (plan.train + this.candidates.len()) {
                this.ended = Ended::NoFailures;
                return Ok(this);
            }
            continue;
        }
        without_failure = 0;
        if trials.is_spent() {
            return Ok(this);
        }
        let round = u32::try_from(this.rounds.len()).unwrap_or(u32::MAX);
        let refused = this.candidates[parent].refused.clone();
        let proposed = match trials.propose(round, &instructions, &failed, refused.as_deref()).await {
            Err(error) if trials.is_budget(&error) => return Ok(this),
            proposed => proposed?,
        };
        let known = |text: &Arc<str>| this.candidates.iter().any(|candidate| candidate.instructions == *text);
        let result = match proposed {
            Proposed::Refused(reason) => RoundResult::Refused { reason },
            Proposed::Instructions(text) if known(&text) => {
                RoundResult::Refused { reason: "it is the text of another candidate".into() }
            }
            Proposed::Instructions(text) => {
                let Some(after) = scored(trials, &text, &batch).await? else { return Ok(this) };
                let (before, after) = (before.iter().sum::<f64>(), after.iter().sum::<f64>());
                if after > before {
                    let Some(scores) = validated(trials, plan, &text).await? else { return Ok(this) };
                    this.candidates.push(Candidate::new(text, scores));
                    RoundResult::Accepted { candidate: this.candidates.len() - 1 }
                } else {
                    RoundResult::NotBetter { before, after }
                }
            }
        };
        this.candidates[parent].refused = match &result {
            RoundResult::Refused { reason } => Some(reason.clone()),
            _ => None,
        };
        this.rounds.push(Round { parent, result });
        trials.progress(&this);
    }
    this.ended = Ended::Rounds;
    Ok(this)
}

/// Scores instructions on these train cases. `None`: the budget is used up.
async fn scored<T: Trials>(
    trials: &T,
    instructions: &Arc<str>,
    batch: &[usize],
) -> Result<Option<Vec<f64>>, T::Error> {
    let mut scores = Vec::with_capacity(batch.len());
    for case in batch {
        if trials.is_spent() {
            return Ok(None);
        }
        match trials.train(instructions, *case).await {
            Err(error) if trials.is_budget(&error) => return Ok(None),
            score => scores.push(score?),
        }
    }
    Ok(Some(scores))
}

/// Scores instructions on the validation split. `None`: the budget is used up.
async fn validated<T: Trials>(
    trials: &T,
    plan: Plan,
    instructions: &Arc<str>,
) -> Result<Option<Vec<f64>>, T::Error> {
    let mut scores = Vec::with_capacity(plan.validation);
    for case in 0..plan.validation {
        if trials.is_spent() {
            return Ok(None);
        }
        match trials.validation(instructions, case).await {
            Err(error) if trials.is_budget(&error) => return Ok(None),
            score => scores.push(score?),
        }
    }
    Ok(Some(scores))
}

/// Draws that are the same in each execution: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom
/// Number Generators", OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `most`. The bias for numbers of this size is below 2^-40.
    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// Draws a position with a probability in proportion to its weight.
    fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        0
    }
}

/// Minibatches of the train split: all cases in a random order, then all in another.
struct Batches {
    order: Vec<usize>,
    next: usize,
}

impl Batches {
    fn draw(&mut self, draws: &mut Draws) -> Vec<usize> {
        let size = MINIBATCH.min(self.order.len());
        if self.next + size > self.order.len() {
            // Fisher and Yates.
            for at in (1..self.order.len()).rev() {
                self.order.swap(at, draws.below(at + 1));
            }
            self.next = 0;
        }
        self.next += size;
        self.order[self.next - size..self.next].to_vec()
    }
}

#[cfg(test)]
mod tests;
