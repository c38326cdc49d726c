//! The comparison of a report with a baseline: cases that pass less or more often than before.

use crate::{
    report::{CaseReport, SuiteReport},
    statistics::{holm, sign_test},
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The difference between a case and the same case in the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The case passes less often.
    Worse,
    /// The case passes more often.
    Better,
    /// The case passes as often.
    Same,
    /// The case differs, but with so few repeats that the difference may be chance.
    Undecided,
    /// The baseline does not contain the case.
    New,
    /// The report does not contain the case any more.
    Gone,
}

/// A case in both reports, or in one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The file of cases.
    pub file: String,
    /// The case.
    pub case: String,
    /// The model, if the report has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The difference between the two reports.
    pub change: Change,
    /// The number of repeats that passed in the baseline, and the number of repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<(u64, u64)>,
    /// The number of repeats that pass now, and the number of repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<(u64, u64)>,
    /// The probability that chance alone makes so large a difference, before the other cases are taken into account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
}

/// The comparison of two reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The comparison of each case.
    pub cases: Vec<Compared>,
    /// The comparison of the suite as a whole: of the cases that differ, how many pass less and how many more often.
    pub overall: Overall,
}

/// The comparison of the suite as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// Cases that pass less often.
    pub fewer: u64,
    /// Cases that pass more often.
    pub more: u64,
    /// The probability that chance alone makes the two numbers so uneven.
    pub p: f64,
    /// The difference between the two reports.
    pub change: Change,
}

impl Comparison {
    /// Compares case by case: the repeats of before and now are paired by number, and the sign test counts those pairs
    /// of which one passes and the other fails. The suite as a whole is one further comparison, of cases instead of
    /// repeats. All of them share the risk of a false alarm (Holm).
    pub fn of(before: &SuiteReport, now: &SuiteReport) -> Self {
        type Key<'a> = (&'a str, &'a str, Option<&'a str>);
        fn key(case: &CaseReport) -> Key<'_> {
            (&case.file, &case.case, case.model.as_deref())
        }
        let mut left: HashMap<Key<'_>, &CaseReport> =
            before.cases.iter().map(|case| (key(case), case)).collect();
        let (mut cases, mut tests) = (Vec::new(), Vec::new());
        let (mut fewer, mut more) = (0, 0);
        for case in &now.cases {
            let known = left.remove(&key(case)).or_else(|| only_model(&mut left, case, now));
            let mut compared = Compared {
                file: case.file.clone(),
                case: case.case.clone(),
                model: case.model.clone(),
                change: Change::New,
                before: known.map(CaseReport::share),
                now: Some(case.share()),
                p: None,
            };
            if let Some(known) = known {
                let pairs = known.runs.iter().zip(&case.runs).map(|(before, now)| (before.pass, now.pass));
                let (mut worse, mut better) = (0, 0);
                for (before, now) in pairs {
                    worse += u64::from(before && !now);
                    better += u64::from(!before && now);
                }
                fewer += u64::from(worse > better);
                more += u64::from(better > worse);
                let p = sign_test(worse, better);
                compared.p = Some(p);
                compared.change = match worse.cmp(&better) {
                    std::cmp::Ordering::Greater => Change::Worse,
                    std::cmp::Ordering::Less => Change::Better,
                    std::cmp::Ordering::Equal => Change::Same,
                };
                tests.push((cases.len(), p));
            }
            cases.push(compared);
        }
        let overall = sign_test(fewer, more);
        let mut probabilities: Vec<f64> = tests.iter().map(|(_, p)| *p).collect();
        probabilities.push(overall);
        let decided = holm(&probabilities);
        for ((at, _), decided) in tests.iter().zip(&decided) {
            let compared: &mut Compared = &mut cases[*at];
            if !decided && compared.change != Change::Same {
                compared.change = Change::Undecided;
            }
        }
        let whole = decided.last().copied().unwrap_or_default();
        let change = match fewer.cmp(&more) {
            std::cmp::Ordering::Equal => Change::Same,
            _ if !whole => Change::Undecided,
            std::cmp::Ordering::Greater => Change::Worse,
            std::cmp::Ordering::Less => Change::Better,
        };
        let mut gone: Vec<&CaseReport> = left.into_values().collect();
        gone.sort_by_key(|case| key(case));
        cases.extend(gone.into_iter().map(|case| Compared {
            file: case.file.clone(),
            case: case.case.clone(),
            model: case.model.clone(),
            change: Change::Gone,
            before: Some(case.share()),
            now: None,
            p: None,
        }));
        Self { cases, overall: Overall { fewer, more, p: overall, change } }
    }

    /// Returns true if the suite or one of its cases is worse than in the baseline.
    pub fn is_worse(&self) -> bool {
        self.overall.change == Change::Worse || self.cases.iter().any(|case| case.change == Change::Worse)
    }
}

