//! The user's messages of a conversation, after the first (`docs/reference/conversations.md`).

use super::{Conversation, Phase, PlannedCall};
use crate::{
    model::{Part, Role, ToolResult},
    origin::{Content, Trail},
    question::Answer,
    results::{first_page, show},
};
use serde_json::Value;
use std::sync::Arc;

/// A message that ends a conversation which owes its caller a result.
const CLOSE: &str = "The user has ended this conversation. Give its result to your caller now.";

/// The result of a call that was planned but not made when its answer ended.
const NOT_MADE: &str = "This call was not made, because the answer that it belongs to has ended.";

/// The last words of the model to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The text; empty if the model has said nothing since the user's last message.
    pub text: Arc<str>,
    /// True if the text was cut off: by the user, at `max_tokens`, or by a failure.
    pub cut_off: bool,
}

/// A mark before the user's words during the model's work.
const MEANWHILE: &str = "The user said this while you were working:";

/// A part that joins the user's next message.
#[derive(Clone, Debug, PartialEq)]
pub struct Joining {
    /// The number of the user's answer that chose it.
    pub number: u32,
    /// The part that the model receives.
    pub part: Part,
    /// The content that the conversation receives with it.
    pub content: Content,
    /// The user's words within the call, if the part is the result of one.
    pub said: Vec<Content>,
    /// The size of the file in bytes, if the part is a file.
    pub bytes: Option<u64>,
}

/// The consequence of the user's message or action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The model answers.
    Message,
    /// The user speaks again: the answer concerns the next message.
    Aside,
    /// The user speaks again, at an earlier place.
    Undone {
        /// The first turn that was undone; `None` if none was.
        since: Option<u32>,
    },
    /// The conversation is to be compacted; then the user speaks again.
    Compact,
    /// No compaction could be undone. The user speaks again.
    NotCompacted,
    /// The conversation is over.
    End,
}

/// A message of the user, and the state before it.
#[derive(Debug, Default)]
pub(super) struct UserMessage {
    /// The number of the message. The first message of a conversation is number 0.
    number: u32,
    /// Number of messages before it in the history.
    pub(super) at: usize,
    /// Number of turns before it.
    turn: u32,
    /// The contents that the conversation had received before it.
    pub(super) trail: Trail,
    /// The parts that joined it.
    joined: Vec<Joining>,
}

impl Conversation {
    /// Number of turns since the user's last message.
    pub(super) fn turns_of_answer(&self) -> u32 {
        self.turn - self.user.last().map_or(0, |message| message.turn).min(self.turn)
    }

    /// The model's text since the user's last message.
    pub(super) fn said_by_model(&self, cut_off: bool) -> Said {
        let since = self.user.last().map_or(0, |message| message.at);
        let own = self.history[since..].iter().filter(|message| message.role == Role::Assistant);
        let text = own.map(|message| message.said()).rfind(|text| !text.trim().is_empty());
        Said { text: text.unwrap_or_default().into(), cut_off }
    }

    /// Ends the answer under way, if there is one, so that the user can speak. Each planned call gets an answer that it
    /// was not made, because providers refuse a history without an answer to each call.
    pub fn listen(&mut self) -> Said {
        if let Phase::Listening(said) = &self.phase {
            return said.clone();
        }
        let calls = match &self.phase {
            Phase::Calls(planned) => planned.clone(),
            Phase::Judged(_, Some(call)) => vec![PlannedCall::Answered(not_made(call))],
            _ => Vec::new(),
        };
        if !calls.is_empty() {
            let results = calls.into_iter().map(|planned| match planned {
                PlannedCall::Make { call, .. } => not_made(&call),
                PlannedCall::Answered(result) => result,
            });
            let message = self.next_message(Role::Tool, results.map(Part::Result).collect());
            self.push(message);
        }
        let said = self.said_by_model(true);
        self.phase = Phase::Listening(said.clone());
        said
    }

