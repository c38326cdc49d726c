//! Questions of a session's run: asking the client, and acting on its answers.

use super::{Message, Talk};
use crate::{
    form::{self, Filled},
    opening::{failed, wrong},
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
        question::{Answer, Question, QuestionId, Turn, Waiting},
    },
    dialogue::Input,
    records::ConversationView,
};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle};

impl Talk {
    /// Puts a question of the run to the client: as a request, as a form, or as words that the next prompt answers.
    pub(super) fn ask(&mut self, waiting: Waiting) {
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
            Question::Input(_) => {
                let form = form::request(&self.id, question);
                let form = form.filter(|_| self.client.shows_forms && !self.seen.contains(id));
                let Some(form) = form else { return self.ask_in_words(waiting.id) };
                let (filled, id) = (client.send_request(form).block_task(), id.clone());
                tokio::spawn(async move {
                    let filled = filled.await;
                    let _ = sender.send(Signal::Filled(id, filled));
                })
            }
        };
        self.requests.insert(waiting.id, request);
    }

    /// The conversation waits for the user's next message.
    pub(super) fn turn(&mut self, turn: &Turn) {
        let Some(id) = self.dialogue.turn().cloned() else { return };
        self.seen.remove(&id);
        if std::mem::take(&mut self.leaves_files) {
            let held = self.updates.view().conversation(&id.call);
            let joining = held.map(ConversationView::joining).unwrap_or_default();
            let detach: Vec<Answer> =
                joining.iter().map(|number| Answer::Detach { message: *number }).collect();
            self.take(Input::Give(detach));
        }
        self.take(Input::Next);
        if self.dialogue.turn().is_some() {
            if id.call == CallPath::root() {
                self.usage(turn);
            }
            let end = self.stop_reason(turn);
            self.turn_ends(end);
        }
    }

    /// Asks a question that the next prompt answers.
    fn ask_in_words(&mut self, id: QuestionId) {
        let seen = self.seen.remove(&id);
        if let (Some(question @ Question::Input(_)), false) = (self.dialogue.question(&id), seen) {
            self.say(&question::asked(question));
        }
        // The prompt that continued the chat answers a question that the client has seen.
        let queued = seen && self.dialogue.queue().front().is_some_and(|message| message.files.is_empty());
        if !queued && !self.dialogue.queue().is_empty() {
            self.say("Your message is delivered after the answer to this question.");
        }
        self.take(Input::InWords { id, queued });
        if !queued {
            self.turn_ends(Ok(StopReason::EndTurn));
        }
    }

    /// Reads the user's words as the answer to that question.
    pub(super) fn words(&mut self, id: QuestionId, Message { text, files }: Message) {
        let Some(question) = self.dialogue.question(&id) else { return };
        if !files.is_empty() {
            let why = "the worker asks a question, whose answer is text: send links, images and resources with your next message";
            return self.turn_ends(Err(wrong(why)));
        }
        match question::answer(question, &text) {
            Ok(answer) => {
                self.take(Input::Answer(id, answer));
            }
            Err(wrong) => {
                self.say(&wrong);
                self.turn_ends(Ok(StopReason::EndTurn));
            }
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
    pub(super) fn withdraw(&mut self, id: &QuestionId) {
        let stopped = self.prompted.as_ref().is_some_and(|prompted| prompted.cancelled);
        // A client that has stopped the answer knows that its own questions are over.
        if let Some(request) = self.requests.remove(id).filter(|_| !stopped) {
            request.abort();
        }
        self.replies.later(id);
    }

    /// Takes the client's answer to a request for permission.
    pub(super) fn permitted(&mut self, id: QuestionId, response: Result<RequestPermissionResponse, Error>) {
        if self.requests.remove(&id).is_none() {
            return;
        }
        let unasked = match response.as_ref().map(question::permitted) {
            Ok(Permitted::Answer(answer)) => {
                self.take(Input::Answer(id, answer));
                return;
            }
            Ok(Permitted::Result) => {
                self.say("\n\nYour next message is the result of the call: JSON or text.\n\n");
                return self.ask_in_words(id);
            }
            Ok(Permitted::Cancelled) => None,
            Ok(Permitted::Unknown) => {
                Some("the editor answered with an option that it was not offered".to_owned())
            }
            Err(error) => Some(format!("the editor could not ask for your approval: {}", error.message)),
        };
        self.undecided(unasked);
    }

    /// Takes the client's answer to a form. If the answer does not fit, the question is asked in words.
    pub(super) fn filled(&mut self, id: QuestionId, response: Result<CreateElicitationResponse, Error>) {
        if self.requests.remove(&id).is_none() {
            return;
        }
        let Some(question) = self.dialogue.question(&id) else { return };
        let filled = match response {
            Ok(response) => form::filled(question, &response),
            Err(error) => Filled::Wrong(format!("The editor could not show the form: {}", error.message)),
        };
        match filled {
            Filled::Answer(answer) => {
                self.take(Input::Answer(id, answer));
            }
            Filled::Cancelled => self.undecided(None),
            Filled::Wrong(why) => {
                self.say(&format!("\n\n{why}"));
                self.ask_in_words(id);
            }
        }
    }

    /// Stops the answer that a question is part of, because the client's answer is no decision of the user.
    fn undecided(&mut self, unasked: Option<String>) {
        match (&mut self.prompted, unasked) {
            (Some(prompted), None) => prompted.cancelled = true,
            (Some(prompted), Some(why)) => prompted.failed = Some(failed(why)),
            (None, _) => {}
        }
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
