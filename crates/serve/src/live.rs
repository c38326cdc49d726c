//! A run that is under way in this process.

use crate::views::State;
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
    runs::{Canceller, EventSink},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{broadcast, watch};

/// Events that are kept for a reader. One that is further behind loses deltas, and reads records from the journal.
const KEPT_EVENTS: usize = 256;
/// Most messages that wait for a conversation.
const MOST_MESSAGES: usize = 32;

/// A run that is under way.
pub(crate) struct LiveRun {
    pub(crate) id: Arc<str>,
    pub(crate) worker: Arc<str>,
    pub(crate) chat: bool,
    pub(crate) client: Client,
    canceller: Canceller,
    desk: Arc<Desk>,
    feed: Arc<Feed>,
    ended: watch::Sender<bool>,
}

/// The ports of a run to its clients, made before the run.
pub(crate) struct Ports {
    desk: Arc<Desk>,
    feed: Arc<Feed>,
}

impl Ports {
    /// Ports to clients that come through that, as recorded.
    pub(crate) fn new(via: &'static str) -> Self {
        let feed = Feed { source: Mutex::default(), first: watch::Sender::new(false) };
        let desk = Desk { via, questions: OpenQuestions::default(), messages: Mutex::default() };
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
    pub(crate) fn new(run: &Run, ports: Ports, worker: Arc<str>, chat: bool, client: Client) -> Arc<Self> {
        let Ports { desk, feed } = ports;
        Arc::new(Self {
            id: Arc::clone(run.id()),
            worker,
            chat,
            client,
            canceller: run.canceller(),
            desk,
            feed,
            ended: watch::Sender::new(false),
        })
    }

    /// Runs it to its end.
    pub(crate) async fn carry_out(&self, run: Run) -> Report {
        let report = run.finish().await;
        self.feed.close();
        report
    }

    /// Tells those who wait that it is over, and that others can know.
    pub(crate) fn over(&self) {
        self.feed.close();
        self.ended.send_replace(true);
    }

    pub(crate) fn state(&self) -> State {
        match self.desk.questions.waiting().is_empty() {
            true => State::Running,
            false => State::Waiting,
        }
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

    /// Waits until its journal has a record, so that it can be continued whatever happens to the process.
    pub(crate) async fn recorded(&self) {
        let mut first = self.feed.first.subscribe();
        tokio::select! {
            _ = first.wait_for(|recorded| *recorded) => {}
            () = self.ended() => {}
        }
    }

    /// Waits until it is over.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Gives a message to its conversation, now or when its answer is complete. Returns whether it was delivered; `None` if
    /// too many messages wait.
    pub(crate) fn say(&self, text: String, by: &Arc<str>) -> Option<bool> {
        let mut messages = self.desk.messages();
        if messages.len() >= MOST_MESSAGES {
            return None;
        }
        messages.push_back(Message { text, by: Arc::clone(by) });
        let questions = self.desk.questions.waiting();
        let Some(waiting) = questions.iter().find(|waiting| is_turn(waiting)) else { return Some(false) };
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
        Given { answer: Answer::Give { value }, by: Arc::clone(&self.by), via: via.into() }
    }
}

/// Where clients find the questions of a run, and where their messages wait.
struct Desk {
    /// Through what messages come.
    via: &'static str,
    questions: OpenQuestions,
    messages: Mutex<VecDeque<Message>>,
}

impl Desk {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operator for Desk {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let asked = {
                // Locked while the question is put, so that a message goes either here or to the question.
                let mut messages = self.messages();
                if is_turn(waiting)
                    && let Some(message) = messages.pop_front()
                {
                    return Reply::Given(message.answer(self.via));
                }
                self.questions.ask(waiting)
            };
            match asked {
                Some(mut asked) => asked.reply().await,
                None => Reply::Later,
            }
        })
    }
}

/// The events of a run, for those who follow it. Costs nothing while there is none.
struct Feed {
    source: Mutex<Source>,
    /// Whether the first record was written.
    first: watch::Sender<bool>,
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
        self.first.send_if_modified(|first| !std::mem::replace(first, true));
        if self.has_readers() {
            self.event(Event::Record { record: Arc::new(record.to_record()) });
        }
    }

    fn wants_written(&self) -> bool {
        !*self.first.borrow() || self.has_readers()
    }

    fn wants_deltas(&self) -> bool {
        self.has_readers()
    }
}
