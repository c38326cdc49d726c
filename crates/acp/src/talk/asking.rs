//! Questions of a session's run: asking the client, and acting on its answers.

use super::{Listening, Put, Talk, give};
use crate::{
    form::{self, Filled},
    opening::failed,
    question::{self, Permitted},
    signal::Signal,
};
use agent_client_protocol::{
    Client, Error,
    v1::{
        ConnectionTo,
        schema::{
            Cost, CreateElicitationResponse, RequestPermissionRequest, RequestPermissionResponse,
            SessionUpdate, StopReason, UsageUpdate,
        },
    },
};
use llm_do::{
    core::{
        call_path::CallPath,
        price::Usd,
        question::{Answer, Input, Question, QuestionId, Reply, Turn, Waiting},
    },
    records::ConversationView,
};
use tokio::{
    sync::{mpsc::UnboundedSender, oneshot},
    task::JoinHandle,
};

impl Talk {
    /// Puts a question of the run to the client: as a request, as a form, or as words that the next prompt answers.
    pub(super) fn asked(&mut self, waiting: Waiting, reply: oneshot::Sender<Reply>) {
        let Waiting { id, question } = &waiting;
        let (client, sender) = (self.client.connection.clone(), self.sender.clone());
        let request = match question {
            Question::Approval(approval) => {
                let call = self.updates.asks(&id.call, approval);
                let request = question::permission(&self.id, &waiting, call);
                ask_permission(&client, sender, request, id.clone())
            }
            Question::Settlement(_) => {
                let call = self.updates.call(&id.call);
                let request = question::permission(&self.id, &waiting, call);
                ask_permission(&client, sender, request, id.clone())
            }
            Question::Input(Input { conversation: Some(turn), .. }) => {
                let turn = turn.clone();
                return self.listens(Listening { waiting, reply }, &turn);
            }
            Question::Input(_) => {
                let form = form::request(&self.id, question);
                let form = form.filter(|_| self.client.shows_forms && !self.seen.contains(id));
                let Some(form) = form else { return self.asks_in_words(Listening { waiting, reply }) };
                let (filled, id) = (client.send_request(form).block_task(), id.clone());
                tokio::spawn(async move {
                    let filled = filled.await;
                    let _ = sender.send(Signal::Filled(id, filled));
                })
            }
        };
        self.put.insert(waiting.id.clone(), Put { waiting, reply, request });
    }

    /// Handles a conversation that waits for the user's next message.
    fn listens(&mut self, listening: Listening, turn: &Turn) {
        let id = listening.waiting.id.clone();
        self.seen.remove(&id);
        if std::mem::take(&mut self.leaves_files) {
            let held = self.updates.view().conversation(&id.call);
            let joining = held.map(ConversationView::joining).unwrap_or_default();
            let detach = joining.iter().map(|number| Answer::Detach { message: *number });
            self.queue = detach.chain(std::mem::take(&mut self.queue)).collect();
        }
        self.listening = Some(listening);
        if !self.go_on() {
            if id.call == CallPath::root() {
                self.usage(turn);
            }
            let end = self.stop_reason(turn);
            self.turn_ends(end);
        }
    }

    /// Asks a question that the next prompt answers.
    fn asks_in_words(&mut self, listening: Listening) {
        let seen = self.seen.remove(&listening.waiting.id);
        if let (question @ Question::Input(_), false) = (&listening.waiting.question, seen) {
            self.say(&question::asked(question));
        }
        let next = match self.queue.front() {
            Some(Answer::Give { value }) if seen => value.as_str().map(str::to_owned),
            _ => None,
        };
        if next.is_some() {
            self.queue.pop_front();
        } else if !self.queue.is_empty() {
            self.say("Your message is delivered after the answer to this question.");
        }
        self.listening = Some(listening);
        match next {
            Some(next) => self.words(next, Vec::new()),
            None => self.turn_ends(Ok(StopReason::EndTurn)),
        }
    }

