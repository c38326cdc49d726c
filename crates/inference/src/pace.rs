//! The number of threads that pay off on a machine that may be busy with other work.
//!
//! llama.cpp's threads wait for each other several hundred times a token, spinning: its polling level applies to the
//! time between two tokens, and within a token the threads can't wait otherwise. If one of them has no core to run on,
//! the others burn theirs until it has: two threads on a busy machine of two cores are ten times slower than one. The
//! processor time that this process got shows how much other programs take, other models among them.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Observes a model while it answers.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Cores that this process may use.
    cores: usize,
    /// Threads now.
    threads: usize,
    /// Time and processor time at the last measurement.
    seen: Option<(Instant, Duration)>,
    reduced: Option<Instant>,
}

/// Time between two measurements.
const LOOK: Duration = Duration::from_millis(200);
/// Share of the wanted processor time below which fewer threads do more.
const ENOUGH: f64 = 0.75;
/// Time after which all threads are tried again.
const RETRY: Duration = Duration::from_secs(15);

impl Pace {
    /// Starts with a thread for each core.
    pub(crate) fn new(cores: usize) -> Self {
        Self { cores, threads: cores, seen: None, reduced: None }
    }

    /// Notes that work begins after a pause.
    pub(crate) fn begin(&mut self) {
        self.seen = None;
        if self.reduced.is_some_and(|when| when.elapsed() > RETRY) {
            (self.threads, self.reduced) = (self.cores, None);
        }
    }

    /// Returns the number of threads for a step. To be called at each step.
    pub(crate) fn threads(&mut self) -> usize {
        if self.threads == 1 || self.seen.is_some_and(|(when, _)| when.elapsed() < LOOK) {
            return self.threads;
        }
        let (now, cpu) = (Instant::now(), cpu_time());
        if let Some((then, cpu_then)) = self.seen {
            let cores = cpu.saturating_sub(cpu_then).as_secs_f64() / (now - then).as_secs_f64();
            let fewer = advisable(self.threads, cores);
            if fewer < self.threads {
                (self.threads, self.reduced) = (fewer, Some(now));
            }
        }
        self.seen = Some((now, cpu));
        self.threads
    }
}

/// Returns the number of threads, at most `threads`, that get a core each, if all together got the time of `cores`
/// cores.
fn advisable(threads: usize, cores: f64) -> usize {
    #[allow(clippy::cast_precision_loss)]
    let wanted = threads as f64;
    if cores >= ENOUGH * wanted {
        return threads;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = cores as usize;
    whole.clamp(1, threads)
}

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_a_core_are_given_up() {
        assert_eq!(advisable(2, 1.9), 2);
        assert_eq!(advisable(2, 1.3), 1);
        assert_eq!(advisable(8, 5.2), 5);
        assert_eq!(advisable(8, 0.1), 1);
    }

    #[test]
    fn processor_time_is_read() {
        let before = cpu_time();
        // Work until it shows.
        while cpu_time() == before {
            std::hint::black_box(());
        }
        assert!(cpu_time() > before);
    }
}
