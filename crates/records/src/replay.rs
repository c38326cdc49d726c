//! The driver of a replay: every step comes from the record, and what the program does now is compared with it.
//!
//! A replay uses the same history as a resume, but adds nothing to it. A step that is not in the record is a
//! divergence, or the end if the record ends there. The driver writes nothing and runs only one step, the beginning of
//! a conversation, which renders the request to the model.

use crate::{
    history::{Found, History, same_intent},
    line::as_recorded,
    redactor::Redactor,
    sent::messages_sent,
};
use futures_util::{StreamExt, stream::FuturesOrdered};
use llm_do_core::{
    call_path::CallPath,
    call_spec::CallSpec,
    driver::{Caller, Driver, Exchanged, Known, Step, StepEnd, StepName, Stepped},
    engine::{Halt, Outcome},
    event::Event,
    journal::{Ending, Record, RecordKind},
    ledger::Reserved,
    model::{
        Blob, Capabilities, DeltaSink, Message, Model, ModelError, ModelErrorKind, ModelName, ModelRequest,
        ModelResponse, Models, Part,
    },
    origin::{Origin, Origins, UntrustedPlaces, UntrustedSet},
    question::{Approval, Given, Input, Question, QuestionId, Reply, Turn},
    send::BoxFuture,
    server_tool::ServerTool,
    shared::{InProcess, Shared},
};
use serde::Serialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The amounts that a replay has compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Calls of workers and tools.
    pub calls: u64,
    /// Requests to models.
    pub requests: u64,
    /// Steps of tools whose results came from the record.
    pub tools: u64,
}

/// A place where a program does something else than its record says.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The call.
    pub path: CallPath,
    /// The functions from the root down to that call, as far as they are recorded.
    pub chain: Vec<Arc<str>>,
    /// The step within the call.
    pub step: StepName,
    /// The difference.
    pub what: Difference,
}

/// A difference between program and record.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// The step is recorded, with another record.
    Changed {
        /// The recorded step.
        recorded: RecordKind,
        /// The record that the step would have now.
        now: RecordKind,
    },
    /// A model would be sent other messages.
    Sent {
        /// The messages that the model was sent.
        recorded: Vec<Arc<Message>>,
        /// The messages that the model would be sent now.
        now: Vec<Arc<Message>>,
    },
    /// The record has no such step.
    Added {
        /// The record that the step would make, where it is known without doing the step.
        now: Option<RecordKind>,
    },
    /// The program does not make the step any more.
    Gone {
        /// The recorded step.
        recorded: RecordKind,
        /// The end that the call now has, if it has ended.
        ended: Option<Ending>,
    },
}

impl Divergence {
    /// Returns the turn of the conversation in which the divergence is, if any: of the call itself, or, for a call that
    /// a model has made, of its caller.
    pub fn turn(&self) -> Option<u32> {
        let of_call = || {
            let (_, last) = self.path.as_str().rsplit_once('/')?;
            last.trim_start_matches("ensures.").split('.').next()?.parse().ok()
        };
        self.step.turn().or_else(of_call)
    }
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// The amounts that were compared.
    pub compared: Compared,
    /// True if the record goes to the end of the run. If not, the part up to its end was compared.
    pub whole: bool,
    /// The first place where the program differs from its record.
    pub divergence: Option<Divergence>,
}

/// Runs a program over a record, without its effects.
pub struct ReplayDriver {
    history: History,
    records: Arc<[Record]>,
    redactor: Arc<Redactor>,
    asked: Asked,
    shared: InProcess,
    /// The untrusted places. Nothing is written to them, and the list of the run is in the records.
    untrusted: UntrustedSet,
    state: Mutex<ReplayState>,
}

#[derive(Default)]
struct ReplayState {
    compared: Compared,
    divergence: Option<Divergence>,
    /// The places at which the record ends.
    stopped: Vec<CallPath>,
}

impl ReplayDriver {
    /// Makes a driver over these records.
    pub fn new(records: Arc<[Record]>, redactor: Arc<Redactor>) -> Self {
        let history = History::of(records.to_vec());
        let asked = Asked { capabilities: capabilities(&records), requests: Arc::default() };
        let (shared, untrusted, state) = (InProcess::default(), UntrustedSet::default(), Mutex::default());
        Self { history, records, redactor, asked, shared, untrusted, state }
    }

    /// Returns the models of the record: they have the recorded capabilities, and give no answers.
    pub fn models(&self) -> Arc<dyn Models> {
        Arc::new(self.asked.clone())
    }

