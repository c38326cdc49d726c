//! Confined processes (SPEC §6.6): the one way in which llm-do starts a program that isn't its own.
//!
//! A program sees the real places of its worker's view and the machine's programs, and nothing else; it has no network
//! without a grant (and with a list of domains a proxy that knows it), no environment but what it is given, and ends with the call or run that started it, with everything
//! that it started. Two tiers hold it to that:
//!
//! - **A**, [`Tier::Namespaces`]: a file system, processes and network of its own. What must not be seen inside a given
//!   folder is masked. Landlock and a system call filter on top.
//! - **B**, [`Tier::Landlock`]: the machine's file system under Landlock's rules, and a stricter filter. It can't hide a part
//!   of a folder, so a mount with something to hide is not given at all, and changes of mode, owner, times and extended
//!   attributes are refused everywhere, because Landlock doesn't see them. Whether a file exists can be seen.
//!
//! Nothing is set up between `fork` and `exec` of a process with many threads. [`Process::start`] executes our own binary
//! anew as a supervisor, sends it a plan over a socket, and the supervisor sets up the confinement, starts the program and
//! stays to end it. That is why `main` must call [`install`] first.
//!
//! macOS has one of its own, [`Tier::Seatbelt`], which no test of ours has run: it is **unverified**. Elsewhere [`probe()`]
//! says that there is none.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "elsewhere less is used"))]

mod confiner;
mod denial;
mod explain;
mod limits;
mod plan;
mod probe;
#[cfg_attr(not(target_os = "macos"), allow(dead_code, reason = "what it says is tested everywhere"))]
mod profile;
mod system;
mod view;

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
mod root;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod supervisor;

pub use confiner::{Confiner, Unconfinable};
pub use denial::{Denial, Denials};
pub use explain::{denied, network, unseen};
pub use limits::Limits;
pub use probe::{Layer, Probe, probe};
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use process::{Exit, Process, Refused, Running, StartError};
pub(crate) use view::unfit;
pub use view::{LeftOut, ProcessView, Shown};

use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// What the kernel confines with.
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
    /// `A`, `B` or `S`, as `doctor` and the journal name it.
    pub fn letter(self) -> char {
        match self {
            Self::Namespaces => 'A',
            Self::Landlock => 'B',
            Self::Seatbelt => 'S',
        }
    }
}

/// What holds a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// The kernel.
    Tier(Tier),
    /// Nothing but a clean environment and an end with its caller: only on the operator's explicit grant.
    Unconfined,
}

/// The binary that supervises.
static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// To be called first in `main` of every program that starts confined processes: if this process was started as a
/// supervisor it becomes that and never returns. Else it notes that this binary can be one.
pub fn install() {
    #[cfg(target_os = "linux")]
    {
        if std::env::args_os().next().is_some_and(|name| name == plan::SUPERVISOR) {
            supervisor::supervise();
        }
        // The file that runs, even if another stands in its place by now.
        let _ = BINARY.set("/proc/self/exe".into());
    }
}

/// Names another binary that calls [`install`], for programs that have no `main` of their own: tests, and extensions of
/// other languages.
pub fn install_binary(binary: impl Into<PathBuf>) {
    let _ = BINARY.set(binary.into());
}

fn binary() -> Option<&'static Path> {
    BINARY.get().map(PathBuf::as_path)
}

/// What of the environment any process may have. `lookup` gives the variables of this process; `HOME` and `TMPDIR` are
/// added by the launcher. Never more than this: keys of providers are in the environment too.
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

    /// These tests have a `main` that never heard of supervisors: it must not be run again.
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
