//! What a function that makes calls waits for, apart from its calls.

use crate::turns::Hold;
use llm_do_core::function::CompositeCall;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// What becomes of the turn of a function while it waits for its calls.
pub(crate) struct Waits {
    /// `None` if it takes no turns.
    turn: Option<Arc<Hold>>,
    /// The calls whose results it has not got.
    open: AtomicUsize,
}

impl Waits {
    /// Of a function that has its turn, if it takes turns.
    pub(crate) fn new(turn: Option<Arc<Hold>>) -> Self {
        Self { turn, open: AtomicUsize::new(0) }
    }

    /// A call begins. The first gives the turn up.
    pub(crate) fn begin(&self) {
        if self.open.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(turn) = &self.turn
        {
            turn.release();
        }
    }

    /// A call of `function` has ended. The last waits until the function may continue. This is no step, and no limit holds for
    /// it.
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