    /// Tells the client how much of the context is used, if its size is known, and what the chat has cost, if all
    /// prices are known.
    fn usage(&self, turn: &Turn) {
        let Some((used, size)) =
            turn.context.and_then(|context| context.limit.map(|size| (context.tokens, size)))
        else {
            return;
        };
        let cost: Option<Usd> = self
            .updates
            .view()
            .costs()
            .try_fold(Usd::ZERO, |sum, (.., spent)| Some(sum.plus(spent.usage.cost_usd?)));
        let cost = cost.map(|cost| Cost::new(cost.as_dollars(), "USD"));
        self.tell(SessionUpdate::UsageUpdate(UsageUpdate::new(used, size).cost(cost)));
    }

    /// Stops waiting for the client's answer, because the run has withdrawn the question.
    pub(super) fn withdrawn(&mut self, id: &QuestionId) {
        let stopped = self.prompted.as_ref().is_some_and(|prompted| prompted.cancelled);
        // A client that has stopped the answer knows that its own questions are over.
        if let Some(put) = self.put.remove(id).filter(|_| !stopped) {
            put.request.abort();
        }
        self.listening = self.listening.take().filter(|listening| listening.waiting.id != *id);
    }

    /// Takes the client's answer to a request for permission.
    pub(super) fn permitted(&mut self, id: &QuestionId, response: Result<RequestPermissionResponse, Error>) {
        let Some(put) = self.put.remove(id) else { return };
        let unasked = match response.as_ref().map(question::permitted) {
            Ok(Permitted::Answer(answer)) => return give(put.reply, answer),
            Ok(Permitted::Result) => {
                self.say("\n\nYour next message is the result of the call: JSON or text.\n\n");
                return self.asks_in_words(Listening { waiting: put.waiting, reply: put.reply });
            }
            Ok(Permitted::Cancelled) => None,
            Ok(Permitted::Unknown) => {
                Some("the editor answered with an option that it was not offered".to_owned())
            }
            Err(error) => Some(format!("the editor could not ask for your approval: {}", error.message)),
        };
        self.undecided(id, put, unasked);
    }

    /// Takes the client's answer to a form. If the answer does not fit, the question is asked in words.
    pub(super) fn filled(&mut self, id: &QuestionId, response: Result<CreateElicitationResponse, Error>) {
        let Some(put) = self.put.remove(id) else { return };
        let filled = match response {
            Ok(response) => form::filled(&put.waiting.question, &response),
            Err(error) => Filled::Wrong(format!("The editor could not show the form: {}", error.message)),
        };
        match filled {
            Filled::Answer(answer) => give(put.reply, answer),
            Filled::Cancelled => self.undecided(id, put, None),
            Filled::Wrong(why) => {
                self.say(&format!("\n\n{why}"));
                self.asks_in_words(Listening { waiting: put.waiting, reply: put.reply });
            }
        }
    }

    /// Stops the answer that the question is part of, because the client's answer is no decision of the user.
    fn undecided(&mut self, id: &QuestionId, put: Put, unasked: Option<String>) {
        match (&mut self.prompted, unasked) {
            (Some(prompted), None) => prompted.cancelled = true,
            (Some(prompted), Some(why)) => prompted.failed = Some(failed(why)),
            (None, _) => {}
        }
        self.put.insert(id.clone(), put);
        self.stop();
    }
}

/// Sends a request for permission. The task ends with the client's answer. If it is aborted, it tells the client that
/// no answer is needed.
fn ask_permission(
    client: &ConnectionTo<Client>,
    sender: UnboundedSender<Signal>,
    request: RequestPermissionRequest,
    id: QuestionId,
) -> JoinHandle<()> {
    let permitted = client.send_request(request).block_task();
    tokio::spawn(async move {
        let permitted = permitted.await;
        // A session that is over needs no answer.
        let _ = sender.send(Signal::Permitted(id, permitted));
    })
}

pub(super) fn is_conversation(question: &Question) -> bool {
    matches!(question, Question::Input(input) if input.conversation.is_some())
}

/// Reads the user's words as the answer to the waiting question.
pub(super) fn answer_of(waiting: &Waiting, text: &str) -> Result<Answer, String> {
    question::answer(&waiting.question, text)
}
