//! The memory of the machine.

use std::fs;

/// Returns the bytes of memory that this process may use: the machine's, or the limit of its control group. `None`
/// where the system does not report it.
pub fn total() -> Option<u64> {
    reported("MemTotal:")
}

/// Returns the bytes of that memory that are free. `None` where the system does not report it.
#[cfg(feature = "llama")]
pub(crate) fn free() -> Option<u64> {
    reported("MemAvailable:")
}

/// Returns a figure of the machine in bytes, or the limit of the control group of this process, whichever is less.
fn reported(field: &str) -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix(field))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse().ok());
    Some(limit.map_or(machine, |limit: u64| limit.min(machine)))
}
