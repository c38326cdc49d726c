//! A run that this engine executes.

use crate::{
    desk::{Desk, NotTaken, VIA},
    feed::Feed,
    problem::ApiError,
};
use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Given, QuestionId, Waiting},
};
use llm_do_host::{Canceller, Inbox, Interjector, Run, Said, Stopper};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// The person at the page, as records name them.
pub(crate) const BY: &str = "operator";

/// A run under way.
pub(crate) struct LiveRun {
    pub(crate) id: Arc<str>,
    pub(crate) program: Arc<str>,
    pub(crate) worker: Arc<str>,
    pub(crate) chat: bool,
    pub(crate) title: Option<String>,
    pub(crate) started_ms: u64,
    pub(crate) desk: Arc<Desk>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) canceller: Canceller,
    stopper: Stopper,
    interjector: Interjector,
    inbox: Inbox,
    over: AtomicBool,
    /// The last state that followers were told.
    told: Mutex<Option<&'static str>>,
}

impl LiveRun {
    pub(crate) fn new(
        run: &Run,
        program: Arc<str>,
        worker: Arc<str>,
        chat: bool,
        title: Option<String>,
        started_ms: u64,
        (desk, feed): (Arc<Desk>, Arc<Feed>),
    ) -> Arc<Self> {
        desk.interjects(run.interjector());
        Arc::new(Self {
            id: Arc::clone(run.id()),
            program,
            worker,
            chat,
            title,
            started_ms,
            desk,
            feed,
            canceller: run.canceller(),
            stopper: run.stopper(),
            interjector: run.interjector(),
            inbox: run.inbox(),
            over: AtomicBool::new(false),
            told: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.desk.waits() { "waiting" } else { "running" }
    }

    /// Returns the state if followers were not told of it.
    pub(crate) fn news(&self) -> Option<&'static str> {
        let state = self.state();
        let before = self.told.lock().unwrap_or_else(PoisonError::into_inner).replace(state);
        (before != Some(state)).then_some(state)
    }

    /// Marks the run as over, and wakes all who wait for something of it.
    pub(crate) fn ended(&self) {
        self.over.store(true, Ordering::Release);
        self.desk.changed.notify();
        self.feed.recorded.notify();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits until the run is over.
    pub(crate) async fn until_over(&self) {
        self.feed.recorded.until(|| self.is_over().then_some(())).await;
    }

    /// Waits until the run has more records than that, or is over. Returns whether it has.
    pub(crate) async fn until_longer(&self, than: usize) -> bool {
        self.feed.recorded.until(|| (self.feed.len() > than || self.is_over()).then_some(())).await;
        self.feed.len() > than
    }

    /// Gives an answer, and waits until it is recorded.
    ///
    /// # Errors
    /// The answer is not taken.
    pub(crate) async fn answer(
        &self,
        id: &QuestionId,
        digest: Option<&str>,
        answer: Answer,
        now_ms: u64,
    ) -> Result<(), ApiError> {
        // A run that continues puts its questions again.
        self.desk.changed.until(|| (self.desk.knows(id) || self.is_over()).then_some(())).await;
        let given = Given::new(answer, BY.into(), VIA);
        self.desk.give(id, digest, given, now_ms).map_err(|error| match error {
            NotTaken::Unknown => ApiError::not_found(format!("there is no question `{id}`")),
            NotTaken::Decided(by) => {
                ApiError::decided(format!("the question `{id}` is already answered by {by}"), by)
            }
            NotTaken::Changed => {
                let detail = format!("the question `{id}` is not the one that `digest` names: read it again");
                ApiError::new(409, "question_changed", detail)
            }
            NotTaken::Expired => {
                ApiError::new(410, "question_expired", format!("the question `{id}` has expired"))
            }
            NotTaken::NotAccepted(why) => ApiError::bad(format!("the question `{id}` stays open: {why}")),
        })?;
        self.feed.recorded.until(|| (self.feed.has_answer(id) || self.is_over()).then_some(())).await;
        match self.feed.has_answer(id) {
            true => Ok(()),
            false => Err(ApiError::conflict("the run has ended before it took the answer")),
        }
    }

    /// Gives a message to the run's conversation. Returns true if the conversation has it.
    ///
    /// # Errors
    /// The message is not taken.
    pub(crate) async fn say(&self, text: String, now: bool, now_ms: u64) -> Result<bool, ApiError> {
        let turn = self.desk.waiting().into_iter().find(crate::desk::is_turn);
        if let Some(Waiting { id, .. }) = turn.filter(|_| !self.desk.has_messages()) {
            let value = Arc::new(text.into());
            return self.answer(&id, None, Answer::Give { value }, now_ms).await.map(|()| true);
        }
        let said = || Said { text: text.clone(), by: BY.into(), via: VIA.into() };
        let queue = |now: bool| match self.inbox.queue(said(), now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ApiError::no_run(&self.id)),
            Err(halt) => Err(ApiError::storage(halt)),
        };
        if now && !self.desk.has_messages() {
            queue(true)?;
            self.interjector.say_as(CallPath::root(), said());
            return Ok(true);
        }
        if !self.desk.has_room() {
            return Err(ApiError::conflict(
                "too many messages wait for the conversation: send this one later",
            ));
        }
        queue(false)?;
        self.desk.queue(said());
        Ok(false)
    }

    /// Stops the answer under way. Does nothing if the conversation waits for a message.
    pub(crate) fn stop(&self) {
        if !self.desk.waiting().iter().any(crate::desk::is_turn) {
            self.stopper.stop();
        }
    }
}
