//! A run that is under way in this process.

use crate::{
    log::LogEntry,
    notices::{Changed, Notices},
    views::State,
};
use llm_do::{
    Client, OpenQuestions, Report, Run,
    core::{
        call_path::CallPath,
        event::Event,
        operator::{Operator, Recall},
        question::{Answer, Given, Input, Question, Reply, Waiting},
        send::BoxFuture,
    },
    records::RecordRef,
    runs::{Canceller, EventSink, Interjector, Said, Stopper, Switch},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::broadcast;

/// Events that are kept for a reader. One that is further behind loses deltas, and reads records from the journal.
pub(crate) const KEPT_EVENTS: usize = 256;
/// Most messages that wait for a conversation.
const MOST_MESSAGES: usize = 32;

/// What is known of a run when it begins.
pub(crate) struct About {
    pub(crate) worker: Arc<str>,
    pub(crate) chat: bool,
    pub(crate) client: Client,
    /// The beginning of what it was started with.
    pub(crate) title: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub(crate) started_ms: u64,
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
    desk: Arc<Desk>,
    feed: Arc<Feed>,
    ended: Switch,
}

/// The ports of a run to its clients, made before the run.
pub(crate) struct Ports {
    desk: Arc<Desk>,
    feed: Arc<Feed>,
}

impl Ports {
    /// Ports to clients whose answers and messages come through that, as recorded.
    pub(crate) fn new(via: &'static str) -> Self {
        let feed = Feed::default();
        let desk = Desk {
            via,
            questions: OpenQuestions::default(),
            messages: Mutex::default(),
            shown: OnceLock::new(),
        };
        Self { desk: Arc::new(desk), feed: Arc::new(feed) }
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
            desk,
            feed,
            ended: Switch::default(),
        })
    }

    /// An entry of the log about it.
    pub(crate) fn entry(&self, event: &'static str) -> LogEntry {
        LogEntry {
            event,
            run: Some(self.id.to_string()),
            program: Some(self.about.client.program.to_string()),
            worker: Some(self.about.worker.to_string()),
            ..LogEntry::default()
        }
    }

    /// How long ago it began.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.about.started_ms))
    }

    /// Tells those who follow the service that it has begun.
    pub(crate) fn announce(&self) {
        self.desk.changed();
    }

    /// It waits for a place.
    pub(crate) fn queue(&self) {
        if let Some(shown) = self.desk.shown.get() {
            shown.queued.store(true, Ordering::SeqCst);
        }
    }

    /// It has its place.
    pub(crate) fn placed(&self) {
        if let Some(shown) = self.desk.shown.get()
            && shown.queued.swap(false, Ordering::SeqCst)
        {
            self.desk.changed();
        }
    }

    /// What those who follow the service hear of its end.
    pub(crate) fn announce_end(&self, state: State) {
        if let Some(shown) = self.desk.shown.get() {
            shown.notices.run(Changed { state, ..shown.run.clone() });
        }
    }

    /// Runs it to its end.
    pub(crate) fn carry_out(&self, run: Run) -> impl Future<Output = Report> + use<> {
        // Made here, so that the future keeps no room for the run itself.
        let (running, feed) = (run.finish(), Arc::clone(&self.feed));
        async move {
            let report = running.await;
            feed.close();
            report
        }
    }

    /// Tells those who wait that it is over, and that others can know.
    pub(crate) fn over(&self) {
        self.feed.close();
        self.ended.turn_on();
    }

    pub(crate) fn state(&self) -> State {
        self.desk.state()
    }

    /// The client that started it.
    pub(crate) fn client(&self) -> &Client {
        &self.about.client
    }

    /// Stops the answer under way of its conversation. `false`: none is under way.
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

    /// Its events from now on. `None`: it has ended.
    pub(crate) fn subscribe(&self) -> Option<broadcast::Receiver<Arc<Event>>> {
        self.feed.subscribe()
    }

    pub(crate) fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits until its journal has a record, so that it can be continued whatever happens to the process. `false`: it ended
    /// without one.
    pub(crate) async fn recorded(&self) -> bool {
        tokio::select! {
            biased;
            () = self.feed.first.turned_on() => true,
            () = self.ended() => false,
        }
    }

    /// Waits until it is over.
    pub(crate) async fn ended(&self) {
        self.ended.turned_on().await;
    }

    /// Gives a message to its conversation: at once if that waits for one, else when its answer is complete, or with the next
    /// request of the answer if `now`. Returns whether it was delivered; `None` if too many messages wait.
    pub(crate) fn say(&self, text: String, by: &Arc<str>, now: bool) -> Option<bool> {
        let mut messages = self.desk.messages();
        let questions = self.desk.questions.waiting();
        let turn = questions.iter().find(|waiting| is_turn(waiting));
        if now && turn.is_none() && messages.is_empty() {
            let said = Said { text, by: Arc::clone(by), via: self.desk.via.into() };
            self.interjector.say_as(CallPath::root(), said);
            return Some(true);
        }
        if messages.len() >= MOST_MESSAGES {
            return None;
        }
        messages.push_back(Message { text, by: Arc::clone(by) });
        let Some(waiting) = turn else { return Some(false) };
        let Some(next) = messages.pop_front() else { return Some(false) };
        let given = next.answer(self.desk.via);
        match self.desk.questions.take(&waiting.id, &given.answer, &given.by) {
            Ok(taken) => {
                taken.give(given);
                Some(messages.is_empty())
            }
            // Somebody else has answered in this moment: the message is for the next turn.
            Err(_) => {
                messages.push_front(next);
                Some(false)
            }
        }
    }
}

