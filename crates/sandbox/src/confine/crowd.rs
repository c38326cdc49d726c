//! The limit of processes where the kernel has none: in tier B, and for root on older kernels. `RLIMIT_NPROC` counts all that
//! the user runs on the machine, and root not at all, so it can only be a far end; nearer, the supervisor looks now and
//! then and makes an end where there are too many.
//!
//! A filter that asks before each `fork` would be exact, but a signal that arrives while it asks makes `fork` fail with
//! `EINTR`, which shells are not ready for.

use super::supervisor::descendants;
use rustix::time::Timespec;
use std::fs;

/// How often the supervisor looks. Looking reads one short file.
pub(super) const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The processes and threads below this supervisor.
pub(super) struct Crowd {
    most: u32,
    /// The fewest that the whole machine had since the start.
    fewest: u32,
}

impl Crowd {
    pub(super) fn new(most: u32) -> Self {
        Self { most, fewest: on_this_machine() }
    }

    /// Whether there are more than there may be. They are counted only if the machine has so many more than before that
    /// it could be.
    pub(super) fn is_too_large(&mut self) -> bool {
        let all = on_this_machine();
        self.fewest = self.fewest.min(all);
        all > self.fewest.saturating_add(self.most)
            && descendants().iter().map(|found| found.threads).sum::<u32>() > self.most
    }
}

/// How many processes and threads the machine has: the fourth field of `/proc/loadavg`, behind its slash.
pub(super) fn on_this_machine() -> u32 {
    let all = || fs::read_to_string("/proc/loadavg").ok()?.split(' ').nth(3)?.split_once('/')?.1.parse().ok();
    all().unwrap_or(0)
}
