//! Post-conditions (SPEC §2.1, §10.3): what must hold of an output beyond its schema.

use crate::template;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// One condition: an expression over `input` and `output`, in the language of templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ensure {
    /// The expression.
    pub that: Arc<str>,
    /// What the model is told where it does not hold; the expression itself where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// What conditions may speak of.
const VARIABLES: [&str; 2] = ["input", "output"];

impl Ensure {
    /// A condition, if it is one.
    ///
    /// # Errors
    /// Why it is none, for its author.
    pub fn new(that: &str, reason: Option<&str>) -> Result<Self, String> {
        template::check_condition(that, &VARIABLES)?;
        Ok(Self { that: that.into(), reason: reason.map(Into::into) })
    }
}

/// The conditions of one call, and the input that they look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ensures {
    /// What the worker was given.
    pub input: Arc<Value>,
    /// All must hold.
    pub all: Arc<[Ensure]>,
}

impl Ensures {
    /// What an output lacks, for the model.
    pub(super) fn unmet(&self, output: &Value) -> Option<String> {
        let values = json!({"input": self.input, "output": output});
        let unmet = self.all.iter().filter_map(|Ensure { that, reason }| {
            let problem = match template::holds(that, &values) {
                Ok(true) => return None,
                Ok(false) => format!("`{that}` does not hold"),
                Err(error) => format!("`{that}` can't be told: {error}"),
            };
            Some(match reason {
                Some(reason) => format!("\n- {reason} ({problem})"),
                None => format!("\n- {problem}"),
            })
        });
        let unmet: String = unmet.collect();
        (!unmet.is_empty())
            .then(|| format!("Your answer doesn't meet what is required of it:{unmet}\nAnswer again."))
    }
}
