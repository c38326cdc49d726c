//! Counts of a run's requests, calls and notices, for its summary.

use crate::{
    journal::RecordKind,
    model::Usage,
    outcome::{Ending, FailureKind},
    rule::Rule,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The totals of a run's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that a rule, the operator or authority refused.
    pub refused: u32,
    /// Limits that were reached.
    pub limits: u32,
    /// Model requests that were sent.
    pub sent: u32,
    /// Model requests that were answered.
    pub requests: u32,
    /// Tools that ran.
    pub tools: u32,
    /// Executions of tools that failed.
    pub failed_tools: u32,
    /// Calls of tools that were not offered.
    pub unoffered: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// Notices for the operator, in order.
    pub notes: Vec<Arc<str>>,
}

impl Counts {
    /// The counts of these records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a RecordKind>) -> Self {
        let mut counts = Self::default();
        for record in records {
            counts.add(record);
        }
        counts
    }

    /// Adds one record.
    pub fn add(&mut self, record: &RecordKind) {
        match record {
            RecordKind::Verdict { rule: Rule::Blocked, .. } => self.refused += 1,
            RecordKind::CallEnded { ending: Ending::Failure(failure), .. }
                if failure.kind == FailureKind::Authority =>
            {
                self.refused += 1;
            }
            RecordKind::Limit { .. } => self.limits += 1,
            RecordKind::ToolStarted { .. } => self.tools += 1,
            RecordKind::ToolEnded { ending: Ending::Failure(_), .. } => self.failed_tools += 1,
            RecordKind::ModelRequested { .. } => self.sent += 1,
            RecordKind::ModelAnswered { usage, unoffered, unknown_finish, .. } => {
                self.requests += 1;
                self.usage = self.usage.plus(*usage);
                self.unoffered =
                    self.unoffered.saturating_add(u32::try_from(unoffered.len()).unwrap_or(u32::MAX));
                self.notes.extend(unknown_finish.as_deref().map(unknown_finish_note));
            }
            RecordKind::ModelChosen { model, .. } => {
                self.notes.push(format!("{model} answers from here on").into());
            }
            RecordKind::Note { text } => self.notes.push(Arc::clone(text)),
            _ => {}
        }
    }
}

/// The note for a provider that has ended an answer for a reason that llm-do does not know.
pub fn unknown_finish_note(word: &str) -> Arc<str> {
    let word: String = word.chars().take(80).collect();
    format!("the provider ended an answer with the reason `{word}`, which llm-do does not know; the answer counts as whole")
        .into()
}

/// Counts that a driver's host and a launch share.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

impl Tally {
    /// Adds one record.
    pub fn add(&self, record: &RecordKind) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(record);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;
    use crate::rule::DecidedBy;

    #[test]
    fn a_refusal_by_authority_counts_like_one_by_a_rule() {
        let verdict = |rule| RecordKind::Verdict { rule, by: DecidedBy::Start, reason: None };
        let ended = |kind| RecordKind::CallEnded {
            ending: Ending::Failure(Failure::new(kind, "no")),
            usage: Usage::default(),
            blobs: Vec::new(),
            origins: Default::default(),
            said: Box::default(),
        };
        let used = |tokens| RecordKind::ModelAnswered {
            message: crate::conversation::Conversation::first_message(Vec::new()),
            finish: crate::model::FinishReason::Stop,
            usage: Usage { output_tokens: Some(tokens), ..Usage::default() },
            unknown_finish: None,
            unoffered: Vec::new(),
        };
        let counts = Counts::of(&[
            verdict(Rule::Blocked),
            verdict(Rule::PreApproved),
            ended(FailureKind::Authority),
            ended(FailureKind::Tool),
            RecordKind::Note { text: "first".into() },
            RecordKind::Note { text: "second".into() },
            used(3),
            used(4),
        ]);
        assert_eq!((counts.refused, counts.requests, counts.sent), (2, 2, 0));
        assert_eq!(counts.usage.output_tokens, Some(7));
        assert_eq!(counts.notes, ["first".into(), "second".into()]);
    }
}
