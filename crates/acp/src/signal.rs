//! What the task of a session hears.

use crate::prompt::Prompt;
use agent_client_protocol::{
    Error,
    v1::{
        Responder,
        schema::{
            CreateElicitationResponse, PromptResponse, RequestPermissionResponse, SessionConfigOption,
            SetSessionConfigOptionRequest,
        },
    },
};
use llm_do::{
    Report,
    core::{
        event::Event,
        operator::{Operator, Recall},
        question::{QuestionId, Reply, Waiting},
        send::BoxFuture,
    },
    runs::EventSink,
};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

/// Something that happened.
pub(crate) enum Signal {
    /// The user has said something.
    Prompt(Prompt, Responder<PromptResponse>),
    /// The user has stopped the answer.
    Cancel,
    /// The user has chosen an option.
    Option(SetSessionConfigOptionRequest, oneshot::Sender<Result<Vec<SessionConfigOption>, Error>>),
    /// In the run.
    Event(Box<Event>),
    /// The run asks the user something. A reply that is dropped suspends the run.
    Asked(Box<Waiting>, oneshot::Sender<Reply>),
    /// A question needs no answer any more.
    Withdrawn(QuestionId),
    /// The client's answer to a question that was put to it as a request for permission.
    Permitted(QuestionId, Result<RequestPermissionResponse, Error>),
    /// The client's answer to a question that was put to it as a form.
    Filled(QuestionId, Result<CreateElicitationResponse, Error>),
    /// The run has ended.
    Ended(Box<Report>),
    /// The session is over. What is under way is cut off, and can be resumed.
    Close,
}

/// Passes events of the run on.
pub(crate) struct Events(pub(crate) UnboundedSender<Signal>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        // A session that is over listens no more.
        let _ = self.0.send(Signal::Event(Box::new(event)));
    }
}

/// Passes questions of the run on.
pub(crate) struct Asking(pub(crate) UnboundedSender<Signal>);

impl Operator for Asking {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let mut open = Open { to: &self.0, id: Some(waiting.id.clone()) };
            if self.0.send(Signal::Asked(Box::new(waiting.clone()), answer)).is_err() {
                return Reply::Later;
            }
            let reply = answered.await.unwrap_or(Reply::Later);
            open.id = None;
            reply
        })
    }
}

/// A question that is up. Dropped before its answer, it is withdrawn.
struct Open<'a> {
    to: &'a UnboundedSender<Signal>,
    id: Option<QuestionId>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.to.send(Signal::Withdrawn(id));
        }
    }
}
