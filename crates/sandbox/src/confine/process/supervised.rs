//! Starts a confined process through a supervisor, and tracks it while it runs.

use super::{Channel, Exit, Process, Refused, StartError};
use crate::confine::{
    Confinement, Denials, Limits, Tier, binary,
    plan::{ChannelAt, INTERRUPT, Plan, Reach, Report, SUPERVISOR, Task, frame},
    proxy::{self, Proxy, keys::Keys},
    supervisor, system,
};
use llm_do_core::authority::{Domain, Network};
use rustix::net::SendFlags;
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as StdStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tokio::{
    io::Interest,
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdout},
};

impl Process {
    /// Starts the process, and returns when the program has been executed inside its confinement. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// The part that could not be set up, or the reason why the program could not be executed. No other confinement
    /// is tried instead.
    pub async fn start(mut self) -> Result<Running, StartError> {
        let channel = self.channel.take();
        let list = match &mut self.network {
            Network::Domains(list) => std::mem::take(list),
            Network::Off | Network::On => Vec::new(),
        };
        let keys = match self.keys.is_empty() || list.is_empty() {
            true => None,
            false => Some(Keys::new(&self.keys).map_err(StartError::Keys)?),
        };
        let mut plan = self.plan(channel.as_ref().map(|channel| match channel {
            Channel::Third(_) => ChannelAt::Third,
            Channel::Input(_) => ChannelAt::Input,
        }))?;
        plan.authorities = keys.as_ref().map(|keys| authorities(keys.certificate()));
        let (ours, theirs) = StdStream::pair().map_err(StartError::system)?;
        supervisor::hand_over(&ours, &[0], channel.as_ref().map(Channel::descriptor))
            .map_err(StartError::system)?;
        drop(channel);
        ours.set_nonblocking(true).map_err(StartError::system)?;
        let mut control = UnixStream::from_std(ours).map_err(StartError::system)?;
        let mut command = command(theirs.into())?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tokio::process::Command::from(command).spawn().map_err(StartError::system)?;
        let sent = tokio::io::AsyncWriteExt::write_all(&mut control, &frame(&plan)).await;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut running = Running {
            child,
            control,
            stdout,
            stderr,
            received: Vec::new(),
            descriptor: None,
            proxy: None,
            exit: None,
        };
        let mut report = running.report().await;
        if let Ok(Some(Report::Listening)) = &report {
            running.serve(list, keys)?;
            report = running.report().await;
        }
        // A supervisor that ended early has reported the reason.
        match report {
            Ok(Some(Report::Started)) => Ok(running),
            Ok(Some(Report::Failed(fault))) => {
                let _ = running.child.wait().await;
                Err(StartError::Refused(fault.into()))
            }
            Ok(Some(Report::Listening | Report::Ended { .. } | Report::TooMany) | None) => {
                Err(StartError::Supervisor(match sent {
                    Ok(()) => "it ended before the program was started".into(),
                    Err(error) => error.to_string(),
                }))
            }
            Err(error) => Err(StartError::system(error)),
        }
    }

    fn plan(self, channel: Option<ChannelAt>) -> Result<Plan, StartError> {
        let network = match self.network {
            Network::Off => Reach::Nothing,
            Network::On => Reach::Everything,
            Network::Domains(_) if self.confinement == Confinement::Tier(Tier::Namespaces) => Reach::Proxy,
            Network::Domains(_) => return Err(StartError::Domains),
        };
        let mut env = self.env;
        if network == Reach::Proxy {
            env.extend(proxy::environment());
        }
        let task = match self.confinement {
            Confinement::Tier(Tier::Namespaces) => Task::Namespaces,
            Confinement::Tier(Tier::Landlock) => Task::Landlock,
            Confinement::Tier(Tier::Seatbelt) => {
                return Err(StartError::Refused(Refused {
                    layer: "sandbox-exec".into(),
                    path: None,
                    reason: "it exists only on macOS".into(),
                }));
            }
            Confinement::Unconfined => Task::Unconfined,
        };
        let (places, holes, links) = self.view.into_parts();
        if let Some(given) = places.iter().find(|given| system::is_never_given(&given.place)) {
            return Err(StartError::Refused(Refused {
                layer: "view".into(),
                path: Some(given.place.display().to_string()),
                reason: "this place can't be given to a process".into(),
            }));
        }
        if task == Task::Landlock && !holes.is_empty() {
            return Err(StartError::Refused(Refused {
                layer: "view".into(),
                path: holes.first().map(|hole| hole.place.display().to_string()),
                reason: "the view was made for namespaces: this tier can't hide a part of a folder".into(),
            }));
        }
        Ok(Plan {
            task,
            program: real_folder_of(&self.program).into(),
            args: self.args,
            env,
            cwd: self.cwd.map_or_else(|| "/".into(), |cwd| cwd.canonicalize().unwrap_or(cwd)),
            places,
            holes,
            links,
            network,
            limits: self.limits,
            channel,
            authorities: None,
        })
    }
}

/// The possible files of the system's certificates. A distribution has one of them.
const OF_THE_SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the certificates that a process trusts: those of the system, for hosts without a key, and that of its proxy.
fn authorities(own: &str) -> String {
    let system = OF_THE_SYSTEM.iter().find_map(|file| std::fs::read_to_string(file).ok());
    let mut all = system.unwrap_or_default();
    if !all.is_empty() && !all.ends_with('\n') {
        all.push('\n');
    }
    all + own
}

/// Resolves the links in the path's folder: only the resolved path is the same inside the confinement. The last name is
/// kept: a program may depend on the name under which it was started.
fn real_folder_of(program: &Path) -> PathBuf {
    match (program.parent(), program.file_name()) {
        (Some(parent), Some(name)) if program.is_absolute() => {
            parent.canonicalize().map_or_else(|_| program.to_owned(), |parent| parent.join(name))
        }
        _ => program.to_owned(),
    }
}

