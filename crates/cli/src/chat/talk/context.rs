//! Use of the model's context by the conversation, and compactions.

use super::Talk;
use llm_do_core::{
    conversation::Compaction,
    question::{Answer, ContextUse},
};
use llm_do_records::{compacted, thousands};

/// Percentage of the limit from which the user is warned.
const WARNED: u64 = 80;

/// Use of the context by the conversation that waits for the user, or waited last.
#[derive(Default)]
pub(super) struct Context {
    used: Option<ContextUse>,
    warned: bool,
    /// True if the user has asked for a change. Its result is shown when the conversation waits again.
    asked: bool,
    /// The message to show when that change is made.
    changed: Option<&'static str>,
}

impl Context {
    /// Formats the use for the status row: `12k/200k`; without a known limit `12k`.
    pub(super) fn short(&self) -> Option<String> {
        let ContextUse { tokens, limit } = self.used?;
        let limit = limit.map(|limit| format!("/{}", kilo(limit))).unwrap_or_default();
        Some(format!("{}{limit}", kilo(tokens)))
    }
}

impl Talk<'_> {
    /// Takes the size of the next request. `done`: the last change that the user asked for was made.
    pub(super) fn takes(&mut self, used: Option<ContextUse>, done: bool) {
        if let Some(changed) = self.context.changed.take().filter(|_| done) {
            self.face.note(changed);
        }
        (self.context.used, self.context.asked) = (used, false);
        let Some(ContextUse { tokens, limit: Some(limit) }) = used else { return };
        let share = tokens.saturating_mul(100) / limit.max(1);
        if share >= WARNED && !self.context.warned {
            self.face.note(&format!(
                "the conversation takes {share} % of its context, {} of {} tokens: older turns will be compacted; /compact \
                 does it now",
                thousands(tokens),
                thousands(limit)
            ));
        }
        self.context.warned = share >= WARNED;
    }

    /// Shows a compaction.
    pub(super) fn compacted(&mut self, compaction: &Compaction) {
        if let (Some(used), true) = (&mut self.context.used, compaction.has_effect()) {
            used.tokens = compaction.after;
        }
        if compaction.has_effect() || !self.context.asked {
            self.face.note(&compacted(compaction));
        }
    }

    /// Answers the conversation that waits for the user with a change of the messages that the model gets.
    pub(super) fn change(&mut self, answer: Answer, changed: Option<&'static str>) {
        if self.give(answer) {
            (self.context.asked, self.context.changed) = (true, changed);
        }
    }

    /// Returns a line about the context for `/cost`.
    pub(super) fn context_line(&self) -> Option<String> {
        let ContextUse { tokens, limit } = self.context.used?;
        Some(match limit {
            Some(limit) => format!("context  {} of {} tokens", thousands(tokens), thousands(limit)),
            None => format!("context  {} tokens; the model's limit is not known", thousands(tokens)),
        })
    }
}

/// Formats a number as `999`, `12k` or `1.2M`.
fn kilo(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..999_500 => format!("{}k", (tokens + 500) / 1_000),
        _ => {
            let tenths = (tokens + 50_000) / 100_000;
            format!("{}.{}M", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_row_is_short() {
        let of = |tokens, limit| Context { used: Some(ContextUse { tokens, limit }), ..Context::default() };
        assert_eq!(of(12_000, Some(200_000)).short().as_deref(), Some("12k/200k"));
        assert_eq!(of(999, Some(1_048_576)).short().as_deref(), Some("999/1.0M"));
        assert_eq!(of(999_499, Some(999_500)).short().as_deref(), Some("999k/1.0M"));
        assert_eq!(of(1_600, None).short().as_deref(), Some("2k"));
    }
}
