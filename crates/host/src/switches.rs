//! Switches that end a run or stop an answer from outside.

use event_listener::{Event, listener};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Ends a run from outside, from a signal handler's task for example. Clones end the same run.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Switch>);

/// Stops the answer under way in a conversation, from a signal handler's task for example. Clones stop the same run.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Switch>);

impl Canceller {
    /// Cuts off all steps under way, and prevents new ones. Each step that was cut off is recorded.
    pub fn cancel(&self) {
        self.0.turn_on();
    }
    /// Returns true if the run has been ended.
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
    /// Forgets a stop, because it was for an answer that has ended.
    pub fn reset(&self) {
        self.0.on.store(false, Ordering::Release);
    }
    /// Waits until the answer is to be stopped.
    pub async fn stopped(&self) {
        self.0.turned_on().await;
    }
}

/// A switch that is off until it is turned on. Every run has some, and thousands of runs may wait, so it takes two
/// words of memory.
#[derive(Debug, Default)]
pub struct Switch {
    on: AtomicBool,
    turned: Event,
}

impl Switch {
    /// Turns the switch on, and wakes all tasks that wait for it.
    pub fn turn_on(&self) {
        self.on.store(true, Ordering::Release);
        self.turned.notify(usize::MAX);
    }

    /// Returns true if the switch is on.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Waits until the switch is on.
    pub async fn turned_on(&self) {
        while !self.is_on() {
            listener!(self.turned => turned);
            // Listens from here on, so that nothing is missed between the look and the wait.
            if self.is_on() {
                return;
            }
            turned.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn all_who_wait_are_told_and_all_who_come_later_too() {
        let canceller = Canceller::default();
        let mut waiting = [Box::pin(canceller.cancelled()), Box::pin(canceller.cancelled())];
        assert!(waiting.iter_mut().all(|each| each.now_or_never().is_none()));
        canceller.clone().cancel();
        assert!(waiting.iter_mut().all(|each| each.now_or_never().is_some()));
        assert!(canceller.is_cancelled() && canceller.cancelled().now_or_never().is_some());
    }

    #[test]
    fn a_stop_that_was_taken_back_stops_nothing_until_the_next() {
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
