//! Events that the task of a session receives.

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

/// A signal to the session's task.
pub(crate) enum Signal {
    /// The user has sent a message.
    Prompt(Prompt, Responder<PromptResponse>),
    /// The user has stopped the answer.
    Cancel,
    /// The user has chosen an option.
    Option(SetSessionConfigOptionRequest, oneshot::Sender<Result<Vec<SessionConfigOption>, Error>>),
    /// An event of the run.
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
    /// The session is over. Its run is cut off and can be resumed.
    Close,
}

/// A listener that passes events of the run to the session's task.
pub(crate) struct Events(pub(crate) UnboundedSender<Signal>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        // A session that is over listens no more.
        let _ = self.0.send(Signal::Event(Box::new(event)));
    }
}

/// An operator that passes questions of the run to the session's task.
pub(crate) struct Asking(pub(crate) UnboundedSender<Signal>);

impl Operator for Asking {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let mut open = OpenQuestion { to: &self.0, id: Some(waiting.id.clone()) };
            if self.0.send(Signal::Asked(Box::new(waiting.clone()), answer)).is_err() {
                return Reply::Later;
            }
            let reply = answered.await.unwrap_or(Reply::Later);
            open.id = None;
            reply
        })
    }
}

/// An open question. It is withdrawn if it is dropped before its answer.
struct OpenQuestion<'a> {
    to: &'a UnboundedSender<Signal>,
    id: Option<QuestionId>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.to.send(Signal::Withdrawn(id));
        }
    }
}
