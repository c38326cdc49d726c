//! The user's messages of a conversation, after the first (`docs/reference/conversations.md`).

use super::{Conversation, PlannedCall, State};
use crate::{
    model::{Part, Role, ToolResult},
    origin::Trail,
    question::Answer,
    results::show,
};
use std::sync::Arc;

/// Ends a conversation that owes its caller a result.
const CLOSE: &str = "The user has ended this conversation. Give its result to your caller now.";

/// The result of a call that was planned when its answer ended.
const NOT_MADE: &str = "This call was not made, because the answer that it belongs to has ended.";

/// The last words of the model to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its text; empty if it has said nothing since the user's last message.
    pub text: Arc<str>,
    /// Whether the text was cut off: by the user, at `max_tokens`, or by a failure.
    pub cut_off: bool,
}

/// What follows from what the user said or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The model answers.
    Message,
    /// The user is listened to again.
    Undone {
        /// The first turn that was taken back; `None` if there is no such message.
        since: Option<u32>,
    },
    /// The conversation is over.
    End,
}

/// One message of the user, and the state before it.
#[derive(Debug, Default)]
pub(super) struct UserMessage {
    /// Its number. The first message of a conversation is number 0.
    number: u32,
    /// The messages before it.
    at: usize,
    /// The turns before it.
    turn: u32,
    /// The contents that the conversation had received before it.
    pub(super) trail: Trail,
}

impl Conversation {
    /// The turns since the user's last message.
    pub(super) fn turns_of_answer(&self) -> u32 {
        self.turn - self.user.last().map_or(0, |message| message.turn).min(self.turn)
    }

    /// What the model has said since the user's last message.
    pub(super) fn said_by_model(&self, cut_off: bool) -> Said {
        let since = self.user.last().map_or(0, |message| message.at);
        let own = self.messages[since..].iter().filter(|message| message.role == Role::Assistant);
        let text =
            own.map(|message| message.text()).rfind(|text| !text.trim().is_empty() && text != super::EMPTY);
        Said { text: text.unwrap_or_default().into(), cut_off }
    }

    /// Ends the answer under way, if there is one, so that the user can speak: a planned call that was not made is answered
    /// as such, because providers refuse a history without an answer to each call.
    pub fn listen(&mut self) -> Said {
        if let State::Listening(said) = &self.state {
            return said.clone();
        }
        let calls = match &self.state {
            State::Calls(planned) => planned.clone(),
            State::Judged(_, Some(call)) => vec![PlannedCall::Answered(not_made(call))],
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
        self.state = State::Listening(said.clone());
        said
    }

    /// Takes what the user says or does at that place of the conversation. Other answers than those to a conversation
    /// change nothing.
    pub fn heard(&mut self, number: u32, answer: &Answer) -> Heard {
        match answer {
            Answer::Give { value } => {
                self.said(number, vec![Part::text(show(value))]);
                Heard::Message
            }
            Answer::Undo { message } => Heard::Undone { since: self.undo(*message) },
            _ if self.close(number) => Heard::Message,
            _ => Heard::End,
        }
    }

    /// Takes the user's next message. The limits of an answer begin anew.
    fn said(&mut self, number: u32, parts: Vec<Part>) {
        self.listen();
        let (at, turn, trail) = (self.messages.len(), self.turn, self.trail.clone());
        self.user.push(UserMessage { number, at, turn, trail });
        let message = self.next_message(Role::User, parts);
        self.push(message);
        self.invalid_outputs = 0;
        self.repeats.clear();
        self.state = State::Ask;
    }

    /// Ends the conversation. `true`: the model is asked for the result once more, which its
    /// caller waits for. `false`: nothing is left to do.
    fn close(&mut self, number: u32) -> bool {
        let asks = self.setup.output.uses_final_tool() && !self.closing;
        if asks {
            self.said(number, vec![Part::text(CLOSE)]);
            self.closing = true;
        }
        asks
    }

    /// Whether the user has ended it.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Goes back to before the user's message of that number. Returns the first turn after it; `None`: the history has no
    /// such message.
    fn undo(&mut self, number: u32) -> Option<u32> {
        let position = self.user.iter().position(|message| message.number == number)?;
        let UserMessage { at, trail, turn, .. } = self.user.swap_remove(position);
        self.user.truncate(position);
        let kept: Vec<_> = self.messages.drain(..).take(at).collect();
        (self.digest, self.tokens, self.trail) = ("".into(), 0, trail);
        kept.into_iter().for_each(|message| self.push(message));
        self.repeats.clear();
        self.state = State::Listening(self.said_by_model(false));
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
