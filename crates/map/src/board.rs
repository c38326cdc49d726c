//! The state of a map that a screen shows while the map works.

use llm_do_core::model::Usage;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A board that the map writes and a screen reads. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Counts>>);

/// The progress of a map.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Rows of the input.
    pub rows: u64,
    /// Rows with an output, those of earlier commands included.
    pub done: u64,
    /// Rows that failed, those of earlier commands included.
    pub failed: u64,
    /// Rows that had ended before this command.
    pub before: u64,
    /// Rows that had an output before this command.
    pub done_before: u64,
    /// Rows that run now.
    pub running: u64,
    /// The tokens and the cost of this command.
    pub usage: Usage,
    /// True if the prices of all models are known.
    pub priced: bool,
    /// The time that this command has worked before `since`, without the time for the question to the user.
    pub worked: Duration,
    /// The start of the current work; absent while the map does not work.
    pub since: Option<Instant>,
    /// A provider that takes no requests for now.
    pub waiting: Option<Waiting>,
    /// The requests that providers refused because there were too many.
    pub refused: u64,
    /// The progress of the batches, as text, if requests are sent in batches.
    pub batches: Option<String>,
}

/// A provider that takes no requests for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The provider.
    pub provider: Arc<str>,
    /// The end of the pause.
    pub until: Instant,
}

impl Counts {
    /// Returns the number of rows that have ended.
    pub fn ended(&self) -> u64 {
        self.done + self.failed
    }

    /// Returns the time that this command has worked.
    pub fn worked(&self) -> Duration {
        self.worked + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the number of rows that end in a second.
    pub fn rate(&self) -> f64 {
        let seconds = self.worked().as_secs_f64();
        let ended = self.ended().saturating_sub(self.before) as f64;
        if seconds > 0.0 { ended / seconds } else { 0.0 }
    }

    /// Returns the time that the remaining rows will take at this rate.
    pub fn left(&self) -> Option<Duration> {
        let rate = self.rate();
        let rest = self.rows.saturating_sub(self.ended()) as f64;
        (rate > 0.0).then(|| Duration::try_from_secs_f64(rest / rate).ok()).flatten()
    }
}

impl Board {
    /// Returns a copy of the current counts.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
