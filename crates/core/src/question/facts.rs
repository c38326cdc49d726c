//! The facts of a question. Every interface shows all of them, in this order, each in its own form.

use super::{Approval, Input, Preview, Question, Settlement};
use serde_json::Value;

/// A fact of a question. Texts of others in it are unchanged: an interface must escape them for display.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'a> {
    /// A sentence on the reason of the question, or on the effect of an answer.
    Note(String),
    /// Words of others that could steer the call: a sentence on where they came from, and their excerpt.
    Words(String, &'a str),
    /// The question in the words of a worker or a server.
    Prompt(&'a str),
    /// The arguments of the call.
    Arguments(&'a Value),
    /// A change that one of the answers makes: a path, and its content before and after.
    Change(&'a Preview),
    /// The JSON Schema of the answer.
    Schema(&'a Value),
    /// The moment at which the question expires, in milliseconds since 1970.
    Expires(u64),
}

impl Question {
    /// The person who asks and the request, in one line. The facts follow it.
    pub fn subject(&self) -> String {
        match self {
            Self::Approval(Approval { chain, function, risk, .. }) => {
                format!("{} wants to call {function} (risk: {risk})", chain.join(" → "))
            }
            Self::Input(Input { chain, .. }) => format!("{} asks:", chain.join(" → ")),
            Self::Settlement(Settlement { chain, function, risk, .. }) => {
                format!(
                    "{} had called {function} (risk: {risk}) when the run was interrupted",
                    chain.join(" → ")
                )
            }
        }
    }

    /// The facts that the operator has to know before answering.
    pub fn facts(&self) -> Vec<Fact<'_>> {
        let mut facts = match self {
            Self::Approval(approval) => of_approval(approval),
            Self::Input(input) => of_input(input),
            Self::Settlement(settlement) => of_settlement(settlement),
        };
        facts.extend(self.expires_ms().map(Fact::Expires));
        facts
    }
}

fn of_approval(approval: &Approval) -> Vec<Fact<'_>> {
    let mut facts = vec![Fact::Note(format!("Asked because of: {}", approval.rule))];
    if let Some(steering) = &approval.steering {
        facts.extend(steering.said().into_iter().map(|(sentence, excerpt)| Fact::Words(sentence, excerpt)));
        if steering.more > 0 {
            facts.push(Fact::Note(format!("{} more calls brought such words", steering.more)));
        }
    }
    facts.extend(approval.calls.as_ref().map(|bounds| Fact::Note(format!("The code makes {bounds}"))));
    facts.push(Fact::Arguments(&approval.input));
    facts.extend(approval.preview.as_deref().map(Fact::Change));
    facts
}

fn of_input(input: &Input) -> Vec<Fact<'_>> {
    let mut facts = vec![Fact::Prompt(&input.prompt)];
    facts.extend(input.changes.iter().map(Fact::Change));
    facts.extend(input.schema.as_deref().map(Fact::Schema));
    facts
}

fn of_settlement(settlement: &Settlement) -> Vec<Fact<'_>> {
    let note = "The call had begun and not ended, and may have had its effect. Look, then decide.";
    vec![Fact::Note(note.to_owned()), Fact::Arguments(&settlement.input)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{origin::Steering, risk::Risk, rule::DecidedBy};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn an_approval_shows_chain_risk_rule_steering_arguments_change_and_expiry() {
        let steering = Steering { more: 3, ..Steering::default() };
        let preview = Preview::Change { path: "/a".into(), before: None, after: Some("x".into()) };
        let question = Question::Approval(Approval {
            chain: vec!["main".into(), "mailer".into()],
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": "ada"})),
            preview: Some(Box::new(preview.clone())),
            rule: DecidedBy::Default(Risk::Network),
            calls: None,
            steering: Some(Box::new(steering)),
            rules: Vec::new(),
            expires_ms: Some(7),
            arguments: Default::default(),
        });
        let facts = question.facts();
        assert_eq!(question.subject(), "main → mailer wants to call send (risk: network)");
        assert!(matches!(&facts[0], Fact::Note(why) if why.starts_with("Asked because of: ")));
        assert_eq!(facts[1], Fact::Note("3 more calls brought such words".into()));
        assert_eq!(
            facts[2..],
            [Fact::Arguments(&json!({"to": "ada"})), Fact::Change(&preview), Fact::Expires(7)]
        );
    }
}