    /// Returns the result of the comparison. To be called when the program has ended.
    pub fn report(&self) -> ReplayReport {
        let state = self.state();
        let gone = || {
            let (path, recorded) = self.history.never_made(&state.stopped)?;
            let what = Difference::Gone { recorded: recorded.clone(), ended: None };
            Some(self.divergence(path, &StepName::Call, what))
        };
        let divergence = state.divergence.clone().or_else(gone);
        let whole = self.history.is_over(&CallPath::root());
        ReplayReport { compared: state.compared, whole, divergence }
    }

    fn state(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn divergence(&self, path: &CallPath, step: &StepName, what: Difference) -> Divergence {
        let places = std::iter::successors(Some(path.clone()), CallPath::parent);
        let mut chain: Vec<Arc<str>> =
            places.filter_map(|place| self.history.function_at(&place).cloned()).collect();
        chain.reverse();
        Divergence { path: path.clone(), chain, step: step.clone(), what }
    }

    /// Notes a divergence, if it is the first, and ends the replay.
    fn diverges(&self, path: &CallPath, step: &StepName, what: Difference) -> Halt {
        let divergence = self.divergence(path, step, what);
        self.state().divergence.get_or_insert(divergence);
        Halt::Diverged { path: path.clone(), step: step.clone(), reason: "see the divergence".into() }
    }

    /// Ends the replay at a step that has no record: the step is new, or the record breaks off before it.
    fn beyond(&self, path: &CallPath, step: &StepName, now: Option<RecordKind>) -> Halt {
        if self.history.is_over(path) {
            return self.diverges(path, step, Difference::Added { now });
        }
        self.breaks_off(path)
    }

    fn breaks_off(&self, path: &CallPath) -> Halt {
        self.state().stopped.push(path.clone());
        Halt::Cancelled
    }

    /// Compares the record that a step would have now with the recorded one.
    fn compare(
        &self,
        path: &CallPath,
        step: &StepName,
        recorded: &RecordKind,
        now: &RecordKind,
    ) -> Result<(), Halt> {
        let now = &*now.as_of(recorded);
        // In the form of a record, which knows no difference between 1.0 and what is read back for it.
        let read_back = as_recorded(&self.redactor, path, step, now);
        if same(recorded, now) || read_back.as_ref().is_ok_and(|now| same(recorded, now)) {
            return Ok(());
        }
        let what = Difference::Changed { recorded: recorded.clone(), now: read_back.unwrap_or(now.clone()) };
        Err(self.diverges(path, step, what))
    }

    /// Compares the request to a model with the recorded one: by the digest, and message by message if the digests
    /// differ.
    async fn compare_sent(
        &self,
        path: &CallPath,
        step: &StepName,
        recorded: &RecordKind,
        now: &RecordKind,
        run: BoxFuture<'_, RecordKind>,
    ) -> Result<(), Halt> {
        if same_intent(recorded, now) {
            return Ok(());
        }
        // The model of a replay notes what it is asked, and that is all that asking it does.
        run.await;
        let asked = self.asked.requests().remove(path);
        let what = match (messages_sent(&self.records, path, step), asked) {
            (Some(recorded), Some(now)) if recorded != now => Difference::Sent { recorded, now },
            _ => Difference::Changed { recorded: recorded.clone(), now: now.clone() },
        };
        Err(self.diverges(path, step, what))
    }
}

impl Driver for ReplayDriver {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        Box::pin(async move {
            let Step { path, name, intent, run, .. } = step;
            let begins = name == StepName::Conversation;
            let begun = self.history.begun(path, &name);
            match (begun, &intent) {
                (Some(recorded @ RecordKind::ModelRequested { .. }), Some(now)) => {
                    self.state().compared.requests += 1;
                    self.compare_sent(path, &name, recorded, now, run).await?;
                    return self.recorded_end(path, &name);
                }
                (Some(recorded @ RecordKind::ToolStarted { function: before, .. }), Some(now)) => {
                    if !matches!(now, RecordKind::ToolStarted { function, .. } if function == before) {
                        self.compare(path, &name, recorded, now)?;
                    }
                    self.state().compared.tools += 1;
                }
                (Some(recorded), Some(now)) => self.compare(path, &name, recorded, now)?,
                _ => {}
            }
            if !begins {
                return match self.history.find(path, &name) {
                    // A limit that came after the record: what it leaves is compared no more than what others leave.
                    Found::Nothing if name.is_reservation() => {
                        let (end, at_ms) = (StepEnd::Done(run.await), self.now_ms());
                        Ok(Stepped { end, at_ms, took: Duration::ZERO })
                    }
                    Found::Nothing => Err(self.beyond(path, &name, intent)),
                    _ => self.recorded_end(path, &name),
                };
            }
            match self.history.find(path, &name) {
                Found::Nothing => Err(self.beyond(path, &name, Some(run.await))),
                Found::Ended { body: RecordKind::TimedOut { .. }, .. } | Found::Begun(..) => {
                    self.recorded_end(path, &name)
                }
                Found::Ended { body: recorded, .. } => {
                    self.compare(path, &name, recorded, &run.await)?;
                    self.recorded_end(path, &name)
                }
            }
        })
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        match &body {
            RecordKind::CallStarted { .. } => self.state().compared.calls += 1,
            // Where a run waits, it has no end.
            RecordKind::CallEnded { ending: Ending::Suspended, .. } => return Ok(()),
            RecordKind::CallEnded { ending, .. } => {
                if let Some((place, step, recorded)) = self.history.passed_over(path) {
                    let what = Difference::Gone { recorded: recorded.clone(), ended: Some(ending.clone()) };
                    return Err(self.diverges(place, step, what));
                }
            }
            _ => {}
        }
        match self.history.find(path, &name) {
            Found::Ended { body: recorded, at_ms, .. } => {
                self.history.reach(at_ms);
                self.compare(path, &name, recorded, &body)
            }
            // Printed text is not compared. The record of the call, which follows, names the called worker.
            _ if matches!(body, RecordKind::Note { .. } | RecordKind::Definition(_)) => Ok(()),
            _ => Err(self.beyond(path, &name, Some(body))),
        }
    }

    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        Box::pin(calls.into_iter().map(|call| caller.make(call)).collect::<FuturesOrdered<_>>().collect())
    }

    fn shared(&self) -> &dyn Shared {
        &self.shared
    }

    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        &self.untrusted
    }

    fn recorded_origins(&self, path: &CallPath) -> Option<Origins> {
        self.history.recorded_origins(path)
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        Box::pin(async move {
            let mut asked = None;
            if let Some(recorded @ RecordKind::Asked(before)) = self.history.begun(path, &name) {
                asked = Some(before.clone());
                // A preview shows files as they are, and they may have changed.
                let now = as_shown_in(before, &question);
                self.compare(path, &name, recorded, &RecordKind::Asked(now))?;
            }
            let (reply, began_ms, at_ms) = match self.history.find(path, &name) {
                Found::Ended { body: RecordKind::Answered(given), began_ms, at_ms } => {
                    let id = QuestionId::new(path, &name);
                    self.shared.known(&known, &id).answered(given);
                    (Reply::Given(given.clone()), began_ms, at_ms)
                }
                Found::Begun(_, at_ms) => (Reply::Later, at_ms, at_ms),
                Found::Ended { body, .. } => return Err(Halt::unexpected(path, &name, body)),
                Found::Nothing => {
                    return Err(self.beyond(path, &name, Some(RecordKind::Asked(question))));
                }
            };
            self.history.reach(at_ms);
            let waited = Duration::from_millis(at_ms.saturating_sub(began_ms));
            Ok(Exchanged { reply, asked, waited })
        })
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let slept = self.record(path, name, RecordKind::Slept { ms });
        Box::pin(async { slept })
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        self.history.drawn(path, &name).ok_or_else(|| self.beyond(path, &name, None))
    }

    fn said_meanwhile(&self, path: &CallPath, turn: u32) -> Result<Option<Given>, Halt> {
        self.history.said_meanwhile(path, turn)
    }

    fn now_ms(&self) -> u64 {
        self.history.now_ms()
    }

    fn reserved_before(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        self.history.reserved_below(path, since)
    }

    fn cancelled(&self) -> bool {
        self.state().divergence.is_some()
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        // Only a divergence ends a replay, and then the next step says so.
        Box::pin(std::future::pending())
    }

    fn emit(&self, _: Event) {}

    fn listens(&self) -> bool {
        false
    }
}