/// Whether the run's own conversation waits for the user's next message.
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

/// Where clients find the questions of a run, and where their messages wait.
struct Desk {
    /// Through what answers and messages come.
    via: &'static str,
    questions: OpenQuestions,
    messages: Mutex<VecDeque<Message>>,
    shown: OnceLock<Shown>,
}

/// What those who follow the service know of a run.
struct Shown {
    run: Changed,
    queued: AtomicBool,
    /// The state that they heard last; absent before the first.
    last: Mutex<Option<State>>,
    notices: Arc<Notices>,
    interjector: Interjector,
}

impl Desk {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> State {
        if self.shown.get().is_some_and(|shown| shown.queued.load(Ordering::SeqCst)) {
            return State::Queued;
        }
        match self.questions.count() {
            0 => State::Running,
            _ => State::Waiting,
        }
    }

    /// Tells those who follow the service if the state is another.
    fn changed(&self) {
        let Some(shown) = self.shown.get() else { return };
        let mut last = shown.last.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        if last.replace(state) != Some(state) {
            shown.notices.run(Changed { state, ..shown.run.clone() });
        }
    }
}

/// A question that is put. Dropped, it is answered or withdrawn.
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
            // Dropped after the question, so that it is gone when others hear of it.
            let put;
            let asked = {
                // Locked while the question is put, so that a message goes either here or to the question.
                let mut messages = self.messages();
                if is_turn(waiting) {
                    // The answer has ended without another request.
                    let left =
                        self.shown.get().map(|shown| shown.interjector.take_back()).unwrap_or_default();
                    left.into_iter().rev().for_each(|Said { text, by, .. }| {
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
            let reply = asked.reply().await;
            drop((asked, put));
            reply
        })
    }
}

/// The events of a run, for those who follow it. Costs nothing while there is none.
#[derive(Default)]
struct Feed {
    source: Mutex<Source>,
    /// On when the first record was written.
    first: Switch,
}

#[derive(Default)]
enum Source {
    /// Nobody has followed the run so far.
    #[default]
    Silent,
    Open(broadcast::Sender<Arc<Event>>),
    Closed,
}

impl Feed {
    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self) -> Option<broadcast::Receiver<Arc<Event>>> {
        let mut source = self.source();
        match &*source {
            Source::Open(sender) => Some(sender.subscribe()),
            Source::Closed => None,
            Source::Silent => {
                let (sender, receiver) = broadcast::channel(KEPT_EVENTS);
                *source = Source::Open(sender);
                Some(receiver)
            }
        }
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
        if let Source::Open(sender) = &*self.source() {
            // Without readers there is nothing to do.
            let _ = sender.send(Arc::new(event));
        }
    }

    fn record(&self, record: RecordRef<'_>) {
        if !self.first.is_on() {
            self.first.turn_on();
        }
        if self.has_readers() {
            self.event(Event::Record { record: Arc::new(record.to_record()) });
        }
    }

    fn wants_written(&self) -> bool {
        !self.first.is_on() || self.has_readers()
    }

    fn wants_deltas(&self) -> bool {
        self.has_readers()
    }
}
