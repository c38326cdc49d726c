//! What a screen shows of a map while it works.

use llm_do_core::model::Usage;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Shared by the map, which writes it, and a screen, which reads it. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Counts>>);

/// How far a map has come.
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
    /// What cost something is known of.
    pub priced: bool,
    /// When the first row of this command began, without the time for the question.
    pub worked: Duration,
    /// Since when it works, if it does.
    pub since: Option<Instant>,
    /// A provider that takes no requests for now.
    pub waiting: Option<Waiting>,
    /// The requests that providers refused because there were too many.
    pub refused: u64,
    /// What is known of the batches, if requests are sent in batches.
    pub batches: Option<String>,
}

/// A provider that takes no requests for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The provider.
    pub provider: Arc<str>,
    /// Until when.
    pub until: Instant,
}

impl Counts {
    /// Rows that have ended.
    pub fn ended(&self) -> u64 {
        self.done + self.failed
    }

    /// How long this command has worked.
    pub fn worked(&self) -> Duration {
        self.worked + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Rows a second.
    pub fn rate(&self) -> f64 {
        let seconds = self.worked().as_secs_f64();
        let ended = self.ended().saturating_sub(self.before) as f64;
        if seconds > 0.0 { ended / seconds } else { 0.0 }
    }

    /// How long the rest will take at this rate.
    pub fn left(&self) -> Option<Duration> {
        let rate = self.rate();
        let rest = self.rows.saturating_sub(self.ended()) as f64;
        (rate > 0.0).then(|| Duration::try_from_secs_f64(rest / rate).ok()).flatten()
    }
}

impl Board {
    /// What it shows now.
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
