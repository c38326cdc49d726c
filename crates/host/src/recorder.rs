//! The driver that records: steps run live, and each is written to the run's log.
//!
//! A resumed run takes the steps that its [`History`] contains from there. Time, randomness and the log are ports
//! ([`Ambient`], [`RunLog`]), so the same driver records on a disk, in a page and on a node of a cluster.

use crate::{
    deltas::Deltas,
    event_sink::EventSink,
    interjector::{Interjector, Said},
    partials::Partials,
    ports::{Ambient, RunLog, Written},
    switches::{Canceller, Stopper},
};
use futures_util::{
    StreamExt,
    future::{Either, select},
    stream::FuturesOrdered,
};
use llm_do_core::{
    call_path::CallPath,
    call_spec::CallSpec,
    driver::{Attempt, Caller, CutOff, Driver, Exchanged, Known, Step, StepEnd, StepName, Stepped},
    engine::{Halt, Outcome},
    event::Event,
    journal::{Ending, Queued, RecordKind},
    ledger::Reserved,
    operator::{Operator, Recall as _},
    origin::{Origins, UntrustedPlaces, UntrustedSet},
    question::{Answer, Given, Input, Question, QuestionId, Reply, Requester, STOPPED, Waiting},
    send::BoxFuture,
    shared::{InProcess, Shared},
};
use llm_do_records::{Found, History, as_recorded, same_intent};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::{pending, poll_fn, ready},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

/// The beginning of a step.
enum Begun {
    /// The step has its end already.
    Before(Box<Stepped>),
    /// The step begins, at the time of its intent if it has one.
    Now { at_ms: Option<u64> },
}

/// The fate of a question that is put.
enum Put {
    /// An answer that is known.
    Answered(Exchanged),
    /// The question was recorded at that time, and waits.
    Asked { question: Question, asked_ms: u64 },
}

/// Runs the steps of one run and records them in its log.
pub struct Recorder<L> {
    log: L,
    ambient: Arc<dyn Ambient>,
    operator: Arc<dyn Operator>,
    shared: InProcess,
    events: Option<Arc<dyn EventSink>>,
    deltas: Deltas,
    partials: Partials,
    canceller: Canceller,
    stopper: Stopper,
    interjector: Interjector,
    /// Numbers the words that wait for the conversation of the root.
    queued: AtomicU32,
    untrusted: Arc<dyn UntrustedPlaces>,
    /// The person or program that started the run, once its first record is written.
    requester: OnceLock<Requester>,
    /// Time after which a question expires.
    questions_expire: Option<Duration>,
    /// The records from before the run was resumed; empty for a new run.
    history: History,
}

impl<L: RunLog> Recorder<L> {
    /// A driver without an event sink.
    pub fn new(log: L, ambient: Arc<dyn Ambient>, operator: Arc<dyn Operator>) -> Self {
        let history = History::none(log.last_ms());
        Self::over(log, ambient, operator, history)
    }

    /// A driver that continues a log: steps in its history are not run again.
    ///
    /// # Errors
    /// The resume can't be recorded.
    pub fn resume(
        log: L,
        ambient: Arc<dyn Ambient>,
        operator: Arc<dyn Operator>,
        mut history: History,
        version: &str,
    ) -> Result<Self, Halt> {
        let idle_ms = history.idle_until(log.now_ms());
        history.idle_ms += idle_ms;
        let resumed = RecordKind::RunResumed { version: version.into(), idle_ms };
        log.append(&CallPath::root(), &StepName::Run, resumed, None)?;
        Ok(Self::over(log, ambient, operator, history))
    }

    fn over(log: L, ambient: Arc<dyn Ambient>, operator: Arc<dyn Operator>, history: History) -> Self {
        let shared = InProcess::default();
        let queued = AtomicU32::new(history.queued_so_far(&CallPath::root()));
        let untrusted = Arc::new(UntrustedSet::default());
        let requester = history.requester.clone().map(OnceLock::from).unwrap_or_default();
        Self {
            log,
            ambient,
            operator,
            queued,
            events: None,
            deltas: Deltas::default(),
            partials: Partials::default(),
            canceller: Canceller::default(),
            stopper: Stopper::default(),
            interjector: Interjector::default(),
            untrusted,
            requester,
            questions_expire: None,
            history,
            shared,
        }
    }

