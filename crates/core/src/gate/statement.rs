//! The verdict of each source on a call, and the reasons why its other rules do not apply: `llm-do gate explain`.

use super::{DecidedBy, Gate, Query, Rule, RuleLine, Source, Speaker, Verdict, blocks, risk_default, said};
use serde::Serialize;
use std::sync::Arc;

/// The statement of one source about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// The source: `command line`, `worker`, `toolset`, `project`, `callers`, `mount`, `default`.
    pub source: &'static str,
    /// The verdict of the source; `None` if it has no rule for the call.
    pub said: Option<Verdict>,
    /// The rules of the source that name the function and did not give this verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Considered>,
}

/// A rule that names the function of a call and does not decide about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// The calls that the rule applies to, in the notation of the command line.
    pub calls: String,
    /// The decision about these calls.
    pub rule: Rule,
    /// The place where the rule is written.
    pub written_at: Arc<str>,
    /// The reason why the rule does not decide.
    pub why: String,
}

impl Statement {
    fn of(source: &'static str, said: Option<Verdict>) -> Self {
        Self { source, said, others: Vec::new() }
    }
}

impl Gate {
    /// The statement of each source about a call, in the order of [`Gate::decide`].
    pub fn statements(&self, query: &Query<'_>) -> Vec<Statement> {
        let speakers = self.sources_of(query, None);
        let mut statements: Vec<Statement> =
            speakers.iter().map(|speaker| statement(speaker, query)).collect();
        let above: Vec<&RuleLine> = query
            .callers
            .iter()
            .flat_map(|lines| lines.iter())
            .filter(|line| line.rule == Rule::Blocked && line.pattern.names_one_of(query.names))
            .collect();
        let blocked = above.iter().find(|line| blocks(line, query)).map(|line| line.verdict());
        let others = others(&above, blocked.as_ref(), query);
        statements.push(Statement { source: "callers", said: blocked, others });
        let mounts = query.mounts.iter().max_by_key(|(rule, _)| *rule);
        let mounts = mounts.map(|(rule, by)| Verdict::new(*rule, by.clone()));
        statements.push(Statement::of("mount", mounts));
        let default = Verdict::new(risk_default(query.risk, query.wildcard), DecidedBy::Default(query.risk));
        statements.push(Statement::of("default", Some(default)));
        statements
    }
}

fn statement(speaker: &Speaker<'_>, query: &Query<'_>) -> Statement {
    let (source, lines, _) = speaker;
    let blocked = lines.iter().find(|line| blocks(line, query)).map(|line| line.verdict());
    let said = blocked.or_else(|| said(speaker, query));
    let others = others(lines, said.as_ref(), query);
    Statement { source: source.name(), said, others }
}

/// The lines that did not give a verdict, each with the reason.
fn others(lines: &[&RuleLine], said: Option<&Verdict>, query: &Query<'_>) -> Vec<Considered> {
    let gave = |line: &RuleLine| said.is_some_and(|said| *said == line.verdict());
    let others = lines.iter().filter(|line| !gave(line)).map(|line| Considered {
        calls: line.calls().to_string(),
        rule: line.rule,
        written_at: Arc::clone(&line.written_at),
        why: why_not(line, query),
    });
    others.collect()
}

fn why_not(line: &RuleLine, query: &Query<'_>) -> String {
    let matches = match line.rule {
        Rule::PreApproved => line.pattern.covers(query.subjects),
        Rule::Ask | Rule::Blocked => line.pattern.touches(query.subjects),
    };
    if !matches {
        let argument = line.pattern.argument().unwrap_or_default();
        return match query.subjects {
            None => "the tool has no main argument that a pattern could match".to_owned(),
            Some([]) => "the call has no path that the pattern could match".to_owned(),
            Some(subjects) => {
                let missed = subjects.iter().find(|subject| !line.pattern.fits_arguments(subject));
                let missed = missed.map_or("", |subject| subject.as_str());
                format!("`{argument}` does not match `{missed}`")
            }
        };
    }
    match line.conditions.failure(query.facts, line.rule) {
        Some(failure) => failure,
        None => "another rule of this source comes before it".to_owned(),
    }
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
