//! The gate: the one place where each call is allowed, asked about, or refused (SPEC §9).
//!
//! [`Gate::decide`] is pure: rules and a call give a [`Verdict`] with the rule that decided. Asking, remembering and
//! executing are the engine's business.

mod pattern;

pub use pattern::{BadPattern, Pattern, Subject};

use crate::function::Risk;
use pattern::Head;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What a rule says. Ordered by strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// Run without asking.
    PreApproved,
    /// Ask the operator.
    Ask,
    /// Refuse without asking.
    Blocked,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PreApproved => "preApproved",
            Self::Ask => "ask",
            Self::Blocked => "blocked",
        })
    }
}

/// What `ask` does (SPEC §9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The operator is asked.
    #[default]
    Interactive,
    /// The call runs.
    ApproveAll,
    /// The call is refused.
    AutoDeny,
    /// The run is suspended until somebody decides.
    Defer,
}

impl Mode {
    /// The tighter of two: a program's files may only tighten the operator's mode (SPEC §6.5). `defer` is as tight as
    /// `interactive`, and neither runs what wasn't approved.
    #[must_use]
    pub fn tighten(self, other: Self) -> Self {
        fn looseness(mode: Mode) -> u8 {
            match mode {
                Mode::ApproveAll => 2,
                Mode::Interactive | Mode::Defer => 1,
                Mode::AutoDeny => 0,
            }
        }
        if looseness(other) < looseness(self) { other } else { self }
    }
}

/// One rule with the place where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLine {
    /// Which calls it speaks of.
    pub pattern: Pattern,
    /// What it says.
    pub rule: Rule,
    /// Where it stands, for people: `--deny write_file`, `main.worker:12`.
    pub origin: Arc<str>,
}

/// Where a rule comes from; decides what it may loosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line or user configuration.
    Operator,
    /// A worker's `tool_rules`.
    Worker,
    /// A toolset's `approval`.
    Toolset,
    /// The project's `approval`.
    Project,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "command line",
            Self::Worker => "worker",
            Self::Toolset => "toolset",
            Self::Project => "project",
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
    /// For all that no line speaks of.
    pub default: Option<Rule>,
    /// Where the block stands.
    pub origin: Arc<str>,
}

/// The rules that hold for a whole run.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// What `ask` does.
    pub mode: Mode,
    /// `--deny`, `--ask`, `--allow`.
    pub operator: Vec<RuleLine>,
    /// The project's `approval`.
    pub project: Policy,
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
    /// Its arguments as rules match them. Empty: the tool takes none that rules speak of.
    pub subjects: &'a [Subject],
    /// `tool_rules` of the worker that calls.
    pub worker: &'a [RuleLine],
    /// Rules of the callers above, innermost first: only their `blocked` counts here.
    pub callers: &'a [Arc<[RuleLine]>],
    /// The toolset's `approval`.
    pub toolset: Option<&'a Policy>,
    /// What the toolset's own configuration says of these arguments, beside its `approval`.
    pub of_toolset: Option<&'a (Rule, String)>,
    /// What the mounts say that the call touches.
    pub mounts: &'a [(Rule, String)],
    /// Whether every effect lies inside mounts that the program declares, so that its files may pre-approve it.
    pub own_effects: bool,
    /// The caller or the function is a library's: its files may only tighten.
    pub foreign: bool,
}

/// What one source says of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// The source: `command line`, `worker`, `toolset`, `project`, `callers`, `mount`, `default`.
    pub source: &'static str,
    /// What it says; `None` where it does not speak of the call.
    pub said: Option<Verdict>,
}

/// A source, its lines that speak of a function, and its policy.
type Speaker<'a> = (Source, Vec<&'a RuleLine>, Option<&'a Policy>);

/// What the rules say of a call, and which rule said it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The outcome.
    pub rule: Rule,
    /// The rule that decided, for people and the journal.
    pub decided_by: String,
}

/// What a risk means when no rule speaks (SPEC §9.3).
pub fn risk_default(risk: Risk, wildcard: bool) -> Rule {
    match risk {
        Risk::Read => Rule::PreApproved,
        Risk::Delegate if !wildcard => Rule::PreApproved,
        Risk::Delegate | Risk::Write | Risk::Network | Risk::Exec | Risk::Destructive => Rule::Ask,
    }
}

