//! Time for a module without a clock.

use llm_do_core::send::BoxFuture;
use llm_do_host::Ambient;
use std::{future::poll_fn, task::Poll, time::Duration};

/// The polls after which a wait ends. The work that it limits has ended by then: nothing here waits for an event from
/// outside.
const TICKS: u32 = 100;

/// A clock that advances with each poll. Every run has the same random numbers.
pub(crate) struct Ticks;

impl Ambient for Ticks {
    fn after(&self, _: Duration) -> BoxFuture<'static, ()> {
        let mut left = TICKS;
        Box::pin(poll_fn(move |_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    fn random(&self) -> u64 {
        512
    }
}
