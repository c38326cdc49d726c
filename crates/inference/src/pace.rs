//! How many threads pay off on a machine that may be busy with other things.
//!
//! llama.cpp's threads wait for each other several hundred times a token, spinning: its polling level is about the time
//! between two tokens, and within one there is no other way of waiting. When one of them has no core to run on, the
//! others burn theirs until it has: two threads on a busy machine of two cores are ten times slower than one. So
//! answers that are made at the same time share the cores, and what other programs take is told by the processor time
//! that this one got.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// Watches the answers of one model being made.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Cores that this process may use.
    cores: usize,
    /// The largest number of threads that recently improved the speed.
    most: usize,
    /// Threads now.
    threads: usize,
    /// Time and processor time at the last look.
    seen: Option<(Instant, Duration)>,
    reduced: Option<Instant>,
}

/// An answer being made, until it is dropped: it has its share of the cores.
#[derive(Debug)]
pub(crate) struct AtWork(());

/// Answers being made in this process.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Share of the wanted processor time below which fewer threads do more.
const ENOUGH: f64 = 0.75;
/// After that time all threads are tried again.
const RETRY: Duration = Duration::from_secs(15);

impl AtWork {
    fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    fn count() -> usize {
        AT_WORK.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pace {
    /// One thread for each core, of those that the process is bound to and its control group pays for.
    pub(crate) fn new() -> Self {
        let cores = num_cpus::get_physical().min(num_cpus::get()).max(1);
        Self { cores, most: cores, threads: cores, seen: None, reduced: None }
    }

    /// To be called when an answer begins, and kept until it ends.
    pub(crate) fn begin(&mut self) -> AtWork {
        let work = AtWork::begin();
        self.seen = None;
        if self.reduced.is_some_and(|when| when.elapsed() > RETRY) {
            (self.most, self.reduced) = (self.cores, None);
        }
        self.threads = share(self.cores, AtWork::count()).min(self.most);
        work
    }

    /// To be called at each step: threads for it.
    pub(crate) fn threads(&mut self) -> usize {
        if self.threads == 1 || self.seen.is_some_and(|(when, _)| when.elapsed() < LOOK) {
            return self.threads;
        }
        let now = cpu_time().map(|cpu| (Instant::now(), cpu));
        if let (Some((then, cpu_then)), Some((now, cpu_now))) = (self.seen, now) {
            let cores = cpu_now.saturating_sub(cpu_then).as_secs_f64() / (now - then).as_secs_f64();
            let fewer = advisable(self.threads, cores, AtWork::count());
            if fewer < self.threads {
                (self.threads, self.most, self.reduced) = (fewer, fewer, Some(now));
            }
        }
        self.seen = now;
        self.threads
    }
}

/// Threads of one answer among so many.
fn share(cores: usize, answers: usize) -> usize {
    (cores / answers).max(1)
}

/// Threads of an answer that get a core each, when that many answers together got that many cores' time.
fn advisable(threads: usize, cores: f64, answers: usize) -> usize {
    #[allow(clippy::cast_precision_loss)]
    let (own, wanted) = (cores / answers as f64, threads as f64);
    if own >= ENOUGH * wanted {
        return threads;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = own as usize;
    whole.clamp(1, threads)
}

/// Processor time of this process, if the system reports it in a file.
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
        assert_eq!(advisable(2, 1.9, 1), 2);
        assert_eq!(advisable(2, 1.3, 1), 1);
        assert_eq!(advisable(8, 5.2, 1), 5);
        assert_eq!(advisable(8, 0.1, 1), 1);
        // Two answers got the whole of two cores, one each.
        assert_eq!(advisable(2, 2.0, 2), 1);
        assert_eq!(advisable(4, 7.8, 2), 4);
    }

    #[test]
    fn answers_made_at_the_same_time_share_the_cores() {
        assert_eq!([1, 2, 3, 9].map(|answers| share(8, answers)), [8, 4, 2, 1]);
        let before = AtWork::count();
        let (mut one, mut two) = (Pace::new(), Pace::new());
        let (first, second) = (one.begin(), two.begin());
        assert_eq!(AtWork::count(), before.max(2));
        assert!(two.threads() <= share(two.cores, 2));
        drop((first, second));
        assert_eq!(AtWork::count(), before);
    }

    #[test]
    fn processor_time_is_read() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let before = cpu_time().unwrap();
        // Work until it shows: a clock of hundredths stands still for a while.
        while cpu_time().unwrap() == before {
            std::hint::black_box(());
        }
        assert!(cpu_time().unwrap() > before);
    }
}
