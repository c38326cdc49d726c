//! Progress notifications from the events of a run.

use llm_do::{
    core::{event::Event, journal::RecordKind},
    program::visible,
    records::RecordRef,
    runs::EventSink,
};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Least time between two notifications of one request.
const PACE: Duration = Duration::from_millis(100);
/// Most characters of the name of a function in a message.
const LONGEST_NAME: usize = 80;

/// What a run is doing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Calls and model requests that have begun. It only grows.
    begun: u64,
    /// The one that has begun last.
    latest: Option<Latest>,
}

#[derive(Clone, Debug)]
enum Latest {
    Call(Arc<str>),
    Model(u32),
}

/// Follows the records of a run. A slow reader misses steps between, and never slows the run.
pub(crate) struct Watching(watch::Sender<Progress>);

impl Watching {
    pub(crate) fn new() -> (Self, watch::Receiver<Progress>) {
        let (sender, receiver) = watch::channel(Progress::default());
        (Self(sender), receiver)
    }
}

impl EventSink for Watching {
    fn event(&self, _: Event) {}

    fn record(&self, record: RecordRef<'_>) {
        let latest = match record.body {
            RecordKind::CallStarted { function, .. } => Latest::Call(Arc::clone(function)),
            RecordKind::ModelRequested { turn, .. } => Latest::Model(*turn),
            _ => return,
        };
        self.0.send_modify(|progress| {
            progress.begun += 1;
            progress.latest = Some(latest);
        });
    }

    fn wants_written(&self) -> bool {
        false
    }

    fn wants_deltas(&self) -> bool {
        false
    }
}

impl Progress {
    fn notification(&self, token: ProgressToken) -> ProgressNotificationParam {
        // A run has far fewer steps than a double can count.
        let param = ProgressNotificationParam::new(token, self.begun as f64);
        match &self.latest {
            None => param,
            Some(Latest::Call(function)) => {
                let name = visible::start(function, LONGEST_NAME);
                param.with_message(format!("calls {}", visible::line(&name)))
            }
            Some(Latest::Model(turn)) => param.with_message(format!("model, turn {}", turn + 1)),
        }
    }
}

/// Does some work, and tells a client meanwhile about the progress of a run. Each notification has been sent before the work
/// continues, so that none comes after the result.
pub(crate) async fn reporting<T>(
    mut progress: watch::Receiver<Progress>,
    token: Option<ProgressToken>,
    peer: &Peer<RoleServer>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = token else { return work.await };
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            changed = progress.changed() => {
                if changed.is_err() {
                    return work.await;
                }
                let notification = progress.borrow_and_update().notification(token.clone());
                // A client that has gone hears nothing, and its request ends by itself.
                let _ = peer.notify_progress(notification).await;
            }
            done = &mut work => return done,
        }
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(PACE) => {}
        }
    }
}
