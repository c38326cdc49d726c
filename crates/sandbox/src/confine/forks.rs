//! Tier B's limit of processes. `RLIMIT_NPROC` counts all that the user runs on the machine, and root not at all; so the
//! kernel asks the supervisor before each new process or thread, and the supervisor counts.
//!
//! A supervisor that doesn't answer any more holds all of them back, which is how it makes an end.

use super::{kernel, plan::Fault, supervisor::descendants};
use libc::c_long;
use rustix::{fd::OwnedFd, io::Errno};
use seccompiler::sock_filter;

#[cfg(target_arch = "x86_64")]
const CALLS: &[c_long] = &[libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[c_long] = &[libc::SYS_clone];

/// Has the kernel ask before this process, or one that it starts, makes another. The descriptor is where it asks. Other
/// filters look at the architecture.
pub(super) fn ask_before_each() -> Result<OwnedFd, Fault> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    let mut program = vec![step(LOAD, 0, 0)]; // `nr` of `struct seccomp_data`
    for (number, &call) in CALLS.iter().enumerate() {
        let call = u32::try_from(call).map_err(|error| Fault::new("processes", error))?;
        let to_the_end =
            u8::try_from(CALLS.len() - number).map_err(|error| Fault::new("processes", error))?;
        program.push(step(JUMP_IF_EQUAL, to_the_end, call));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    program.push(step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF));
    kernel::filter_that_asks(&program).map_err(|error| Fault::new("processes", error))
}

/// The one who is asked.
pub(super) struct Forks {
    pub(super) asked_at: OwnedFd,
    most: u32,
    /// How many there were when they were counted last.
    counted: u32,
    /// How many may have come since.
    since: u32,
}

impl Forks {
    pub(super) fn new(asked_at: OwnedFd, most: u32) -> Self {
        Self { asked_at, most, counted: 1, since: 0 }
    }

    /// Answers one question.
    pub(super) fn answer(&mut self) {
        let Ok(question) = kernel::question(&self.asked_at) else { return };
        if self.counted + self.since >= self.most {
            self.counted = descendants().iter().map(|found| found.threads).sum();
            self.since = 0;
        }
        let answer = if self.counted < self.most {
            self.since += 1;
            None
        } else {
            Some(Errno::AGAIN)
        };
        // Who asked may be gone by now.
        let _ = kernel::answer(&self.asked_at, question, answer);
    }
}
