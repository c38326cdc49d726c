//! The port to the user's side of a chat: a terminal, or plain lines.

use llm_do::Called;
use llm_do_core::question::{Answer, QuestionId, Waiting};

/// A request of the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    /// Send this message, or execute this command.
    Say(String),
    /// Stop the current answer.
    Stop,
    /// Leave the chat.
    End,
    /// Answer that question.
    Answer(QuestionId, Answer),
    /// Leave that question for later: the run is suspended.
    Later(QuestionId),
    /// Take the last queued message back for editing.
    EditQueued,
}

/// The contents of the status row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The current activity; `None`: the user can speak.
    pub(super) doing: Option<String>,
    /// The worker, its model and its usage.
    pub(super) about: String,
}

/// The user's side of a chat, which shows it and takes input.
pub(super) trait Face {
    /// Shows a message that the user has typed and that has been sent.
    fn user(&mut self, text: &str);
    /// Shows a command that the user has typed.
    fn command(&mut self, line: &str);
    /// Shows an earlier message of the user.
    fn said(&mut self, text: &str);
    /// Shows more of that worker's current answer.
    fn delta(&mut self, worker: &str, text: &str);
    /// Discards the shown part of the current answer, which does not count.
    fn discard(&mut self);
    /// Shows a complete answer, as far as the deltas have not shown it.
    fn answer(&mut self, worker: &str, text: &str, cut_off: bool);
    /// Shows a value that a worker has returned, as JSON.
    fn output(&mut self, worker: &str, json: &str);
    /// Shows a call that has ended, on one line.
    fn call(&mut self, called: &Called);
    /// Shows a note.
    fn note(&mut self, text: &str);
    /// Shows a problem.
    fn problem(&mut self, text: &str);
    /// Shows several lines of information.
    fn page(&mut self, text: &str);
    /// Shows a question other than the one for the next message.
    fn ask(&mut self, waiting: &Waiting);
    /// Removes a question that needs no answer any more.
    fn withdraw(&mut self, id: &QuestionId);
    /// Shows the new state.
    fn status(&mut self, status: &Status);
    /// Marks the end of an update: a face with a prompt shows it again.
    fn settle(&mut self) {}
    /// Shows the waiting messages.
    fn queue(&mut self, queue: Vec<String>);
    /// Offers a text for editing.
    fn compose(&mut self, text: &str);
    /// Puts a text into the clipboard. Returns false if this is not possible here.
    fn copy(&mut self, text: &str) -> bool;
    /// Notifies the user, if the window has no focus.
    fn notify(&mut self, text: &str);
    /// Takes an event of the terminal.
    fn event(&mut self, event: llm_do_terminal::Event) -> Option<Wish>;
    /// Takes a line; `None`: there are no more.
    fn line(&mut self, line: Option<String>) -> Option<Wish>;
    /// Returns true if the chat is over when there are no more lines and the last answer is complete.
    fn is_piped(&self) -> bool;
    /// Restores the terminal.
    fn leave(&mut self);
}
