//! The task of one session: handles events of the client and of the run.

mod asking;
mod commands;

use crate::{
    backlog::Backlog,
    commands::{Typed, parse, sentence},
    host::Host,
    opening::{failed, wrong},
    options::{NotChosen, Options},
    prompt::Prompt,
    signal::Signal,
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
    Decisions, FromRun, Input as RunInput, PastRun, Problem, Replies, Report, Run, RunPort, Session,
    core::{
        attachment::Attachment,
        call_path::CallPath,
        event::Event,
        journal::{Record, RecordKind, RunStatus},
        operator::{OneAtATime, Operator},
        outcome::{End, Failure, FailureKind},
        question::{Answer, QuestionId, Turn},
        step_name::StepName,
        worker::WorkerDefinition,
    },
    dialogue::{Dialogue, Effect, Extent, Input, Manner, News, Refusal},
    output_text,
    program::visible,
    runs::{Canceller, NewRunId, Stopper},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::pending,
    path::PathBuf,
    sync::Arc,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    task::JoinHandle,
};

/// The channel through which the user answers, as recorded.
const VIA: &str = "acp";
/// Characters of a session's title.
const TITLE: usize = 80;
/// A chat in an editor, which begins with a message.
const MANNER: Manner = Manner { extent: Extent::Chat, in_lines: false, listens: false };

/// The program of the chat, and its run.
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

/// A message of the user.
struct Message {
    text: String,
    files: Vec<Attachment>,
}

/// Tools with their descriptions.
type Tools = Vec<(String, String)>;

