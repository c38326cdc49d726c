//! The task of one session: what happens, and what follows from it.

mod commands;

use crate::{
    commands::{Typed, parse},
    host::Host,
    opening::{failed, wrong},
    options::{NotChosen, Options},
    question::{self, Permitted},
    signal::{Asking, Events, Signal},
    updates::{Updates, message},
};
use agent_client_protocol::{
    Client, Error,
    v1::{
        ConnectionTo, Responder,
        schema::{
            PromptResponse, RequestPermissionResponse, SessionConfigOption, SessionId, SessionInfoUpdate,
            SessionNotification, SessionUpdate, SetSessionConfigOptionRequest, StopReason,
        },
    },
};
use llm_do::{
    Decisions, Input, PastRun, Problem, Report, Run, Session, Transcript,
    core::{
        call_path::CallPath,
        event::Event,
        journal::{Record, RecordKind, RunStatus},
        model::{ModelName, Usage},
        operator::OneAtATime,
        outcome::{End, Failure, FailureKind},
        question::{Answer, Given, Question, QuestionId, Reply, Turn, Waiting},
    },
    output_text,
    program::visible,
    runs::{Canceller, NewRunId, Stopper},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    task::JoinHandle,
};

/// Through what the user answers, as recorded.
const VIA: &str = "acp";
/// Characters of a session's title.
const TITLE: usize = 80;

/// How far the chat is.
pub(crate) enum Stage {
    /// The user has said nothing yet.
    New { options: Box<Options>, id: NewRunId },
    /// The chat was left, and its next message continues it.
    Left { session: Box<Session>, dir: PathBuf },
    /// Its run is under way.
    Running { session: Box<Session>, stopper: Stopper, canceller: Canceller },
    /// It has ended, for this reason.
    Over(String),
}

/// A prompt that has no response yet.
struct Prompted {
    responder: Responder<PromptResponse>,
    /// Whether the client has stopped the answer.
    cancelled: bool,
    /// Why the client could not be asked something.
    unasked: Option<String>,
}

/// A question that was put to the client as a request for permission.
struct Permission {
    /// Whether it is about a tool that was interrupted.
    settles: bool,
    reply: oneshot::Sender<Reply>,
    /// Waits for the client's answer. Aborted, it tells the client that none is needed.
    request: JoinHandle<()>,
}

/// A question that the user's next words answer.
struct Listening {
    waiting: Waiting,
    reply: oneshot::Sender<Reply>,
}

/// A conversation with the user, for commands.
struct Conversation {
    tools: Vec<(String, String)>,
    transcript: Transcript,
}

/// One session.
pub(crate) struct Talk {
    id: SessionId,
    host: Arc<dyn Host>,
    client: ConnectionTo<Client>,
    sender: UnboundedSender<Signal>,
    stage: Stage,
    prompted: Option<Prompted>,
    permissions: HashMap<QuestionId, Permission>,
    listening: Option<Listening>,
    /// Questions that the client saw before the chat was continued.
    seen: HashSet<QuestionId>,
    /// Messages that wait for the conversation.
    queue: VecDeque<String>,
    updates: Updates,
    conversations: BTreeMap<CallPath, Conversation>,
    models: BTreeMap<CallPath, (Arc<str>, ModelName)>,
    used: BTreeMap<(Arc<str>, ModelName), Usage>,
}

