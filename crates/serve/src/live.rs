//! A run that is under way in this process.

use crate::{
    log::LogEntry,
    notices::{Changed, Notices},
    views::State,
};
use llm_do::{
    Client, Inbox, NotTaken, OpenQuestions, PastRun, Report, Run,
    core::{
        call_path::CallPath,
        event::Event,
        journal::{Queued, RecordKind},
        model::Delta,
        operator::{Operator, Recall},
        outcome::Halt,
        partial::Growth,
        question::{Answer, EXPIRED, Given, Input, Question, QuestionId, Reply, Waiting},
        send::BoxFuture,
    },
    records::{RecordRef, RunView},
    runs::{Canceller, EventSink, Interjector, Said as Words, Stopper, Switch},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    oneshot, watch,
};

/// Events that are kept for a reader. One that is further behind loses deltas, and reads records from the journal.
pub(crate) const KEPT_EVENTS: usize = 256;
/// Most messages that wait for a conversation.
const MOST_MESSAGES: usize = 32;

/// The properties of a run that are known when it begins.
pub(crate) struct About {
    pub(crate) worker: Arc<str>,
    pub(crate) chat: bool,
    pub(crate) client: Client,
    /// The beginning of the run's input.
    pub(crate) title: Option<String>,
    /// The time at which this process prepared the run, in milliseconds since 1970.
    pub(crate) taken_ms: u64,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis().try_into().unwrap_or_default()
}

/// A run that is under way.
pub(crate) struct LiveRun {
    pub(crate) id: Arc<str>,
    pub(crate) about: About,
    canceller: Canceller,
    stopper: Stopper,
    interjector: Interjector,
    inbox: Inbox,
    desk: Arc<Desk>,
    feed: Arc<Feed>,
    ended: Switch,
    attachments: Mutex<Attachments>,
}

/// The requests of clients that wait for a run.
#[derive(Default)]
struct Attachments {
    now: usize,
    ever: u64,
}

/// The delivery of a message that was accepted. A kill of the process does not lose a recorded message.
pub(crate) enum Said {
    /// The message answers the question of its conversation, as soon as the answer is recorded.
    Answers(Recorded),
    /// The message is recorded, and delivered with the next request of the answer under way.
    Interjected,
    /// The message is recorded, and delivered when the answer is complete.
    Queued,
}

/// The reason why a message is not accepted.
pub(crate) enum NotSaid {
    /// Too many messages wait.
    Full,
    /// The run is over.
    Over,
    /// The message can't be recorded.
    Halt(Halt),
}

/// The receiver of the notice that an answer was recorded.
pub(crate) struct Recorded(oneshot::Receiver<()>);

/// The ports of a run to its clients, made before the run.
pub(crate) struct Ports {
    desk: Arc<Desk>,
    feed: Arc<Feed>,
}

impl Ports {
    /// Creates the ports. Records name `via` as the channel of the clients' answers and messages. A chat ends if its
    /// next message does not arrive within `chats_expire`.
    pub(crate) fn new(via: &'static str, chats_expire: Option<Duration>) -> Self {
        let feed = Feed::default();
        let desk = Desk {
            via,
            questions: OpenQuestions::default(),
            messages: Mutex::default(),
            chats_expire,
            expired: AtomicBool::new(false),
            shown: OnceLock::new(),
        };
        Self { desk: Arc::new(desk), feed: Arc::new(feed) }
    }

    /// Creates the ports of a run that an earlier process began, with the clients that answered its questions and the
    /// messages that wait.
    pub(crate) fn continued(via: &'static str, chats_expire: Option<Duration>, past: &PastRun) -> Self {
        let ports = Self::new(via, chats_expire);
        past.waiting().into_iter().for_each(|waiting| ports.desk.questions.waited(waiting.id));
        past.answered().for_each(|(id, by)| ports.desk.questions.was_answered(id, by));
        if let Some(first) = past.records().first() {
            ports.feed.began_ms.get_or_init(|| first.at_ms);
        }
        if let Some(last) = past.records().last() {
            ports.feed.next.store(last.seq + 1, Ordering::SeqCst);
        }
        let message = |Queued { text, by, .. }: Queued| Message { text: text.to_string(), by };
        ports.desk.messages().extend(past.queued().into_iter().map(message));
        ports
    }

