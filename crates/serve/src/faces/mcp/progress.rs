//! Progress notifications from the calls and model requests of a run.

use llm_do::{
    program::visible,
    records::{Latest, RunView},
};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use std::{pin::pin, time::Duration};
use tokio::sync::watch;

/// Least time between two notifications of one request.
const PACE: Duration = Duration::from_millis(100);
/// Most characters of the name of a function in a message.
const LONGEST_NAME: usize = 80;

/// A notification of what has begun: calls and model requests. Their number only grows.
fn notification(run: &RunView, token: ProgressToken) -> ProgressNotificationParam {
    let (begun, latest) = run.activities();
    // A run has far fewer steps than a double can count.
    let param = ProgressNotificationParam::new(token, begun as f64);
    match latest {
        None => param,
        Some(Latest::Call(function)) => {
            let name = visible::start(function, LONGEST_NAME);
            param.with_message(format!("calls {}", visible::line(&name)))
        }
        Some(Latest::Model(turn)) => param.with_message(format!("model, turn {}", turn + 1)),
    }
}

/// Does some work, and reports the progress of a run to a client meanwhile. Each notification is sent before the work
/// continues, so that none follows the result.
pub(super) async fn reporting<T>(
    mut progress: watch::Receiver<RunView>,
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
                let notification = notification(&progress.borrow_and_update(), token.clone());
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
