//! Switches: what ends a run or stops an answer from outside.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Ends a run from outside, from a signal handler's task for example. Clones end the same run.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Switch>);

/// Stops the answer under way in a conversation, from a signal handler's task for example. Clones stop the same run.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Switch>);

impl Canceller {
    /// Cuts off what is under way; nothing new begins. Each step that was cut off is recorded.
    pub fn cancel(&self) {
        self.0.turn_on();
    }
    /// Whether the run has been ended.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_on()
    }
    /// Waits until the run is ended.
    pub async fn cancelled(&self) {
        self.0.turned_on().await;
    }
}

impl Stopper {
    /// Stops the model's answer, the calls of tools and their questions, until the conversation waits for the user's next message.
    pub fn stop(&self) {
        self.0.turn_on();
    }
    /// Forgets a stop: it was for an answer that has ended.
    pub(crate) fn reset(&self) {
        self.0.on.store(false, Ordering::Release);
    }
    pub(crate) async fn stopped(&self) {
        self.0.turned_on().await;
    }
}

/// Off until it is turned on. Smaller than a channel of `tokio`: every run has some, and thousands of runs may wait.
#[derive(Debug, Default)]
pub struct Switch {
    on: AtomicBool,
    turned: Notify,
}

impl Switch {
    /// Turns it on, and wakes all who wait for that.
    pub fn turn_on(&self) {
        self.on.store(true, Ordering::Release);
        self.turned.notify_waiters();
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Waits until it is on.
    pub async fn turned_on(&self) {
        let mut turned = pin!(self.turned.notified());
        loop {
            // Waits from here on, so that nothing is missed between the look and the wait.
            turned.as_mut().enable();
            if self.is_on() {
                return;
            }
            turned.as_mut().await;
            turned.set(self.turned.notified());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn all_who_wait_are_told_and_all_who_come_later_too() {
        let canceller = Canceller::default();
        let mut waiting = [Box::pin(canceller.cancelled()), Box::pin(canceller.cancelled())];
        assert!(waiting.iter_mut().all(|each| each.now_or_never().is_none()));
        canceller.clone().cancel();
        assert!(waiting.iter_mut().all(|each| each.now_or_never().is_some()));
        assert!(canceller.is_cancelled() && canceller.cancelled().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_stop_that_was_taken_back_stops_nothing_until_the_next() {
        let stopper = Stopper::default();
        let mut waiting = Box::pin(stopper.stopped());
        assert!((&mut waiting).now_or_never().is_none());
        stopper.stop();
        stopper.reset();
        assert!((&mut waiting).now_or_never().is_none());
        stopper.stop();
        assert!(waiting.now_or_never().is_some());
    }
}