    /// Notes an answer that comes with the command to continue.
    pub(crate) fn was_answered(&self, question: &QuestionId, by: &Arc<str>) {
        self.desk.questions.was_answered(question.clone(), Arc::clone(by));
    }

    pub(crate) fn operator(&self) -> Arc<dyn Operator> {
        Arc::clone(&self.desk) as _
    }

    pub(crate) fn events(&self) -> Arc<dyn EventSink> {
        Arc::clone(&self.feed) as _
    }
}

impl LiveRun {
    pub(crate) fn new(run: &Run, ports: Ports, about: About, notices: &Arc<Notices>) -> Arc<Self> {
        let Ports { desk, feed } = ports;
        let shown = Changed {
            run: Arc::clone(run.id()),
            program: Arc::clone(&about.client.program),
            worker: Arc::clone(&about.worker),
            state: State::Queued,
            chat: about.chat,
            client: Arc::clone(&about.client.name),
        };
        let shown = Shown {
            queued: AtomicBool::new(false),
            last: Mutex::default(),
            run: shown,
            notices: Arc::clone(notices),
            interjector: run.interjector(),
        };
        // Set once, here.
        let _ = desk.shown.set(shown);
        Arc::new(Self {
            id: Arc::clone(run.id()),
            about,
            canceller: run.canceller(),
            stopper: run.stopper(),
            interjector: run.interjector(),
            inbox: run.inbox(),
            desk,
            feed,
            ended: Switch::default(),
            attachments: Mutex::default(),
        })
    }

