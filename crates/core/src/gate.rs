//! The gate: the one place where each call is allowed, asked about, or refused (`docs/reference/approvals.md`).
//!
//! [`Gate::decide`] is pure: rules and a call give a [`Verdict`] with the rule that decided. The engine asks,
//! remembers and executes.

mod pattern;
mod untrusted;

pub use crate::rule::{DecidedBy, Mode, Rule};
pub use pattern::{BadPattern, Pattern, Subject};

use crate::{authority::NotOwn, risk::Risk};
use pattern::Head;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// One rule with the place where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLine {
    /// The calls that it applies to.
    pub pattern: Pattern,
    /// What it says.
    pub rule: Rule,
    /// Its origin, for display: `--deny write_file`, `main.worker:12`.
    pub origin: Arc<str>,
}

/// The source of a rule, which decides what the rule may loosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
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

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "command line",
            Self::Worker => "worker",
            Self::Toolset => "toolset",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// An `approval {default, tools, risks}` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Rules by tool or pattern, in the order written.
    pub lines: Vec<RuleLine>,
    /// By risk (project only).
    pub risks: BTreeMap<Risk, Rule>,
    /// For calls that no line matches.
    pub default: Option<Rule>,
    /// The origin of the block.
    pub origin: Arc<str>,
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
}

/// A call as the gate sees it.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The names a rule may use for the function: its own, and older ones (`worker.call`).
    pub names: &'a [&'a str],
    /// Its risk.
    pub risk: Risk,
    /// A delegation that only a wildcard of the allowlist permits.
    pub wildcard: bool,
    /// Its arguments as rules match them. Empty if the tool takes none that rules can match.
    pub subjects: &'a [Subject],
    /// `tool_rules` of the worker that calls.
    pub worker: &'a [RuleLine],
    /// Rules of the callers above, innermost first. Only their `blocked` applies here.
    pub callers: &'a [Arc<[RuleLine]>],
    /// The toolset's `approval`.
    pub toolset: Option<&'a Policy>,
    /// The rule of the toolset's own configuration for these arguments, in addition to its `approval`.
    pub of_toolset: Option<&'a (Rule, DecidedBy)>,
    /// The rules of the mounts that the call touches.
    pub mounts: &'a [(Rule, DecidedBy)],
    /// Why the program's files may not pre-approve the call, if they may not.
    pub not_own: Option<NotOwn>,
    /// The caller or the function is a library's: its files may only tighten.
    pub foreign: bool,
}

