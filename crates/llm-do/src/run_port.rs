//! The side of a run that the driver of a dialogue with a person listens to.

use llm_do_core::{
    event::Event,
    operator::{Operator, Recall},
    question::{Answer, Given, QuestionId, Reply, Waiting},
    send::BoxFuture,
};
use llm_do_host::EventSink;
use std::collections::HashMap;
use tokio::sync::oneshot;

/// A message of a run to the driver of its dialogue.
pub enum FromRun {
    /// An event of the run.
    Event(Box<Event>),
    /// The run asks the user something. A reply that is dropped suspends the run.
    Asked(Box<Waiting>, oneshot::Sender<Reply>),
    /// A question needs no answer any more.
    Withdrawn(QuestionId),
}

/// The listener and the operator of a run: passes its events and questions to the driver of its dialogue, with a function
/// that returns false if the driver has ended.
pub struct RunPort<S>(pub S);

impl<S: Fn(FromRun) -> bool + Send + Sync> EventSink for RunPort<S> {
    fn event(&self, event: Event) {
        // A driver that has ended listens no more.
        (self.0)(FromRun::Event(Box::new(event)));
    }
}

impl<S: Fn(FromRun) -> bool + Send + Sync> Operator for RunPort<S> {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let mut open = OpenQuestion { to: &self.0, id: Some(waiting.id.clone()) };
            if !(self.0)(FromRun::Asked(Box::new(waiting.clone()), answer)) {
                return Reply::Later;
            }
            let reply = answered.await.unwrap_or(Reply::Later);
            open.id = None;
            reply
        })
    }
}

/// An open question. It is withdrawn if it is dropped before its answer.
struct OpenQuestion<'a, S: Fn(FromRun) -> bool> {
    to: &'a S,
    id: Option<QuestionId>,
}

impl<S: Fn(FromRun) -> bool> Drop for OpenQuestion<'_, S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            (self.to)(FromRun::Withdrawn(id));
        }
    }
}

/// The senders of replies to the open questions of a run.
#[derive(Debug)]
pub struct Replies {
    /// The channel through which the user answers, as recorded.
    via: &'static str,
    senders: HashMap<QuestionId, oneshot::Sender<Reply>>,
}

impl Replies {
    /// Makes an empty set. Records name `via` as the channel of the answers.
    pub fn new(via: &'static str) -> Self {
        Self { via, senders: HashMap::new() }
    }

    /// Keeps the sender of the reply to a question.
    pub fn keep(&mut self, id: QuestionId, sender: oneshot::Sender<Reply>) {
        self.senders.insert(id, sender);
    }

    /// Gives the user's answer to a question.
    pub fn give(&mut self, id: &QuestionId, answer: Answer) {
        self.reply(id, Reply::Given(Given::operator(answer, self.via)));
    }

    /// Leaves a question without an answer, which suspends the run.
    pub fn later(&mut self, id: &QuestionId) {
        self.reply(id, Reply::Later);
    }

    /// Leaves all questions without an answer.
    pub fn clear(&mut self) {
        self.senders.clear();
    }

    fn reply(&mut self, id: &QuestionId, reply: Reply) {
        if let Some(sender) = self.senders.remove(id) {
            // A run that is over needs no answer.
            let _ = sender.send(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use llm_do_core::{
        call_path::CallPath,
        question::{Input, Question},
        step_name::StepName,
    };
    use std::sync::Mutex;

    fn waiting() -> Waiting {
        let question = Question::Input(Input {
            chain: Vec::new(),
            prompt: "?".into(),
            schema: None,
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        });
        Waiting { id: QuestionId::new(&CallPath::root(), &StepName::Ask(0)), question }
    }

    #[test]
    fn a_question_gets_the_reply_and_is_withdrawn_without_one() {
        let heard = Mutex::new(Vec::new());
        let port = RunPort(|message: FromRun| {
            heard.lock().expect("no panic").push(message);
            true
        });
        let (waiting, mut replies) = (waiting(), Replies::new("test"));
        let mut exchange = port.exchange(&waiting, &());
        assert!((&mut exchange).now_or_never().is_none());
        let Some(FromRun::Asked(asked, sender)) = heard.lock().expect("no panic").pop() else {
            panic!("a question");
        };
        replies.keep(asked.id.clone(), sender);
        replies.give(&asked.id, Answer::Decline { reason: None });
        let given = Given::operator(Answer::Decline { reason: None }, "test");
        assert_eq!((&mut exchange).now_or_never(), Some(Reply::Given(given)));
        drop(exchange);
        assert!(heard.lock().expect("no panic").is_empty(), "it was answered");

        let mut exchange = port.exchange(&waiting, &());
        assert!((&mut exchange).now_or_never().is_none());
        drop(exchange);
        assert!(
            matches!(heard.lock().expect("no panic").pop(), Some(FromRun::Withdrawn(id)) if id == waiting.id)
        );
        // A driver that has ended gives no answer.
        assert_eq!(RunPort(|_: FromRun| false).exchange(&waiting, &()).now_or_never(), Some(Reply::Later));
    }
}