    /// Counts a request that waits for the run.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached {
        let mut attachments = self.attachments();
        attachments.now += 1;
        attachments.ever += 1;
        Attached { live: Arc::clone(self), stays: false }
    }

    fn attachments(&self) -> MutexGuard<'_, Attachments> {
        self.attachments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log entry about the run.
    pub(crate) fn entry(&self, event: &'static str) -> LogEntry {
        LogEntry {
            event,
            run: Some(self.id.to_string()),
            program: Some(self.about.client.program.to_string()),
            worker: Some(self.about.worker.to_string()),
            ..LogEntry::default()
        }
    }

    /// The time at which the run began, in milliseconds since 1970. It is the time of the first record, which every
    /// later process reads too.
    pub(crate) fn started_ms(&self) -> u64 {
        self.feed.began_ms.get().copied().unwrap_or(self.about.taken_ms)
    }

    /// The time since the run began.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.started_ms()))
    }

    /// Notifies followers of the service that the run has begun.
    pub(crate) fn announce(&self) {
        self.desk.changed();
    }

    /// Marks the run as waiting for a place among the runs at once.
    pub(crate) fn queue(&self) {
        if let Some(shown) = self.desk.shown.get() {
            shown.queued.store(true, Ordering::SeqCst);
        }
    }

    /// Marks the run as having its place, and notifies followers of the service if it was queued.
    pub(crate) fn placed(&self) {
        if let Some(shown) = self.desk.shown.get()
            && shown.queued.swap(false, Ordering::SeqCst)
        {
            self.desk.changed();
        }
    }

    /// Notifies followers of the service that the run has ended in that state.
    pub(crate) fn announce_end(&self, state: State) {
        if let Some(shown) = self.desk.shown.get() {
            shown.notices.run(Changed { state, ..shown.run.clone() });
        }
    }

    /// Drives the run to its end, and then closes its feed.
    pub(crate) fn carry_out(&self, run: Run) -> impl Future<Output = Report> + use<> {
        // Made here, so that the future keeps no room for the run itself.
        let (running, feed) = (run.finish(), Arc::clone(&self.feed));
        async move {
            let report = running.await;
            feed.close();
            report
        }
    }

    /// Closes the feed, and notifies the requests that wait for the run that it is over.
    pub(crate) fn over(&self) {
        self.feed.close();
        self.ended.turn_on();
    }

    pub(crate) fn state(&self) -> State {
        self.desk.state()
    }

    /// Returns the open questions, and the state at the same moment: a run that waits has one of them.
    pub(crate) fn waits(&self) -> (State, Vec<Waiting>) {
        let questions = self.desk.questions.waiting();
        (self.desk.state_with(questions.len()), questions)
    }

    /// The client that started it.
    pub(crate) fn client(&self) -> &Client {
        &self.about.client
    }

    /// Stops the answer under way of the run's conversation. Returns false if none is under way.
    pub(crate) fn stop(&self) -> bool {
        let speaks = |waiting: &Waiting| {
            matches!(&waiting.question, Question::Input(Input { conversation: Some(_), .. }))
        };
        if self.desk.questions.waiting().iter().any(speaks) {
            return false;
        }
        self.stopper.stop();
        true
    }

    pub(crate) fn questions(&self) -> &OpenQuestions {
        &self.desk.questions
    }

    /// Returns true if the run is a chat that has ended because its next message did not come in time.
    pub(crate) fn has_expired(&self) -> bool {
        self.desk.expired.load(Ordering::SeqCst)
    }

    /// Subscribes to the run's events from now on. Returns `None` if the run has ended.
    pub(crate) fn subscribe(&self) -> Option<Joined> {
        Joined::of(&self.feed)
    }

    /// The number of the next record of the run. Each earlier record has been sent to the run's readers.
    pub(crate) fn next_record(&self) -> u64 {
        self.feed.next.load(Ordering::SeqCst)
    }

    /// Subscribes to the calls under way in the run, from now on.
    pub(crate) fn progress(&self) -> watch::Receiver<RunView> {
        self.feed.progress.get_or_init(|| watch::Sender::new(RunView::of_calls_under_way())).subscribe()
    }

    pub(crate) fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits until the journal has a record, so that the run can be continued even if the process is killed. Returns
    /// false if the run ended without one.
    pub(crate) async fn recorded(&self) -> bool {
        tokio::select! {
            biased;
            () = self.feed.first.turned_on() => true,
            () = self.ended() => false,
        }
    }

    /// Waits until the run is over.
    pub(crate) async fn ended(&self) {
        self.ended.turned_on().await;
    }

    /// Gives an answer to a question. Only the first answer counts.
    ///
    /// # Errors
    /// The answer is not accepted.
    pub(crate) fn give(&self, question: &QuestionId, seen: &str, given: Given) -> Result<Recorded, NotTaken> {
        // Before it is given: the run may record it at once.
        let recorded = self.feed.awaits(question);
        match self.desk.questions.take(question, Some(seen), &given.answer, &given.by) {
            Ok(taken) => {
                taken.give(given);
                Ok(recorded)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a continued run asks again a question that waited in an earlier process, records an answer to it, or
    /// ends.
    pub(crate) async fn puts_again(&self, question: &QuestionId) {
        tokio::select! {
            biased;
            () = self.desk.questions.put_again(question) => {}
            _ = self.is_recorded(self.feed.awaits(question)) => {}
        }
    }

    /// Waits until an answer is recorded. Returns false if the run has ended without it.
    pub(crate) async fn is_recorded(&self, Recorded(mut recorded): Recorded) -> bool {
        tokio::select! {
            biased;
            recorded = &mut recorded => recorded.is_ok(),
            () = self.ended() => recorded.try_recv().is_ok(),
        }
    }

    /// Gives a message to the run's conversation: at once if the conversation waits for one, else when its answer is
    /// complete, or with the next request of the answer if `now`. A message that waits is recorded first.
    pub(crate) fn say(&self, text: String, by: &Arc<str>, now: bool) -> Result<Said, NotSaid> {
        let mut messages = self.desk.messages();
        let words = || Words { text: text.clone(), by: Arc::clone(by), via: self.desk.via.into() };
        let queue = |now: bool| match self.inbox.queue(words(), now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(NotSaid::Over),
            Err(halt) => Err(NotSaid::Halt(halt)),
        };
        let questions = self.desk.questions.waiting();
        let turn = questions.iter().find(|waiting| is_turn(waiting));
        let message = || Message { text: text.clone(), by: Arc::clone(by) };
        if let Some(waiting) = turn.filter(|_| messages.is_empty())
            && let Ok(recorded) = self.give(&waiting.id, &waiting.digest(), message().answer(self.desk.via))
        {
            return Ok(Said::Answers(recorded));
        }
        if now && turn.is_none() && messages.is_empty() {
            queue(true)?;
            self.interjector.say_as(CallPath::root(), words());
            return Ok(Said::Interjected);
        }
        if messages.len() >= MOST_MESSAGES {
            return Err(NotSaid::Full);
        }
        // Somebody else may have answered in this moment: the message is for the next turn.
        queue(false)?;
        messages.push_back(message());
        Ok(Said::Queued)
    }
}

/// A request that waits for a run. When the last one is dropped, the run is cancelled, or the answer is stopped if the run is a
/// chat: its client is gone.
pub(crate) struct Attached {
    live: Arc<LiveRun>,
    stays: bool,
}

impl Attached {
    /// Ends the request and lets the run continue.
    pub(crate) fn leave(mut self) {
        self.stays = true;
    }

    /// Ends the request with questions that a later one answers. The run is suspended if none comes within that time.
    pub(crate) fn leave_for(self, within: Duration) {
        let live = Arc::clone(&self.live);
        self.leave();
        let seen = live.attachments().ever;
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(within) => {}
                () = live.ended() => return,
            }
            if live.attachments().ever == seen {
                live.questions().close();
            }
        });
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let is_last = {
            let mut attachments = self.live.attachments();
            attachments.now -= 1;
            attachments.now == 0
        };
        if !is_last || self.stays || self.live.ended.is_on() {
            return;
        }
        match self.live.about.chat {
            true => drop(self.live.stop()),
            false => self.live.cancel(),
        }
    }
}

