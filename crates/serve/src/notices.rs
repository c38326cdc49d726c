//! The feed of a service: changes of the states of runs, and the number of questions that wait.

use crate::{meter::Share, token::Token, views::State};
use futures_util::{Stream, stream::unfold};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::broadcast::{self, Receiver, error::RecvError},
    time::{Instant, timeout_at},
};

/// Notices that are kept for a reader. One that is further behind is disconnected, and reads the lists again.
const KEPT: usize = 4096;
/// The time for which changes of questions are gathered before their count is sent.
const GATHERED: Duration = Duration::from_millis(50);

/// A run whose state has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// Its ID.
    pub(crate) run: Arc<str>,
    /// The program's name.
    pub(crate) program: Arc<str>,
    /// The worker that it started with.
    pub(crate) worker: Arc<str>,
    /// Its state now.
    pub(crate) state: State,
    /// Whether it is a chat.
    pub(crate) chat: bool,
    /// The name of the token that started it.
    #[serde(skip)]
    pub(crate) client: Arc<str>,
}

/// The number of questions that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct QuestionCount {
    /// Over all runs that the token may see.
    pub(crate) count: usize,
}

/// Something that a client hears about a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Notice {
    /// A run has changed its state.
    Run(Changed),
    /// The set of waiting questions has changed.
    Questions(QuestionCount),
}

impl Notice {
    /// The kind of the notice, as the name of an event.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Questions(_) => "questions",
        }
    }
}

/// A change in a service.
#[derive(Clone)]
pub(crate) enum Signal {
    /// A run has changed its state.
    Run(Changed),
    /// The set of waiting questions has changed.
    Questions,
}

/// Passes notices to the followers of the service. Costs little without followers.
pub(crate) struct Notices(Mutex<Option<broadcast::Sender<Signal>>>);

impl Default for Notices {
    fn default() -> Self {
        Self(Mutex::new(Some(broadcast::channel(KEPT).0)))
    }
}

impl Notices {
    fn send(&self, signal: Signal) {
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // Without followers there is nothing to do.
            let _ = sender.send(signal);
        }
    }

    /// A run has changed its state.
    pub(crate) fn run(&self, changed: Changed) {
        self.send(Signal::Run(changed));
    }

    /// A question was put, answered or withdrawn.
    pub(crate) fn questions(&self) {
        self.send(Signal::Questions);
    }

    /// Ends all feeds, and those that are opened later.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Subscribes to changes from now on. Returns `None` if the feeds are closed.
    pub(crate) fn subscribe(&self) -> Option<Receiver<Signal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(broadcast::Sender::subscribe)
    }
}

/// A follower of the service.
struct Reader<F> {
    /// Counts the questions that its token may see.
    count: F,
    token: Arc<Token>,
    signals: Receiver<Signal>,
    /// The time at which the number of questions is sent, if the questions have changed.
    due: Option<Instant>,
    _place: Share,
}

/// A stream of notices about the runs that the token may see, from now on. The number of questions, which `count`
/// gives, comes first.
pub(crate) fn stream<F: Fn() -> usize>(
    notices: &Notices,
    token: &Arc<Token>,
    place: Share,
    count: F,
) -> impl Stream<Item = Notice> + use<F> {
    let signals = notices.subscribe();
    let reader = signals.map(|signals| Reader {
        count,
        token: Arc::clone(token),
        signals,
        due: Some(Instant::now()),
        _place: place,
    });
    unfold(reader, |reader| async move {
        let mut reader = reader?;
        let notice = reader.next().await?;
        Some((notice, Some(reader)))
    })
}

impl<F: Fn() -> usize> Reader<F> {
    /// The next notice. `None`: the service ends, or the reader was too slow.
    async fn next(&mut self) -> Option<Notice> {
        loop {
            let signal = match self.due {
                None => self.signals.recv().await,
                Some(due) => match timeout_at(due, self.signals.recv()).await {
                    Ok(signal) => signal,
                    Err(_) => {
                        self.due = None;
                        let count = (self.count)();
                        return Some(Notice::Questions(QuestionCount { count }));
                    }
                },
            };
            match signal {
                Ok(Signal::Run(changed)) if self.token.sees(&changed.program, &changed.client) => {
                    return Some(Notice::Run(changed));
                }
                Ok(Signal::Run(_)) => {}
                Ok(Signal::Questions) => {
                    self.due.get_or_insert_with(|| Instant::now() + GATHERED);
                }
                Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
            }
        }
    }
}