    /// Sets the places that earlier runs wrote from untrusted words. Without this call, the list is empty and ends with
    /// the run.
    #[must_use]
    pub fn with_untrusted_places(self, untrusted: Arc<dyn UntrustedPlaces>) -> Self {
        Self { untrusted, ..self }
    }

    /// Records answers to open questions, which are then not put to the operator. They count from now on, whether this
    /// execution reaches their questions or not.
    ///
    /// # Errors
    /// They can't be recorded.
    pub fn decide(mut self, decisions: BTreeMap<QuestionId, Given>) -> Result<Self, Halt> {
        for (id, given) in decisions {
            let asked = match self.history.begun(&id.call, &id.step) {
                Some(RecordKind::Asked(question)) => Some(question),
                _ => None,
            };
            let given = match id.step {
                StepName::Message(_) => given,
                _ => given.recorded(self.requester.get(), id.clone(), asked),
            };
            let Written { at_ms, body } = self.write_at(&id, RecordKind::Answered(given))?;
            match body {
                RecordKind::Answered(given) => self.history.decide(&id, given, at_ms),
                other => return Err(Halt::unexpected(&id.call, &id.step, &other)),
            }
        }
        self.log.flush()?;
        Ok(self)
    }

    fn write_at(&self, id: &QuestionId, body: RecordKind) -> Result<Written, Halt> {
        self.log.append(&id.call, &id.step, body, self.events.as_deref())
    }

    /// Records words that wait for the conversation of the root. A resumed run delivers them ([`History::queued`]) if
    /// this one does not.
    ///
    /// # Errors
    /// They can't be recorded.
    pub fn queue(&self, said: Said, now: bool) -> Result<(), Halt> {
        let Said { text, by, via } = said;
        let step = StepName::Queued(self.queued.fetch_add(1, Ordering::AcqRel));
        let queued = RecordKind::Queued(Queued { text: text.into(), by, via, now });
        self.log.append(&CallPath::root(), &step, queued, self.events.as_deref())?;
        self.log.flush()
    }

    /// Lets questions expire after that time: a call that waits for longer is denied, an input declined.
    #[must_use]
    pub fn with_questions_expiring(self, after: Option<Duration>) -> Self {
        Self { questions_expire: after, ..self }
    }

