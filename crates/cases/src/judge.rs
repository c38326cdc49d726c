//! Judges: workers that decide if an output is good.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The judgement of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) pass: bool,
    pub(crate) reason: String,
}

impl Judgement {
    /// Reads a judgement from the output of a judge.
    ///
    /// # Errors
    /// The output is not a judgement. The error is a message for people.
    pub(crate) fn of(judge: &str, output: &Value) -> Result<Self, String> {
        let pass = output.get("pass").and_then(Value::as_bool);
        let reason = output.get("reason").and_then(Value::as_str);
        match (pass, reason) {
            (Some(pass), Some(reason)) => Ok(Self { pass, reason: reason.to_owned() }),
            _ => Err(format!("judge: `{judge}` answered {output}, not {{pass: boolean, reason: string}}")),
        }
    }
}

/// Returns the input of a judge that has these parameters: the call's input and output, as far as the judge declares
/// them.
pub(crate) fn input(parameters: &BTreeSet<&str>, input: &Value, output: &Value) -> Value {
    let both = [("input", input), ("output", output)];
    let given: Map<String, Value> = both
        .into_iter()
        .filter(|(name, _)| parameters.is_empty() || parameters.contains(name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    match parameters.is_empty() {
        // Without a signature it takes one value.
        true => serde_json::json!({ "input": given }),
        false => Value::Object(given),
    }
}

/// Returns true if a series of judgements passes, or `None` if the judge is to be asked again. A pass at first decides.
/// After a fail, the judge is asked up to two more times, and the majority decides.
pub(crate) fn decided(said: &[bool]) -> Option<bool> {
    match said {
        [] | [false] | [false, true] => None,
        [true, ..] => Some(true),
        [false, false, ..] => Some(false),
        [false, true, third, ..] => Some(*third),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_judge_is_asked_again_only_after_a_fail() {
        assert_eq!(decided(&[]), None);
        assert_eq!(decided(&[true]), Some(true));
        assert_eq!(decided(&[false]), None);
        assert_eq!(decided(&[false, false]), Some(false));
        assert_eq!(decided(&[false, true]), None);
        assert_eq!(decided(&[false, true, true]), Some(true));
        assert_eq!(decided(&[false, true, false]), Some(false));
    }

    #[test]
    fn a_judge_gets_what_it_declares() {
        let (i, o) = (json!({"a": 1}), json!("x"));
        assert_eq!(input(&BTreeSet::from(["output"]), &i, &o), json!({"output": "x"}));
        assert_eq!(input(&BTreeSet::new(), &i, &o), json!({"input": {"input": {"a": 1}, "output": "x"}}));
        assert!(Judgement::of("j", &json!({"pass": "yes", "reason": ""})).is_err());
    }
}
