//! Hardening: the outputs of a function that replaces a worker, compared with the recorded ones.

use crate::cases::Case;
use llm_do_core::engine::{End, FailureKind, Halt, LEAF_TIMEOUT, Outcome};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The condition under which an output counts as the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// The output is equal to the recorded one; numbers are compared by value.
    Exact,
    /// The output fits the schema in the worker's `returns`.
    Schema,
    /// The output is equal except for numbers. Two numbers may differ by at most this fraction of the larger one, or by
    /// this much if both are smaller than 1.
    Tolerance(f64),
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The function does what the worker did.
    Pass,
    /// The function does something else.
    Fail {
        /// The first difference, in words.
        difference: String,
    },
    /// The case can't be compared.
    NotCovered {
        /// The reason.
        reason: String,
    },
}

impl Verdict {
    /// Compares the end of a call of the function with the recorded output. `None`: the call did not end within
    /// [`LEAF_TIMEOUT`].
    pub fn of(recorded: &Value, ended: Option<Result<Outcome, Halt>>, compare: Compare) -> Self {
        let fail = |difference: String| Self::Fail { difference };
        let failure = match ended {
            None => return fail(format!("it does not end within {} s", LEAF_TIMEOUT.as_secs())),
            Some(Err(halt)) => return fail(halt.to_string()),
            Some(Ok(Outcome { end: End::Done(now), .. })) => {
                let differs = match compare {
                    Compare::Schema => None,
                    Compare::Exact => difference("", recorded, &now, 0.0),
                    Compare::Tolerance(most) => difference("", recorded, &now, most),
                };
                return differs.map_or(Self::Pass, fail);
            }
            Some(Ok(Outcome { end: End::Suspended(_), .. })) => {
                return fail("it asks for an approval".into());
            }
            Some(Ok(Outcome { end: End::Failed(failure), .. })) => failure,
        };
        // What a function leaves to the worker on purpose, and what can't be handed over again.
        let left = failure.message.starts_with("NotImplementedError");
        match failure.kind {
            FailureKind::InvalidInput | FailureKind::Authority => {
                Self::NotCovered { reason: failure.message }
            }
            FailureKind::Tool if left => Self::NotCovered { reason: failure.message },
            _ => fail(failure.message),
        }
    }
}

/// A case with its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The result.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The results of all cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hardened {
    /// The worker.
    pub worker: Arc<str>,
    /// The cases, each with its result.
    pub cases: Vec<Tried>,
}

impl Hardened {
    /// Returns the number of cases with such a result.
    pub fn count(&self, of: impl Fn(&Verdict) -> bool) -> usize {
        self.cases.iter().filter(|tried| of(&tried.verdict)).count()
    }

    /// Returns the number of recorded calls that were compared, and the number of all recorded calls.
    pub fn coverage(&self) -> (u64, u64) {
        let calls = |of: &dyn Fn(&Verdict) -> bool| {
            self.cases.iter().filter(|tried| of(&tried.verdict)).map(|tried| tried.case.calls).sum()
        };
        (calls(&|verdict| !matches!(verdict, Verdict::NotCovered { .. })), calls(&|_| true))
    }
}

/// Returns the first place where two values differ, in words.
fn difference(at: &str, recorded: &Value, now: &Value, most: f64) -> Option<String> {
    let told = || {
        let at = if at.is_empty() { String::new() } else { format!("{at}: ") };
        Some(format!("{at}recorded {}, now {}", short(recorded), short(now)))
    };
    match (recorded, now) {
        (Value::Number(a), Value::Number(b)) => {
            let same = a == b
                || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if (a - b).abs() <= most * a.abs().max(b.abs()).max(1.0));
            if same { None } else { told() }
        }
        (Value::Array(a), Value::Array(b)) => {
            let mut items = a.iter().zip(b).enumerate();
            let first = items.find_map(|(index, (a, b))| difference(&format!("{at}[{index}]"), a, b, most));
            first.or_else(|| {
                (a.len() != b.len()).then(|| {
                    let at = if at.is_empty() { "it" } else { at };
                    format!("{at} had {} items, now {}", a.len(), b.len())
                })
            })
        }
        (Value::Object(a), Value::Object(b)) => {
            let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            let first = a.iter().find_map(|(name, before)| match b.get(name) {
                Some(now) => difference(&below(name), before, now, most),
                None => Some(format!("{}: recorded {}, now missing", below(name), short(before))),
            });
            let more = || b.keys().find(|name| !a.contains_key(*name));
            first.or_else(|| {
                more().map(|name| format!("{}: not recorded, now {}", below(name), short(&b[name])))
            })
        }
        (a, b) if a == b => None,
        _ => told(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_told_with_its_place() {
        let told = |a: Value, b: Value, most| difference("", &a, &b, most);
        assert_eq!(told(json!({"a": [1, 2.0]}), json!({"a": [1.0, 2]}), 0.0), None);
        assert_eq!(
            told(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 2}]}), 0.0).as_deref(),
            Some("a[0].b: recorded 1, now 2")
        );
        assert_eq!(told(json!([1]), json!([1, 2]), 0.0).as_deref(), Some("it had 1 items, now 2"));
        assert_eq!(told(json!({"a": 1}), json!({}), 0.0).as_deref(), Some("a: recorded 1, now missing"));
        assert_eq!(told(json!({}), json!({"a": 1}), 0.0).as_deref(), Some("a: not recorded, now 1"));
        assert_eq!(told(json!("x"), json!(null), 0.0).as_deref(), Some("recorded \"x\", now null"));
        assert_eq!(told(json!(1000.0), json!(1000.0005), 1e-6), None);
        assert!(told(json!(1000.0), json!(1000.002), 1e-6).is_some());
        assert!(told(json!(0.1), json!(0.100_002), 1e-6).is_some());
        assert!(told(json!("1"), json!(1), 1.0).is_some());
    }
}
