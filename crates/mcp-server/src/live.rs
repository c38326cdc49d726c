//! A run while requests of clients wait for it.

use crate::progress::Watching;
use llm_do::{
    Decisions, Input, OpenQuestions, PastRun, Problem, Report, Run, Session,
    core::{
        engine::End,
        operator::{Operator, Recall},
        question::{QuestionId, Reply, Waiting},
        send::BoxFuture,
    },
    records::RunView,
    runs::{Canceller, EventSink},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// How long a run waits for the answer to a question while no request waits for the run. Then it is suspended.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A run that was started for a client.
pub(crate) struct LiveRun {
    id: Arc<str>,
    canceller: Canceller,
    questions: Arc<OpenQuestions>,
    progress: watch::Receiver<RunView>,
    ended: watch::Receiver<Option<Arc<Report>>>,
    refused: AtomicUsize,
    attached: Mutex<Attachments>,
}

/// The requests that wait for a run.
#[derive(Default)]
struct Attachments {
    now: usize,
    ever: u64,
}

/// The next thing that concerns those who wait for a run.
pub(crate) enum Next {
    /// It has ended.
    Ended(Arc<Report>),
    /// It asks these questions.
    Asks(Vec<Waiting>),
    /// It came to no orderly end: a bug.
    Lost,
}

impl LiveRun {
    /// Starts a run. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub(crate) fn start(session: &Session, input: &Input) -> Result<Arc<Self>, Problem> {
        Self::begin(|operator, events| session.start(input, Some(operator), Some(events)))
    }

    /// Continues a run that was suspended, with answers to its questions. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`Session::resume`].
    pub(crate) fn resume(
        session: &Session,
        past: PastRun,
        decisions: Decisions,
    ) -> Result<Arc<Self>, Problem> {
        Self::begin(|operator, events| session.resume(past, decisions, Some(operator), Some(events)))
    }

    fn begin(
        run: impl FnOnce(Arc<dyn Operator>, Arc<dyn EventSink>) -> Result<Run, Problem>,
    ) -> Result<Arc<Self>, Problem> {
        let questions = Arc::new(OpenQuestions::default());
        let operator: Arc<dyn Operator> = Arc::new(Putting(Arc::clone(&questions)));
        let (watching, progress) = Watching::new();
        let run = run(operator, Arc::new(watching))?;
        let (ending, ended) = watch::channel(None);
        let live = Self {
            id: Arc::clone(run.id()),
            canceller: run.canceller(),
            questions,
            progress,
            ended,
            refused: AtomicUsize::new(0),
            attached: Mutex::default(),
        };
        tokio::spawn(async move {
            let report = run.finish().await;
            ending.send_replace(Some(Arc::new(report)));
        });
        Ok(Arc::new(live))
    }

    /// ID of the run.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its questions.
    pub(crate) fn questions(&self) -> &OpenQuestions {
        &self.questions
    }

    /// Counts a question that was refused because a client can't ask its user.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of these questions.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// What it is doing.
    pub(crate) fn progress(&self) -> watch::Receiver<RunView> {
        self.progress.clone()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Whether it has ended and waits for answers.
    pub(crate) fn is_suspended(&self) -> bool {
        self.ended.borrow().as_ref().is_some_and(|report| matches!(report.end, End::Suspended(_)))
    }

    /// Waits until it has ended or asks something.
    pub(crate) async fn next(&self) -> Next {
        let mut ended = self.ended.clone();
        let mut questions = self.questions.subscribe();
        loop {
            if let Some(report) = &*ended.borrow_and_update() {
                return Next::Ended(Arc::clone(report));
            }
            questions.borrow_and_update();
            let waiting = self.questions.waiting();
            if !waiting.is_empty() {
                return Next::Asks(waiting);
            }
            tokio::select! {
                changed = ended.changed() => {
                    if changed.is_err() && ended.borrow().is_none() {
                        return Next::Lost;
                    }
                }
                _ = questions.changed() => {}
            }
        }
    }

    /// Waits until that question is no longer open.
    pub(crate) async fn settled(&self, id: &QuestionId) {
        let mut questions = self.questions.subscribe();
        while self.questions.waiting().iter().any(|waiting| waiting.id == *id) {
            // The sender lives as long as `self`.
            let _ = questions.changed().await;
        }
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Ends it from outside.
    pub(crate) fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Counts a request that waits for it.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached {
        let mut attached = self.attachments();
        attached.now += 1;
        attached.ever += 1;
        Attached { run: Arc::clone(self), parked: false }
    }

    fn attachments(&self) -> MutexGuard<'_, Attachments> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for a run. When the last one is dropped, the run is cancelled.
pub(crate) struct Attached {
    run: Arc<LiveRun>,
    parked: bool,
}

impl Attached {
    /// The request ends with questions that a later request will answer. The run waits for it, and is suspended if none
    /// comes in time.
    pub(crate) fn park(mut self) {
        self.parked = true;
        let run = Arc::clone(&self.run);
        drop(self);
        let seen = run.attachments().ever;
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(ANSWER_WITHIN) => {}
                () = run.ended() => return,
            }
            if run.attachments().ever == seen {
                run.questions.close();
            }
        });
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let left = {
            let mut attached = self.run.attachments();
            attached.now -= 1;
            attached.now
        };
        if left == 0 && !self.parked && !self.run.has_ended() {
            self.run.cancel();
        }
    }
}

/// Puts the questions of a run where requests find them.
struct Putting(Arc<OpenQuestions>);

impl Operator for Putting {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            match self.0.ask(waiting) {
                Some(mut asked) => asked.reply().await,
                None => Reply::Later,
            }
        })
    }
}