impl Talk {
    pub(crate) fn new(
        id: SessionId,
        host: Arc<dyn Host>,
        client: ConnectionTo<Client>,
        sender: UnboundedSender<Signal>,
        stage: Stage,
    ) -> Self {
        Self {
            id,
            host,
            client,
            sender,
            stage,
            prompted: None,
            permissions: HashMap::new(),
            listening: None,
            seen: HashSet::new(),
            queue: VecDeque::new(),
            updates: Updates::default(),
            conversations: BTreeMap::new(),
            models: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// Takes what the chat held before, and shows it to the client if it wants it.
    pub(crate) fn with_past(mut self, past: &PastRun, show: bool) -> Self {
        let updates = self.updates.replay(past.records());
        if show {
            updates.into_iter().for_each(|update| self.tell(update));
        }
        past.records().iter().for_each(|record| self.note(record));
        self.seen = past.waiting().into_iter().map(|waiting| waiting.id).collect();
        self
    }

    /// Does what the session hears until it is closed.
    pub(crate) async fn hold(mut self, mut signals: UnboundedReceiver<Signal>) {
        let mut closing = false;
        while let Some(signal) = signals.recv().await {
            match signal {
                Signal::Prompt(_, responder) if closing => {
                    // A client that has gone needs no response.
                    let _ = responder.respond_with_error(wrong("the session is closed"));
                }
                Signal::Prompt(text, responder) => self.prompt(text, responder),
                Signal::Cancel => self.cancel(),
                Signal::Option(request, chosen) => {
                    let _ = chosen.send(self.choose(&request));
                }
                Signal::Event(event) => self.event(&event),
                Signal::Asked(waiting, reply) if closing => {
                    drop((waiting, reply));
                }
                Signal::Asked(waiting, reply) => self.asked(*waiting, reply),
                Signal::Withdrawn(id) => self.withdrawn(&id),
                Signal::Permitted(id, response) => self.permitted(&id, response),
                Signal::Ended(report) => self.ended(&report),
                Signal::Close => {
                    closing = true;
                    self.leave();
                }
            }
            if closing && !matches!(self.stage, Stage::Running { .. }) {
                break;
            }
        }
        self.turn_ends(Ok(StopReason::Cancelled));
    }

    fn tell(&self, update: SessionUpdate) {
        // A client that has gone hears nothing.
        let _ = self.client.send_notification(SessionNotification::new(self.id.clone(), update));
    }

    fn say(&self, text: &str) {
        self.tell(message(text));
    }

    fn prompt(&mut self, text: String, responder: Responder<PromptResponse>) {
        if self.prompted.is_some() {
            let busy = wrong("an answer is being made in this session: wait for its end, or cancel it");
            let _ = responder.respond_with_error(busy);
            return;
        }
        self.prompted = Some(Prompted { responder, cancelled: false, unasked: None });
        match parse(text) {
            Typed::Command(command) => self.command(command),
            Typed::Message(text) => self.words(text),
        }
    }

    /// Gives the user's words to what waits for them.
    fn words(&mut self, text: String) {
        match self.listening.take() {
            Some(Listening { waiting, reply }) => match answer_of(&waiting, &text) {
                Ok(answer) => give(reply, answer),
                Err(wrong) => {
                    self.listening = Some(Listening { waiting, reply });
                    self.say(&wrong);
                    self.turn_ends(Ok(StopReason::EndTurn));
                }
            },
            None => self.start(text),
        }
    }

    /// Begins the chat, or continues it, with that message.
    fn start(&mut self, text: String) {
        let started = match &self.stage {
            Stage::New { options, id } => {
                let session = options.session().clone();
                let input = Input { message: Some(text.clone()), ..Input::default() };
                let title = visible::start(&visible::line(&text), TITLE).into_owned();
                self.tell(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title)));
                let run = session.start_as(id, &input, Some(self.operator()), Some(self.events()));
                run.map(|run| (session, run))
            }
            Stage::Left { session, dir } => {
                let session = (**session).clone();
                let run = self.resumed(&session, dir);
                self.queue.push_back(text);
                run.map(|run| (session, run))
            }
            // The conversation has not come to its next message.
            Stage::Running { .. } => return self.queue.push_back(text),
            Stage::Over(why) => {
                let over = wrong(format!("the chat has ended: {why}. Open a new session."));
                return self.turn_ends(Err(over));
            }
        };
        match started {
            Ok((session, run)) => {
                let (stopper, canceller) = (run.stopper(), run.canceller());
                let sender = self.sender.clone();
                tokio::spawn(async move {
                    let report = run.finish().await;
                    // A session that is over needs no report.
                    let _ = sender.send(Signal::Ended(Box::new(report)));
                });
                self.stage = Stage::Running { session: Box::new(session), stopper, canceller };
            }
            Err(problem) => {
                self.queue.clear();
                let why = wrong(self.host.explain(&problem));
                self.turn_ends(Err(why));
            }
        }
    }

    fn resumed(&self, session: &Session, dir: &std::path::Path) -> Result<Run, Problem> {
        let past = PastRun::open(dir, session.home())?;
        session.resume(past, Decisions::default(), Some(self.operator()), Some(self.events()))
    }

    fn operator(&self) -> Arc<OneAtATime<Asking>> {
        // A person looks at one question at a time.
        Arc::new(OneAtATime::new(Asking(self.sender.clone())))
    }

    fn events(&self) -> Arc<Events> {
        Arc::new(Events(self.sender.clone()))
    }

