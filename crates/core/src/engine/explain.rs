//! What the gate would say of a call, and why: nothing is asked, nothing runs.

use super::{Call, Engine, Failure, Halt};
use crate::gate::{Gate, Mode, Statement, Subject, Verdict};
use serde::Serialize;

/// What the gate says of one call.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Whether a model is shown the function at all (SPEC §9.2).
    pub offered: bool,
    /// What is wrong with the call before any rule is looked at: its arguments, or what they touch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Failure>,
    /// Its arguments as rules match them.
    pub arguments: Vec<String>,
    /// What each source says, in the order in which they count; those that say nothing have no rule.
    pub statements: Vec<Statement>,
    /// What was decided, and which rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What `ask` does in this run.
    pub mode: Mode,
}

impl Engine {
    /// Explains what the gate would decide about a call.
    ///
    /// # Errors
    /// Only what ends a run.
    pub async fn explain(&self, call: &Call<'_>) -> Result<Explained, Halt> {
        let mut explained = Explained {
            offered: self.could_pass(call.function, call.frame),
            refused: None,
            arguments: Vec::new(),
            statements: Vec::new(),
            verdict: None,
            mode: self.host().gate.mode,
        };
        match self.examine(call, call.input.clone(), 0).await? {
            Err(failure) => explained.refused = Some(failure),
            Ok(admitted) => {
                explained.arguments = admitted.subjects.iter().map(Subject::to_string).collect();
                explained.statements = self.weigh(call, &admitted, Gate::statements);
                explained.verdict = Some(self.weigh(call, &admitted, Gate::decide));
            }
        }
        Ok(explained)
    }
}