/// Creates the command that starts our own binary as a supervisor with `socket` as its source of orders.
fn command(socket: OwnedFd) -> Result<Command, StartError> {
    let Some(binary) = binary() else { return Err(StartError::NotInstalled) };
    let mut command = Command::new(binary);
    command.arg0(SUPERVISOR).env_clear().current_dir("/").stdin(Stdio::from(socket));
    Ok(command)
}

/// Runs `task` in a supervisor, and waits for its report.
pub(in crate::confine) fn try_out(task: Task) -> Result<(), StartError> {
    let plan = Plan {
        task,
        program: OsString::new(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: "/".into(),
        places: Vec::new(),
        holes: Vec::new(),
        links: Vec::new(),
        network: Reach::Nothing,
        limits: Limits::default(),
        channel: None,
        authorities: None,
    };
    let (mut ours, theirs) = StdStream::pair().map_err(StartError::system)?;
    let mut command = command(theirs.into())?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    supervisor::hand_over(&ours, &[0], None).map_err(StartError::system)?;
    let mut child = command.spawn().map_err(StartError::system)?;
    // It holds the other end, which must not stay open here when the supervisor is gone.
    drop(command);
    let mut said = Vec::new();
    let result = ours.write_all(&frame(&plan)).and_then(|()| ours.read_to_end(&mut said));
    child.wait().map_err(StartError::system)?;
    result.map_err(StartError::system)?;
    match take_frame(&mut said) {
        Some(Ok(Report::Started)) => Ok(()),
        Some(Ok(Report::Failed(fault))) => Err(StartError::Refused(fault.into())),
        _ => Err(StartError::Supervisor("it ended without a word".into())),
    }
}

fn take_frame(received: &mut Vec<u8>) -> Option<serde_json::Result<Report>> {
    let length = u32::from_be_bytes(received.get(..4)?.try_into().ok()?) as usize;
    let report = serde_json::from_slice(received.get(4..4 + length)?);
    received.drain(..4 + length);
    Some(report)
}

/// A confined program that runs. Dropping it ends the program and everything that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    control: UnixStream,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    received: Vec<u8>,
    /// A descriptor that came with a report.
    descriptor: Option<OwnedFd>,
    proxy: Option<Proxy>,
    exit: Option<Exit>,
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

    /// Returns the refused network requests of the program, or `None` if it has no list of domains. The returned value
    /// stays valid after the process ends.
    pub fn denials(&self) -> Option<Denials> {
        self.proxy.as_ref().map(|proxy| proxy.denials().clone())
    }

    fn serve(&mut self, list: Vec<Domain>, keys: Option<Keys>) -> Result<(), StartError> {
        let Some(listener) = self.descriptor.take() else {
            return Err(StartError::Supervisor("the socket for the proxy did not arrive".into()));
        };
        self.proxy = Some(Proxy::start(listener.into(), list, keys).map_err(StartError::system)?);
        Ok(())
    }

    /// Interrupts the program itself (`SIGINT`), not what it started.
    pub fn interrupt(&self) {
        // A full buffer means that many interrupts are already on their way.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(&self.control, &[INTERRUPT], flags);
    }

    /// Ends the program and all its descendants, at once. [`Running::wait`] returns when they have ended.
    pub fn kill(&self) {
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
    }

    /// Waits until the program and all its descendants have ended. May be called again, also after a cancelled call.
    pub async fn wait(&mut self) -> Exit {
        let exit = match &self.exit {
            Some(exit) => exit.clone(),
            None => {
                let ended = |reason: &str| Exit {
                    code: None,
                    signal: Some(libc::SIGKILL),
                    reason: Some(reason.to_owned()),
                };
                let exit = match self.report().await {
                    Ok(Some(Report::Ended { code, signal })) => {
                        Exit { code, signal, reason: signal.and_then(reason_of).map(str::to_owned) }
                    }
                    Ok(Some(Report::TooMany)) => ended("it had more processes and threads than the limit"),
                    _ => ended("it was ended from outside"),
                };
                // Kept before anything else is waited for: the report does not come twice.
                self.exit.insert(exit).clone()
            }
        };
        let _ = self.child.wait().await;
        exit
    }

    /// Returns the process ID of the supervisor, only for display.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Receives the next report. Returns `None` when the supervisor has ended.
    async fn report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(report) = take_frame(&mut self.received) {
                return report.map(Some).map_err(io::Error::other);
            }
            self.control.readable().await?;
            let mut bytes = [0; 4096];
            let receive = || Ok(supervisor::receive(&self.control, &mut bytes)?);
            match self.control.try_io(Interest::READABLE, receive) {
                Ok((0, _)) => return Ok(None),
                Ok((count, descriptor)) => {
                    self.received.extend_from_slice(&bytes[..count]);
                    self.descriptor = descriptor.or(self.descriptor.take());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Closing alone is not enough: a process that another thread is starting may hold a copy for a moment.
        self.kill();
    }
}

/// Returns the meaning of a signal that the kernel raised.
fn reason_of(signal: i32) -> Option<&'static str> {
    match signal {
        libc::SIGKILL => Some("the system killed it, probably because there was not enough memory"),
        libc::SIGXCPU => Some("it used up its processor time"),
        libc::SIGXFSZ => Some("it wrote a file larger than the limit"),
        libc::SIGSYS => Some("it made a system call of another architecture"),
        libc::SIGSEGV => Some("it accessed memory that it doesn't have (a bug in native code)"),
        _ => None,
    }
}
