//! Signals that other threads send to the main loop of a chat.

use llm_do::Report;
use llm_do_core::{
    event::Event,
    operator::{Operator, Recall},
    question::{QuestionId, Reply, Waiting},
    send::BoxFuture,
};
use llm_do_runs::EventSink;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// A signal to the main loop.
pub(super) enum Signal {
    /// An event of the run.
    Event(Event),
    /// The run asks the user something. A reply that is dropped suspends the run.
    Asked(Box<Waiting>, oneshot::Sender<Reply>),
    /// A question needs no answer any more.
    Withdrawn(QuestionId),
    /// The run has ended.
    Ended(Box<Report>),
    /// An event of the terminal.
    Terminal(llm_do_terminal::Event),
    /// A line was typed, or piped. `None`: there are no more.
    Line(Option<String>),
    /// Ctrl-C that came as a signal.
    Interrupt,
    /// A request to end the process.
    Terminate,
}

/// A listener that passes events of the run to the main loop.
pub(super) struct Events(pub(super) Sender<Signal>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        // A main loop that has ended listens no more.
        let _ = self.0.send(Signal::Event(event));
    }

    fn wants_deltas(&self) -> bool {
        true
    }
}

/// An operator that passes questions of the run to the main loop.
pub(super) struct Asking(pub(super) Sender<Signal>);

impl Operator for Asking {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let mut asked = OpenQuestion { to: &self.0, id: Some(waiting.id.clone()) };
            if self.0.send(Signal::Asked(Box::new(waiting.clone()), answer)).is_err() {
                return Reply::Later;
            }
            let reply = answered.await.unwrap_or(Reply::Later);
            asked.id = None;
            reply
        })
    }
}

/// An open question. It is withdrawn if it is dropped before its answer.
struct OpenQuestion<'a> {
    to: &'a Sender<Signal>,
    id: Option<QuestionId>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.to.send(Signal::Withdrawn(id));
        }
    }
}
