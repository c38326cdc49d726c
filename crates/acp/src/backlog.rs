//! Updates sent to the client and not yet written. A client that reads slowly, or not at all, must not fill the memory.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// Number of waiting updates from which the client gets the rest of each answer at once instead of in pieces.
const SLOW: usize = 256;
/// Number of waiting updates from which a client that reads nothing for [`PATIENCE`] counts as gone.
const STALLED: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(30);
/// The beginning of a line that is an update.
const METHOD: &[u8] = b"\"session/update\"";
const BEGINNING: usize = 96;

/// Counts the updates of all sessions of one client.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    sent: AtomicUsize,
    written: AtomicUsize,
    grown: Notify,
}

impl Backlog {
    /// Counts an update that was sent.
    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        if self.waiting() >= STALLED {
            self.grown.notify_one();
        }
    }

    /// Counts a line that was written.
    pub(crate) fn wrote(&self, line: &str) {
        let beginning = &line.as_bytes()[..line.len().min(BEGINNING)];
        if beginning.windows(METHOD.len()).any(|part| part == METHOD) {
            self.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waiting(&self) -> usize {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.written.load(Ordering::Relaxed))
    }

    /// Returns true if the client reads more slowly than the sessions send.
    pub(crate) fn is_long(&self) -> bool {
        self.waiting() >= SLOW
    }

    /// Waits until the client counts as gone.
    pub(crate) async fn stalled(&self) {
        loop {
            self.grown.notified().await;
            loop {
                let before = self.written.load(Ordering::Relaxed);
                tokio::time::sleep(PATIENCE).await;
                if self.waiting() < STALLED {
                    break;
                }
                if self.written.load(Ordering::Relaxed) == before {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_gone_and_a_slow_one_is_not() {
        let backlog = Backlog::default();
        (0..STALLED).for_each(|_| backlog.sent());
        let line = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}";
        let reads = async {
            for _ in 0..10 {
                tokio::time::sleep(PATIENCE / 2).await;
                backlog.wrote(line);
                backlog.sent();
            }
            std::future::pending::<()>().await;
        };
        let began = tokio::time::Instant::now();
        tokio::select! {
            () = backlog.stalled() => {}
            () = reads => {}
        }
        assert!(began.elapsed() > PATIENCE * 5, "{:?}", began.elapsed());
        assert!(backlog.is_long());
    }
}