/// Returns true if the question is the one with which the run's own conversation waits for the user's next message.
pub(crate) fn is_turn(waiting: &Waiting) -> bool {
    waiting.id.call == CallPath::root()
        && matches!(&waiting.question, Question::Input(Input { conversation: Some(_), .. }))
}

/// A message that waits for a conversation.
struct Message {
    text: String,
    by: Arc<str>,
}

impl Message {
    fn answer(&self, via: &str) -> Given {
        let value = Arc::new(self.text.as_str().into());
        Given::new(Answer::Give { value }, Arc::clone(&self.by), via)
    }
}

/// The open questions of a run, and the messages that wait for its conversation.
struct Desk {
    /// The channel through which answers and messages come, as records name it.
    via: &'static str,
    questions: OpenQuestions,
    messages: Mutex<VecDeque<Message>>,
    /// The time for which a chat waits for its next message.
    chats_expire: Option<Duration>,
    expired: AtomicBool,
    shown: OnceLock<Shown>,
}

/// The state of a run as followers of the service know it.
struct Shown {
    run: Changed,
    queued: AtomicBool,
    /// The last state that was sent to the followers; absent before the first.
    last: Mutex<Option<State>>,
    notices: Arc<Notices>,
    interjector: Interjector,
}

impl Desk {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until that question has waited too long for the next message of a chat.
    async fn expiry(&self, waiting: &Waiting) {
        match self.chats_expire.filter(|_| is_turn(waiting)) {
            Some(after) => tokio::time::sleep(after).await,
            None => pending().await,
        }
    }

    fn state(&self) -> State {
        self.state_with(self.questions.count())
    }

