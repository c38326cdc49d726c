//! The port to what the user looks at: a terminal, or plain lines.

use llm_do::Called;
use llm_do_core::question::{Answer, QuestionId, Waiting};
use std::collections::VecDeque;

/// What the user wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    /// Say or do this.
    Say(String),
    /// Stop the answer under way.
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

/// What stands in the status row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// What is being done; `None`: the user can speak.
    pub(super) doing: Option<String>,
    /// The worker, its model and what was used.
    pub(super) about: String,
}

/// What the user looks at, and types into.
pub(super) trait Face {
    /// A message that the user has typed and that has been sent.
    fn user(&mut self, text: &str);
    /// A command that the user has typed.
    fn command(&mut self, line: &str);
    /// A message that the user said earlier.
    fn said(&mut self, text: &str);
    /// More of an answer under way, of that worker.
    fn delta(&mut self, worker: &str, text: &str);
    /// What came of the answer under way does not count.
    fn discard(&mut self);
    /// A complete answer. The face shows what the deltas have not shown.
    fn answer(&mut self, worker: &str, text: &str, cut_off: bool);
    /// A value that a worker has returned, as JSON.
    fn output(&mut self, worker: &str, json: &str);
    /// A call that has ended, on one line.
    fn call(&mut self, called: &Called);
    /// Something worth knowing.
    fn note(&mut self, text: &str);
    /// Something is wrong.
    fn problem(&mut self, text: &str);
    /// Several lines of information.
    fn page(&mut self, text: &str);
    /// A question other than that for the next message.
    fn ask(&mut self, waiting: &Waiting);
    /// A question needs no answer any more.
    fn withdraw(&mut self, id: &QuestionId);
    /// The state has changed.
    fn status(&mut self, status: &Status);
    /// Nothing more is shown until something happens: a face with a prompt shows it again.
    fn settle(&mut self) {}
    /// The messages that wait.
    fn queue(&mut self, queue: &VecDeque<String>);
    /// Offers a text for editing.
    fn compose(&mut self, text: &str);
    /// Puts a text into the clipboard. `false`: that is not possible here.
    fn copy(&mut self, text: &str) -> bool;
    /// The user should look: notifies where the window has no focus.
    fn notify(&mut self, text: &str);
    /// Takes an event of the terminal.
    fn event(&mut self, event: llm_do_terminal::Event) -> Option<Wish>;
    /// Takes a line; `None`: there are no more.
    fn line(&mut self, line: Option<String>) -> Option<Wish>;
    /// Whether the chat is over when there are no more lines and the last answer is complete.
    fn is_piped(&self) -> bool;
    /// Puts the terminal back in order.
    fn leave(&mut self);
}
