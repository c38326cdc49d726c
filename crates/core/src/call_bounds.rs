//! Bounds of the calls that code can make, worked out before it runs (`docs/guides/programs.md`).

use crate::price::Usd;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The calls that code which a model wrote can make. The engine shows them to the operator, and the execution obeys them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct CallBounds {
    /// The functions that the code calls, by name, each with the greatest number of calls.
    pub callees: Vec<CalleeBound>,
    /// The greatest cost of these calls, if each callee that asks a model has a limit of its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<f64>"))]
    pub cost: Option<Usd>,
}

/// A function that code calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct CalleeBound {
    /// The name of the function, as a model sees it.
    pub name: Arc<str>,
    /// The greatest number of its calls.
    pub most: u64,
}

impl CallBounds {
    /// The greatest number of calls of that function; 0 if the code does not call it.
    pub fn most(&self, name: &str) -> u64 {
        self.callees.iter().find(|callee| *callee.name == *name).map_or(0, |callee| callee.most)
    }

    /// The greatest number of all calls.
    pub fn total(&self) -> u64 {
        self.callees.iter().fold(0, |sum, callee| sum.saturating_add(callee.most))
    }
}

impl fmt::Display for CallBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let callees: Vec<String> =
            self.callees.iter().map(|CalleeBound { name, most }| format!("{name} ({most})")).collect();
        match (self.total(), callees.as_slice()) {
            (_, []) => f.write_str("no calls")?,
            (1, [_]) => write!(f, "at most 1 call: {}", self.callees[0].name)?,
            (total, callees) => write!(f, "at most {total} calls: {}", callees.join(", "))?,
        }
        match &self.cost {
            Some(cost) => write!(f, "; at most {cost}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_each_callee_and_the_sum() {
        let of = |callees: &[(&str, u64)]| CallBounds {
            callees: callees
                .iter()
                .map(|(name, most)| CalleeBound { name: (*name).into(), most: *most })
                .collect(),
            cost: None,
        };
        assert_eq!(of(&[]).to_string(), "no calls");
        assert_eq!(of(&[("a", 1)]).to_string(), "at most 1 call: a");
        let two = of(&[("read_file", 20), ("write_file", 1)]);
        assert_eq!(two.to_string(), "at most 21 calls: read_file (20), write_file (1)");
        assert_eq!((two.most("read_file"), two.most("delete_file")), (20, 0));
        assert_eq!(of(&[("a", u64::MAX), ("b", 2)]).total(), u64::MAX);
    }
}