    /// Returns the state of a run with that number of open questions.
    fn state_with(&self, questions: usize) -> State {
        match questions {
            _ if self.shown.get().is_some_and(|shown| shown.queued.load(Ordering::SeqCst)) => State::Queued,
            0 => State::Running,
            _ => State::Waiting,
        }
    }

    /// Notifies followers of the service if the state has changed.
    fn changed(&self) {
        let Some(shown) = self.shown.get() else { return };
        let mut last = shown.last.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        if last.replace(state) != Some(state) {
            shown.notices.run(Changed { state, ..shown.run.clone() });
        }
    }
}

/// A question that is open. The guard is dropped when the question is answered or withdrawn, and notifies followers of
/// the service.
struct Put<'a>(&'a Desk);

impl Drop for Put<'_> {
    fn drop(&mut self) {
        self.0.changed();
        if let Some(shown) = self.0.shown.get() {
            shown.notices.questions();
        }
    }
}

impl Operator for Desk {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            // The other calls of the turn begin first, so that all that are under way are known with the question.
            tokio::task::yield_now().await;
            // Dropped after the question, so that it is gone when others hear of it.
            let put;
            let asked = {
                // Locked while the question is put, so that a message goes either here or to the question.
                let mut messages = self.messages();
                if is_turn(waiting) {
                    // The answer has ended without another request.
                    let left =
                        self.shown.get().map(|shown| shown.interjector.take_back()).unwrap_or_default();
                    left.into_iter().rev().for_each(|Words { text, by, .. }| {
                        messages.push_front(Message { text, by });
                    });
                    if let Some(message) = messages.pop_front() {
                        return Reply::Given(message.answer(self.via));
                    }
                }
                self.questions.ask(waiting)
            };
            let Some(mut asked) = asked else { return Reply::Later };
            put = Put(self);
            self.changed();
            if let Some(shown) = self.shown.get() {
                shown.notices.questions();
            }
            let reply = tokio::select! {
                biased;
                reply = asked.reply() => reply,
                () = self.expiry(waiting) => {
                    self.expired.store(true, Ordering::SeqCst);
                    Reply::Given(Given::operator(Answer::End, EXPIRED))
                }
            };
            drop((asked, put));
            reply
        })
    }
}

/// A reader of a run's events.
pub(crate) struct Joined {
    feed: Arc<Feed>,
    receiver: broadcast::Receiver<Arc<Event>>,
    /// The beginnings of the answers in progress at that time.
    beginnings: Vec<Arc<Event>>,
}

impl Joined {
    /// Joins the readers of a run. `None`: the run has ended.
    fn of(feed: &Arc<Feed>) -> Option<Self> {
        // No piece comes between the two.
        let mut source = feed.source();
        let receiver = match &*source {
            Source::Open(sender) => sender.subscribe(),
            Source::Closed => return None,
            Source::Silent => {
                let (sender, receiver) = broadcast::channel(KEPT_EVENTS);
                *source = Source::Open(sender);
                receiver
            }
        };
        let mut beginnings = Vec::new();
        for (path, Beginning { turn, pieces, partial }) in &*feed.beginnings() {
            beginnings.push(Arc::new(Event::Discard { path: path.clone(), turn: *turn }));
            let delta =
                |delta: &Delta| Event::Delta { path: path.clone(), turn: *turn, delta: delta.clone() };
            beginnings.extend(pieces.iter().map(|piece| Arc::new(delta(piece))));
            let whole = partial.iter().map(|value| Growth::Set { at: Vec::new(), set: value.clone() });
            let whole =
                whole.map(|whole| Event::Partial { path: path.clone(), turn: *turn, growth: vec![whole] });
            beginnings.extend(whole.map(Arc::new));
        }
        Some(Self { feed: Arc::clone(feed), receiver, beginnings })
    }

    /// Waits for the next event.
    pub(crate) async fn recv(&mut self) -> Result<Arc<Event>, RecvError> {
        self.receiver.recv().await
    }

