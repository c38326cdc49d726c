//! How many threads pay off on a machine that may be busy with other things.
//!
//! llama.cpp's threads wait for each other several hundred times a token, spinning. When one of them has no core to
//! run on, the others burn theirs until it has: two threads on a busy machine of two cores are ten times slower than
//! one. What tells is the processor time they got.

use std::time::{Duration, Instant};

/// Watches an answer being made.
#[derive(Debug)]
pub(crate) struct Pace {
    most: usize,
    threads: usize,
    /// Time and processor time at the last look.
    seen: Option<(Instant, Duration)>,
    reduced: Option<Instant>,
}

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(400);
/// Share of the wanted processor time below which fewer threads do more.
const ENOUGH: f64 = 0.75;
/// After that time all threads are tried again.
const RETRY: Duration = Duration::from_secs(15);

impl Pace {
    /// One thread for each core.
    pub(crate) fn new() -> Self {
        let most = num_cpus::get_physical().min(num_cpus::get()).max(1);
        Self { most, threads: most, seen: None, reduced: None }
    }

    /// Threads for an answer that begins now.
    pub(crate) fn begin(&mut self) -> usize {
        self.seen = None;
        if self.reduced.is_some_and(|when| when.elapsed() > RETRY) {
            (self.threads, self.reduced) = (self.most, None);
        }
        self.threads
    }

    /// To be called at each step: threads for it.
    pub(crate) fn next(&mut self) -> usize {
        if self.threads == 1 || self.seen.is_some_and(|(when, _)| when.elapsed() < LOOK) {
            return self.threads;
        }
        let now = cpu_time().map(|cpu| (Instant::now(), cpu));
        if let (Some((then, cpu_then)), Some((now, cpu_now))) = (self.seen, now) {
            let cores = cpu_now.saturating_sub(cpu_then).as_secs_f64() / (now - then).as_secs_f64();
            let fewer = advisable(self.threads, cores);
            if fewer < self.threads {
                (self.threads, self.reduced) = (fewer, Some(now));
            }
        }
        self.seen = now;
        self.threads
    }
}

/// Threads that get a core each, when so many got that many cores' time.
fn advisable(threads: usize, cores: f64) -> usize {
    #[allow(clippy::cast_precision_loss)]
    if cores >= ENOUGH * threads as f64 {
        return threads;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = cores as usize;
    whole.clamp(1, threads)
}

/// Processor time of this process, where the system tells it in a file.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // Linux shows user programs hundredths of a second, whatever its own clock.
    Some(Duration::from_millis(ticks * 10))
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
        if !cfg!(target_os = "linux") {
            return;
        }
        let before = cpu_time().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            std::hint::black_box(start);
        }
        let used = cpu_time().unwrap().checked_sub(before).unwrap();
        assert!(used > Duration::ZERO && used < Duration::from_secs(5), "{used:?}");
    }
}