/// The statement of one source about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// The source: `command line`, `worker`, `toolset`, `project`, `callers`, `mount`, `default`.
    pub source: &'static str,
    /// Its verdict; `None` if it has no rule for the call.
    pub said: Option<Verdict>,
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
        let sources = self.sources(query, query.subjects);
        if let Some(verdict) = Self::blocked(&sources, query) {
            return verdict;
        }
        let mut verdict = Self::first_speaker(&sources, query);
        for (rule, origin) in query.mounts {
            if verdict.as_ref().is_none_or(|v| *rule > v.rule) {
                verdict = Some(Verdict { rule: *rule, decided_by: origin.clone() });
            }
        }
        let verdict = verdict.unwrap_or_else(|| Verdict {
            rule: risk_default(query.risk, query.wildcard),
            decided_by: DecidedBy::Default(query.risk),
        });
        let tighter = sources
            .iter()
            .filter(|(source, ..)| only_tightens(*source, query))
            .find_map(|source| said(source, query).filter(|said| said.rule > verdict.rule));
        tighter.unwrap_or(verdict)
    }

    /// The statement of each source about a call, in the order of [`Gate::decide`].
    pub fn statements(&self, query: &Query<'_>) -> Vec<Statement> {
        let mut statements: Vec<Statement> = self
            .sources(query, query.subjects)
            .iter()
            .map(|speaker| Statement {
                source: speaker.0.name(),
                said: speaker
                    .1
                    .iter()
                    .find(|line| blocks(line, query))
                    .map(|line| Verdict { rule: Rule::Blocked, decided_by: DecidedBy::rule(&line.origin) })
                    .or_else(|| said(speaker, query)),
            })
            .collect();
        let mut above = query.callers.iter().flat_map(|lines| lines.iter());
        let blocked = above
            .find(|line| line.pattern.names_one_of(query.names) && blocks(line, query))
            .map(|line| Verdict { rule: Rule::Blocked, decided_by: DecidedBy::rule(&line.origin) });
        statements.push(Statement { source: "callers", said: blocked });
        let mounts = query.mounts.iter().max_by_key(|(rule, _)| *rule);
        let mounts = mounts.map(|(rule, origin)| Verdict { rule: *rule, decided_by: origin.clone() });
        statements.push(Statement { source: "mount", said: mounts });
        let decided_by = DecidedBy::Default(query.risk);
        let default = Verdict { rule: risk_default(query.risk, query.wildcard), decided_by };
        statements.push(Statement { source: "default", said: Some(default) });
        statements
    }

    /// Whether any arguments could pass without an operator. If not, and no operator can be asked, the tool is not
    /// offered to the model (`docs/reference/approvals.md`). `query` describes the call that needs the least approval:
    /// `of_toolset` and `mounts` are what holds for it, and `subjects` are ignored. The result is true if it can't be
    /// determined.
    pub fn could_pass(&self, query: &Query<'_>) -> bool {
        let all_blocked =
            |line: &RuleLine| line.rule == Rule::Blocked && line.pattern.speaks_of_all(query.names);
        let above = query.callers.iter().flat_map(|lines| lines.iter());
        let always_blocked = above.into_iter().any(all_blocked)
            || query.of_toolset.is_some_and(|(rule, _)| *rule == Rule::Blocked)
            || query.mounts.iter().any(|(rule, _)| *rule == Rule::Blocked)
            || self.sources(query, &[]).iter().any(|(_, lines, policy)| {
                // A default applies where no line matches; a line that blocks lets no call through.
                let exempt =
                    lines.iter().any(|l| l.rule != Rule::Blocked && l.pattern.names_one_of(query.names));
                lines.iter().copied().any(all_blocked)
                    || policy.is_some_and(|p| {
                        p.risks.get(&query.risk) == Some(&Rule::Blocked)
                            || (p.default == Some(Rule::Blocked) && !exempt)
                    })
            });
        if always_blocked {
            return false;
        }
        if self.mode != Mode::AutoDeny {
            return true;
        }
        if query.mounts.iter().any(|(rule, _)| *rule == Rule::Ask) {
            return false;
        }
        let mut spoken = None;
        for (source, lines, policy) in self.sources(query, &[]) {
            let all_asked = lines.iter().any(|l| l.rule == Rule::Ask && l.pattern.speaks_of_all(query.names));
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
            let allowed =
                lines.iter().copied().filter(allows).any(|l| l.pattern.has_arguments() || !all_asked);
            let says_all = lines.iter().any(|l| l.pattern.speaks_of_all(query.names));
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

    /// The sources in order, each with the lines that match the function and could match one of these arguments, if
    /// there are any. Few of many lines do, and those are checked more than once.
    fn sources<'a>(&'a self, query: &'a Query<'_>, subjects: &[Subject]) -> [Speaker<'a>; 5] {
        let names: Vec<Head> = query.names.iter().map(|name| Head::of(name)).collect();
        let subjects: Vec<Head> = subjects.iter().map(Subject::head).collect();
        let of = |lines: &'a [RuleLine]| -> Vec<&'a RuleLine> {
            let speaks = |line: &&RuleLine| {
                line.pattern.could_speak_of(&names, &subjects) && line.pattern.names_one_of(query.names)
            };
            lines.iter().filter(speaks).collect()
        };
        [
            (Source::Operator, of(&self.operator), None),
            (Source::Worker, of(query.worker), None),
            (Source::Toolset, of(query.toolset.map_or(&[][..], |policy| &policy.lines)), query.toolset),
            (Source::Project, of(&self.project.lines), Some(&self.project)),
            (Source::User, of(&self.user.lines), Some(&self.user)),
        ]
    }

    fn blocked(sources: &[Speaker<'_>], query: &Query<'_>) -> Option<Verdict> {
        let verdict = |decided_by: DecidedBy| Verdict { rule: Rule::Blocked, decided_by };
        for (_, lines, policy) in sources {
            if let Some(line) = lines.iter().find(|line| blocks(line, query)) {
                return Some(verdict(DecidedBy::rule(&line.origin)));
            }
            let Some(policy) = policy else { continue };
            if policy.risks.get(&query.risk) == Some(&Rule::Blocked) {
                let origin = Arc::clone(&policy.origin);
                return Some(verdict(DecidedBy::Policy { origin, risk: Some(query.risk) }));
            }
            let named = || lines.iter().any(|l| l.pattern.covers(query.subjects));
            if policy.default == Some(Rule::Blocked) && !named() {
                let origin = Arc::clone(&policy.origin);
                return Some(verdict(DecidedBy::Policy { origin, risk: None }));
            }
        }
        if let Some((Rule::Blocked, decided_by)) = query.of_toolset {
            return Some(verdict(decided_by.clone()));
        }
        let above = query.callers.iter().flat_map(|lines| lines.iter());
        if let Some(line) =
            above.into_iter().find(|line| line.pattern.names_one_of(query.names) && blocks(line, query))
        {
            let origin = Arc::clone(&line.origin);
            return Some(verdict(DecidedBy::Rule { origin, of_caller: true }));
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
            return Some(Verdict { rule: Rule::Ask, decided_by });
        }
        Some(said)
    }
}

/// Files of a library never loosen. When a library calls or is called, the rules nearest to the call are its own, and
/// they may only tighten.
fn only_tightens(source: Source, query: &Query<'_>) -> bool {
    query.foreign && matches!(source, Source::Worker | Source::Toolset)
}

/// Whether a source's `preApproved` applies. The operator's always applies. One in the program's files applies if the
/// default would not ask anyway, or if the effect is inside the program's own mounts.
fn may_loosen(source: Source, query: &Query<'_>) -> bool {
    matches!(source, Source::Operator | Source::User)
        || query.not_own.is_none()
        || risk_default(query.risk, query.wildcard) == Rule::PreApproved
}

/// Whether a line that matches the function blocks the call.
fn blocks(line: &RuleLine, query: &Query<'_>) -> bool {
    line.rule == Rule::Blocked && line.pattern.touches(query.subjects)
}

/// The verdict of one source on a call, if it has a rule for it.
fn said(&(source, ref lines, policy): &Speaker<'_>, query: &Query<'_>) -> Option<Verdict> {
    // An `ask` matches if it touches any argument, a `preApproved` only if it covers all of them. The strictest of a
    // source's matching lines applies, so the order of lines never matters.
    let ask = lines.iter().find(|l| l.rule == Rule::Ask && l.pattern.touches(query.subjects));
    let allow = lines.iter().find(|l| l.rule == Rule::PreApproved && l.pattern.covers(query.subjects));
    let line = match (ask.copied(), allow.copied()) {
        // The narrower pattern wins within one source: `ask: write_file`, `allow: write_file(out/**)`.
        (Some(ask), Some(allow)) if allow.pattern.has_arguments() && !ask.pattern.has_arguments() => {
            Some(allow)
        }
        (ask, allow) => ask.or(allow),
    };
    if let Some(line) = line {
        return Some(Verdict { rule: line.rule, decided_by: DecidedBy::rule(&line.origin) });
    }
    if let (Source::Toolset, Some((rule, origin))) = (source, query.of_toolset) {
        return Some(Verdict { rule: *rule, decided_by: origin.clone() });
    }
    let policy = policy?;
    let risk = policy.risks.contains_key(&query.risk).then_some(query.risk);
    let decided_by = DecidedBy::Policy { origin: Arc::clone(&policy.origin), risk };
    policy.otherwise(query.risk).map(|rule| Verdict { rule, decided_by })
}

impl Policy {
    /// The rule for calls of that risk that none of its lines matches.
    fn otherwise(&self, risk: Risk) -> Option<Rule> {
        self.risks.get(&risk).copied().or(self.default)
    }
}

#[cfg(test)]
mod tests;