    /// Sets the sink that shows the events of the run.
    #[must_use]
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = Some(events);
        self
    }

    /// A switch that ends the run from outside.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// A switch that stops an answer from outside.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// A handle that says something to a conversation while its answer is made.
    pub fn interjector(&self) -> Interjector {
        self.interjector.clone()
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// Runs a future that calls this driver, and gathers its records. Records that follow from each other while the
    /// future runs without waiting go to the kernel in one write: before the run begins a step with an external effect,
    /// and before it waits or ends. Without this function every record is a write of its own.
    ///
    /// # Errors
    /// The errors of the future, and [`Halt::Journal`] when records can't be written; the future is then no longer
    /// polled.
    pub async fn gathering<T>(&self, run: impl Future<Output = Result<T, Halt>>) -> Result<T, Halt> {
        let mut run = pin!(run);
        poll_fn(|context| {
            let hold = Hold::on(&self.log);
            let polled = run.as_mut().poll(context);
            match hold.release() {
                Ok(()) => polled,
                Err(halt) => Poll::Ready(Err(halt)),
            }
        })
        .await
    }

    /// Writes a record. The returned time does not include the idle time of the run.
    fn write(&self, path: &CallPath, step: &StepName, body: RecordKind) -> Result<Written, Halt> {
        if let (StepName::Model(_), Some(events)) = (step, &self.events) {
            match body {
                RecordKind::ModelAnswered { .. } => {
                    let redactor = self.log.redactor();
                    let rest = [self.deltas.finish(redactor, path), self.partials.finish(redactor, path)];
                    rest.into_iter().flatten().for_each(|event| events.event(event));
                }
                _ => {
                    self.deltas.discard(path);
                    self.partials.discard(path);
                }
            }
        }
        if let RecordKind::RunStarted { requester: Some(requester), .. } = &body {
            // A run has one first record.
            let _ = self.requester.set(requester.clone());
        }
        let Written { at_ms, body } = self.log.append(path, step, body, self.events.as_deref())?;
        let at_ms = at_ms.saturating_sub(self.history.idle_ms);
        self.history.reach(at_ms);
        Ok(Written { at_ms, body })
    }

    /// Returns true if the record is in the history already. Another record in its place stops the run, which would
    /// then differ from its records.
    fn stands(&self, path: &CallPath, name: &StepName, body: &RecordKind) -> Result<bool, Halt> {
        let Found::Ended { body: recorded, at_ms, .. } = self.history.find(path, name) else {
            return Ok(false);
        };
        self.history.reach(at_ms);
        let body = &*body.as_of(recorded);
        // Threads of a program's code print in any order.
        let same = recorded == body
            || matches!((recorded, body), (RecordKind::Note { .. }, RecordKind::Note { .. }))
            || matches!((recorded, body), (RecordKind::Definition(then), RecordKind::Definition(now))
                // Earlier versions recorded no code.
                if then.code_sha256.is_none() && then.worker == now.worker && then.sha256 == now.sha256)
            || as_recorded(self.log.redactor(), path, name, body).is_ok_and(|body| body == *recorded);
        if same { Ok(true) } else { Err(diverged(path, name, recorded, body)) }
    }

    /// The recorded end of a step in the history, or the operator's decision in its place.
    fn ended_before(
        &self,
        path: &CallPath,
        name: &StepName,
        intent: Option<&RecordKind>,
        cut_off: CutOff,
    ) -> Result<Option<Stepped>, Halt> {
        if let (Some(begun), Some(intent)) = (self.history.begun(path, name), intent)
            && !same_intent(begun, intent)
        {
            return Err(diverged(path, name, begun, intent));
        }
        if let Some(stepped) = self.history.stepped(path, name) {
            return Ok(Some(stepped));
        }
        // A step that has begun runs again, unless it counts as done.
        let (Found::Begun(..), CutOff::Done(body)) = (self.history.find(path, name), cut_off) else {
            return Ok(None);
        };
        let Written { at_ms, body } = self.write(path, name, body)?;
        Ok(Some(Stepped { end: StepEnd::Done(body), at_ms, took: Duration::ZERO }))
    }

    /// Begins a step: records its intent, unless the history contains the step with its end.
    fn begin(
        &self,
        path: &CallPath,
        name: &StepName,
        intent: Option<RecordKind>,
        cut_off: CutOff,
    ) -> Result<Begun, Halt> {
        self.unless_ended()?;
        if let Some(before) = self.ended_before(path, name, intent.as_ref(), cut_off)? {
            return Ok(Begun::Before(Box::new(before)));
        }
        let intent = intent.map(|body| self.write(path, name, body)).transpose()?;
        // What was recorded before such a step goes to the kernel with the intent of the request, or before the run waits.
        if !name.is_harmless() {
            self.log.flush()?;
        }
        Ok(Begun::Now { at_ms: intent.map(|intent| intent.at_ms) })
    }

    /// Puts a question, unless its answer is known.
    fn put(&self, path: &CallPath, name: &StepName, question: Question, known: &Known) -> Result<Put, Halt> {
        self.unless_ended()?;
        let id = QuestionId::new(path, name);
        let recall = self.shared.known(known, &id);
        let (question, asked_ms) = match self.history.find(path, name) {
            Found::Ended { body: RecordKind::Answered(given), began_ms, at_ms } => {
                self.history.reach(at_ms);
                recall.answered(given);
                let waited = Duration::from_millis(at_ms.saturating_sub(began_ms));
                let asked = match self.history.begun(path, name) {
                    Some(RecordKind::Asked(question)) => Some(question.clone()),
                    _ => None,
                };
                return Ok(Put::Answered(Exchanged { reply: Reply::Given(given.clone()), asked, waited }));
            }
            Found::Ended { body, .. } => return Err(Halt::unexpected(path, name, body)),
            // Asked before and not answered: the question stays as it is.
            Found::Begun(RecordKind::Asked(question), at_ms) => (question.clone(), Some(at_ms)),
            Found::Begun(body, _) => return Err(Halt::unexpected(path, name, body)),
            Found::Nothing => (question, None),
        };
        if let Some(given) = recall.recall() {
            // Without a time it was never asked.
            let asked = asked_ms.map(|_| question);
            return self.answered(path, name, given, asked, asked_ms, known).map(Put::Answered);
        }
        if question.has_expired(self.log.now_ms())
            && let Some(given) = question.expired()
        {
            return self.answered(path, name, given, Some(question), asked_ms, known).map(Put::Answered);
        }
        let (question, asked_ms) = match asked_ms {
            Some(at_ms) => (question, at_ms),
            None => match self.write(path, name, RecordKind::Asked(self.expiring(question)))? {
                Written { at_ms, body: RecordKind::Asked(question) } => (question, at_ms),
                Written { body, .. } => return Err(Halt::unexpected(path, name, &body)),
            },
        };
        self.log.flush()?;
        Ok(Put::Asked { question, asked_ms })
    }

    /// Sets the expiry of a question that is about to be put.
    fn expiring(&self, question: Question) -> Question {
        match self.questions_expire {
            Some(after) => question.expiring(self.log.now_ms().saturating_add(millis(after))),
            None => question,
        }
    }

    /// Waits until a question has expired, and returns its answer in that case.
    async fn expired(&self, question: &Question) -> Reply {
        let (Some(at_ms), Some(given)) = (question.expires_ms(), question.expired()) else {
            return pending().await;
        };
        let left = at_ms.saturating_sub(self.log.now_ms());
        self.ambient.after(Duration::from_millis(left)).await;
        Reply::Given(given)
    }

    /// Waits for the operator's answer to a question that was put at that time.
    async fn answer_to(&self, waiting: Waiting, asked_ms: u64, known: Known) -> Result<Exchanged, Halt> {
        let listens = matches!(&waiting.question, Question::Input(Input { conversation: Some(_), .. }));
        if listens {
            self.stopper.reset();
        }
        let reply = {
            let recall = self.shared.known(&known, &waiting.id);
            let reply = async {
                let reply = self.operator.exchange(&waiting, &recall);
                if !waiting.question.ends_with_answer() {
                    return reply.await;
                }
                let ended = async {
                    match select(pin!(self.stopper.stopped()), pin!(self.expired(&waiting.question))).await {
                        Either::Left(_) => Reply::Given(Given::operator(Answer::Stop, STOPPED)),
                        Either::Right((reply, _)) => reply,
                    }
                };
                // The first counts: an answer that arrived, even if the user stopped the answer at the same moment.
                select(reply, pin!(ended)).await.factor_first().0
            };
            self.unless_cancelled(&waiting.id.call, &waiting.id.step, pin!(reply)).await?
        };
        if listens {
            // A stop that came after the end of the answer is not one of the next answer.
            self.stopper.reset();
        }
        let Waiting { id, question } = waiting;
        match reply {
            Reply::Given(given) if given.answer.fits(&question) => {
                self.answered(&id.call, &id.step, given, Some(question), Some(asked_ms), &known)
            }
            // An operator that answers another question than it was asked has not answered this one.
            Reply::Given(_) | Reply::Later => {
                Ok(Exchanged { reply: Reply::Later, asked: Some(question), waited: Duration::ZERO })
            }
        }
    }

    /// Remembers and records an answer, in the same poll in which it arrives, before the next question in line is
    /// served.
    fn answered(
        &self,
        path: &CallPath,
        name: &StepName,
        given: Given,
        asked: Option<Question>,
        asked_ms: Option<u64>,
        known: &Known,
    ) -> Result<Exchanged, Halt> {
        let id = QuestionId::new(path, name);
        self.shared.known(known, &id).answered(&given);
        let is_message = matches!(name, StepName::Message(_));
        let given = match is_message {
            true => given,
            false => given.recorded(self.requester.get(), id, asked.as_ref()),
        };
        let written = self.write(path, name, RecordKind::Answered(given))?;
        let asked_ms = asked_ms.unwrap_or(written.at_ms);
        let waited = Duration::from_millis(written.at_ms.saturating_sub(asked_ms));
        match written.body {
            RecordKind::Answered(given) => Ok(Exchanged { reply: Reply::Given(given), asked, waited }),
            other => Err(Halt::unexpected(path, name, &other)),
        }
    }

    /// Waits for the future, and returns its value, or the record that the step was cut off.
    async fn unless_cancelled<T>(
        &self,
        path: &CallPath,
        step: &StepName,
        future: impl Future<Output = T> + Unpin,
    ) -> Result<T, Halt> {
        // The first counts: a step that has ended, even if the run was ended at the same moment.
        match select(future, pin!(self.canceller.cancelled())).await {
            Either::Left((value, _)) => Ok(value),
            Either::Right(_) => {
                self.write(path, step, RecordKind::Cancelled)?;
                Err(Halt::Cancelled)
            }
        }
    }

    fn unless_ended(&self) -> Result<(), Halt> {
        if self.canceller.is_cancelled() { Err(Halt::Cancelled) } else { Ok(()) }
    }
}

