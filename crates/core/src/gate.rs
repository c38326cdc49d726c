//! The gate: the one place where each call is allowed, asked about, or refused (`docs/reference/approvals.md`).
//!
//! [`Gate::decide`] is pure: rules and a call give a [`Verdict`] with the rule that decided. The engine asks,
//! remembers and executes.

mod argument_path;
mod condition;
mod grammar;
mod number;
mod pattern;
mod session;
mod set;
mod statement;
mod typing;
mod untrusted;
mod withheld;

pub use crate::rule::{DecidedBy, Mode, Rule};
pub use argument_path::{ArgumentPath, BadPath, Segment};
pub use condition::{Check, Conditions, Facts, HostEntry, Test, WholeMatch};
pub use grammar::{BadRule, Calls, host as host_of, set as set_of, words as words_of};
pub use pattern::{BadPattern, Pattern, Subject};
pub use session::{BadSessionRule, SessionRules};
pub use set::{BadPointer, FileSet, KnownSet, Pointer, ReadSet, Set, ToolSet, ToolSets, Values};
pub use statement::{Considered, Statement};
pub use typing::Misfit;
pub use withheld::{Withheld, WithheldTool};

use crate::{authority::NotOwn, risk::Risk};
use pattern::Head;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// A rule with the place where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLine {
    /// The calls that the rule applies to, by tool and main argument.
    pub pattern: Pattern,
    /// Further conditions on the arguments of these calls.
    pub conditions: Conditions,
    /// The decision about these calls.
    pub rule: Rule,
    /// The place where the rule is written, for display: `--deny write_file`, `main.worker:12`.
    pub written_at: Arc<str>,
}

impl RuleLine {
    /// A rule without conditions.
    pub fn new(pattern: Pattern, rule: Rule, written_at: impl Into<Arc<str>>) -> Self {
        Self { pattern, conditions: Conditions::default(), rule, written_at: written_at.into() }
    }

    /// Limits the rule to calls for which these conditions hold too.
    #[must_use]
    pub fn when(self, conditions: Conditions) -> Self {
        Self { conditions, ..self }
    }

    /// The calls that the rule applies to, in the notation of the command line.
    pub fn calls(&self) -> Calls {
        Calls { pattern: self.pattern.clone(), conditions: self.conditions.clone() }
    }

    /// Returns true if the rule applies only to some calls of its tool.
    fn is_narrow(&self) -> bool {
        self.pattern.has_arguments() || !self.conditions.is_empty()
    }

    /// Returns true if the rule applies to every call of a function with one of these names.
    fn speaks_of_all(&self, names: &[&str]) -> bool {
        self.conditions.is_empty() && self.pattern.speaks_of_all(names)
    }

    /// Returns true if the rule applies to a call, after the function's name has matched. A rule that loosens must
    /// match the whole main argument, a rule that tightens any part of it.
    fn applies(&self, query: &Query<'_>) -> bool {
        let matches = match self.rule {
            Rule::PreApproved => self.pattern.covers(query.subjects),
            Rule::Ask | Rule::Blocked => self.pattern.touches(query.subjects),
        };
        matches && self.conditions.hold(query.facts, self.rule)
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            rule: self.rule,
            decided_by: DecidedBy::rule(&self.written_at),
            vouches: self.rule == Rule::PreApproved && self.conditions.name_values(),
        }
    }
}

/// The source of a rule. It determines what the rule may loosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line, and the operator's rules in a conversation.
    Operator,
    /// A worker's `tool_rules`.
    Worker,
    /// A toolset's `approval`.
    Toolset,
    /// The project's `approval`.
    Project,
    /// `approval` of the user's configuration.
    User,
}

/// An `approval {default, tools, risks}` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Rules by tool or pattern, in the order written.
    pub lines: Vec<RuleLine>,
    /// Rules by risk (project only).
    pub risks: BTreeMap<Risk, Rule>,
    /// The rule for calls that no line matches.
    pub default: Option<Rule>,
    /// The place where the block is written.
    pub written_at: Arc<str>,
}

