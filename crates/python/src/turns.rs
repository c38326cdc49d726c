//! The order in which calls without `parallel` use the home of their key.
//!
//! One call at a time has the turn. A function that waits for a call of its own releases its turn, and takes it back
//! before it continues. The main thread of a host serves the calls of waiting functions above these on its stack, so
//! among the functions that are not `async` only the one that began last can continue. A function that can continue
//! comes before one that wants to begin.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The turns of one key.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<TurnQueue>,
    changed: Notify,
}

#[derive(Default)]
struct TurnQueue {
    /// The number of the next call or wait.
    next: u64,
    /// The call that has the turn.
    holder: Option<u64>,
    /// The calls on the stack of the main thread, in the order in which they began.
    stack: Vec<u64>,
    /// The waiting calls, in order of arrival.
    waiting: VecDeque<Waiting>,
    /// The turn of a call that has not begun.
    granted: Option<Hold>,
}

#[derive(Clone, Copy)]
struct Waiting {
    ticket: u64,
    /// The call that wants to continue, or `None` for a call that wants to begin.
    goes_on: Option<u64>,
}

impl TurnQueue {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the waiting call that gets the turn next.
    fn first(&self) -> Option<Waiting> {
        if self.holder.is_some() {
            return None;
        }
        let can_go_on = |call: u64| !self.stack.contains(&call) || self.stack.last() == Some(&call);
        let goes_on = self.waiting.iter().find(|one| one.goes_on.is_some_and(can_go_on));
        goes_on.or_else(|| self.waiting.iter().find(|one| one.goes_on.is_none())).copied()
    }
}

/// A call that has begun, and the turn that it has while it works. Dropping this ends both.
pub(crate) struct Hold {
    turns: Arc<Turns>,
    call: u64,
}

/// A turn that the engine has waited for. Dropping this ends it, unless its call has taken it over.
pub(crate) struct Granted {
    turns: Arc<Turns>,
    call: u64,
}

/// A place in the queue.
struct Ticket<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a call may begin. An `async` call does not use the stack of the main thread.
    pub(crate) async fn begin(self: &Arc<Self>, is_async: bool) -> Hold {
        let call = self.wait(None).await;
        if !is_async {
            self.lock().stack.push(call);
        }
        Hold { turns: Arc::clone(self), call }
    }

    /// Waits like [`Turns::begin`], for a call that takes the turn over with [`Turns::take_granted`] when it begins.
    pub(crate) async fn grant(self: &Arc<Self>, is_async: bool) -> Granted {
        let hold = self.begin(is_async).await;
        let granted = Granted { turns: Arc::clone(self), call: hold.call };
        self.lock().granted = Some(hold);
        granted
    }

    /// Takes the turn of the call that begins now. Only one call at a time can have one.
    pub(crate) fn take_granted(&self) -> Option<Hold> {
        self.lock().granted.take()
    }

    /// Waits for the turn, and returns the number of the call that has it then.
    async fn wait(&self, goes_on: Option<u64>) -> u64 {
        let ticket = {
            let mut state = self.lock();
            let number = state.number();
            state.waiting.push_back(Waiting { ticket: number, goes_on });
            Ticket { turns: self, number }
        };
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no notification is missed.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if state.first().is_some_and(|first| first.ticket == ticket.number) {
                    let call = goes_on.unwrap_or(ticket.number);
                    state.holder = Some(call);
                    return call;
                }
            }
            changed.await;
        }
    }
}

impl Hold {
    /// Releases the turn while the function waits for calls of its own.
    pub(crate) fn release(&self) {
        let mut state = self.turns.lock();
        if state.holder == Some(self.call) {
            state.holder = None;
        }
        drop(state);
        self.turns.changed.notify_waiters();
    }

    /// Waits until the function may continue.
    pub(crate) async fn take_back(&self) {
        let has = self.turns.lock().holder == Some(self.call);
        if !has {
            self.turns.wait(Some(self.call)).await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.turns.lock().stack.retain(|call| *call != self.call);
        self.release();
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let unused = self.turns.lock().granted.take_if(|hold| hold.call == self.call);
        // Only now, because this locks again.
        drop(unused);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.turns.lock().waiting.retain(|one| one.ticket != self.number);
        self.turns.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn begin(turns: &Arc<Turns>) -> Option<Hold> {
        turns.begin(false).now_or_never()
    }

    #[test]
    fn one_call_at_a_time_has_the_turn() {
        let turns = Arc::new(Turns::default());
        let first = begin(&turns).expect("the turn is free");
        assert!(begin(&turns).is_none());
        drop(first);
        assert!(begin(&turns).is_some());
    }

    #[test]
    fn function_that_waits_gives_its_turn_up_and_goes_on_after_those_above_it() {
        let turns = Arc::new(Turns::default());
        let first = begin(&turns).expect("the turn is free");
        first.release();
        let second = begin(&turns).expect("the first waits");
        second.release();
        assert!(first.take_back().now_or_never().is_none(), "the second is above it");
        assert!(second.take_back().now_or_never().is_some());
        drop(second);
        assert!(first.take_back().now_or_never().is_some());
        assert!(first.take_back().now_or_never().is_some(), "it has the turn");
    }

    #[test]
    fn async_function_goes_on_whatever_began_after_it() {
        let turns = Arc::new(Turns::default());
        let first = turns.begin(true).now_or_never().expect("the turn is free");
        first.release();
        let second = begin(&turns).expect("the first waits");
        assert!(first.take_back().now_or_never().is_none(), "the second works");
        second.release();
        assert!(first.take_back().now_or_never().is_some());
    }

    #[test]
    fn function_that_can_go_on_comes_before_one_that_wants_to_begin() {
        let turns = Arc::new(Turns::default());
        let first = begin(&turns).expect("the turn is free");
        first.release();
        let second = turns.begin(true).now_or_never().expect("the first waits");
        let third = turns.begin(false);
        let mut third = std::pin::pin!(third);
        assert!((&mut third).now_or_never().is_none());
        let goes_on = first.take_back();
        let mut goes_on = std::pin::pin!(goes_on);
        assert!((&mut goes_on).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().is_none());
        assert!((&mut goes_on).now_or_never().is_some());
        first.release();
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn turn_of_a_call_that_never_began_is_free_again() {
        let turns = Arc::new(Turns::default());
        let granted = turns.grant(false).now_or_never().expect("the turn is free");
        drop(granted);
        let granted = turns.grant(false).now_or_never().expect("the turn is free again");
        let hold = turns.take_granted().expect("it was granted");
        drop(granted);
        assert!(begin(&turns).is_none(), "the call has taken it over");
        drop(hold);
        assert!(begin(&turns).is_some());
    }
}
