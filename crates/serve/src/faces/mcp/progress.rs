//! Progress notifications from the calls, model requests and notes of a run.

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
/// Most characters of a note of code in a message.
const LONGEST_NOTE: usize = 400;

/// A notification of what has begun: calls, model requests and notes of code. Their number only grows.
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
        Some(Latest::Note(text)) => {
            param.with_message(visible::line(&visible::start(text, LONGEST_NOTE)).into_owned())
        }
        Some(Latest::Model(turn)) => param.with_message(format!("model, turn {}", turn + 1)),
    }
}

/// Does some work, and reports the progress of a run to a client meanwhile. Each notification is sent before the work
/// continues, so that none follows the result. What began last is always reported.
pub(super) async fn reporting<T>(
    mut progress: watch::Receiver<RunView>,
    token: Option<ProgressToken>,
    peer: &Peer<RoleServer>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = token else { return work.await };
    let mut work = pin!(work);
    // A client that has gone hears nothing, and its request ends by itself.
    let notify = async |run: RunView| drop(peer.notify_progress(notification(&run, token.clone())).await);
    loop {
        tokio::select! {
            biased;
            changed = progress.changed() => {
                if changed.is_err() {
                    return work.await;
                }
                let run = progress.borrow_and_update().clone();
                notify(run).await;
            }
            done = &mut work => return done,
        }
        tokio::select! {
            biased;
            done = &mut work => {
                if progress.has_changed().unwrap_or(false) {
                    let run = progress.borrow_and_update().clone();
                    notify(run).await;
                }
                return done;
            }
            () = tokio::time::sleep(PACE) => {}
        }
    }
}
