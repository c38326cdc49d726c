//! A call of a function, from the lease of a host to its return.

use crate::{
    host::{Event, HostError, Ongoing},
    pool::Lease,
    turns::Hold,
    wire::ToHost,
};
use std::{sync::Arc, time::Duration};

/// The time that code may take to stop after an interrupt. After that its process is ended: the code may block signals
/// or catch the exception.
const GRACE: Duration = Duration::from_secs(1);

/// The largest output of a call that the journal keeps, in bytes.
const LOG: usize = 256 * 1024;

/// A running call. If it is dropped before its end, its code is interrupted, and if that does not help, its host is
/// ended.
pub(crate) struct InFlight {
    // Both are `Some` until it is dropped.
    lease: Option<Lease>,
    ongoing: Option<Ongoing>,
    seat: Seat,
    /// The function.
    name: Arc<str>,
    log: String,
}

/// The place of a call in its host.
#[derive(Clone)]
pub(crate) enum Seat {
    /// A turn on the host's main thread, one call at a time.
    Turn(Arc<Hold>),
    /// A place in the same host, beside other calls.
    Beside,
    /// A host of its own.
    Alone,
    /// A host of its own, which ends with the call.
    Once,
}

impl InFlight {
    pub(crate) fn begin<'a>(
        lease: Lease,
        seat: Seat,
        name: &Arc<str>,
        message: impl FnOnce(u64) -> ToHost<'a>,
    ) -> Self {
        let ongoing = lease.host.begin(message);
        let name = Arc::clone(name);
        Self { lease: Some(lease), ongoing: Some(ongoing), seat, name, log: String::new() }
    }

    /// Returns the next event, except output, which it keeps.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            match self.ongoing().next().await {
                Event::Log(text) => self.print(&text),
                event => return event,
            }
        }
    }

    pub(crate) fn ongoing(&mut self) -> &mut Ongoing {
        self.ongoing.as_mut().expect("it is taken only when the call is dropped")
    }

    /// Takes the output since the last call of this method.
    pub(crate) fn take_log(&mut self) -> Option<Arc<str>> {
        let log = std::mem::take(&mut self.log);
        (!log.is_empty()).then(|| log.into())
    }

    fn print(&mut self, text: &str) {
        let left = LOG.saturating_sub(self.log.len());
        if left == 0 {
            return;
        }
        let cut = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= left).last();
        self.log.push_str(&text[..cut.unwrap_or(0)]);
        if !text.ends_with('\n') && self.log.len() < LOG {
            self.log.push('\n');
        }
        if cut.unwrap_or(0) < text.len() {
            self.log.push_str("[more was printed and is not kept]\n");
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let (Some(lease), Some(mut ongoing)) = (self.lease.take(), self.ongoing.take()) else { return };
        let reason = format!("`{}` in it was given up and did not stop", self.name);
        if ongoing.has_ended() {
            return if matches!(self.seat, Seat::Once) {
                lease.discard("its program has ended");
            } else if lease.host.is_gone() {
                lease.discard(&reason);
            } else {
                lease.give_back();
            };
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return lease.discard(&reason) };
        let (pool, seat) = (lease.pool(), self.seat.clone());
        pool.add_stopping(runtime.spawn(async move {
            ongoing.cancel();
            if let Seat::Turn(turn) = &seat {
                // Until then other code may run above it on the stack of the main thread.
                turn.take_back().await;
            }
            match (ongoing.stop(GRACE).await, &seat) {
                (_, Seat::Once) => lease.discard(&reason),
                (true, _) => lease.give_back(),
                // The others in its host can continue.
                (false, Seat::Beside) => lease.leave(&reason),
                (false, Seat::Turn(_) | Seat::Alone) => lease.discard(&reason),
            }
        }));
    }
}

impl From<HostError> for llm_do_core::function::ToolError {
    fn from(error: HostError) -> Self {
        Self::new(error.0)
    }
}
