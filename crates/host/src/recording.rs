//! A driver that keeps the records of a run, as hosts influence it.

use crate::{
    interjector::{Interjector, Said},
    ports::RunLog,
    recorder::Recorder,
    switches::{Canceller, Stopper},
};
use llm_do_core::{
    driver::Driver,
    outcome::{Halt, Outcome},
    send::BoxFuture,
};

/// A driver that keeps the records of its run. [`Recorder`] is one; a driver over a network may be another.
pub trait Recording: Driver {
    /// Returns a switch that ends the run from outside.
    fn canceller(&self) -> Canceller;
    /// Returns a switch that stops an answer from outside.
    fn stopper(&self) -> Stopper;
    /// Returns a handle that says something to a conversation while its answer is made.
    fn interjector(&self) -> Interjector;
    /// Records words that wait for the conversation of the root.
    ///
    /// # Errors
    /// They can't be recorded.
    fn queue(&self, said: Said, now: bool) -> Result<(), Halt>;
    /// Polls the call of a run, and writes together what follows from each other without waiting.
    fn gathered<'a>(
        &'a self,
        call: BoxFuture<'a, Result<Outcome, Halt>>,
    ) -> BoxFuture<'a, Result<Outcome, Halt>>;
}

impl<L: RunLog> Recording for Recorder<L> {
    fn canceller(&self) -> Canceller {
        self.canceller()
    }

    fn stopper(&self) -> Stopper {
        self.stopper()
    }

    fn interjector(&self) -> Interjector {
        self.interjector()
    }

    fn queue(&self, said: Said, now: bool) -> Result<(), Halt> {
        self.queue(said, now)
    }

    fn gathered<'a>(
        &'a self,
        call: BoxFuture<'a, Result<Outcome, Halt>>,
    ) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(self.gathering(call))
    }
}
