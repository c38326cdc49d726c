//! Decisions of the user for the rest of the chat: rules, and remembered answers.

use llm_do_core::{
    gate::RuleLine,
    journal::{Ending, Record, RecordKind},
    question::{Answer, QuestionId},
};
use llm_do_records::RunView;

/// The valid decisions, oldest first, as the records say.
#[derive(Default)]
pub(super) struct Decisions {
    list: Vec<Decision>,
    /// The number of decisions so far, so that each number is used once.
    count: usize,
}

/// A decision.
#[derive(Clone)]
pub(super) struct Decision {
    /// The number of the decision, as shown to the user.
    pub(super) number: usize,
    /// The question that was answered with it.
    pub(super) of: QuestionId,
    /// The record of the answer.
    seq: u64,
    pub(super) what: What,
}

/// The content of a decision.
#[derive(Clone)]
pub(super) enum What {
    Rule(RuleLine),
    /// A remembered answer to a call: the call, on one line.
    Call(String),
}

impl Decisions {
    /// Takes a record that the view of the run already has. `call` returns the line for a call that the record answers
    /// a question about.
    pub(super) fn record(&mut self, record: &Record, view: &RunView, call: impl FnOnce() -> Option<String>) {
        let path = &record.path;
        match &record.body {
            RecordKind::CallEnded { ending, .. } if *ending != Ending::Suspended => {
                // The rules of a conversation end with it.
                self.list.retain(|one| !matches!(one.what, What::Rule(_)) || one.of.call != *path);
            }
            RecordKind::Answered(given) if !given.is_remembered() => {
                let of = QuestionId::new(path, &record.step);
                let seq = record.seq;
                match &given.answer {
                    Answer::Approve { remember: true } | Answer::Deny { remember: true, .. } => {
                        let verb =
                            if matches!(given.answer, Answer::Approve { .. }) { "allow" } else { "deny" };
                        let line = call().unwrap_or_default();
                        self.add(of, seq, What::Call(format!("{verb:<5}  {line}")));
                    }
                    Answer::Allow { calls } => self.add(of, seq, What::Call(format!("allow  {calls}"))),
                    Answer::Rule { rule, calls } => {
                        // A rule that can't be made is refused by the run, too.
                        if let Ok(line) = RuleLine::of_session(*rule, calls) {
                            self.add(of, seq, What::Rule(line));
                        }
                    }
                    Answer::Forget { of } if of.call.is_within(path) => self.list.retain(|one| one.of != *of),
                    // The answers that were remembered since that message are forgotten.
                    Answer::Undo { .. } => self.list.retain(|one| {
                        let in_turn = one.of.call.turn_below(path).is_some();
                        matches!(one.what, What::Rule(_)) || !in_turn || !view.is_undone(path, one.seq)
                    }),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, of: QuestionId, seq: u64, what: What) {
        self.count += 1;
        self.list.push(Decision { number: self.count, of, seq, what });
    }

    /// Returns the valid rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = &RuleLine> {
        self.list.iter().filter_map(|one| match &one.what {
            What::Rule(line) => Some(line),
            What::Call(_) => None,
        })
    }

    /// Returns all valid decisions.
    pub(super) fn list(&self) -> &[Decision] {
        &self.list
    }
}