    /// Stops the answer. What waits for a decision is not decided by that.
    fn cancel(&mut self) {
        let Some(prompted) = &mut self.prompted else { return };
        prompted.cancelled = true;
        self.stop();
    }

    fn stop(&mut self) {
        if !self.queue.is_empty() {
            self.queue.clear();
            self.say("*(Your message was not delivered.)*");
        }
        // The run withdraws the questions of the calls that it stops.
        if let Stage::Running { stopper, .. } = &self.stage {
            stopper.stop();
        }
        // Only the user knows what became of an interrupted tool. Without an answer the run is suspended.
        self.permissions.retain(|_, permission| !permission.settles);
    }

    /// Cuts off what is under way, so that it can be resumed.
    fn leave(&mut self) {
        self.permissions.clear();
        match (self.listening.take(), &self.stage) {
            // Nothing else is under way while the chat itself waits.
            (Some(Listening { waiting, reply }), _) if waiting.id.call == CallPath::root() => {
                let _ = reply.send(Reply::Later);
            }
            (_, Stage::Running { canceller, .. }) => canceller.cancel(),
            _ => {}
        }
    }

    fn choose(&mut self, request: &SetSessionConfigOptionRequest) -> Result<Vec<SessionConfigOption>, Error> {
        let Stage::New { options, .. } = &mut self.stage else {
            return Err(wrong(
                "the chat has begun, and keeps its worker, model and approval mode: open a new session",
            ));
        };
        match options.choose(&request.config_id.0, &request.value) {
            Ok(()) => Ok(options.shown()),
            Err(NotChosen::Unknown(why)) => Err(wrong(why)),
            Err(NotChosen::Problem(problem)) => Err(wrong(self.host.explain(&problem))),
        }
    }

    fn event(&mut self, event: &Event) {
        for update in self.updates.event(event) {
            self.tell(update);
        }
        if let Event::Record { record } = event {
            self.note(record);
        }
    }

