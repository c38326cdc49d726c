//! A small executor: all tasks of the engine, polled when they were woken, until everything waits.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use llm_do_core::send::BoxFuture;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// The tasks of an engine.
#[derive(Default)]
pub(crate) struct Tasks {
    running: FuturesUnordered<BoxFuture<'static, ()>>,
    spawner: Spawner,
    woken: Arc<Woken>,
}

/// Adds tasks.
#[derive(Clone, Default)]
pub(crate) struct Spawner(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Spawner {
    /// Adds a task, which begins in this step.
    pub(crate) fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}

impl Tasks {
    pub(crate) fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Polls the tasks until all of them wait for the host.
    pub(crate) fn run(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            let new = std::mem::take(&mut *self.spawner.0.lock().unwrap_or_else(PoisonError::into_inner));
            let is_new = !new.is_empty();
            self.running.extend(new);
            self.woken.0.store(false, Ordering::Release);
            match self.running.poll_next_unpin(&mut context) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) if !is_new => return,
                Poll::Pending if !is_new && !self.woken.0.load(Ordering::Acquire) && !self.has_new() => {
                    return;
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
        }
    }

    fn has_new(&self) -> bool {
        !self.spawner.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