/// A session: the driver of a [`Dialogue`] over the protocol.
pub(crate) struct Talk {
    id: SessionId,
    host: Arc<dyn Host>,
    client: TheirClient,
    sender: UnboundedSender<Signal>,
    stage: Stage,
    /// The workers that the user may call.
    workers: Arc<[Arc<WorkerDefinition>]>,
    prompted: Option<Prompted>,
    dialogue: Dialogue<Message>,
    replies: Replies,
    /// The tasks that wait for the client's answers to questions. If one is aborted, it tells the client that no answer is
    /// needed.
    requests: HashMap<QuestionId, JoinHandle<()>>,
    /// Questions that the client saw before the chat was continued.
    seen: HashSet<QuestionId>,
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
        let dialogue = match &stage {
            Stage::Left { .. } => Dialogue::left(MANNER),
            Stage::New { .. } | Stage::Running { .. } | Stage::Over(_) => Dialogue::new(MANNER),
        };
        Self {
            id,
            host,
            client,
            sender,
            stage,
            workers,
            prompted: None,
            dialogue,
            replies: Replies::new(VIA),
            requests: HashMap::new(),
            seen: HashSet::new(),
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
                Signal::Run(FromRun::Event(event)) => self.event(&event),
                Signal::Run(FromRun::Asked(waiting, reply)) if closing => {
                    drop((waiting, reply));
                }
                Signal::Run(FromRun::Asked(waiting, reply)) => {
                    self.replies.keep(waiting.id.clone(), reply);
                    self.take(Input::Asked(*waiting));
                }
                Signal::Run(FromRun::Withdrawn(id)) => {
                    self.take(Input::Withdrawn(id));
                }
                Signal::Permitted(id, response) => self.permitted(id, response),
                Signal::Filled(id, response) => self.filled(id, response),
                Signal::Ended(report) => self.ended(&report),
                Signal::Close => {
                    closing = true;
                    self.take(Input::HangUp);
                }
            }
            if closing && self.dialogue.is_over() {
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
            Typed::Command(..) | Typed::Run(..) if !files.is_empty() => {
                let why = "a command takes words, and no links, images or resources: write the name of the file in it";
                self.turn_ends(Err(wrong(why)));
            }
            Typed::Command(command, arguments) => self.command(command, &arguments),
            Typed::Run(worker, arguments) => self.call(&worker, &arguments),
            Typed::Message(text) => {
                self.take(Input::Say(Message { text, files }));
            }
        }
    }

    /// Passes an input to the dialogue, and executes the effects. Returns false if the dialogue refused it.
    fn take(&mut self, input: Input<Message>) -> bool {
        let effects = self.dialogue.take(input);
        let refused = effects.iter().any(|effect| matches!(effect, Effect::Refused(_)));
        effects.into_iter().for_each(|effect| self.act(effect));
        !refused
    }

    fn act(&mut self, effect: Effect<Message>) {
        match effect {
            Effect::Start(message, _) => self.start(message),
            Effect::Continue => self.resume(),
            Effect::Deliver(message) => {
                self.take(Input::Give(answers(message)));
            }
            Effect::Words(id, message) => self.words(id, message),
            Effect::Answer(id, answer) => self.replies.give(&id, answer),
            Effect::Later(id) => {
                self.replies.later(&id);
                self.requests.remove(&id);
            }
            Effect::Ask(waiting) => self.ask(waiting),
            Effect::Withdraw(id) => self.withdraw(&id),
            Effect::Turn(turn, _) => self.turn(&turn),
            Effect::Stop => {
                if let Stage::Running { stopper, .. } = &self.stage {
                    stopper.stop();
                }
            }
            Effect::Cancel => {
                if let Stage::Running { canceller, .. } = &self.stage {
                    canceller.cancel();
                }
            }
            Effect::Refused(Refusal::NothingToStop) => {}
            Effect::Refused(Refusal::Over) => {
                let why = if let Stage::Over(why) = &self.stage { why } else { "its run is over" };
                let over = wrong(format!("the chat has ended: {why}. Open a new session."));
                self.turn_ends(Err(over));
            }
            Effect::Refused(refusal) => {
                self.say(&format!("{}.", sentence(&refusal.to_string())));
                self.turn_ends(Ok(StopReason::EndTurn));
            }
            Effect::News(News::TakenBack) => {
                self.leaves_files = true;
                self.say("*(Your last message and what followed it are taken back. The worker does not see them any more.)*");
            }
            // The client has no place for them, or no command that makes them.
            Effect::News(_)
            | Effect::Ended(_)
            | Effect::Go(_)
            | Effect::Interject(..)
            | Effect::Listen
            | Effect::Queued
            | Effect::Return(_)
            | Effect::Undelivered(_) => {}
        }
    }

    /// Starts the chat with its first message.
    fn start(&mut self, Message { text, files }: Message) {
        let Stage::New { options, id } = &self.stage else { return };
        let session = options.session().clone();
        if let Some(file) = files.iter().find(|file| !session.reads(&file.file.media_type)) {
            let (name, kind) = (&file.file.name, &file.file.media_type);
            let why = format!("`{name}` is {kind}, which this worker's model can't read");
            self.take(Input::NotBegun);
            return self.turn_ends(Err(wrong(why)));
        }
        let input = RunInput { message: Some(text.clone()), contents: files, ..RunInput::default() };
        let port = self.port();
        let run = session.start_as(id, &input, Some(operator(&port)), Some(port));
        if run.is_ok() {
            let title = visible::start(&visible::line(&text), TITLE).into_owned();
            self.tell(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title)));
        }
        self.begun(session, run);
    }

    /// Continues the chat that was left.
    fn resume(&mut self) {
        let Stage::Left { session, dir } = &self.stage else { return };
        let (session, port) = ((**session).clone(), self.port());
        let run = PastRun::open(dir, session.home())
            .map_err(Problem::from)
            .and_then(|past| session.resume(past, Decisions::default(), Some(operator(&port)), Some(port)));
        self.begun(session, run);
    }

    fn begun(&mut self, session: Session, run: Result<Run, Problem>) {
        match run {
            Ok(run) => {
                let (stopper, canceller) = (run.stopper(), run.canceller());
                let sender = self.sender.clone();
                tokio::spawn(async move {
                    let report = run.finish().await;
                    // A session that is over needs no report.
                    let _ = sender.send(Signal::Ended(Box::new(report)));
                });
                self.stage = Stage::Running { session: Box::new(session), stopper, canceller };
                self.take(Input::Began);
            }
            Err(problem) => {
                self.take(Input::NotBegun);
                let why = wrong(self.host.explain(&problem));
                self.turn_ends(Err(why));
            }
        }
    }

    fn port(&self) -> Arc<RunPort<impl Fn(FromRun) -> bool + Send + Sync + use<>>> {
        let sender = self.sender.clone();
        Arc::new(RunPort(move |message: FromRun| sender.send(Signal::Run(message)).is_ok()))
    }

    /// Stops the answer. Open decisions stay open.
    fn cancel(&mut self) {
        let Some(prompted) = &mut self.prompted else { return };
        prompted.cancelled = true;
        self.stop();
    }

    fn stop(&mut self) {
        if self.dialogue.clear_queue() {
            self.say("*(Your message was not delivered.)*");
        }
        self.take(Input::Stop { talks: true });
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
                let detach = attached.into_iter().map(|message| Answer::Detach { message });
                self.take(Input::NotAttached(detach.collect()));
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
        self.take(Input::Ended { can_continue });
        self.seen.clear();
        self.replies.clear();
        self.requests.clear();
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
fn answers(Message { text, files }: Message) -> Vec<Answer> {
    let attach = |file: Attachment| {
        let (file, content) = (Arc::clone(&file.file.name), Some(Arc::new(file)));
        Answer::Attach { file, content }
    };
    let words = Answer::Give { value: Arc::new(Value::String(text)) };
    files.into_iter().map(attach).chain([words]).collect()
}

/// Returns the operator of a run: a person looks at one question at a time.
fn operator<S: Fn(FromRun) -> bool + Send + Sync + 'static>(port: &Arc<RunPort<S>>) -> Arc<dyn Operator> {
    Arc::new(OneAtATime::new(Arc::clone(port)))
}
