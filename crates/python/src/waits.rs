//! The waits of a function that makes calls, apart from the calls themselves.

use crate::turns::Hold;
use llm_do_core::function::CompositeCall;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The turn of a function, which it releases while it waits for its calls.
pub(crate) struct Waits {
    /// The turn, or `None` if the function takes no turns.
    turn: Option<Arc<Hold>>,
    /// The number of calls whose results the function does not have.
    open: AtomicUsize,
}

impl Waits {
    /// Creates the waits of a function that has its turn, if it takes turns.
    pub(crate) fn new(turn: Option<Arc<Hold>>) -> Self {
        Self { turn, open: AtomicUsize::new(0) }
    }

    /// Notes that a call begins. The first call releases the turn.
    pub(crate) fn begin(&self) {
        if self.open.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(turn) = &self.turn
        {
            turn.release();
        }
    }

    /// Notes that a call of `function` has ended. After the last call, waits until the function may continue. This wait
    /// is not a step, and no limit applies to it.
    pub(crate) async fn end(&self, function: &CompositeCall<'_>) {
        let is_last = self.open.load(Ordering::Relaxed) == 1;
        if let (true, Some(turn)) = (is_last, &self.turn) {
            let driver = &*function.engine.host().driver;
            function.frame.untimed(driver, turn.take_back()).await;
        }
        let others = self.open.fetch_sub(1, Ordering::Relaxed) > 1;
        // Another thread of the function has made a call meanwhile.
        if let (true, true, Some(turn)) = (is_last, others, &self.turn) {
            turn.release();
        }
    }
}
