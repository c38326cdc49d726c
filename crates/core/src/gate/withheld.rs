//! Tools that no arguments could make pass the gate: they are not shown to a model (`docs/reference/approvals.md`).

use super::{DecidedBy, Gate, Mode, Query, Rule, RuleLine, Source, may_loosen, only_tightens, risk_default};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The reason why no call of a function could pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// A rule blocks all of its calls.
    Blocked(DecidedBy),
    /// All of its calls need an approval, and the mode refuses calls that need one.
    Unapproved,
    /// The worker has no folder that the function could touch.
    NoPlace,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked(by) => write!(f, "blocked by {by}"),
            Self::Unapproved => {
                write!(
                    f,
                    "it needs an approval, and the mode {} refuses calls that do",
                    Mode::AutoDeny.as_str()
                )
            }
            Self::NoPlace => f.write_str("the worker has no folder that it could work on"),
        }
    }
}

/// A tool that a model is not shown, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct WithheldTool {
    /// Its name.
    pub name: Arc<str>,
    /// Why it is not shown.
    pub why: Arc<str>,
}

impl Gate {
    /// Returns true if any arguments could pass without an operator: see [`Gate::withheld`].
    pub fn could_pass(&self, query: &Query<'_>) -> bool {
        self.withheld(query).is_none()
    }

    /// The reason why no arguments could pass without an operator. `query` describes the call that needs the least
    /// approval: `of_toolset` and `mounts` contain the rules for that call; its arguments are ignored. `None` if some
    /// arguments could pass, or if that can't be determined.
    pub fn withheld(&self, query: &Query<'_>) -> Option<Withheld> {
        if let Some(by) = self.block_of_all(query) {
            return Some(Withheld::Blocked(by));
        }
        (self.mode == Mode::AutoDeny && !self.could_be_approved(query)).then_some(Withheld::Unapproved)
    }

    /// The rule that blocks every call of the function.
    fn block_of_all(&self, query: &Query<'_>) -> Option<DecidedBy> {
        let all_blocked = |line: &&RuleLine| line.rule == Rule::Blocked && line.speaks_of_all(query.names);
        let blocked = |(rule, by): &(Rule, DecidedBy)| (*rule == Rule::Blocked).then(|| by.clone());
        let above = query
            .callers
            .iter()
            .flat_map(|lines| lines.iter())
            .find(all_blocked)
            .map(|line| DecidedBy::Rule { written_at: Arc::clone(&line.written_at), of_caller: true });
        let of_call = above.or_else(|| query.of_toolset.and_then(blocked));
        let of_call = of_call.or_else(|| query.mounts.iter().find_map(blocked));
        of_call.or_else(|| {
            self.sources_of(query, None).iter().find_map(|(_, lines, policy)| {
                if let Some(line) = lines.iter().copied().find(all_blocked) {
                    return Some(DecidedBy::rule(&line.written_at));
                }
                let policy = (*policy)?;
                let by = |risk| DecidedBy::Policy { written_at: Arc::clone(&policy.written_at), risk };
                if policy.risks.get(&query.risk) == Some(&Rule::Blocked) {
                    return Some(by(Some(query.risk)));
                }
                // A default applies where no line matches; a line that blocks lets no call through.
                let exempt =
                    lines.iter().any(|l| l.rule != Rule::Blocked && l.pattern.names_one_of(query.names));
                (policy.default == Some(Rule::Blocked) && !exempt).then(|| by(None))
            })
        })
    }

    /// Returns true if a rule pre-approves some calls that no other rule blocks.
    fn could_be_approved(&self, query: &Query<'_>) -> bool {
        if query.mounts.iter().any(|(rule, _)| *rule == Rule::Ask) {
            return false;
        }
        let mut spoken = None;
        for (source, lines, policy) in self.sources_of(query, None) {
            let all_asked = lines.iter().any(|l| l.rule == Rule::Ask && l.speaks_of_all(query.names));
            let of_toolset = query.of_toolset.filter(|_| source == Source::Toolset).map(|(rule, _)| *rule);
            let otherwise = of_toolset.or_else(|| policy?.otherwise(query.risk));
            if only_tightens(source, query) {
                let exempt =
                    lines.iter().any(|l| l.rule == Rule::PreApproved && l.pattern.names_one_of(query.names));
                if (all_asked || otherwise == Some(Rule::Ask)) && !exempt {
                    return false;
                }
                continue;
            }
            if spoken.is_some() {
                continue;
            }
            let allows = |l: &&RuleLine| l.rule == Rule::PreApproved && l.pattern.names_one_of(query.names);
            let allowed = lines.iter().copied().filter(allows).any(|l| l.is_narrow() || !all_asked);
            let says_all = lines.iter().any(|l| l.speaks_of_all(query.names));
            spoken = match (allowed, all_asked, otherwise) {
                (true, ..) => Some(may_loosen(source, query)),
                (false, true, _) => Some(false),
                (false, false, Some(rule)) => Some(rule == Rule::PreApproved && may_loosen(source, query)),
                (false, false, None) if says_all => Some(false),
                (false, false, None) => None,
            };
        }
        spoken.unwrap_or_else(|| {
            risk_default(query.risk, query.wildcard) == Rule::PreApproved
                || query.mounts.iter().any(|(rule, _)| *rule == Rule::PreApproved)
        })
    }
}