impl ReplayDriver {
    /// Returns the recorded end of a step.
    fn recorded_end(&self, path: &CallPath, name: &StepName) -> Result<Stepped, Halt> {
        self.history.stepped(path, name).ok_or_else(|| self.breaks_off(path))
    }
}

/// Returns true if two records have the same consequences.
fn same(recorded: &RecordKind, now: &RecordKind) -> bool {
    match (recorded, now) {
        // Threads of a program's code print in any order.
        (RecordKind::Note { .. }, RecordKind::Note { .. }) => true,
        // A text may change without changing anything that is sent.
        (RecordKind::Definition(before), RecordKind::Definition(now)) => before.worker == now.worker,
        // How much it takes follows from the model, and the conversation takes the recorded number.
        (RecordKind::ModelChosen { model: before, .. }, RecordKind::ModelChosen { model: now, .. }) => {
            before == now
        }
        (RecordKind::ConversationStarted { .. }, RecordKind::ConversationStarted { .. }) => {
            comparable(recorded) == comparable(now)
        }
        _ => recorded == now,
    }
}

/// Returns the beginning of a conversation without the parts that replays don't compare: the operator chooses the model
/// as much as the program does, and the contents of attached files belong to neither.
pub(crate) fn comparable(started: &RecordKind) -> RecordKind {
    let mut started = started.clone();
    if let RecordKind::ConversationStarted { model, message, origin, max_context_tokens, withheld, .. } =
        &mut started
    {
        // The model does not see these, and earlier versions did not record them.
        withheld.clear();
        // It follows from the model, and the conversation takes the recorded one.
        *max_context_tokens = None;
        // It depends on the files of that time, and the conversation takes the recorded one.
        *origin = Origin::default();
        if let Ok(any) = "any:any".parse() {
            *model = any;
        }
        let parts = message.parts.iter().map(|part| attached(part).map_or(part.clone(), Part::text));
        *message = Arc::new(Message { parts: parts.collect(), ..(**message).clone() });
    }
    started
}