/// The rules of a whole run.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// The effect of `ask`.
    pub mode: Mode,
    /// `--deny`, `--ask`, `--allow`.
    pub operator: Vec<RuleLine>,
    /// The project's `approval`.
    pub project: Policy,
    /// `approval` of the user's configuration.
    pub user: Policy,
    /// The sets that `tool_rules` of the run's workers expect from tools, beside the entry's own.
    pub sets_of_workers: Vec<ToolSet>,
}

/// A call as the gate sees it.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The names a rule may use for the function: its own, and older ones (`worker.call`).
    pub names: &'a [&'a str],
    /// The function's risk.
    pub risk: Risk,
    /// A delegation that only a wildcard of the allowlist permits.
    pub wildcard: bool,
    /// The main argument in the form that patterns match; `None` if the function has none.
    pub subjects: Option<&'a [Subject]>,
    /// The facts that conditions are evaluated with.
    pub facts: Facts<'a>,
    /// The rules that the operator has made in the conversations that led to the call.
    pub session: &'a SessionRules,
    /// `tool_rules` of the calling worker.
    pub worker: &'a [RuleLine],
    /// Rules of the callers further up, innermost first. Only their `blocked` applies here.
    pub callers: &'a [Arc<[RuleLine]>],
    /// The toolset's `approval`.
    pub toolset: Option<&'a Policy>,
    /// The rule of the toolset's own configuration for these arguments, in addition to its `approval`.
    pub of_toolset: Option<&'a (Rule, DecidedBy)>,
    /// The rules of the mounts that the call touches, and of the function itself.
    pub mounts: &'a [(Rule, DecidedBy)],
    /// True if the function's own approval code pre-approves the call and knew the origins of its arguments.
    pub vouched: bool,
    /// The reason why the program's files may not pre-approve the call, if they may not.
    pub not_own: Option<NotOwn>,
    /// True if the caller or the function belongs to a library, whose files may only tighten.
    pub foreign: bool,
    /// True if the function has the name of a built-in tool but is another function. A rule of the operator that allows
    /// calls of that name refers to the built-in tool.
    pub borrowed_name: bool,
}

/// A source, its lines that match a function, and its policy.
type Speaker<'a> = (Source, Vec<&'a RuleLine>, Option<&'a Policy>);

/// The decision about a call, and the rule that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The outcome.
    pub rule: Rule,
    /// The rule that decided, for people and the journal.
    pub decided_by: DecidedBy,
    /// See [`Verdict::vouches`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    vouches: bool,
}

impl Verdict {
    /// A verdict that does not come from a rule with conditions.
    fn new(rule: Rule, decided_by: DecidedBy) -> Self {
        Self { rule, decided_by, vouches: false }
    }

    /// Turns the verdict into a permission, for a mode that approves all questions.
    #[must_use]
    pub(crate) fn approved(self) -> Self {
        Self { rule: Rule::PreApproved, ..self }
    }

    /// Returns true if the rule that pre-approved the call vouches for the values of its arguments: it tests one of
    /// them by `from`, `in` or `equals`, or it is approval code that knew their origins.
    pub fn vouches(&self) -> bool {
        self.vouches
    }
}

/// The default rule of a risk, when no other rule applies (`docs/reference/approvals.md`).
pub fn risk_default(risk: Risk, wildcard: bool) -> Rule {
    match risk {
        Risk::Read => Rule::PreApproved,
        Risk::Delegate if !wildcard => Rule::PreApproved,
        Risk::Delegate | Risk::Write | Risk::Network | Risk::Exec | Risk::Destructive => Rule::Ask,
    }
}