impl Gate {
    /// Decides one call (SPEC §9.3): any `blocked` wins; else the strictest of the first source that speaks, the mounts'
    /// rules, and what a library's files say; where none speaks, the risk's default.
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
            decided_by: format!("default for risk `{}`", query.risk),
        });
        let tighter = sources
            .iter()
            .filter(|(source, ..)| only_tightens(*source, query))
            .find_map(|source| said(source, query).filter(|said| said.rule > verdict.rule));
        tighter.unwrap_or(verdict)
    }

    /// What each source says of a call, in the order of [`Gate::decide`].
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
                    .map(|line| Verdict { rule: Rule::Blocked, decided_by: line.origin.to_string() })
                    .or_else(|| said(speaker, query)),
            })
            .collect();
        let mut above = query.callers.iter().flat_map(|lines| lines.iter());
        let blocked = above
            .find(|line| line.pattern.names_one_of(query.names) && blocks(line, query))
            .map(|line| Verdict { rule: Rule::Blocked, decided_by: line.origin.to_string() });
        statements.push(Statement { source: "callers", said: blocked });
        let mounts = query.mounts.iter().max_by_key(|(rule, _)| *rule);
        let mounts = mounts.map(|(rule, origin)| Verdict { rule: *rule, decided_by: origin.clone() });
        statements.push(Statement { source: "mount", said: mounts });
        let decided_by = format!("default for risk `{}`", query.risk);
        let default = Verdict { rule: risk_default(query.risk, query.wildcard), decided_by };
        statements.push(Statement { source: "default", said: Some(default) });
        statements
    }

    /// Whether any arguments could pass without an operator: if not, and nobody can be asked, the tool is not offered
    /// to the model (SPEC §9.2). `query.subjects` are ignored; `query.mounts` are the rules of all mounts there are.
    /// Where it can't tell, it says yes.
    pub fn could_pass(&self, query: &Query<'_>) -> bool {
        let all_blocked =
            |line: &RuleLine| line.rule == Rule::Blocked && line.pattern.speaks_of_all(query.names);
        let above = query.callers.iter().flat_map(|lines| lines.iter());
        let always_blocked = above.into_iter().any(all_blocked)
            || self.sources(query, &[]).iter().any(|(_, lines, policy)| {
                // A default holds where no line speaks; a line that blocks is no way through.
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
        let mut spoken = None;
        for (source, lines, policy) in self.sources(query, &[]) {
            let all_asked = lines.iter().any(|l| l.rule == Rule::Ask && l.pattern.speaks_of_all(query.names));
            if only_tightens(source, query) {
                let exempt =
                    lines.iter().any(|l| l.rule == Rule::PreApproved && l.pattern.names_one_of(query.names));
                if (all_asked || policy.and_then(|p| p.otherwise(query.risk)) == Some(Rule::Ask)) && !exempt {
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
            spoken = match (allowed, all_asked, policy.and_then(|p| p.otherwise(query.risk))) {
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

    /// The sources in their order, each with its lines that speak of the function, and could speak of one of these arguments if
    /// there are any: few of many do, and those are looked at more than once.
    fn sources<'a>(&'a self, query: &'a Query<'_>, subjects: &[Subject]) -> [Speaker<'a>; 4] {
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
        ]
    }

    fn blocked(sources: &[Speaker<'_>], query: &Query<'_>) -> Option<Verdict> {
        let verdict = |origin: &str| Verdict { rule: Rule::Blocked, decided_by: origin.to_owned() };
        for (_, lines, policy) in sources {
            if let Some(line) = lines.iter().find(|line| blocks(line, query)) {
                return Some(verdict(&line.origin));
            }
            let Some(policy) = policy else { continue };
            if policy.risks.get(&query.risk) == Some(&Rule::Blocked) {
                return Some(verdict(&format!("{}: risk `{}`", policy.origin, query.risk)));
            }
            let named = || lines.iter().any(|l| l.pattern.covers(query.subjects));
            if policy.default == Some(Rule::Blocked) && !named() {
                return Some(verdict(&format!("{}: default", policy.origin)));
            }
        }
        if let Some((Rule::Blocked, origin)) = query.of_toolset {
            return Some(verdict(origin));
        }
        let above = query.callers.iter().flat_map(|lines| lines.iter());
        if let Some(line) =
            above.into_iter().find(|line| line.pattern.names_one_of(query.names) && blocks(line, query))
        {
            return Some(verdict(&format!("{} (a caller's rule)", line.origin)));
        }
        query.mounts.iter().find(|(rule, _)| *rule == Rule::Blocked).map(|(_, origin)| verdict(origin))
    }

    fn first_speaker(sources: &[Speaker<'_>], query: &Query<'_>) -> Option<Verdict> {
        let mut speakers = sources.iter().filter(|(source, ..)| !only_tightens(*source, query));
        let (source, said) =
            speakers.find_map(|speaker| said(speaker, query).map(|said| (speaker.0, said)))?;
        if said.rule == Rule::PreApproved && !may_loosen(source, query) {
            let why = "the effect lies outside the mounts that the program declares, so the operator decides";
            return Some(Verdict { rule: Rule::Ask, decided_by: format!("{} ({why})", said.decided_by) });
        }
        Some(said)
    }
}

/// Files of a library never loosen: where one calls or is called, the rules nearest to the call are its own, and only
/// what they tighten counts.
fn only_tightens(source: Source, query: &Query<'_>) -> bool {
    query.foreign && matches!(source, Source::Worker | Source::Toolset)
}

/// Whether a source's `preApproved` counts: the operator's always, one in the program's files where nothing would be
/// asked anyway or the effect lies in the program's own mounts.
fn may_loosen(source: Source, query: &Query<'_>) -> bool {
    source == Source::Operator
        || query.own_effects
        || risk_default(query.risk, query.wildcard) == Rule::PreApproved
}

/// Whether a line that speaks of the function blocks the call.
fn blocks(line: &RuleLine, query: &Query<'_>) -> bool {
    line.rule == Rule::Blocked && line.pattern.touches(query.subjects)
}

/// What one source says of a call, if it speaks.
fn said(&(source, ref lines, policy): &Speaker<'_>, query: &Query<'_>) -> Option<Verdict> {
    // An `ask` speaks when it touches any argument, a `preApproved` only when it covers all of them; the stricter of a
    // source's matching lines counts, so that the order of lines is never a trap.
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
        return Some(Verdict { rule: line.rule, decided_by: line.origin.to_string() });
    }
    if let (Source::Toolset, Some((rule, origin))) = (source, query.of_toolset) {
        return Some(Verdict { rule: *rule, decided_by: origin.clone() });
    }
    let policy = policy?;
    let decided_by = match policy.risks.contains_key(&query.risk) {
        true => format!("{}: risk `{}`", policy.origin, query.risk),
        false => format!("{}: default", policy.origin),
    };
    policy.otherwise(query.risk).map(|rule| Verdict { rule, decided_by })
}

impl Policy {
    /// What it says of calls of that risk that none of its lines speaks of.
    fn otherwise(&self, risk: Risk) -> Option<Rule> {
        self.risks.get(&risk).copied().or(self.default)
    }
}

#[cfg(test)]
mod tests;
