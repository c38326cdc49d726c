//! A confined process before its start and after its end. The mechanism depends on the system: `supervised` on Linux,
//! `seatbelt` on macOS.

#[cfg(target_os = "macos")]
mod seatbelt;
#[cfg(target_os = "linux")]
mod supervised;

#[cfg(target_os = "macos")]
pub use seatbelt::Running;
#[cfg(target_os = "macos")]
pub(super) use seatbelt::try_out;
#[cfg(target_os = "linux")]
pub use supervised::Running;
#[cfg(target_os = "linux")]
pub(super) use supervised::try_out;

use super::{Confinement, HostKey, Limits, ProcessView, plan::Fault};
use llm_do_core::authority::Network;
use std::{ffi::OsString, fmt, io, os::fd::OwnedFd, path::PathBuf};

/// A process to start. It inherits nothing except the fields below.
#[derive(Debug)]
pub struct Process {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: PathBuf,
    /// The arguments of the program, without its own name.
    pub args: Vec<OsString>,
    /// The whole environment of the program, except for the variables that the launcher sets: `HOME` and `TMPDIR` (the
    /// private temporary folder) and, with a list of domains, the proxy variables (`HTTPS_PROXY` and related ones).
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, a real path; `None`: the private temporary folder's parent, `/`.
    pub cwd: Option<PathBuf>,
    /// The places that it may access.
    pub view: ProcessView,
    /// The network that the process may use. A list of domains needs [`Namespaces`](super::Tier::Namespaces), and its
    /// proxy runs on this runtime, so blocking the runtime delays the process.
    pub network: Network,
    /// The keys that the proxy adds to its requests, if it has a list of domains.
    pub keys: Vec<HostKey>,
    /// The resource limits of the process.
    pub limits: Limits,
    /// The confinement of the process.
    pub confinement: Confinement,
    /// A descriptor that the process gets.
    pub channel: Option<Channel>,
}

/// A descriptor for a program, and where the program finds it.
#[derive(Debug)]
pub enum Channel {
    /// Descriptor number 3. The standard input is empty.
    Third(OwnedFd),
    /// The standard input.
    Input(OwnedFd),
}

impl Channel {
    /// Returns the descriptor.
    fn descriptor(&self) -> &OwnedFd {
        match self {
            Self::Third(descriptor) | Self::Input(descriptor) => descriptor,
        }
    }
}

impl Process {
    /// Creates a process without arguments, environment, network or channel, and with the default limits.
    pub fn new(program: impl Into<PathBuf>, view: ProcessView, confinement: Confinement) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            view,
            network: Network::Off,
            keys: Vec::new(),
            limits: Limits::default(),
            confinement,
            channel: None,
        }
    }
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, if the program ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The reason, if the system gives one.
    pub reason: Option<String>,
}

/// Formats the reason, if there is one, otherwise the code or the signal.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.reason {
            return f.write_str(reason);
        }
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(6)) => f.write_str("aborted"),
            (None, Some(9)) => f.write_str("killed"),
            (None, Some(11)) => f.write_str("segmentation fault"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("unknown exit status"),
        }
    }
}

/// The layer that refused to start a process, the path and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `namespaces`, `mounts`, `view`, `landlock`, `seccomp`, `limits`, `capabilities`, `working directory`,
    /// `program`, …
    pub layer: String,
    /// The path concerned.
    pub path: Option<String>,
    /// The reason.
    pub reason: String,
}

impl From<Fault> for Refused {
    fn from(Fault { layer, path, reason }: Fault) -> Self {
        Self { layer, path, reason }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} `{path}`: {}", self.layer, self.reason),
            None => write!(f, "{}: {}", self.layer, self.reason),
        }
    }
}

/// The reason why a process was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The supervisor binary never registered itself as one.
    #[error(
        "a confined process can't be started from this program: its `main` must call \
         `llm_do_sandbox::confine::install()` before anything else"
    )]
    NotInstalled,
    /// The process has a list of domains, but no network of its own.
    #[error(
        "a list of domains in `sandbox.network_enabled` needs namespaces (tier A), and this process has none: make them \
         possible, or decide between `network_enabled: true` and `false`"
    )]
    Domains,
    /// The keys for the process's requests, or its certificate authority, can't be used.
    #[error("the keys of `sandbox.keys` can't be added to requests: {0}")]
    Keys(io::Error),
    /// A layer could not be set up, or the program could not be executed.
    #[error("a confined process could not be started: {0}")]
    Refused(Refused),
    /// The supervisor failed.
    #[error("the process that supervises confined programs failed: {0}")]
    Supervisor(String),
    /// The system refused an operation that every program may do.
    #[error("a confined process could not be started: {0}")]
    System(io::Error),
}

impl StartError {
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "macos")),
        allow(dead_code, reason = "nothing is started there")
    )]
    fn system(error: impl Into<io::Error>) -> Self {
        Self::System(error.into())
    }
}
