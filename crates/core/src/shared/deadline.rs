//! Working time.

use std::time::Duration;

/// Working time of one call: waiting for people and rate limits doesn't count (`docs/reference/loop.md`).
#[derive(Debug)]
pub(super) struct Deadline {
    limit: Duration,
    started_ms: u64,
    waits: Waits,
}

#[derive(Debug, Default)]
struct Waits {
    total_ms: u64,
    /// End of the latest wait counted, so that parallel waits count once.
    until_ms: u64,
}

impl Deadline {
    /// Starts now.
    pub(super) fn new(limit: Duration, now_ms: u64) -> Self {
        Self { limit, started_ms: now_ms, waits: Waits::default() }
    }

    pub(super) fn remaining(&self, now_ms: u64) -> Duration {
        let worked = now_ms.saturating_sub(self.started_ms).saturating_sub(self.waits.total_ms);
        self.limit.saturating_sub(Duration::from_millis(worked))
    }

    pub(super) fn waited(&mut self, start_ms: u64, end_ms: u64) {
        let waits = &mut self.waits;
        let start_ms = start_ms.max(waits.until_ms);
        if end_ms > start_ms {
            waits.total_ms += end_ms - start_ms;
            waits.until_ms = end_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_people_counts_for_no_deadline_and_once() {
        let mut deadline = Deadline::new(Duration::from_secs(10), 1_000);
        assert_eq!(deadline.remaining(3_000), Duration::from_secs(8));
        // Two parallel questions of an hour each: the time is excluded once.
        deadline.waited(3_000, 3_603_000);
        deadline.waited(3_500, 3_603_000);
        assert_eq!(deadline.remaining(3_604_000), Duration::from_secs(7));
        assert_eq!(deadline.remaining(9_999_000), Duration::ZERO);
    }
}
