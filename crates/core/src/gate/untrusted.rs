//! Verdicts on calls that untrusted words could steer (`docs/reference/origins.md`).

use super::{DecidedBy, Gate, Query, Rule, Verdict};

impl Verdict {
    /// Turns a permission into a question to the operator, because untrusted words could steer the call.
    #[must_use]
    pub(crate) fn steered(mut self) -> Self {
        self.rule = Rule::Ask;
        self.decided_by = DecidedBy::Untrusted { rule: Box::new(self.decided_by) };
        self
    }
}

impl Gate {
    /// Returns true if a verdict comes from the operator's own rules: those of the command line and of the user's
    /// configuration.
    pub(crate) fn is_operators(&self, query: &Query<'_>, verdict: &Verdict) -> bool {
        let own = Self {
            mode: self.mode,
            operator: self.operator.clone(),
            user: self.user.clone(),
            ..Self::default()
        };
        let alone = Query {
            worker: &[],
            callers: &[],
            toolset: None,
            of_toolset: None,
            mounts: &[],
            ..query.clone()
        };
        own.decide(&alone) == *verdict
    }
}
