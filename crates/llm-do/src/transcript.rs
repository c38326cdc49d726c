//! The messages of the user and the answers of the worker in one conversation, read from the records.

use llm_do_core::{
    journal::{Record, RecordKind},
    question::{Answer, Given},
    results::show,
    step_name::StepName,
};
use std::fmt::Write as _;

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The user's message with its number.
    User(u32, String),
    /// What the worker has said, and whether it was cut off.
    Worker(String, bool),
}

/// A conversation up to its head: what was undone is not in it.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    parts: Vec<Said>,
}

impl Transcript {
    /// Takes a record of the conversation's call.
    pub fn record(&mut self, record: &Record) {
        match &record.body {
            RecordKind::ConversationStarted { message, .. } => self.parts.push(Said::User(0, message.text())),
            RecordKind::ModelAnswered { message, finish, .. } => {
                let text = message.text();
                if !text.trim().is_empty() {
                    let cut_off = *finish == llm_do_core::model::FinishReason::Stopped;
                    self.parts.push(Said::Worker(text, cut_off));
                }
            }
            RecordKind::Answered(Given { answer, .. }) => {
                let StepName::Message(number) = record.step else { return };
                match answer {
                    Answer::Give { value } => self.parts.push(Said::User(number, show(value))),
                    Answer::Undo { message } => self.undo(*message),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn undo(&mut self, number: u32) {
        let at = self.parts.iter().position(|part| matches!(part, Said::User(n, _) if *n == number));
        self.parts.truncate(at.unwrap_or(self.parts.len()));
    }

    /// What was said, oldest first.
    pub fn parts(&self) -> &[Said] {
        &self.parts
    }

    /// The user's last message, with its number.
    pub fn last_message(&self) -> Option<(u32, &str)> {
        self.parts.iter().rev().find_map(|part| match part {
            Said::User(number, text) => Some((*number, text.as_str())),
            Said::Worker(..) => None,
        })
    }

    /// The worker's last words.
    pub fn last_answer(&self) -> Option<&str> {
        self.parts.iter().rev().find_map(|part| match part {
            Said::Worker(text, _) => Some(text.as_str()),
            Said::User(..) => None,
        })
    }

    /// The conversation as Markdown.
    pub fn markdown(&self, worker: &str) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let (who, said, mark) = match part {
                Said::User(_, said) => ("You", said, ""),
                Said::Worker(said, cut_off) => (worker, said, if *cut_off { "\n\n*(cut off)*" } else { "" }),
            };
            // A String takes everything.
            let _ = write!(text, "## {who}\n\n{}{mark}\n\n", said.trim_end());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Transcript {
        let user = |number, text: &str| Said::User(number, text.into());
        let worker = |text: &str| Said::Worker(text.into(), false);
        Transcript { parts: vec![user(0, "a"), worker("A"), user(1, "b"), worker("B"), user(3, "c")] }
    }

    #[test]
    fn an_undone_message_takes_what_follows_with_it() {
        let mut transcript = talk();
        transcript.undo(1);
        assert_eq!(transcript.parts().len(), 2);
        assert_eq!(transcript.last_message(), Some((0, "a")));
        transcript.undo(7);
        assert_eq!(transcript.parts().len(), 2, "there is no such message");
    }

    #[test]
    fn it_is_saved_as_markdown() {
        let mut transcript = talk();
        transcript.parts.truncate(2);
        transcript.parts.push(Said::Worker("half".into(), true));
        assert_eq!(
            transcript.markdown("main"),
            "## You\n\na\n\n## main\n\nA\n\n## main\n\nhalf\n\n*(cut off)*\n\n"
        );
    }
}
