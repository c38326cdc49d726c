//! The time for which a node may believe that it holds a run.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The lease of a run, as its node knows it.
///
/// A node measures it from the moment before it asked for the extension, by its own monotonic clock, so its end is never later
/// than the one in the database. A node whose last confirmed heartbeat is older than two thirds of the lease gives the run up by
/// itself: another node may take it over soon, and an effect must not outlive the lease.
pub(crate) struct Lease {
    length: Duration,
    /// The time of the last confirmation; `None` after the run was lost.
    confirmed: Mutex<Option<Instant>>,
}

impl Lease {
    /// A lease whose claim was asked for at that time.
    pub(crate) fn new(length: Duration, asked: Instant) -> Self {
        Self { length, confirmed: Mutex::new(Some(asked)) }
    }

    fn confirmed(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a heartbeat that was asked for at that time and confirmed.
    pub(crate) fn confirm(&self, asked: Instant) {
        if let Some(confirmed) = self.confirmed().as_mut() {
            *confirmed = (*confirmed).max(asked);
        }
    }

    /// Gives the run up for good.
    pub(crate) fn lose(&self) {
        *self.confirmed() = None;
    }

    /// Returns true if the node may go on. After two thirds of the lease without a confirmation the run is lost for good.
    pub(crate) fn holds(&self) -> bool {
        let mut confirmed = self.confirmed();
        if confirmed.is_some_and(|at| at.elapsed() * 3 > self.length * 2) {
            *confirmed = None;
        }
        confirmed.is_some()
    }

    /// The time between two heartbeats.
    pub(crate) fn interval(&self) -> Duration {
        self.length / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_without_confirmation_is_lost_for_good() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let lease = Lease::new(Duration::from_secs(9), ago(5));
        assert!(lease.holds());
        let late = Lease::new(Duration::from_secs(9), ago(7));
        assert!(!late.holds());
        late.confirm(Instant::now());
        assert!(!late.holds(), "a late confirmation does not bring it back");
        lease.lose();
        lease.confirm(Instant::now());
        assert!(!lease.holds());
    }
}