/// Returns the case of the baseline with another model, if there is only one, so that the two models are compared.
fn only_model<'a>(
    left: &mut HashMap<(&'a str, &'a str, Option<&'a str>), &'a CaseReport>,
    case: &CaseReport,
    now: &SuiteReport,
) -> Option<&'a CaseReport> {
    let is_same = |other: &&CaseReport| other.file == case.file && other.case == case.case;
    if now.cases.iter().filter(is_same).count() > 1 {
        return None;
    }
    let mut keys = left.keys().filter(|(file, name, _)| *file == case.file && *name == case.case);
    let only = *keys.next()?;
    if keys.next().is_some() {
        return None;
    }
    left.remove(&only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunReport;

    /// A source of the same numbers in every run: a linear congruential generator with the constants of Knuth's MMIX.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, share: f64) -> bool {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 / (1_u64 << 53) as f64) < share
        }
    }

    fn report(cases: usize, repeats: usize, mut passes: impl FnMut(usize) -> bool) -> SuiteReport {
        let case = |at: usize, passes: &mut dyn FnMut(usize) -> bool| CaseReport {
            case: format!("case-{at}"),
            runs: (0..repeats).map(|_| RunReport { pass: passes(at), ..RunReport::default() }).collect(),
            ..CaseReport::default()
        };
        SuiteReport { cases: (0..cases).map(|at| case(at, &mut passes)).collect(), ..SuiteReport::default() }
    }

    fn alarm(comparison: &Comparison) -> bool {
        let claims = |change: Change| matches!(change, Change::Worse | Change::Better);
        claims(comparison.overall.change) || comparison.cases.iter().any(|case| claims(case.change))
    }

    #[test]
    fn a_model_that_is_right_four_times_of_five_raises_few_false_alarms() {
        for (cases, repeats) in [(1, 10), (1, 30), (5, 10), (20, 20), (40, 3)] {
            let mut dice = Dice(42);
            let mut alarms = 0;
            for _ in 0..200 {
                let before = report(cases, repeats, |_| dice.below(0.8));
                let now = report(cases, repeats, |_| dice.below(0.8));
                alarms += u32::from(alarm(&Comparison::of(&before, &now)));
            }
            assert!(alarms <= 10, "{cases} cases of {repeats} repeats: {alarms} of 200 are false alarms");
        }
    }

    #[test]
    fn a_planted_regression_is_named() {
        let mut dice = Dice(7);
        let before = report(10, 20, |_| dice.below(0.8));
        let now = report(10, 20, |case| dice.below(if case == 3 { 0.05 } else { 0.8 }));
        let comparison = Comparison::of(&before, &now);
        let worse: Vec<&str> = comparison
            .cases
            .iter()
            .filter(|case| case.change == Change::Worse)
            .map(|case| case.case.as_str())
            .collect();
        assert_eq!(worse, ["case-3"]);
        assert!(comparison.is_worse());
    }

    #[test]
    fn too_few_repeats_decide_nothing() {
        let comparison = Comparison::of(&report(1, 3, |_| true), &report(1, 3, |_| false));
        assert_eq!(comparison.cases[0].change, Change::Undecided);
        assert_eq!((comparison.cases[0].before, comparison.cases[0].now), (Some((3, 3)), Some((0, 3))));
        let comparison = Comparison::of(&report(2, 3, |_| true), &report(1, 3, |_| true));
        let changes: Vec<Change> = comparison.cases.iter().map(|case| case.change).collect();
        assert_eq!(changes, [Change::Same, Change::Gone]);
    }
}