impl<L: RunLog> Driver for Recorder<L> {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        let Step { path, name, intent, deadline, cut_off, run } = step;
        // The future holds only what it needs while it waits, which is most of what a run does.
        let began_ms = match self.begin(path, &name, intent, cut_off) {
            Ok(Begun::Now { at_ms }) => at_ms,
            Ok(Begun::Before(stepped)) => return Box::pin(ready(Ok(*stepped))),
            Err(halt) => return Box::pin(ready(Err(halt))),
        };
        Box::pin(async move {
            let timed = async move {
                match deadline {
                    None => Ok(run.await),
                    Some(deadline) => match select(run, self.ambient.after(deadline)).await {
                        Either::Left((body, _)) => Ok(body),
                        Either::Right(_) => Err(millis(deadline)),
                    },
                }
            };
            let (body, timed_out) = match self.unless_cancelled(path, &name, pin!(timed)).await? {
                Ok(body) => (body, false),
                Err(after_ms) => (RecordKind::TimedOut { after_ms }, true),
            };
            let Written { at_ms, body } = self.write(path, &name, body)?;
            // From the recorded times alone, so that a resumed run knows the same. A step without an intent has no
            // recorded beginning: it took no time.
            let took = Duration::from_millis(at_ms - began_ms.unwrap_or(at_ms));
            let end = if timed_out { StepEnd::TimedOut } else { StepEnd::Done(body) };
            Ok(Stepped { end, at_ms, took })
        })
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        if self.stands(path, &name, &body)? {
            return Ok(());
        }
        if matches!(&body, RecordKind::CallEnded { ending, .. } if *ending != Ending::Suspended)
            && let Some(left_out) = self.history.left_out(path)
        {
            let reason = format!(
                "the call at {left_out} was recorded, and is not made any more: the code that made it took another path. Put \
                 what may differ between two executions (the time, a random number, the content of a file) into `ctx.step`"
            );
            return Err(Halt::Diverged { path: path.clone(), step: name, reason });
        }
        self.write(path, &name, body).map(drop)
    }

    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        // Polls only what was woken: a hundred children that each wake often must not poll each other.
        Box::pin(calls.into_iter().map(|call| caller.make(call)).collect::<FuturesOrdered<_>>().collect())
    }

    fn keep_content(&self, sha256: &str, content: &[u8]) -> bool {
        self.log.keep_content(sha256, content)
    }

    fn kept_content(&self, sha256: &str) -> Option<Vec<u8>> {
        self.log.kept_content(sha256)
    }

    fn shared(&self) -> &dyn Shared {
        &self.shared
    }

    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        &*self.untrusted
    }

    fn recorded_origins(&self, path: &CallPath) -> Option<Origins> {
        self.history.recorded_origins(path)
    }

    fn left_out(&self, path: &CallPath) -> Option<CallPath> {
        self.history.left_out(path).cloned()
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        // As in a step, the future holds only what it needs while it waits.
        match self.put(path, &name, question, &known) {
            Ok(Put::Answered(exchanged)) => Box::pin(ready(Ok(exchanged))),
            Ok(Put::Asked { question, asked_ms }) => {
                let waiting = Waiting { id: QuestionId::new(path, &name), question };
                Box::pin(self.answer_to(waiting, asked_ms, known))
            }
            Err(halt) => Box::pin(ready(Err(halt))),
        }
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            self.unless_ended()?;
            if self.stands(path, &name, &RecordKind::Slept { ms: millis(time) })? {
                return Ok(());
            }
            let stopped = pin!(self.stopper.stopped());
            self.unless_cancelled(path, &name, select(self.ambient.after(time), stopped)).await?;
            self.write(path, &name, RecordKind::Slept { ms: millis(time) }).map(drop)
        })
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        if let Some(value) = self.history.drawn(path, &name) {
            return Ok(value);
        }
        let value = self.ambient.random();
        self.write(path, &name, RecordKind::Random { value })?;
        Ok(value)
    }

    fn begun(&self, path: &CallPath, step: &StepName) -> Option<RecordKind> {
        match self.history.find(path, step) {
            Found::Begun(body, _) => Some(body.clone()),
            // It has been settled since: every later execution takes the settlement, too.
            Found::Ended { .. } if !matches!(self.history.find(path, &StepName::Settle), Found::Nothing) => {
                self.history.begun(path, step).cloned()
            }
            Found::Nothing | Found::Ended { .. } => None,
        }
    }
    fn reserved_before(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        self.history.reserved_below(path, since)
    }

    fn unrecorded<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            match select(work, pin!(self.canceller.cancelled())).await {
                Either::Left(_) => Ok(()),
                Either::Right(_) => Err(Halt::Cancelled),
            }
        })
    }

    fn now_ms(&self) -> u64 {
        self.history.now_ms()
    }

    fn cancelled(&self) -> bool {
        self.canceller.is_cancelled()
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.canceller.cancelled())
    }

    fn conversation_ended(&self, path: &CallPath) {
        self.operator.conversation_ended(path);
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stopper.stopped())
    }

    fn said_meanwhile(&self, path: &CallPath, turn: u32) -> Result<Option<Given>, Halt> {
        if let Some(given) = self.history.said_meanwhile(path, turn)? {
            return Ok(Some(given));
        }
        let request = StepName::Model(Attempt { turn, attempt: 0 });
        if !matches!(self.history.find(path, &request), Found::Nothing) {
            return Ok(None);
        }
        let said = self.interjector.take(path);
        let Some(Said { by, via, .. }) = said.first() else { return Ok(None) };
        let texts: Vec<&str> = said.iter().map(|said| said.text.as_str()).collect();
        let value = Arc::new(Value::String(texts.join("\n\n")));
        let given = Given::new(Answer::Give { value }, Arc::clone(by), Arc::clone(via));
        let name = StepName::Now(turn);
        match self.write(path, &name, RecordKind::Answered(given))?.body {
            RecordKind::Answered(given) => Ok(Some(given)),
            other => Err(Halt::unexpected(path, &name, &other)),
        }
    }

    fn emit(&self, event: Event) {
        let Some(events) = &self.events else { return };
        match event {
            Event::Delta { path, turn, delta } => {
                let redacted = self.deltas.push(self.log.redactor(), &path, turn, delta);
                redacted.into_iter().for_each(|event| events.event(event));
            }
            Event::Partial { path, turn, growth } => {
                let redacted = self.partials.push(self.log.redactor(), &path, turn, growth);
                redacted.into_iter().for_each(|event| events.event(event));
            }
            Event::Discard { ref path, .. } => {
                self.deltas.discard(path);
                self.partials.discard(path);
                events.event(event);
            }
            Event::DiscardPartial { ref path, .. } => {
                self.partials.discard(path);
                events.event(event);
            }
            // Made by the journal, which has redacted it.
            record @ Event::Record { .. } => events.event(record),
        }
    }

    fn listens(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.wants_deltas())
    }
}

/// The error for a program that differs from its records.
fn diverged(path: &CallPath, step: &StepName, recorded: &RecordKind, now: &RecordKind) -> Halt {
    let text = |body: &RecordKind| {
        let text = serde_json::to_string(body).unwrap_or_default();
        match text.char_indices().nth(300) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    let reason = format!("recorded was\n  {}\nand now it would be\n  {}", text(recorded), text(now));
    Halt::Diverged { path: path.clone(), step: step.clone(), reason }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A guard during which records are gathered.
struct Hold<'a, L: RunLog>(&'a L);

impl<'a, L: RunLog> Hold<'a, L> {
    fn on(log: &'a L) -> Self {
        log.hold();
        Self(log)
    }

    /// Writes the gathered records and ends the hold.
    fn release(self) -> Result<(), Halt> {
        let log = self.0;
        // Not by `drop`, which can't return an error.
        std::mem::forget(self);
        log.release()
    }
}

impl<L: RunLog> Drop for Hold<'_, L> {
    fn drop(&mut self) {
        // Reached after a panic, which the error must not hide.
        let _ = self.0.release();
    }
}
