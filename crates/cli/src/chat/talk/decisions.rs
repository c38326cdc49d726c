//! What the user has decided for the rest of the chat: rules, and answers that are remembered.

use llm_do_core::{
    call_path::CallPath,
    gate::RuleLine,
    journal::{Ending, Record, RecordKind},
    model::Purpose,
    question::{Answer, QuestionId},
    step_name::StepName,
};
use std::collections::HashMap;

/// The decisions that hold, oldest first, as the records say.
#[derive(Default)]
pub(super) struct Decisions {
    list: Vec<Decision>,
    /// How many there were, so that a number is given once.
    count: usize,
    turns: HashMap<CallPath, Turns>,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Decision {
    /// Its number for the user.
    pub(super) number: usize,
    /// The question that was answered with it.
    pub(super) of: QuestionId,
    pub(super) what: What,
}

/// What was decided.
#[derive(Clone)]
pub(super) enum What {
    Rule(RuleLine),
    /// The answer to a call is remembered: the call, on one line.
    Call(String),
}

/// At which turns of a conversation the user's messages were said.
#[derive(Default)]
struct Turns {
    next: u32,
    said: Vec<(u32, u32)>,
}

impl Decisions {
    /// Takes a record. `call` is the line for a call that the record answers a question about.
    pub(super) fn record(&mut self, record: &Record, call: impl FnOnce() -> Option<String>) {
        let path = &record.path;
        match &record.body {
            RecordKind::ModelRequested { turn, .. } if record.step.request() == Some(Purpose::Answer) => {
                self.turns.entry(path.clone()).or_default().next = turn + 1;
            }
            RecordKind::CallEnded { ending, .. } if *ending != Ending::Suspended => {
                // The rules of a conversation end with it.
                self.list.retain(|one| !matches!(one.what, What::Rule(_)) || one.of.call != *path);
            }
            RecordKind::Answered(given) if !given.is_remembered() => {
                let of = QuestionId::new(path, &record.step);
                match &given.answer {
                    Answer::Approve { remember: true } | Answer::Deny { remember: true, .. } => {
                        let verb =
                            if matches!(given.answer, Answer::Approve { .. }) { "allow" } else { "deny" };
                        let line = call().unwrap_or_default();
                        self.add(of, What::Call(format!("{verb:<5}  {line}")));
                    }
                    Answer::Allow { calls } => self.add(of, What::Call(format!("allow  {calls}"))),
                    Answer::Rule { rule, calls } => {
                        // A rule that can't be made is refused by the run, too.
                        if let Ok(line) = RuleLine::of_session(*rule, calls) {
                            self.add(of, What::Rule(line));
                        }
                    }
                    Answer::Forget { of } if of.call.is_within(path) => self.list.retain(|one| one.of != *of),
                    Answer::Give { .. } => {
                        if let StepName::Message(number) = record.step {
                            let turns = self.turns.entry(path.clone()).or_default();
                            turns.said.push((number, turns.next));
                        }
                    }
                    Answer::Undo { message } => self.undone(path, *message),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, of: QuestionId, what: What) {
        self.count += 1;
        self.list.push(Decision { number: self.count, of, what });
    }

    /// The answers that were remembered since that message are forgotten.
    fn undone(&mut self, conversation: &CallPath, message: u32) {
        let turns = self.turns.entry(conversation.clone()).or_default();
        // The first message comes before the first turn.
        let since = turns.said.iter().find(|(number, _)| *number == message).map_or(0, |(_, turn)| *turn);
        let is_since = |of: &QuestionId| of.call.turn_below(conversation).is_some_and(|turn| turn >= since);
        self.list.retain(|one| matches!(one.what, What::Rule(_)) || !is_since(&one.of));
    }

    /// The rules that hold.
    pub(super) fn rules(&self) -> impl Iterator<Item = &RuleLine> {
        self.list.iter().filter_map(|one| match &one.what {
            What::Rule(line) => Some(line),
            What::Call(_) => None,
        })
    }

    /// All of them.
    pub(super) fn list(&self) -> &[Decision] {
        &self.list
    }
}
