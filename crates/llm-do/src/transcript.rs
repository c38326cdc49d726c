//! The messages of the user and the answers of the worker in one conversation, read from the records.

use llm_do_core::{
    journal::{Record, RecordKind},
    model::{Part, Purpose},
    question::{Answer, Given},
    results::show,
    step_name::StepName,
};
use std::fmt::Write as _;

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The user's message with its number, and what joined it.
    User(u32, String, Vec<Joined>),
    /// What the worker has said, and whether it was cut off.
    Worker(String, bool),
}

/// A file or a result that joins a message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number of the user's answer that chose it.
    pub number: u32,
    /// As the user reads it.
    pub name: String,
    /// The path of the file as the user named it, if it is one.
    pub path: Option<String>,
}

/// The name of a file that the model gets.
pub fn attached_name(part: &Part) -> &str {
    match part {
        Part::Attachment { name, .. } => name,
        Part::Blob(blob) => &blob.name,
        _ => "a file",
    }
}

/// A conversation up to its head: what was undone is not in it.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    parts: Vec<Said>,
    joining: Vec<Joined>,
    /// The calls that the user has made: the number of the message, and the worker.
    ran: Vec<(u32, String)>,
    /// The file that is being attached.
    attaching: Option<String>,
}

impl Transcript {
    /// Takes a record of the conversation's call.
    pub fn record(&mut self, record: &Record) {
        match &record.body {
            RecordKind::ConversationStarted { message, .. } => {
                self.parts.push(Said::User(0, message.text(), Vec::new()));
            }
            RecordKind::Attached { part, .. } => {
                let StepName::Attach(number) = record.step else { return };
                let name = attached_name(part).to_owned();
                self.joining.push(Joined { number, name, path: self.attaching.take() });
            }
            RecordKind::ModelAnswered { message, finish, .. }
                if record.step.request() == Some(Purpose::Answer) =>
            {
                let text = message.text();
                if !text.trim().is_empty() {
                    let cut_off = *finish == llm_do_core::model::FinishReason::Stopped;
                    self.parts.push(Said::Worker(text, cut_off));
                }
            }
            RecordKind::Answered(Given { answer, .. }) => {
                let StepName::Message(number) = record.step else { return };
                match answer {
                    Answer::Attach { file } => self.attaching = Some(file.to_string()),
                    Answer::Detach { message } => self.joining.retain(|joined| joined.number != *message),
                    Answer::Give { value } => {
                        let joined = std::mem::take(&mut self.joining);
                        self.parts.push(Said::User(number, show(value), joined));
                    }
                    Answer::Keep { message } => {
                        let name = self.ran.iter().find(|(ran, _)| ran == message).map(|(_, name)| name);
                        let name = format!("result of {}", name.map_or("a call", |name| name));
                        self.joining.push(Joined { number, name, path: None });
                    }
                    Answer::Run { worker, .. } => self.ran.push((number, worker.to_string())),
                    Answer::Undo { message } => self.undo(*message),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn undo(&mut self, number: u32) {
        let at = self.parts.iter().position(|part| matches!(part, Said::User(n, ..) if *n == number));
        let Some(at) = at else { return };
        if let Said::User(_, _, joined) = &mut self.parts[at] {
            self.joining.splice(0..0, std::mem::take(joined));
        }
        self.parts.truncate(at);
    }

    /// What joins the user's next message.
    pub fn joining(&self) -> &[Joined] {
        &self.joining
    }

    /// The number of the user's last call of a worker.
    pub fn last_result(&self) -> Option<u32> {
        self.ran.last().map(|(number, _)| *number)
    }

    /// What was said, oldest first.
    pub fn parts(&self) -> &[Said] {
        &self.parts
    }

    /// The user's last message, with its number.
    pub fn last_message(&self) -> Option<(u32, &str)> {
        self.parts.iter().rev().find_map(|part| match part {
            Said::User(number, text, _) => Some((*number, text.as_str())),
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
                Said::User(_, said, joined) => {
                    let names = joined.iter().map(|joined| format!("\n\n*(with {})*", joined.name));
                    ("You", said, names.collect())
                }
                Said::Worker(said, true) => (worker, said, "\n\n*(cut off)*".to_owned()),
                Said::Worker(said, false) => (worker, said, String::new()),
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
        let user = |number, text: &str| Said::User(number, text.into(), Vec::new());
        let worker = |text: &str| Said::Worker(text.into(), false);
        let parts = vec![user(0, "a"), worker("A"), user(1, "b"), worker("B"), user(3, "c")];
        Transcript { parts, ..Transcript::default() }
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