    /// Returns the same reader from now on, without the events that it has not read. `None`: the run has ended.
    pub(crate) fn again(self) -> Option<Self> {
        Self::of(&self.feed)
    }

    /// Takes the beginnings of the answers in progress: for each, a discard of the pieces that the reader may have, and the
    /// pieces so far.
    pub(crate) fn take_beginnings(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.beginnings)
    }
}

/// The beginning of an answer in progress.
#[derive(Debug)]
struct Beginning {
    turn: u32,
    pieces: Vec<Delta>,
    /// The partial value of a typed answer.
    partial: Option<Value>,
}

impl Beginning {
    fn of(turn: u32) -> Self {
        Self { turn, pieces: Vec::new(), partial: None }
    }

    fn add(&mut self, piece: &Delta) {
        match (self.pieces.last_mut(), piece) {
            (Some(Delta::Text { text: last }), Delta::Text { text })
            | (Some(Delta::Reasoning { text: last }), Delta::Reasoning { text }) => last.push_str(text),
            _ => self.pieces.push(piece.clone()),
        }
    }
}

/// The events of a run, for its readers. Costs nothing without readers.
#[derive(Default)]
struct Feed {
    source: Mutex<Source>,
    /// The answers in progress, by call, as far as there was a reader when they began. Locked after the source.
    beginnings: Mutex<BTreeMap<CallPath, Beginning>>,
    /// Senders of the notice that an answer was recorded, by question.
    awaited: Mutex<HashMap<QuestionId, Vec<oneshot::Sender<()>>>>,
    /// A switch that is on when the first record was written.
    first: Switch,
    /// The time of the first record of the run, in milliseconds since 1970.
    began_ms: OnceLock<u64>,
    /// The number of the next record.
    next: AtomicU64,
    /// The calls under way, once a request reports progress.
    progress: OnceLock<watch::Sender<RunView>>,
}

#[derive(Default)]
enum Source {
    /// The run has had no reader so far.
    #[default]
    Silent,
    Open(broadcast::Sender<Arc<Event>>),
    Closed,
}

impl Feed {
    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<QuestionId, Vec<oneshot::Sender<()>>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers for the notice that an answer to that question was recorded.
    fn awaits(&self, question: &QuestionId) -> Recorded {
        let (sender, receiver) = oneshot::channel();
        let mut awaited = self.awaited();
        // Those that were not taken wait for nothing any more.
        awaited.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        awaited.entry(question.clone()).or_default().push(sender);
        Recorded(receiver)
    }

    fn beginnings(&self) -> MutexGuard<'_, BTreeMap<CallPath, Beginning>> {
        self.beginnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the beginnings of answers up to date.
    fn note(&self, event: &Event) {
        match event {
            Event::Delta { path, turn, delta } => self.begun(path, *turn, |begun| begun.add(delta)),
            Event::Partial { path, turn, growth } => self.begun(path, *turn, |begun| {
                growth.iter().cloned().for_each(|growth| growth.apply(&mut begun.partial));
            }),
            Event::DiscardPartial { path, .. } => {
                if let Some(begun) = self.beginnings().get_mut(path) {
                    begun.partial = None;
                }
            }
            Event::Discard { path, .. } => {
                self.beginnings().remove(path);
            }
            Event::Record { .. } => {}
        }
    }

    /// Changes the beginning of the answer to that turn.
    fn begun(&self, path: &CallPath, turn: u32, change: impl FnOnce(&mut Beginning)) {
        let mut beginnings = self.beginnings();
        let begun = beginnings.entry(path.clone()).or_insert_with(|| Beginning::of(turn));
        if begun.turn != turn {
            *begun = Beginning::of(turn);
        }
        change(begun);
    }

    fn close(&self) {
        *self.source() = Source::Closed;
    }

    fn has_readers(&self) -> bool {
        matches!(&*self.source(), Source::Open(sender) if sender.receiver_count() > 0)
    }
}