/// Returns the text that replaces an attached file: its name.
fn attached(part: &Part) -> Option<String> {
    match part {
        Part::Blob(Blob { name, .. }) | Part::Attachment { name, .. } => {
            Some(format!("<attachment name=\"{}\">", name.replace('"', "'")))
        }
        _ => None,
    }
}

/// Returns the present question with the expiry of the recorded one, and with the parts that the recorded one showed of
/// files, of the context, of the contents that steer it and of rules.
fn as_shown_in(before: &Question, now: &Question) -> Question {
    let shown = match (before, now) {
        (Question::Approval(before), Question::Approval(now)) => {
            // How far calls beside it had come decided which of their contents it names. That others steer it stays compared.
            let steering = match (&before.steering, &now.steering) {
                (Some(then), Some(_)) => Some(then.clone()),
                (_, now) => now.clone(),
            };
            // The rules that are offered name the place of the program, which may have been moved since.
            let (preview, rules) = (before.preview.clone(), before.rules.clone());
            Question::Approval(Approval { preview, steering, rules, ..now.clone() })
        }
        (
            Question::Input(Input { conversation: Some(before), .. }),
            Question::Input(Input { conversation: Some(turn), .. }),
        ) => {
            let Question::Input(input) = now.clone() else { return now.clone() };
            let conversation = Some(Turn { context: before.context, ..turn.clone() });
            Question::Input(Input { conversation, ..input })
        }
        _ => now.clone(),
    };
    match before.expires_ms() {
        Some(at_ms) => shown.expiring(at_ms),
        None => shown,
    }
}

/// Returns the capabilities of the models of a record.
pub(crate) fn capabilities(records: &[Record]) -> Capabilities {
    let recorded = records.iter().rev().find_map(|record| match &record.body {
        RecordKind::ConversationStarted { can, .. } => Some(*can),
        _ => None,
    });
    recorded.unwrap_or(Capabilities { native_schema: true, tools: true, sees: Default::default() })
}

/// The models of a replay: they note the requests that they get.
#[derive(Clone)]
struct Asked {
    capabilities: Capabilities,
    requests: Arc<Mutex<HashMap<CallPath, Vec<Arc<Message>>>>>,
}

impl Asked {
    fn requests(&self) -> MutexGuard<'_, HashMap<CallPath, Vec<Arc<Message>>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Models for Asked {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Model for Asked {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns none: the recorded run had the tools.
    fn refused_server_tools(&self, _: &[ServerTool]) -> Vec<String> {
        Vec::new()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.requests().insert(request.conversation.clone(), request.messages.to_vec());
        Box::pin(async { Err(ModelError::new(ModelErrorKind::Unsupported, "nothing is sent in a replay")) })
    }
}
