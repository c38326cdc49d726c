//! The comparison of models that were tuned at the same cost.

use crate::report::{Compared, Report};
use llm_do_cases::statistics::holm;
use serde::Serialize;

/// The difference between two models on the test split.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The two models: `better` and `worse` count cases at which the second is better or worse.
    pub models: (String, String),
    /// The comparison.
    #[serde(flatten)]
    pub compared: Compared,
    /// True if chance does not explain the difference. All pairs share the risk of a false alarm ([`holm`]).
    pub decided: bool,
}

/// Compares each pair of models with the instructions that were found for them.
pub fn compare(reports: &[Report]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (at, one) in reports.iter().enumerate() {
        for other in reports.iter().skip(at + 1) {
            if one.test_scores.is_empty() || other.test_scores.len() != one.test_scores.len() {
                continue;
            }
            let name = |report: &Report| report.model.clone().unwrap_or_default();
            differences.push(Difference {
                models: (name(one), name(other)),
                compared: Compared::of(&one.test_scores, &other.test_scores),
                decided: false,
            });
        }
    }
    let probabilities: Vec<f64> = differences.iter().map(|difference| difference.compared.p).collect();
    for (difference, decided) in differences.iter_mut().zip(holm(&probabilities)) {
        difference.decided = decided;
    }
    differences
}