    /// Takes an answer of the user at that place of the conversation. Answers to other kinds of questions change
    /// nothing. The results of [`Answer::Attach`] and [`Answer::Run`] are passed to `joins` and `ran`.
    pub fn heard(&mut self, number: u32, answer: &Answer) -> Heard {
        match answer {
            Answer::Give { value } => {
                let joining = std::mem::take(&mut self.joining);
                self.said(number, Part::text(show(value)), joining, Some(value));
                Heard::Message
            }
            Answer::Attach { .. }
            | Answer::Forget { .. }
            | Answer::Model { .. }
            | Answer::Rule { .. }
            | Answer::Run { .. } => Heard::Aside,
            Answer::Detach { message } => {
                self.joining.retain(|joining| joining.number != *message);
                Heard::Aside
            }
            Answer::Keep { message } => {
                self.keep(number, *message);
                Heard::Aside
            }
            Answer::Undo { message } => Heard::Undone { since: self.undo(*message) },
            Answer::Compact { .. } => Heard::Compact,
            Answer::UndoCompaction if self.undo_compaction() => Heard::Undone { since: None },
            Answer::UndoCompaction => Heard::NotCompacted,
            _ if self.close(number) => Heard::Message,
            _ => Heard::End,
        }
    }

    /// Adds a part to the user's next message.
    pub(crate) fn joins(&mut self, joining: Joining) {
        self.joining.push(joining);
    }

    /// The parts that join the user's next message, in the order in which the user chose them.
    pub(crate) fn joining(&self) -> &[Joining] {
        &self.joining
    }

    /// Takes the result of a call that the user has made with the message of that number.
    pub(crate) fn ran(&mut self, number: u32, result: Content, said: Vec<Content>) {
        self.ran.insert(number, (result, said));
    }

    /// Adds the result of the call of that message to the next one.
    fn keep(&mut self, number: u32, message: u32) {
        let Some((content, said)) = self.ran.get(&message).cloned() else { return };
        let name = format!("result of {}", content.function).into();
        let part = Part::Attachment { name, text: first_page(&show(&content.value), None).into() };
        self.joining.push(Joining { number, part, content, said, bytes: None });
    }

    /// Takes the user's words during an answer, before the next request.
    pub fn said_meanwhile(&mut self, value: &Arc<Value>) {
        self.received_words(value);
        let text = format!("{MEANWHILE}\n{}", show(value));
        let message = self.next_message(Role::User, vec![Part::text(text)]);
        self.push(message);
    }

    /// Takes the user's next message, with the parts that join it. `words` are the user's own words, if the user wrote
    /// the message and not llm-do. The limits of an answer start from zero.
    fn said(&mut self, number: u32, text: Part, joined: Vec<Joining>, words: Option<&Arc<Value>>) {
        self.listen();
        let (at, turn, trail) = (self.history.len(), self.turn, self.trail.clone());
        let joins = joined.iter().map(|joining| joining.part.clone());
        let message = self.next_message(Role::User, std::iter::once(text).chain(joins).collect());
        if let Some(words) = words {
            self.received_words(words);
        }
        for Joining { content, said, .. } in &joined {
            self.received(said.iter().chain([content]).cloned());
        }
        self.user.push(UserMessage { number, at, turn, trail, joined });
        self.push(message);
        self.invalid_outputs = 0;
        self.summary_failed = false;
        self.repeats.clear();
        self.phase = Phase::Ask;
    }

    /// Ends the conversation. Returns true if the model is asked for the result once more, which its caller waits for,
    /// and false if nothing is left to do.
    fn close(&mut self, number: u32) -> bool {
        let asks = self.setup.output.uses_final_tool() && !self.closing;
        if asks {
            self.said(number, Part::text(CLOSE), Vec::new(), None);
            self.closing = true;
        }
        asks
    }

    /// Returns true if the user has ended the conversation.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns to the state before the user's message of that number. Returns the first turn after it; `None` if the
    /// history has no such message.
    fn undo(&mut self, number: u32) -> Option<u32> {
        let position = self.user.iter().position(|message| message.number == number)?;
        let UserMessage { at, trail, turn, joined, .. } = self.user.swap_remove(position);
        // The message may be said again, with what had joined it.
        self.joining.splice(0..0, joined);
        self.user.truncate(position);
        self.history.truncate(at);
        self.trail = trail;
        self.send_again();
        self.repeats.clear();
        self.phase = Phase::Listening(self.said_by_model(false));
        Some(turn)
    }
}

fn not_made(call: &crate::model::ToolCall) -> ToolResult {
    ToolResult {
        call_id: Arc::clone(&call.id),
        name: Arc::clone(&call.name),
        content: NOT_MADE.into(),
        is_error: true,
    }
}
