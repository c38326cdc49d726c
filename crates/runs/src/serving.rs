//! The lock of a program's server. A second server would continue the same runs, and an idempotency key would start one
//! run in each.

use crate::{
    files::{holder, private_file, soon},
    journal::make_runs_dir,
};
use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
};

/// The right to serve a program. It ends with the process.
#[derive(Debug)]
pub struct Serving {
    /// The locked file. `None`: the folder takes no lock, so that another server would not be noticed.
    _lock: Option<File>,
}

/// Another process serves the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlreadyServed {
    /// The process, where the system reports it.
    pub process: Option<u32>,
}

impl Serving {
    /// Begins to serve the program of that name, whose runs are in that folder.
    ///
    /// # Errors
    /// Another process serves the program.
    pub fn begin(runs_dir: &Path, program: &str) -> Result<Self, AlreadyServed> {
        let path = runs_dir.join(format!(".serving-{program}"));
        let open = || {
            make_runs_dir(runs_dir).ok()?;
            private_file(OpenOptions::new().write(true).create(true).truncate(false)).open(&path).ok()
        };
        // Where nothing can be written there will be no run either.
        let Some(file) = open() else { return Ok(Self { _lock: None }) };
        let locked = soon(|| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        match locked {
            true => Ok(Self { _lock: Some(file) }),
            false => Err(AlreadyServed { process: holder(&path) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_one_server() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join(".llm-do/runs");
        let first = Serving::begin(&runs, "desk").unwrap();
        let refused = Serving::begin(&runs, "desk").unwrap_err();
        assert!(refused.process.is_none_or(|process| process == std::process::id()));
        Serving::begin(&runs, "other").unwrap();
        drop(first);
        Serving::begin(&runs, "desk").unwrap();
        assert!(crate::stored_runs(&runs).unwrap().is_empty(), "it is no run");
    }
}