impl EventSink for Feed {
    fn event(&self, event: Event) {
        let source = self.source();
        self.note(&event);
        if let Source::Open(sender) = &*source {
            // Without readers there is nothing to do.
            let _ = sender.send(Arc::new(event));
        }
    }

    fn record(&self, record: RecordRef<'_>) {
        if !self.first.is_on() {
            self.began_ms.get_or_init(|| record.at_ms);
            self.first.turn_on();
        }
        if let RecordKind::Answered(_) = record.body {
            let answered = self.awaited().remove(&QuestionId::new(record.path, record.step));
            // One who has gone away waits for nothing.
            for sender in answered.into_iter().flatten() {
                let _ = sender.send(());
            }
        }
        // The answer, or the end of the call without one.
        if matches!(record.body, RecordKind::ModelAnswered { .. } | RecordKind::CallEnded { .. }) {
            self.beginnings().remove(record.path);
        }
        if self.has_readers() {
            self.event(Event::Record { record: Arc::new(record.to_record()) });
        }
        self.next.store(record.seq + 1, Ordering::SeqCst);
        if let Some(progress) = self.progress.get() {
            progress.send_if_modified(|view| {
                let (before, _) = view.activities();
                view.fold(record);
                view.activities().0 > before
            });
        }
    }

    fn wants_written(&self) -> bool {
        !self.first.is_on()
            || self.has_readers()
            || !self.awaited().is_empty()
            // The record of an answer ends its beginning.
            || !self.beginnings().is_empty()
    }

    fn wants_deltas(&self) -> bool {
        self.has_readers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::core::partial::Key;
    use serde_json::json;

    fn delta(path: &str, turn: u32, text: &str) -> Event {
        let path = path.into();
        Event::Delta { path, turn, delta: Delta::Text { text: text.into() } }
    }

    fn told(feed: &Arc<Feed>) -> Vec<String> {
        let mut joined = Joined::of(feed).expect("a run under way");
        let text = |event: Arc<Event>| match &*event {
            Event::Delta { path, turn, delta: Delta::Text { text } } => format!("{path} {turn} {text}"),
            Event::Discard { path, turn } => format!("{path} {turn} discarded"),
            Event::Partial { path, turn, growth } => match &growth[..] {
                [Growth::Set { at, set }] if at.is_empty() => format!("{path} {turn} {set}"),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        joined.take_beginnings().into_iter().map(text).collect()
    }

    #[test]
    fn a_late_reader_gets_what_the_answers_in_progress_have_had() {
        let feed = Arc::<Feed>::default();
        let first = Joined::of(&feed).expect("a reader");
        assert_eq!(told(&feed), [""; 0]);
        feed.event(delta("0", 1, "Once upon"));
        feed.event(delta("0", 1, " a time"));
        feed.event(delta("0/1.0", 0, "Hi"));
        // Also after the reader for whom the pieces came has gone.
        drop(first);
        assert_eq!(told(&feed), ["0 1 discarded", "0 1 Once upon a time", "0/1.0 0 discarded", "0/1.0 0 Hi"]);
        feed.event(Event::Discard { path: "0".into(), turn: 1 });
        assert_eq!(told(&feed).len(), 2);
        let grown = |growth: Growth| Event::Partial { path: "0/1.0".into(), turn: 0, growth: vec![growth] };
        feed.event(grown(Growth::Set { at: Vec::new(), set: json!({"a": "x"}) }));
        feed.event(grown(Growth::Append { at: vec![Key::Name("a".into())], append: "y".into() }));
        assert_eq!(told(&feed)[1..], ["0/1.0 0 Hi", "0/1.0 0 {\"a\":\"xy\"}"]);
        feed.event(Event::DiscardPartial { path: "0/1.0".into(), turn: 0 });
        assert_eq!(told(&feed).len(), 2);
        feed.event(delta("0/1.0", 1, "Next"));
        assert_eq!(told(&feed), ["0/1.0 1 discarded", "0/1.0 1 Next"]);
        feed.close();
        assert!(Joined::of(&feed).is_none());
    }
}
