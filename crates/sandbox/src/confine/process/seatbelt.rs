//! Starts a process under macOS's own sandbox. **Unverified**: compiled in our checks and never run in them.
//!
//! `sandbox-exec` applies a profile and becomes the program. It works on paths alone and can't hide a part of a
//! folder, so a mount with something to hide is not given, as in tier B. The program's descendants are in its process
//! group and end with it. A process that leaves the group stays confined but may keep running.

use super::{Channel, Exit, Process, Refused, StartError};
use crate::confine::{Confinement, Denials, Limits, Tier, profile, system};
use llm_do_core::authority::Network;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit,
};
use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, Stdio},
};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdout};

/// The system's program that applies a profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

impl Process {
    /// Starts the process, and returns when `sandbox-exec` has been executed. Needs a tokio runtime.
    ///
    /// # Errors
    /// The part that could not be set up. No other confinement is tried instead.
    pub async fn start(self) -> Result<Running, StartError> {
        if matches!(self.network, Network::Domains(_)) {
            return Err(StartError::Domains);
        }
        let temporary = tempfile::Builder::new().prefix("llm-do-").tempdir().map_err(StartError::System)?;
        let place = temporary.path().canonicalize().map_err(StartError::System)?;
        let (places, holes, _) = self.view.into_parts();
        let refused = |path: &std::path::Path, reason: &str| {
            StartError::Refused(Refused {
                layer: "view".into(),
                path: Some(path.display().to_string()),
                reason: reason.to_owned(),
            })
        };
        if let Some(given) = places.iter().find(|given| system::is_never_given(&given.place)) {
            return Err(refused(&given.place, "this place can't be given to a process"));
        }
        if let Some(hole) = holes.first() {
            return Err(refused(
                &hole.place,
                "the view was made for namespaces: this tier can't hide a part of a folder",
            ));
        }
        let mut command = match self.confinement {
            Confinement::Tier(Tier::Seatbelt) => {
                let mut command = Command::new(SANDBOX_EXEC);
                command.args(profile::arguments(&places, &place, self.network == Network::On));
                command.arg(&self.program);
                command
            }
            Confinement::Unconfined => Command::new(&self.program),
            Confinement::Tier(Tier::Namespaces | Tier::Landlock) => {
                return Err(StartError::Refused(Refused {
                    layer: "sandbox-exec".into(),
                    path: None,
                    reason: "namespaces and Landlock exist only on Linux".into(),
                }));
            }
        };
        command.args(&self.args).env_clear().envs(self.env).env("HOME", &place).env("TMPDIR", &place);
        command.current_dir(self.cwd.as_deref().unwrap_or_else(|| "/".as_ref()));
        let (input, channel) = match self.channel {
            Some(Channel::Input(input)) => (Stdio::from(input), None),
            Some(Channel::Third(channel)) => (Stdio::null(), Some(channel)),
            None => (Stdio::null(), None),
        };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let limits = self.limits;
        let confined = self.confinement != Confinement::Unconfined;
        // SAFETY: between fork and exec only system calls are made, none of which allocates.
        unsafe {
            command.pre_exec(move || {
                if confined {
                    apply(&limits)?;
                }
                hand_over(channel.as_ref())
            });
        }
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().map_err(StartError::System)?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(Running { child, group, stdout, stderr, exit: None, _temporary: temporary })
    }
}

/// Gives the program `channel` as its number 3.
fn hand_over(channel: Option<&OwnedFd>) -> io::Result<()> {
    let Some(channel) = channel else { return Ok(()) };
    // SAFETY: nothing owns number 3 in a process that is about to execute another program.
    if unsafe { libc::dup2(channel.as_raw_fd(), 3) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Of one number twice nothing is copied, and the mark stays that would close it.
    // SAFETY: as above.
    if unsafe { libc::fcntl(3, libc::F_SETFD, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets the limits that the system keeps for each process. It keeps no limit of memory.
fn apply(limits: &Limits) -> io::Result<()> {
    let all = [
        Some((Resource::Nofile, limits.open_files)),
        Some((Resource::Fsize, limits.file_size)),
        Some((Resource::Core, 0)),
        limits.processor_seconds.map(|seconds| (Resource::Cpu, seconds)),
    ];
    for (resource, most) in all.into_iter().flatten() {
        // Never above what the starting process was held to.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Tries whether a profile can be applied, with a program that does nothing.
pub(in crate::confine) fn try_out() -> Result<(), String> {
    let mut command = Command::new(SANDBOX_EXEC);
    command.args(profile::arguments(&[], "/private/var/empty".as_ref(), false)).arg("/usr/bin/true");
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("a program under `{SANDBOX_EXEC}` ended with {status}")),
        Err(error) => Err(format!("`{SANDBOX_EXEC}`: {error}")),
    }
}

/// A confined program that runs. Dropping it ends the program and its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Option<Pid>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    exit: Option<Exit>,
    /// The private temporary folder, removed with this value.
    _temporary: TempDir,
}

impl Running {
    /// Takes the standard output of the program. Returns `None` the second time.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Takes the standard error of the program. Returns `None` the second time.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Returns `None`: there are no lists of domains here, so no requests to the network are refused.
    pub fn denials(&self) -> Option<Denials> {
        None
    }

    /// Interrupts the program itself (`SIGINT`), not what it started.
    pub fn interrupt(&self) {
        if let (Some(process), None) = (self.group, &self.exit) {
            let _ = kill_process(process, Signal::INT);
        }
    }

    /// Ends the program and its process group, at once. [`Running::wait`] returns when they have ended.
    pub fn kill(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Waits until the program has ended, and ends the remaining processes of its group. May be called again, also
    /// after a cancelled call.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        let exit = match self.child.wait().await {
            Ok(status) => Exit { code: status.code(), signal: status.signal(), reason: None },
            Err(error) => Exit { code: None, signal: None, reason: Some(error.to_string()) },
        };
        self.kill();
        self.group = None;
        self.exit.insert(exit).clone()
    }

    /// Returns the process ID, only for display.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
