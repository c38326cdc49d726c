//! The limits that the kernel keeps for each process (getrlimit(2)) and for a process namespace.

use super::{
    Limits, crowd,
    plan::{Fault, Task},
};
use rustix::{
    fd::BorrowedFd,
    fs::{Mode, OFlags, openat},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// The number of process IDs that the kernel uses once and reserves afterwards, so that a namespace has that many more.
const RESERVED_PIDS: u32 = 300;

/// Sets the limits that the kernel keeps for each process, for this one and all that it starts.
pub(super) fn apply(limits: &Limits, task: Task) -> Result<(), Fault> {
    let all = [
        (Resource::Data, limits.memory),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        // 0 would not hold where the kernel passes core dumps to a program (core(5)); 1 switches these off too.
        (Resource::Core, 1),
        (Resource::Memlock, 8 << 20),
        (Resource::Msgqueue, 0),
    ];
    let processor = limits.processor_seconds.map(|seconds| (Resource::Cpu, seconds));
    // In a user namespace the user's processes are counted apart from those outside.
    let processes = match task {
        Task::Landlock => Some(limits.processes.saturating_add(crowd::on_this_machine())),
        Task::Unconfined => None,
        Task::Namespaces | Task::TryNamespaces => Some(limits.processes),
    }
    .map(|most| (Resource::Nproc, most.into()));
    for (resource, most) in all.into_iter().chain(processor).chain(processes) {
        // Never above what the starting process was held to.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| Fault::new("limits", format!("{resource:?} can't be set: {error}")))?;
    }
    Ok(())
}

/// Limits the number of processes that a process namespace may hold. Returns false if the kernel can't (before
/// Linux 6.14). `RLIMIT_NPROC` is also such a limit in a user namespace, but not for root.
pub(super) fn limit_pids(proc: BorrowedFd<'_>, processes: u32) -> Result<bool, Fault> {
    // Before 6.14 the number belongs to the whole machine, and root would change it there.
    if !kernel_is_at_least(6, 14) {
        return Ok(false);
    }
    let most = processes.saturating_add(RESERVED_PIDS).to_string();
    let file = openat(proc, "sys/kernel/pid_max", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    file.and_then(|file| rustix::io::write(file, most.as_bytes())).map_err(|error| {
        Fault::new("limits", format!("the number of processes can't be limited: {error}"))
    })?;
    Ok(true)
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let mut numbers = uname
        .release()
        .to_str()
        .unwrap_or("")
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= (major, minor)
}