impl Gate {
    /// Decides one call (`docs/reference/approvals.md`): any `blocked` wins. Otherwise the strictest of three
    /// applies: the first source with a rule, the mounts' rules, and the rules of a library's files. If none has a
    /// rule, the risk's default applies.
    pub fn decide(&self, query: &Query<'_>) -> Verdict {
        let sources = self.sources(query);
        if let Some(verdict) = Self::blocked(&sources, query) {
            return verdict;
        }
        let mut verdict = Self::first_speaker(&sources, query);
        for (rule, by) in query.mounts {
            if verdict.as_ref().is_none_or(|v| *rule > v.rule) {
                verdict = Some(Verdict::new(*rule, by.clone()));
            }
        }
        let verdict = verdict.unwrap_or_else(|| {
            Verdict::new(risk_default(query.risk, query.wildcard), DecidedBy::Default(query.risk))
        });
        let tighter = sources
            .iter()
            .filter(|(source, ..)| only_tightens(*source, query))
            .find_map(|source| said(source, query).filter(|said| said.rule > verdict.rule));
        let mut verdict = tighter.unwrap_or(verdict);
        verdict.vouches |= query.vouched && verdict.rule == Rule::PreApproved;
        verdict
    }

    /// The sources in order, each with the lines that match the function and could match its main argument.
    fn sources<'a>(&'a self, query: &'a Query<'_>) -> [Speaker<'a>; 5] {
        self.sources_of(query, query.subjects)
    }

    /// The sources for other subjects; without subjects, each with the lines that match the function. Few of many lines
    /// match, and these are checked more than once.
    fn sources_of<'a>(&'a self, query: &'a Query<'_>, subjects: Option<&[Subject]>) -> [Speaker<'a>; 5] {
        let names: Vec<Head> = query.names.iter().map(|name| Head::of(name)).collect();
        let subjects: Vec<Head> = subjects.unwrap_or_default().iter().map(Subject::head).collect();
        let speaks = |line: &&RuleLine| {
            line.pattern.could_speak_of(&names, &subjects) && line.pattern.names_one_of(query.names)
        };
        let of = |lines: &'a [RuleLine]| -> Vec<&'a RuleLine> { lines.iter().filter(speaks).collect() };
        let means_it = |line: &&RuleLine| !query.borrowed_name || line.rule != Rule::PreApproved;
        let operator =
            self.operator.iter().filter(means_it).chain(query.session.lines()).filter(speaks).collect();
        [
            (Source::Operator, operator, None),
            (Source::Worker, of(query.worker), None),
            (Source::Toolset, of(query.toolset.map_or(&[][..], |policy| &policy.lines)), query.toolset),
            (Source::Project, of(&self.project.lines), Some(&self.project)),
            (
                Source::User,
                self.user.lines.iter().filter(means_it).filter(speaks).collect(),
                Some(&self.user),
            ),
        ]
    }

    fn blocked(sources: &[Speaker<'_>], query: &Query<'_>) -> Option<Verdict> {
        let verdict = |decided_by: DecidedBy| Verdict::new(Rule::Blocked, decided_by);
        for (_, lines, policy) in sources {
            if let Some(line) = lines.iter().find(|line| blocks(line, query)) {
                return Some(line.verdict());
            }
            let Some(policy) = policy else { continue };
            if policy.risks.get(&query.risk) == Some(&Rule::Blocked) {
                let written_at = Arc::clone(&policy.written_at);
                return Some(verdict(DecidedBy::Policy { written_at, risk: Some(query.risk) }));
            }
            // A line spares a call only if it matches the whole of it, whatever the line says.
            let spares = |l: &&RuleLine| {
                l.pattern.covers(query.subjects) && l.conditions.hold(query.facts, Rule::PreApproved)
            };
            if policy.default == Some(Rule::Blocked) && !lines.iter().any(spares) {
                let written_at = Arc::clone(&policy.written_at);
                return Some(verdict(DecidedBy::Policy { written_at, risk: None }));
            }
        }
        if let Some((Rule::Blocked, decided_by)) = query.of_toolset {
            return Some(verdict(decided_by.clone()));
        }
        let above = query.callers.iter().flat_map(|lines| lines.iter());
        if let Some(line) =
            above.into_iter().find(|line| line.pattern.names_one_of(query.names) && blocks(line, query))
        {
            let written_at = Arc::clone(&line.written_at);
            return Some(verdict(DecidedBy::Rule { written_at, of_caller: true }));
        }
        query.mounts.iter().find(|(rule, _)| *rule == Rule::Blocked).map(|(_, by)| verdict(by.clone()))
    }

    fn first_speaker(sources: &[Speaker<'_>], query: &Query<'_>) -> Option<Verdict> {
        let mut speakers = sources.iter().filter(|(source, ..)| !only_tightens(*source, query));
        let (source, said) =
            speakers.find_map(|speaker| said(speaker, query).map(|said| (speaker.0, said)))?;
        if said.rule == Rule::PreApproved && !may_loosen(source, query) {
            let rule = Box::new(said.decided_by);
            let decided_by = match query.not_own {
                Some(NotOwn::Executed) => DecidedBy::ExecutedFile { rule },
                Some(NotOwn::Outside) | None => DecidedBy::OutsideMounts { rule },
            };
            return Some(Verdict::new(Rule::Ask, decided_by));
        }
        Some(said)
    }
}

/// Returns true if a source may only tighten. Files of a library never loosen: when a library calls or is called, its
/// own rules are nearest to the call.
fn only_tightens(source: Source, query: &Query<'_>) -> bool {
    query.foreign && matches!(source, Source::Worker | Source::Toolset)
}

/// Returns true if a source's `preApproved` applies. The operator's always applies. One in the program's files applies
/// if the risk's default would not ask, or if the effect is inside the program's own mounts.
fn may_loosen(source: Source, query: &Query<'_>) -> bool {
    matches!(source, Source::Operator | Source::User)
        || query.not_own.is_none()
        || risk_default(query.risk, query.wildcard) == Rule::PreApproved
}

/// Returns true if a line that matches the function blocks the call.
fn blocks(line: &RuleLine, query: &Query<'_>) -> bool {
    line.rule == Rule::Blocked && line.applies(query)
}

/// The verdict of one source on a call, if it has a rule for it.
fn said(&(source, ref lines, policy): &Speaker<'_>, query: &Query<'_>) -> Option<Verdict> {
    // The strictest of a source's matching lines applies, so the order of lines never matters. Of several that pre-approve
    // the call, the one that says most about its arguments decides.
    let allows = lines.iter().rev().copied().filter(|l| l.rule == Rule::PreApproved && l.applies(query));
    let allow = allows.max_by_key(|line| (line.conditions.name_values(), line.is_narrow()));
    // The narrower rule wins within one source: `ask: write_file`, `allow: write_file(out/**)`.
    let exempt = allow.is_some_and(RuleLine::is_narrow);
    let asks =
        |line: &&RuleLine| line.rule == Rule::Ask && (line.is_narrow() || !exempt) && line.applies(query);
    if let Some(line) = lines.iter().copied().find(asks).or(allow) {
        return Some(line.verdict());
    }
    if let (Source::Toolset, Some((rule, by))) = (source, query.of_toolset) {
        return Some(Verdict::new(*rule, by.clone()));
    }
    let policy = policy?;
    let risk = policy.risks.contains_key(&query.risk).then_some(query.risk);
    let decided_by = DecidedBy::Policy { written_at: Arc::clone(&policy.written_at), risk };
    policy.otherwise(query.risk).map(|rule| Verdict::new(rule, decided_by))
}

impl Policy {
    /// The rule for calls of that risk that no line matches.
    fn otherwise(&self, risk: Risk) -> Option<Rule> {
        self.risks.get(&risk).copied().or(self.default)
    }
}

#[cfg(test)]
mod tests;
