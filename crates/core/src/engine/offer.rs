//! The choice of functions that a model is shown: those that could pass the gate (`docs/reference/approvals.md`).

use super::{
    Engine, Frame, names,
    touched::{Touched, mount_rules, not_own},
};
use crate::{
    authority::Access,
    function::{Effects, Function, Touch},
    gate::{Facts, Gate, Query, Withheld},
    risk::Risk,
    rule::{DecidedBy, Rule},
};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    /// The reason why a function can't pass the gate with any arguments, so that the model need not see it. `None` if
    /// it can.
    pub fn withheld(&self, function: &Function, frame: &Frame) -> Option<Withheld> {
        let (Effects { says, rules, touches, .. }, known) = match function.body.least() {
            Some(least) => (least, true),
            None => (unknown(function.meta.risk), false),
        };
        let mut choices = places(&touches, frame);
        if !known {
            // It may touch nothing.
            choices.push(Vec::new());
        }
        let mut why = Withheld::NoPlace;
        for touched in &choices {
            why = self.weigh_at(function, frame, touched, says.as_ref(), &rules, Gate::withheld)?;
        }
        Some(why)
    }

    /// Returns true if the gate could let calls of a function run without asking, as far as this is known without their
    /// arguments. The gate still judges each call.
    pub fn may_run_unasked(&self, function: &Function, frame: &Frame) -> bool {
        let Effects { says, rules, touches, .. } =
            function.body.least().unwrap_or_else(|| unknown(function.meta.risk));
        places(&touches, frame).iter().any(|touched| {
            let verdict = self.weigh_at(function, frame, touched, says.as_ref(), &rules, Gate::decide);
            verdict.rule == Rule::PreApproved
        })
    }

    /// Passes a function to the gate without arguments.
    fn weigh_at<T>(
        &self,
        function: &Function,
        frame: &Frame,
        touched: &[Touched<'_>],
        says: Option<&(Rule, DecidedBy)>,
        rules: &[(Rule, DecidedBy)],
        look: impl FnOnce(&Gate, &Query<'_>) -> T,
    ) -> T {
        let meta = &function.meta;
        let not_own = not_own(meta, touched);
        let foreign = frame.is_foreign() || !self.is_own(meta);
        // Approval code may pre-approve some calls, where it may loosen at all.
        let stated =
            function.rule.as_ref().filter(|code| !foreign && (not_own.is_none() || code.covers_grants()));
        let by = DecidedBy::Function { function: Arc::clone(&meta.name) };
        let stated = stated.map(|_| (Rule::PreApproved, by));
        let mounts = mount_rules(touched).chain(rules.iter().cloned()).chain(stated);
        let mounts: Vec<(Rule, DecidedBy)> = mounts.collect();
        let (names, callers) = (names(function, frame), frame.rules_above());
        let query = Query {
            names: &names,
            risk: meta.risk,
            wildcard: meta.wildcard,
            subjects: None,
            facts: Facts { arguments: &Value::Null, words: None, sets: frame.sets() },
            session: frame.session_rules(),
            worker: frame.rules(),
            callers: &callers,
            toolset: meta.policy.as_deref(),
            of_toolset: says,
            mounts: &mounts,
            vouched: false,
            not_own,
            foreign,
            borrowed_name: self.has_borrowed_name(meta),
        };
        look(&self.host.gate, &query)
    }
}

/// The effects that a function may have at its risk if it does not state them.
fn unknown(risk: Risk) -> Effects {
    let write = |delete| vec![Touch { path: String::new(), access: Access::Write, delete }];
    let touches = match risk {
        Risk::Write => write(false),
        Risk::Destructive => write(true),
        Risk::Read | Risk::Network | Risk::Exec | Risk::Delegate => Vec::new(),
    };
    Effects { touches, ..Effects::default() }
}

/// The ways to choose a mount of the caller's view for each touch. Of mounts that are equal for the rules only one
/// counts.
fn places<'a>(touches: &[Touch], frame: &'a Frame) -> Vec<Vec<Touched<'a>>> {
    let mounts = frame.authority().view().mounts();
    let mut all: Vec<Vec<Touched<'_>>> = vec![Vec::new()];
    for touch in touches {
        let mut different: Vec<Touched<'_>> = Vec::new();
        for mount in mounts.iter().filter(|mount| mount.access >= touch.access) {
            let touched = Touched::anywhere(mount, touch);
            if !different.iter().any(|known| known.is_like(&touched)) {
                different.push(touched);
            }
        }
        let with = |chosen: &Vec<Touched<'a>>| -> Vec<Vec<Touched<'a>>> {
            let next = different.iter().cloned();
            next.map(|touched| chosen.iter().cloned().chain([touched]).collect()).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}
