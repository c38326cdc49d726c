//! Rules that the operator makes in a conversation, in the middle of a run (`docs/reference/approvals.md`).

use super::{BadRule, Calls, Gate, Rule, RuleLine};
use crate::question::QuestionId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The rules that the operator has made in a conversation, for the calls of that conversation, oldest first.
///
/// These rules have the precedence of rules on the command line. The frame passes them down the call tree, so they apply
/// to the conversation and the calls below it, and a resumed run finds the same rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Vec<Written>", try_from = "Vec<Written>")]
pub struct SessionRules {
    rules: Arc<[SessionRule]>,
}

/// A rule that the operator has made.
#[derive(Clone, Debug, PartialEq)]
struct SessionRule {
    /// The question whose answer made the rule.
    made_at: QuestionId,
    line: RuleLine,
}

/// The serialised form of a rule.
#[derive(Serialize, Deserialize)]
struct Written {
    made_at: QuestionId,
    rule: Rule,
    calls: String,
}

/// A rule that can't be made in a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSessionRule {
    /// The rule does not parse.
    #[error(transparent)]
    Rule(#[from] BadRule),
    /// A condition compares with a set from a file or a tool. Such sets are read when a run begins.
    #[error(
        "{0} is read when a run begins: a rule of a conversation takes a list of values, such as `[\"a\", \"b\"]`"
    )]
    Set(String),
}

impl RuleLine {
    /// Creates a rule that the operator makes in a conversation.
    ///
    /// # Errors
    /// See [`BadSessionRule`].
    pub fn of_session(rule: Rule, calls: &str) -> Result<Self, BadSessionRule> {
        let Calls { pattern, conditions } = Calls::parse(calls, &|_| Err(String::new()))?;
        if let Some(set) = conditions.sets().find(|set| set.file().is_some() || !set.is_known()) {
            return Err(BadSessionRule::Set(set.to_string()));
        }
        let written_at = format!("/rules {} {}", rule.verb(), calls.trim());
        Ok(Self::new(pattern, rule, written_at).when(conditions))
    }
}

impl SessionRules {
    /// No rules.
    pub fn none() -> &'static Self {
        static NONE: std::sync::OnceLock<SessionRules> = std::sync::OnceLock::new();
        NONE.get_or_init(Self::default)
    }

    /// Adds a rule, which answers the question `made_at`.
    ///
    /// # Errors
    /// See [`BadSessionRule`].
    pub fn with(&self, made_at: QuestionId, rule: Rule, calls: &str) -> Result<Self, BadSessionRule> {
        let line = RuleLine::of_session(rule, calls)?;
        let new = SessionRule { made_at, line };
        Ok(Self { rules: self.rules.iter().cloned().chain([new]).collect() })
    }

    /// Removes the rule that answers the question `made_at`. Returns `None` if there is no such rule.
    pub fn without(&self, made_at: &QuestionId) -> Option<Self> {
        let rules: Arc<[SessionRule]> =
            self.rules.iter().filter(|rule| rule.made_at != *made_at).cloned().collect();
        (rules.len() < self.rules.len()).then_some(Self { rules })
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules.
    pub fn lines(&self) -> impl Iterator<Item = &RuleLine> {
        self.rules.iter().map(|rule| &rule.line)
    }
}

impl Gate {
    /// The rules that override a new rule of the operator for some of its calls: stricter rules of the operator, and
    /// all rules that block its tool. Rules of workers and toolsets are not included.
    pub fn stricter<'a>(
        &'a self,
        session: impl Iterator<Item = &'a RuleLine>,
        new: &RuleLine,
    ) -> Vec<&'a RuleLine> {
        let tool = [new.pattern.tool()];
        let own = self.operator.iter().chain(session).filter(|line| {
            let exempt = line.rule == Rule::Ask && new.rule == Rule::PreApproved && new.is_narrow();
            line.rule > new.rule && (!exempt || line.is_narrow())
        });
        let files = self.project.lines.iter().chain(&self.user.lines);
        let blocks = files.filter(|line| line.rule == Rule::Blocked && new.rule < Rule::Blocked);
        own.chain(blocks).filter(|line| line.pattern.names_one_of(&tool)).collect()
    }
}

impl From<SessionRules> for Vec<Written> {
    fn from(rules: SessionRules) -> Self {
        let written = |SessionRule { made_at, line }: &SessionRule| Written {
            made_at: made_at.clone(),
            rule: line.rule,
            calls: line.calls().to_string(),
        };
        rules.rules.iter().map(written).collect()
    }
}

impl TryFrom<Vec<Written>> for SessionRules {
    type Error = BadSessionRule;

    fn try_from(written: Vec<Written>) -> Result<Self, BadSessionRule> {
        written.into_iter().try_fold(Self::default(), |rules, Written { made_at, rule, calls }| {
            rules.with(made_at, rule, &calls)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call_path::CallPath, step_name::StepName};

    fn at(number: u32) -> QuestionId {
        QuestionId::new(&CallPath::root(), &StepName::Message(number))
    }

    fn made(rules: &[(Rule, &str)]) -> SessionRules {
        (1..).zip(rules).fold(SessionRules::default(), |made, (number, (rule, calls))| {
            made.with(at(number), *rule, calls).unwrap()
        })
    }

    #[test]
    fn rules_are_the_same_as_data() {
        let rules = made(&[(Rule::PreApproved, "write_file(out/**)"), (Rule::Blocked, "t where a in [1,2]")]);
        let json = serde_json::to_string(&rules).unwrap();
        assert_eq!(serde_json::from_str::<SessionRules>(&json).unwrap(), rules);
        let left = rules.without(&at(1)).unwrap();
        assert_eq!(
            left.lines().map(|line| line.calls().to_string()).collect::<Vec<_>>(),
            ["t where a in [1,2]"]
        );
        assert_eq!(left.without(&at(1)), None);
    }

    #[test]
    fn sets_that_are_read_at_the_start_of_a_run_are_refused() {
        for calls in ["t where a in @list.json#/*", "t where a in {\"tool\": \"list\"}"] {
            let refused = RuleLine::of_session(Rule::PreApproved, calls).unwrap_err();
            assert!(matches!(refused, BadSessionRule::Set(_)), "{refused}");
        }
    }

    #[test]
    fn stricter_rules_of_the_operator_and_blocks_of_files_are_named() {
        let line = |rule, calls| RuleLine::of_session(rule, calls).unwrap();
        let gate = Gate {
            operator: vec![line(Rule::Ask, "write_file"), line(Rule::Blocked, "write_file(secret/**)")],
            project: super::super::Policy {
                lines: vec![line(Rule::Blocked, "*_file"), line(Rule::Ask, "write_file")],
                ..Default::default()
            },
            ..Gate::default()
        };
        let none = SessionRules::default();
        let of = |rule, calls| -> Vec<String> {
            let new = line(rule, calls);
            gate.stricter(none.lines(), &new).iter().map(|line| line.calls().to_string()).collect()
        };
        assert_eq!(of(Rule::PreApproved, "write_file"), ["write_file", "write_file(secret/**)", "*_file"]);
        assert_eq!(of(Rule::PreApproved, "write_file(out/**)"), ["write_file(secret/**)", "*_file"]);
        assert_eq!(of(Rule::Blocked, "write_file"), Vec::<String>::new());
        assert_eq!(of(Rule::PreApproved, "shell"), Vec::<String>::new());
    }
}