    /// Keeps what later commands need of a record.
    fn note(&mut self, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::ConversationStarted { worker, model, tools, with_user, .. } => {
                self.models.insert(path.clone(), (Arc::clone(worker), model.clone()));
                if *with_user {
                    let tools =
                        tools.iter().map(|tool| (tool.name.to_string(), tool.description.to_string()));
                    let conversation =
                        Conversation { tools: tools.collect(), transcript: Transcript::default() };
                    self.conversations.insert(path.clone(), conversation);
                }
            }
            RecordKind::ModelAnswered { usage, .. } => {
                if let Some(by) = self.models.get(path) {
                    let used = self.used.entry(by.clone()).or_default();
                    *used = used.plus(*usage);
                }
            }
            _ => {}
        }
        if let Some(conversation) = self.conversations.get_mut(path) {
            conversation.transcript.record(record);
        }
    }

    fn asked(&mut self, waiting: Waiting, reply: oneshot::Sender<Reply>) {
        let Waiting { id, question } = &waiting;
        let request = match question {
            Question::Approval(approval) => {
                let call = self.updates.asks(&id.call, approval);
                question::approval(&self.id, id, approval, call)
            }
            Question::Settlement(settlement) => {
                question::settlement(&self.id, id, settlement, self.updates.call(&id.call))
            }
            Question::Input(input) => {
                let end = match &input.conversation {
                    Some(turn) => self.stop_reason(turn),
                    None => Ok(StopReason::EndTurn),
                };
                let seen = self.seen.remove(id);
                let conversation = input.conversation.is_some();
                if !conversation && !seen {
                    self.say(&question::asked(input));
                }
                let next = if conversation || seen { self.queue.pop_front() } else { None };
                if !conversation && !self.queue.is_empty() {
                    self.say("Your message is delivered after the answer to this question.");
                }
                self.listening = Some(Listening { waiting, reply });
                return match next {
                    Some(next) => self.words(next),
                    None => self.turn_ends(end),
                };
            }
        };
        let settles = matches!(question, Question::Settlement(_));
        let answered = self.client.send_request(request).block_task();
        let (sender, id) = (self.sender.clone(), waiting.id);
        let of = id.clone();
        let request = tokio::spawn(async move {
            let _ = sender.send(Signal::Permitted(of, answered.await));
        });
        self.permissions.insert(id, Permission { settles, reply, request });
    }

    /// A question was withdrawn by the run: the client's answer is not waited for.
    fn withdrawn(&mut self, id: &QuestionId) {
        let stopped = self.prompted.as_ref().is_some_and(|prompted| prompted.cancelled);
        // A client that has stopped the answer knows that its own questions are over.
        if let Some(permission) = self.permissions.remove(id).filter(|_| !stopped) {
            permission.request.abort();
        }
        self.listening = self.listening.take().filter(|listening| listening.waiting.id != *id);
    }

    fn permitted(&mut self, id: &QuestionId, response: Result<RequestPermissionResponse, Error>) {
        let Some(permission) = self.permissions.remove(id) else { return };
        let unasked = match response.as_ref().map(question::permitted) {
            Ok(Permitted::Answer(answer)) => return give(permission.reply, answer),
            Ok(Permitted::Cancelled) => None,
            Ok(Permitted::Unknown) => {
                Some("the editor answered with an option that it was not offered".to_owned())
            }
            Err(error) => Some(format!("the editor could not ask for your approval: {}", error.message)),
        };
        // None of these is a decision of the user's.
        match (&mut self.prompted, unasked) {
            (Some(prompted), None) => prompted.cancelled = true,
            (Some(prompted), Some(why)) => prompted.unasked = Some(why),
            (None, _) => {}
        }
        self.permissions.insert(id.clone(), permission);
        self.stop();
    }

    fn ended(&mut self, report: &Report) {
        let Stage::Running { session, .. } = &self.stage else { return };
        let can_continue = matches!(report.status, RunStatus::Suspended | RunStatus::Interrupted);
        let next = match can_continue {
            true => Stage::Left { session: session.clone(), dir: report.dir.clone() },
            false => Stage::Over(match &report.end {
                End::Failed(failure) => failure.message.clone(),
                _ => "its run is over".to_owned(),
            }),
        };
        self.stage = next;
        self.listening = None;
        self.seen.clear();
        self.permissions.clear();
        let end = match (&report.end, report.status) {
            (End::Done(value), _) => {
                self.say(&output_text(value, true));
                Ok(StopReason::EndTurn)
            }
            (_, RunStatus::Interrupted) => Ok(StopReason::Cancelled),
            (End::Suspended(_), _) => Err(wrong(format!(
                "the chat is suspended: `llm-do runs show {0}` shows what it waits for. Your next message continues it.",
                report.run
            ))),
            (End::Failed(failure), _) => self.without_answer(failure),
        };
        self.turn_ends(end);
    }

    /// How a turn ends when the conversation waits for the user.
    fn stop_reason(&self, turn: &Turn) -> Result<StopReason, Error> {
        match &turn.failure {
            Some(failure) => self.without_answer(failure),
            // An answer that the client stopped is reported as cancelled, whatever cut it off.
            None if turn.cut_off => Ok(StopReason::MaxTokens),
            None => Ok(StopReason::EndTurn),
        }
    }

    /// How a turn ends without an answer.
    fn without_answer(&self, failure: &Failure) -> Result<StopReason, Error> {
        let (reason, message) = match failure.kind {
            FailureKind::Limit => (StopReason::MaxTurnRequests, &failure.message),
            FailureKind::Refusal => (StopReason::Refusal, &failure.message),
            FailureKind::Stopped => return Ok(StopReason::Cancelled),
            _ => return Err(failed(&failure.message)),
        };
        self.say(&format!("\n\n{message}"));
        Ok(reason)
    }

    /// Responds to the prompt, if one waits.
    fn turn_ends(&mut self, end: Result<StopReason, Error>) {
        let Some(Prompted { responder, cancelled, unasked }) = self.prompted.take() else { return };
        let end = match (unasked, cancelled) {
            (Some(why), _) => Err(failed(why)),
            (None, true) => Ok(StopReason::Cancelled),
            (None, false) => end,
        };
        // A client that has gone needs no response.
        let _ = responder.respond_with_result(end.map(PromptResponse::new));
    }
}

fn is_conversation(question: &Question) -> bool {
    matches!(question, Question::Input(input) if input.conversation.is_some())
}

/// The user's words as the answer to the question that waits for them.
fn answer_of(waiting: &Waiting, text: &str) -> Result<Answer, String> {
    let value = match &waiting.question {
        Question::Input(input) => question::answer(input, text)?,
        _ => Value::String(text.to_owned()),
    };
    Ok(Answer::Give { value: Arc::new(value) })
}

fn give(reply: oneshot::Sender<Reply>, answer: Answer) {
    // A run that is over needs no answer.
    let _ = reply.send(Reply::Given(Given::operator(answer, VIA)));
}
