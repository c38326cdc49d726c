//! The task of one session: handles events of the client and of the run.

mod asking;
mod commands;

use crate::{
    backlog::Backlog,
    commands::{Typed, parse},
    host::Host,
    opening::{failed, wrong},
    options::{NotChosen, Options},
    prompt::Prompt,
    signal::{Asking, Events, Signal},
    updates::{Updates, message},
};
use agent_client_protocol::{
    Client, Error, RequestCancellation,
    v1::{
        ConnectionTo, Responder,
        schema::{
            PromptResponse, SessionConfigOption, SessionId, SessionInfoUpdate, SessionNotification,
            SessionUpdate, SetSessionConfigOptionRequest, StopReason,
        },
    },
};
use llm_do::{
    Decisions, Input, PastRun, Problem, Report, Run, Session,
    core::{
        attachment::Attachment,
        call_path::CallPath,
        event::Event,
        journal::{Record, RecordKind, RunStatus},
        operator::OneAtATime,
        outcome::{End, Failure, FailureKind},
        question::{Answer, Given, QuestionId, Reply, Turn, Waiting},
        step_name::StepName,
        worker::WorkerDefinition,
    },
    output_text,
    program::visible,
    runs::{Canceller, NewRunId, Stopper},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::pending,
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

/// The channel through which the user answers, as recorded.
const VIA: &str = "acp";
/// Characters of a session's title.
const TITLE: usize = 80;

/// The stage of the chat.
pub(crate) enum Stage {
    /// The user has said nothing yet.
    New { options: Box<Options>, id: NewRunId },
    /// The chat was left, and its next message continues it.
    Left { session: Box<Session>, dir: PathBuf },
    /// The run is under way.
    Running { session: Box<Session>, stopper: Stopper, canceller: Canceller },
    /// The run has ended, for this reason.
    Over(String),
}

impl Stage {
    /// Returns the workers that the user may call.
    pub(crate) fn workers(&self) -> Vec<Arc<WorkerDefinition>> {
        match self {
            Self::New { options, .. } => options.session().callable(),
            Self::Left { session, .. } | Self::Running { session, .. } => session.callable(),
            Self::Over(_) => Vec::new(),
        }
    }
}

/// The client, as a session sees it.
pub(crate) struct TheirClient {
    pub(crate) connection: ConnectionTo<Client>,
    /// Updates sent to the client and not yet written.
    pub(crate) backlog: Arc<Backlog>,
    /// True if the client shows forms.
    pub(crate) shows_forms: bool,
}

/// A prompt that has no response yet.
struct Prompted {
    responder: Responder<PromptResponse>,
    /// True if the client has stopped the answer.
    cancelled: bool,
    /// The error that the prompt gets: a question could not be put to the client, or a file could not be attached.
    failed: Option<Error>,
    /// The numbers of the user's answers that attached its files.
    attached: Vec<u32>,
}

/// A question that was put to the client as a request.
struct Put {
    waiting: Waiting,
    reply: oneshot::Sender<Reply>,
    /// A task that waits for the client's answer. If it is aborted, it tells the client that no answer is needed.
    request: JoinHandle<()>,
}

/// A question that the user's next words answer.
struct Listening {
    waiting: Waiting,
    reply: oneshot::Sender<Reply>,
}

/// Tools with their descriptions.
type Tools = Vec<(String, String)>;

/// A session: its chat, and the client's view of it.
pub(crate) struct Talk {
    id: SessionId,
    host: Arc<dyn Host>,
    client: TheirClient,
    sender: UnboundedSender<Signal>,
    stage: Stage,
    /// The workers that the user may call.
    workers: Arc<[Arc<WorkerDefinition>]>,
    prompted: Option<Prompted>,
    put: HashMap<QuestionId, Put>,
    listening: Option<Listening>,
    /// Questions that the client saw before the chat was continued.
    seen: HashSet<QuestionId>,
    /// Messages and commands of the user that wait until the conversation takes them.
    queue: VecDeque<Answer>,
    /// True if the message that was taken back leaves its files behind, which would join the next one.
    leaves_files: bool,
    updates: Updates,
    /// The tools of each conversation with the user.
    tools: BTreeMap<CallPath, Tools>,
}

impl Talk {
    pub(crate) fn new(
        id: SessionId,
        host: Arc<dyn Host>,
        client: TheirClient,
        sender: UnboundedSender<Signal>,
        stage: Stage,
        workers: Arc<[Arc<WorkerDefinition>]>,
    ) -> Self {
        Self {
            id,
            host,
            client,
            sender,
            stage,
            workers,
            prompted: None,
            put: HashMap::new(),
            listening: None,
            seen: HashSet::new(),
            queue: VecDeque::new(),
            leaves_files: false,
            updates: Updates::default(),
            tools: BTreeMap::new(),
        }
    }

    /// Takes the records of an earlier chat, and sends them to the client if `show`.
    pub(crate) fn with_past(mut self, past: &PastRun, show: bool) -> Self {
        let updates = self.updates.replay(past.records());
        if show {
            updates.into_iter().for_each(|update| self.tell(update));
        }
        past.records().iter().for_each(|record| self.note(record));
        self.seen = past.waiting().into_iter().map(|waiting| waiting.id).collect();
        self
    }

    /// Handles signals until the session is closed.
    pub(crate) async fn hold(mut self, mut signals: UnboundedReceiver<Signal>) {
        let mut closing = false;
        loop {
            let prompted = self.prompted.as_ref().filter(|prompted| !prompted.cancelled);
            let cancellation = prompted.map(|prompted| prompted.responder.cancellation());
            let signal = tokio::select! {
                biased;
                () = requested(cancellation) => Some(Signal::Cancel),
                signal = signals.recv() => signal,
            };
            let Some(signal) = signal else { break };
            match signal {
                Signal::Prompt(_, responder) if closing => {
                    // A client that has gone needs no response.
                    let _ = responder.respond_with_error(wrong("the session is closed"));
                }
                Signal::Prompt(prompt, responder) => self.prompt(prompt, responder),
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
                Signal::Filled(id, response) => self.filled(&id, response),
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
        self.client.backlog.sent();
        let notification = SessionNotification::new(self.id.clone(), update);
        // A client that has gone hears nothing.
        let _ = self.client.connection.send_notification(notification);
    }

    fn say(&self, text: &str) {
        self.tell(message(text));
    }

    fn prompt(&mut self, prompt: Prompt, responder: Responder<PromptResponse>) {
        if self.prompted.is_some() {
            let busy = wrong("an answer is being made in this session: wait for its end, or cancel it");
            let _ = responder.respond_with_error(busy);
            return;
        }
        self.prompted = Some(Prompted { responder, cancelled: false, failed: None, attached: Vec::new() });
        let Prompt { text, files } = prompt;
        match parse(text, &self.workers) {
            Typed::Command(_) if !files.is_empty() => {
                let why = "a command takes words, and no links, images or resources: write the name of the file in it";
                self.turn_ends(Err(wrong(why)));
            }
            Typed::Command(command) => self.command(command),
            Typed::Message(text) => self.words(text, files),
        }
    }

    /// Gives the user's words to the question or conversation that waits for them.
    fn words(&mut self, text: String, files: Vec<Attachment>) {
        match self.listening.take() {
            Some(Listening { waiting, reply }) if asking::is_conversation(&waiting.question) => {
                self.listening = Some(Listening { waiting, reply });
                self.queue.extend(said(text, files));
                self.go_on();
            }
            Some(listening) if !files.is_empty() => {
                self.listening = Some(listening);
                let why = "the worker asks a question, whose answer is text: send links, images and resources with your next message";
                self.turn_ends(Err(wrong(why)));
            }
            Some(Listening { waiting, reply }) => match asking::answer_of(&waiting, &text) {
                Ok(answer) => give(reply, answer),
                Err(wrong) => {
                    self.listening = Some(Listening { waiting, reply });
                    self.say(&wrong);
                    self.turn_ends(Ok(StopReason::EndTurn));
                }
            },
            None => self.start(text, files),
        }
    }

    /// Gives the conversation the next entry of the queue. Returns false if the queue is empty or the conversation does
    /// not wait.
    fn go_on(&mut self) -> bool {
        let Some(listening) = self.listening.take() else { return false };
        match self.queue.pop_front() {
            Some(answer) => {
                give(listening.reply, answer);
                true
            }
            None => {
                self.listening = Some(listening);
                false
            }
        }
    }

    /// Starts the chat, or continues it, with that message.
    fn start(&mut self, text: String, files: Vec<Attachment>) {
        let started = match &self.stage {
            Stage::New { options, id } => {
                let session = options.session().clone();
                if let Some(file) = files.iter().find(|file| !session.reads(&file.file.media_type)) {
                    let (name, kind) = (&file.file.name, &file.file.media_type);
                    let why = format!("`{name}` is {kind}, which this worker's model can't read");
                    return self.turn_ends(Err(wrong(why)));
                }
                let input = Input { message: Some(text.clone()), contents: files, ..Input::default() };
                let run = session.start_as(id, &input, Some(self.operator()), Some(self.events()));
                if run.is_ok() {
                    let title = visible::start(&visible::line(&text), TITLE).into_owned();
                    self.tell(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title)));
                }
                run.map(|run| (session, run))
            }
            Stage::Left { session, dir } => {
                let session = (**session).clone();
                let run = self.resumed(&session, dir);
                self.queue.extend(said(text, files));
                run.map(|run| (session, run))
            }
            // The conversation has not come to its next message.
            Stage::Running { .. } => return self.queue.extend(said(text, files)),
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

    /// Stops the answer. Open decisions stay open.
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
        self.put.retain(|_, put| put.waiting.question.ends_with_answer());
    }

    /// Cuts off the run, so that it can be resumed.
    fn leave(&mut self) {
        self.put.clear();
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
        for update in self.updates.event(event, self.client.backlog.is_long()) {
            self.tell(update);
        }
        if let Event::Record { record } = event {
            self.note(record);
            self.attaches(record);
        }
    }

    /// Records which files of the prompt were attached, and which were refused.
    fn attaches(&mut self, record: &Record) {
        let Some(prompted) = &mut self.prompted else { return };
        match (&record.body, &record.step) {
            (RecordKind::Attached { .. }, StepName::Attach(number)) => prompted.attached.push(*number),
            (RecordKind::NotAttached { reason }, _) => {
                // The message is not delivered without what belongs to it.
                prompted.failed = Some(wrong(format!("{reason}. Your message was not delivered.")));
                let attached = std::mem::take(&mut prompted.attached);
                self.queue = attached.into_iter().map(|message| Answer::Detach { message }).collect();
            }
            _ => {}
        }
    }

    /// Keeps the parts of a record that later commands need.
    fn note(&mut self, record: &Record) {
        if let RecordKind::ConversationStarted { tools, with_user: true, .. } = &record.body {
            let tools = tools.iter().map(|tool| (tool.name.to_string(), tool.description.to_string()));
            self.tools.insert(record.path.clone(), tools.collect());
        }
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
        self.put.clear();
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

    /// Returns the reason with which a turn ends when the conversation waits for the user.
    fn stop_reason(&self, turn: &Turn) -> Result<StopReason, Error> {
        match &turn.failure {
            Some(failure) => self.without_answer(failure),
            // An answer that the client stopped is reported as cancelled, whatever cut it off.
            None if turn.cut_off => Ok(StopReason::MaxTokens),
            None => Ok(StopReason::EndTurn),
        }
    }

    /// Returns the reason with which a turn ends without an answer.
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

    /// Responds to the waiting prompt, if there is one.
    fn turn_ends(&mut self, end: Result<StopReason, Error>) {
        let Some(Prompted { responder, cancelled, failed, .. }) = self.prompted.take() else { return };
        let end = match (failed, cancelled) {
            (Some(why), _) => Err(why),
            (None, true) => Ok(StopReason::Cancelled),
            (None, false) => end,
        };
        // A client that has gone needs no response.
        let _ = responder.respond_with_result(end.map(PromptResponse::new));
    }
}

/// Waits until the client cancels that request.
async fn requested(cancellation: Option<RequestCancellation>) {
    match cancellation {
        Some(cancellation) => cancellation.cancelled().await,
        None => pending().await,
    }
}

/// Returns a message with its files as answers that the conversation takes.
fn said(text: String, files: Vec<Attachment>) -> impl Iterator<Item = Answer> {
    let attach = |file: Attachment| {
        let (file, content) = (Arc::clone(&file.file.name), Some(Arc::new(file)));
        Answer::Attach { file, content }
    };
    let words = Answer::Give { value: Arc::new(Value::String(text)) };
    files.into_iter().map(attach).chain([words])
}

fn give(reply: oneshot::Sender<Reply>, answer: Answer) {
    // A run that is over needs no answer.
    let _ = reply.send(Reply::Given(Given::operator(answer, VIA)));
}
