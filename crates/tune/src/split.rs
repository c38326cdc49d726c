//! The three parts of the cases.

use llm_do_core::schema::{canonical, sha256};
use serde::Serialize;
use serde_json::{Value, json};

/// The number of cases below which nothing is tuned.
pub const LEAST_CASES: usize = 10;

/// The smallest test split that can decide. The sign test needs six cases that all become better: `2 / 2^6 < 0.05`.
pub const LEAST_TEST: usize = 6;

/// A part of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The proposer reads failures of these cases.
    Train,
    /// Candidates are chosen by these cases.
    Validation,
    /// The result is measured with these cases, which neither proposer nor search sees.
    Test,
}

impl Part {
    /// Returns the part of a case: a hash of its name and input decides, so that other cases have no influence.
    pub fn of(name: &str, input: &Value) -> Self {
        let hash = sha256(canonical(&json!([name, input])).as_bytes());
        let number =
            hash.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default();
        match number % 10 {
            0..3 => Self::Train,
            3..6 => Self::Validation,
            _ => Self::Test,
        }
    }
}

/// The numbers of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// [`Part::Train`].
    pub train: usize,
    /// [`Part::Validation`].
    pub validation: usize,
    /// [`Part::Test`].
    pub test: usize,
}

impl Parts {
    /// Returns the reason why nothing can be decided with so few cases.
    pub fn too_few(self) -> Option<String> {
        let Self { train, validation, test } = self;
        let all = train + validation + test;
        let cases = |count: usize| if count == 1 { "1 case".to_owned() } else { format!("{count} cases") };
        if all < LEAST_CASES {
            return Some(format!(
                "there {} {}, and a change can't be told from chance with fewer than {LEAST_CASES}",
                if all == 1 { "is" } else { "are" },
                cases(all)
            ));
        }
        if test < LEAST_TEST {
            return Some(format!(
                "the test split has {}: even if all of them became better, chance could have done it. It needs at least \
                 {LEAST_TEST}",
                cases(test)
            ));
        }
        let empty = match (train, validation) {
            (0, _) => "train",
            (_, 0) => "validation",
            _ => return None,
        };
        Some(format!("the {empty} split has no case"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_case_depends_on_nothing_else() {
        let parts =
            |count: usize| (0..count).map(|at| Part::of(&format!("c{at}"), &json!({"n": at}))).collect();
        let (some, more): (Vec<Part>, Vec<Part>) = (parts(40), parts(1000));
        assert_eq!(some, more[..40]);
        let share = |part| more.iter().filter(|of| **of == part).count();
        for (part, least, most) in
            [(Part::Train, 250, 350), (Part::Validation, 250, 350), (Part::Test, 350, 450)]
        {
            assert!((least..most).contains(&share(part)), "{part:?}: {}", share(part));
        }
        // The order of keys is no part of an input.
        let (a, b) = (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}));
        assert_eq!(Part::of("c", &a), Part::of("c", &b));
    }

    #[test]
    fn few_cases_decide_nothing() {
        let why = |train, validation, test| Parts { train, validation, test }.too_few().unwrap_or_default();
        assert!(why(3, 3, 3).starts_with("there are 9 cases"), "{}", why(3, 3, 3));
        assert!(why(0, 0, 1).starts_with("there is 1 case,"));
        assert!(why(5, 5, 5).starts_with("the test split has 5 cases"));
        assert!(why(0, 9, 9).contains("train") && why(9, 0, 9).contains("validation"));
        assert_eq!(why(1, 3, 6), "");
    }
}
