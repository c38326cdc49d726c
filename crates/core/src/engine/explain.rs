//! Explains the gate's decision about a call and its reasons, without asking or running anything.

use super::{Call, Engine, Failure, Halt, Stop};
use crate::{
    gate::{Gate, Statement, Subject, Verdict},
    rule::Mode,
};
use serde::Serialize;

/// The gate's decision about one call.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// True if a model is shown the function at all (`docs/reference/approvals.md`).
    pub offered: bool,
    /// A problem with the call that precedes all rules: in its arguments, or in the places that they touch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Failure>,
    /// The main argument in the form that the patterns of rules match; empty if it has none.
    pub arguments: Vec<String>,
    /// The statement of each source, in order of precedence. Sources without a statement have no rule.
    pub statements: Vec<Statement>,
    /// The decision, and the rule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The effect of `ask` in this run.
    pub mode: Mode,
}

impl Engine {
    /// Explains the gate's decision about a call.
    ///
    /// # Errors
    /// Only errors that end a run.
    pub async fn explain(&self, call: &Call<'_>) -> Result<Explained, Halt> {
        let mut explained = Explained {
            offered: self.withheld(call.function, call.frame).is_none(),
            refused: None,
            arguments: Vec::new(),
            statements: Vec::new(),
            verdict: None,
            mode: self.host().gate.mode,
        };
        match self.examine(call, call.input.clone(), self.argument_origins(call), 0).await {
            Err(Stop::Failed(failure)) => explained.refused = Some(failure),
            Err(Stop::Halt(halt)) => return Err(halt),
            // No step before the rules asks the operator.
            Err(Stop::Suspended(_)) => {}
            Ok(admitted) => {
                let subjects = admitted.subjects.iter().flatten();
                explained.arguments = subjects.map(Subject::to_string).collect();
                explained.statements = self.weigh(call, &admitted, Gate::statements);
                explained.verdict = Some(self.weigh(call, &admitted, Gate::decide));
            }
        }
        Ok(explained)
    }
}
