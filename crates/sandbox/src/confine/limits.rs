//! The resource limits of one confined process.

use serde::{Deserialize, Serialize};

/// Limits of one confined process and everything it starts.
///
/// | limit | tier A | tier B |
/// |---|---|---|
/// | memory | all processes together (control group), and each process (`RLIMIT_DATA`) | the same |
/// | processes | all together (control group, `pids.max`); without one, `RLIMIT_NPROC` in the user namespace, or for root the number of process IDs in the process namespace, up to 300 above the limit (Linux 6.14; before, as in tier B) | all together (control group); without one, the supervisor counts twenty times a second and ends the program |
/// | temporary folder, shared memory | each of them (tmpfs) | the size of one file only |
/// | open files, file size, processor time | each process, file, process | the same |
///
/// Without a control group nothing limits shared mappings, files in memory, and the memory of all processes together.
/// Nothing limits the size of a mount for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// The largest amount of memory, in bytes: of all processes together in a control group, and of private, writable
    /// memory of each process. Default 4 GiB.
    pub memory: u64,
    /// The largest number of processes and threads at one time, all together. Default 512.
    pub processes: u32,
    /// The largest number of open descriptors of each process. Default 1,024.
    pub open_files: u64,
    /// The largest size of the private temporary folder, and the same amount of shared memory, in bytes. Default 512
    /// MiB.
    pub temporary: u64,
    /// The largest file that may be written, in bytes. Default 1 GiB.
    pub file_size: u64,
    /// The largest processor time of each process, in seconds; `None`, the default, means no limit. The caller limits
    /// the time of a call.
    pub processor_seconds: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 4 << 30,
            processes: 512,
            open_files: 1024,
            temporary: 512 << 20,
            file_size: 1 << 30,
            processor_seconds: None,
        }
    }
}
