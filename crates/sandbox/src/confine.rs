//! Confined processes (`docs/reference/sandbox.md`): llm-do starts every foreign program through this module.
//!
//! A program sees only the real places of its worker's view and the machine's programs. It has no network without a
//! grant; with a list of domains it has a proxy that enforces the list. It has only the environment that it is given.
//! The program and all its descendants end with the call or run that started it. Two tiers enforce this:
//!
//! - **A**, [`Tier::Namespaces`]: a separate file system, process namespace and network. Names inside a given folder
//!   that must not be seen are masked. Landlock and a system call filter are added on top.
//! - **B**, [`Tier::Landlock`]: the machine's file system under Landlock's rules, and a stricter filter. It can't
//!   hide a part of a folder, so a mount with something to hide is not given at all. Changes of mode, owner, times
//!   and extended attributes are refused everywhere, because Landlock doesn't check them. The existence of files is
//!   visible.
//!
//! A process with many threads can't safely set up confinement between `fork` and `exec`. [`Process::start`]
//! therefore executes our own binary as a supervisor and sends it a plan over a socket. The supervisor sets up the
//! confinement, starts the program and stays to end it. For this reason `main` must call [`install`] first.
//!
//! macOS has its own tier, [`Tier::Seatbelt`], which no test of ours has run: it is **unverified**. On other systems
//! [`probe()`] reports no tier.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "elsewhere less is used"))]

mod aside;
mod confiner;
mod denial;
mod explain;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod host_key;
mod limits;
mod plan;
mod probe;
#[cfg_attr(not(target_os = "macos"), allow(dead_code, reason = "what it says is tested everywhere"))]
mod profile;
mod system;
mod view;
mod watch;

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod crowd;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod process;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod resource_limits;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod supervisor;

pub use confiner::{Confiner, Unconfinable};
pub use denial::{Denial, Denials};
pub use explain::{denied, network, unseen};
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use host_key::HostKey;
pub use limits::Limits;
pub use probe::{Layer, Probe, probe};
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use process::{Channel, Exit, Process, Refused, Running, StartError};
pub use view::{LeftOut, Planted, ProcessView, Shown};
pub(crate) use view::{unfit, working_directory};
pub use watch::{Watch, Watching};

use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The kernel mechanisms that confine a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A: namespaces, with Landlock and seccomp on top.
    Namespaces,
    /// B: Landlock and seccomp.
    Landlock,
    /// S: macOS's own sandbox, by `sandbox-exec`. Unverified: no test of ours has run it.
    Seatbelt,
}

impl Tier {
    /// Returns `A`, `B` or `S`, as in `doctor` and the journal.
    pub fn letter(self) -> char {
        match self {
            Self::Namespaces => 'A',
            Self::Landlock => 'B',
            Self::Seatbelt => 'S',
        }
    }
}

/// The way in which a process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// The kernel confines the process.
    Tier(Tier),
    /// The process is not confined: it only has a clean environment, and ends together with its caller. Needs the
    /// operator's explicit grant.
    Unconfined,
}

/// The supervisor binary.
static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process a supervisor if it was started as one: the call then never returns. Otherwise notes that this
/// binary can be one. Every program that starts confined processes must call this first in `main`.
pub fn install() {
    #[cfg(target_os = "linux")]
    {
        if std::env::args_os().next().is_some_and(|name| name == plan::SUPERVISOR) {
            supervisor::supervise();
        }
        // The running file, even if another has replaced it at its path.
        let _ = BINARY.set("/proc/self/exe".into());
    }
}

/// Names another binary that calls [`install`], for programs that have no `main` of their own: tests, and extensions of
/// other languages.
pub fn install_binary(binary: impl Into<PathBuf>) {
    let _ = BINARY.set(binary.into());
}

/// Returns true if every process may read this place, whatever its view: the machine's programs and their libraries.
pub fn is_given_to_all(place: &Path) -> bool {
    #[cfg(target_os = "macos")]
    let given = profile::READABLE;
    #[cfg(not(target_os = "macos"))]
    let given = system::PROGRAMS;
    given.iter().any(|given| place.starts_with(given))
}

fn binary() -> Option<&'static Path> {
    BINARY.get().map(PathBuf::as_path)
}

/// Returns the real path of the binary that called [`install`], for programs that start themselves as a confined
/// process. Such a process needs it in its view.
///
/// # Errors
/// The file was moved or replaced since this program started.
pub fn own_binary() -> io::Result<PathBuf> {
    match binary() {
        Some(binary) => binary.canonicalize(),
        None => std::env::current_exe()?.canonicalize(),
    }
}

/// Returns the environment variables that every process may have. `lookup` gives the variables of this process; the
/// launcher adds `HOME` and `TMPDIR`. The list must not grow, because the environment also holds provider keys.
pub fn env_allowlist(lookup: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    const TAKEN: &[&str] = &[
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_COLLATE",
        "LC_CTYPE",
        "LC_MESSAGES",
        "LC_MONETARY",
        "LC_NUMERIC",
        "LC_TIME",
        "TZ",
    ];
    let mut env = vec![
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("TERM".to_owned(), "dumb".to_owned()),
    ];
    env.extend(TAKEN.iter().filter_map(|&name| Some((name.to_owned(), lookup(name)?))));
    if !env.iter().any(|(name, _)| name == "LANG" || name == "LC_ALL") {
        env.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_the_environment_that_any_process_may_have() {
        let ours = |name: &str| Some(format!("value of {name}"));
        let names: Vec<String> = env_allowlist(ours).into_iter().map(|(name, _)| name).collect();
        for name in
            ["OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "PAGER", "SSH_AUTH_SOCK", "HOME"]
        {
            assert!(!names.iter().any(|given| given == name), "{name} is given");
        }
        assert!(names.iter().any(|name| name == "TZ") && names.iter().any(|name| name == "LC_ALL"));
        let path = env_allowlist(ours).into_iter().find(|(name, _)| name == "PATH");
        assert_eq!(path.map(|(_, value)| value).as_deref(), Some("/usr/local/bin:/usr/bin:/bin"));
    }

    /// The `main` of these tests does not support supervisors, so it must not be executed again.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_binary_that_was_not_installed_is_not_executed_again() {
        let process = Process::new("/bin/true", ProcessView::empty(), Confinement::Tier(Tier::Landlock));
        let error = process.start().await.err();
        assert!(matches!(error, Some(StartError::NotInstalled)), "{error:?}");
        assert!(error.is_some_and(|error| error.to_string().contains("install()")));
        assert!(!probe().has(Tier::Namespaces), "what can't be started is no tier");
    }
}
