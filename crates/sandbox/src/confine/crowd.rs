//! The process limit where the kernel has none: in tier B, and for root on older kernels. `RLIMIT_NPROC` counts all
//! processes of the user on the machine and does not apply to root, so it is only a coarse upper limit. For the exact
//! limit the supervisor counts processes periodically and ends the program if there are too many.
//!
//! A filter that notifies before each `fork` would be exact, but a signal that arrives during the notification makes
//! `fork` fail with `EINTR`, which shells don't handle.

use rustix::{
    process::{Pid, getpid},
    time::Timespec,
};
use std::fs;

/// The interval between two checks by the supervisor. A check reads one short file.
pub(super) const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The processes and threads below this supervisor.
pub(super) struct Crowd {
    most: u32,
    /// The minimum on the whole machine since the start.
    fewest: u32,
}

impl Crowd {
    pub(super) fn new(most: u32) -> Self {
        Self { most, fewest: on_this_machine() }
    }

    /// Returns true if the limit is exceeded. Counts processes only if the number on the machine has grown enough to
    /// make that possible.
    pub(super) fn is_too_large(&mut self) -> bool {
        let all = on_this_machine();
        self.fewest = self.fewest.min(all);
        all > self.fewest.saturating_add(self.most)
            && descendants().iter().map(|found| found.threads).sum::<u32>() > self.most
    }
}

/// Returns the number of processes and threads on the machine: the part after the slash in the fourth field of
/// `/proc/loadavg`.
pub(super) fn on_this_machine() -> u32 {
    let all = || fs::read_to_string("/proc/loadavg").ok()?.split(' ').nth(3)?.split_once('/')?.1.parse().ok();
    all().unwrap_or(0)
}

/// A process below the supervisor.
pub(super) struct Descendant {
    pub(super) pid: Pid,
    parent: i32,
    /// The number of its threads.
    threads: u32,
}

/// Lists the processes below this one, by the parents that `/proc` names.
pub(super) fn descendants() -> Vec<Descendant> {
    let mut all: Vec<Descendant> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name is in parentheses and may contain any character; see proc(5) for the fields behind it.
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let parent = fields.nth(1)?.parse().ok()?;
            let threads = fields.nth(15)?.parse().ok()?;
            Some(Descendant { pid, parent, threads })
        })
        .collect();
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        let (below, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.parent == parent);
        parents.extend(below.iter().map(|one| one.pid.as_raw_nonzero().get()));
        found.extend(below);
        all = others;
    }
    found
}
