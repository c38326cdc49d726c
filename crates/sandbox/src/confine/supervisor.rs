//! The process between llm-do and a confined program: our own binary in a new process with one thread. It sets up the
//! confinement, starts the program, and ends only after all descendants of the program have ended.
//!
//! Tier A has two supervisors. The inner one is the first process of the process namespace, and its end kills
//! everything in the namespace. The outer one waits for it. In tier B one process adopts the program's orphans.

use super::{
    cgroup::ControlGroup,
    crowd::{Crowd, INTERVAL, descendants},
    kernel, landlock,
    plan::{ChannelAt, Fault, INTERRUPT, LARGEST_PLAN, Plan, Reach, Report, Task, frame},
    proxy, resource_limits, root, seccomp,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::{AsFd, OwnedFd},
    fs::{Mode, OFlags, open},
    io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, read},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
    process::{
        DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, chdir, getpid, kill_process,
        set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal, setsid, wait, waitpid,
    },
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities,
        set_capabilities_secure_bits,
    },
};
use std::{
    ffi::OsString,
    fs,
    io::{IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    net::{Ipv4Addr, TcpListener},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, exit},
};

/// The process that started this supervisor, at the other end of a stream socket.
struct Starter(fs::File);

impl Starter {
    fn say(&mut self, report: &Report) {
        // If that fails, there is no process left to report to.
        let _ = self.0.write_all(&frame(report));
    }

    /// Makes the socket at which the program will find its proxy, in the network of this process, and sends it to the
    /// starter, which accepts connections there from outside that network.
    fn give_listener(&self) -> Result<(), Fault> {
        let fault = |error: std::io::Error| Fault::new("network", error);
        kernel::switch_loopback_on().map_err(|error| fault(error.into()))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, proxy::PORT)).map_err(fault)?;
        hand_over(&self.0, &frame(&Report::Listening), Some(&listener.into()))
            .map_err(|error| fault(error.into()))
    }
}

/// Reads the plan from the socket on standard input, carries it out, and ends the process.
pub(super) fn supervise() -> ! {
    let (mut starter, channel) = match connect() {
        Ok(connected) => connected,
        // A user ran the binary under the supervisor's name.
        Err(_) => exit(64),
    };
    let failed = match read_plan(&mut starter.0) {
        Ok(plan) => carry_out(&plan, &mut starter, channel).err(),
        Err(fault) => Some(fault),
    };
    match failed {
        Some(fault) => {
            starter.say(&Report::Failed(fault));
            exit(1)
        }
        None => exit(0),
    }
}

fn fault(layer: &'static str) -> impl Fn(Errno) -> Fault {
    move |error| Fault::new(layer, error)
}

/// Takes over the socket from standard input and the program's channel from the socket. Descriptors that the starting
/// process leaked are closed before anything is opened.
fn connect() -> Result<(Starter, OwnedFd), Errno> {
    kernel::close_from(3)?;
    let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let socket = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 4)?;
    // From here on the first free descriptor is 3, which the channel gets.
    let nothing_above = fcntl_dupfd_cloexec(&nothing, 4)?;
    drop(nothing);
    // The first byte on the socket, which comes before the plan.
    let channel = match receive(&socket, &mut [0])? {
        (_, Some(fd)) => fd,
        _ => fcntl_dupfd_cloexec(&nothing_above, 3)?,
    };
    rustix::stdio::dup2_stdin(&nothing_above)?;
    Ok((Starter(socket.into()), channel))
}

/// Receives bytes, and the descriptor that may come with them.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let came = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((came.bytes, fd))
}

fn read_plan(from: &mut impl Read) -> Result<Plan, Fault> {
    let plan = |reason: String| Fault::new("plan", reason);
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|error| plan(error.to_string()))?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LARGEST_PLAN {
        return Err(plan(format!("it has {length} bytes")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).map_err(|error| plan(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| plan(error.to_string()))
}

fn carry_out(plan: &Plan, starter: &mut Starter, channel: OwnedFd) -> Result<(), Fault> {
    // A session of its own: without a controlling terminal, whose signals would reach it and into which it could push
    // input.
    let _ = setsid();
    kernel::default_signals();
    // If memory runs out, the kernel ends confined processes first.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    // Made here, because a process in namespaces of its own can't reach the tree of control groups. Removed at the end of
    // this function, after all processes in it have ended.
    let group = match plan.task {
        Task::Namespaces | Task::Landlock => ControlGroup::new(&plan.limits).ok(),
        Task::Unconfined | Task::TryNamespaces => None,
    };
    match plan.task {
        Task::Namespaces => in_namespaces(plan, starter, channel, group.as_ref()),
        Task::Landlock | Task::Unconfined => beside_the_machine(plan, starter, channel, group.as_ref()),
        Task::TryNamespaces => try_namespaces(starter),
    }
}

/// Runs the outer supervisor of tier A.
fn in_namespaces(
    plan: &Plan,
    starter: &mut Starter,
    channel: OwnedFd,
    group: Option<&ControlGroup>,
) -> Result<(), Fault> {
    enter_namespaces(plan.network == Reach::Everything)?;
    if plan.network == Reach::Proxy {
        starter.give_listener()?;
    }
    match kernel::fork().map_err(fault("namespaces"))? {
        None => {
            let failed = first_of_namespace(plan, starter, channel, group).err();
            if let Some(fault) = failed {
                starter.say(&Report::Failed(fault));
            }
            exit(0)
        }
        Some(inner) => {
            drop(channel);
            let_go_of_output()?;
            wait_for(inner);
            Ok(())
        }
    }
}

fn try_namespaces(starter: &mut Starter) -> Result<(), Fault> {
    enter_namespaces(false)?;
    match kernel::fork().map_err(fault("namespaces"))? {
        None => {
            starter.say(&match root::try_out() {
                Ok(()) => Report::Started,
                Err(fault) => Report::Failed(fault),
            });
            exit(0)
        }
        Some(inner) => {
            wait_for(inner);
            Ok(())
        }
    }
}

fn wait_for(child: Pid) {
    while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
}

/// Enters new namespaces of every kind, which contain only the user and the group of the starting process. Root stays
/// the owner of root's files, because the mounts of the view must stay usable. All other rights of root need
/// capabilities, which the program does not have, or `/proc`, which is masked.
fn enter_namespaces(machine_network: bool) -> Result<(), Fault> {
    let layer = "namespaces";
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Only root can leave its supplementary groups. Others keep theirs, which give no access beyond the view.
    let _ = rustix::thread::set_thread_groups(&[]);
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if !machine_network {
        flags |= UnshareFlags::NEWNET;
    }
    kernel::unshare(flags).map_err(|error| {
        let hint = match error {
            Errno::PERM | Errno::ACCESS => ": user namespaces are forbidden here",
            Errno::NOSPC | Errno::USERS => ": the limit of user namespaces is reached",
            _ => "",
        };
        Fault::new(layer, format!("new namespaces can't be made ({error}){hint}"))
    })?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(file, text).map_err(|error| Fault::new(layer, error).at(Path::new(file)))?;
    }
    rustix::system::sethostname(b"sandbox").map_err(fault(layer))
}

/// The file of the certificates that a program trusts, in its temporary folder.
const AUTHORITIES: &str = "llm-do-authorities.pem";

/// The variables by which programs find these certificates: OpenSSL (Python, Ruby, curl), requests, curl, Node, and the
/// client libraries of AWS.
const TRUST: [&str; 5] =
    ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE"];

/// Runs the first process of the namespace, in tier A.
fn first_of_namespace(
    plan: &Plan,
    starter: &mut Starter,
    channel: OwnedFd,
    group: Option<&ControlGroup>,
) -> Result<(), Fault> {
    // This process ends with the outer supervisor, and all others in the namespace end with this process.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(fault("namespaces"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(fault("namespaces"))?;
    let limited = root::enter(plan)?;
    let crowd = (!limited && rustix::process::geteuid().is_root()).then(|| Crowd::new(plan.limits.processes));
    let folder = root::temporary_folder(plan);
    if let Some(authorities) = &plan.authorities {
        let file = folder.join(AUTHORITIES);
        fs::write(&file, authorities).map_err(|error| Fault::new("certificates", error).at(&file))?;
    }
    let folders = [root::TEMPORARY, root::SHARED_MEMORY]
        .iter()
        .map(PathBuf::from)
        .filter(|folder| !plan.places.iter().any(|given| given.place == *folder));
    let confine = || landlock::confine(plan, &folders.collect::<Vec<_>>(), false);
    let filter = seccomp::Filter { network: plan.network, alone: false, only_signals_itself: false };
    let program = start(plan, starter, channel, group, folder, confine, Some(filter))?;
    drop_capabilities()?;
    if let Some(ended) = watch(&mut starter.0, program, crowd) {
        starter.say(&ended);
    }
    Ok(())
}

/// Starts the program in tier B or without confinement: it runs in the machine's own file system.
fn beside_the_machine(
    plan: &Plan,
    starter: &mut Starter,
    channel: OwnedFd,
    group: Option<&ControlGroup>,
) -> Result<(), Fault> {
    set_child_subreaper(Some(getpid())).map_err(fault("supervisor"))?;
    let temporary = Temporary::new()?;
    let result = run_beside(plan, starter, channel, group, &temporary);
    drop(temporary);
    if let Some(ended) = result? {
        starter.say(&ended);
    }
    Ok(())
}

fn run_beside(
    plan: &Plan,
    starter: &mut Starter,
    channel: OwnedFd,
    group: Option<&ControlGroup>,
    temporary: &Temporary,
) -> Result<Option<Report>, Fault> {
    let alone = plan.task == Task::Landlock;
    let version = landlock::version().unwrap_or(0);
    if alone && version < landlock::LEAST_ALONE {
        return Err(Fault::new("landlock", "this kernel's Landlock is too old, or there is none"));
    }
    let confine = || {
        if alone { landlock::confine(plan, std::slice::from_ref(&temporary.0), true) } else { Ok(()) }
    };
    let filter = alone.then_some(seccomp::Filter {
        network: plan.network,
        alone: true,
        only_signals_itself: version < landlock::SCOPES_SIGNALS,
    });
    let crowd = alone.then(|| Crowd::new(plan.limits.processes));
    let program = start(plan, starter, channel, group, &temporary.0, confine, filter)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(fault("supervisor"))?;
    let ended = watch(&mut starter.0, program, crowd);
    end_all_children();
    Ok(ended)
}

/// Starts the program and returns when it has been executed.
fn start(
    plan: &Plan,
    starter: &mut Starter,
    channel: OwnedFd,
    group: Option<&ControlGroup>,
    temporary: &Path,
    confine: impl FnOnce() -> Result<(), Fault>,
    filter: Option<seccomp::Filter>,
) -> Result<Pid, Fault> {
    let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(fault("start"))?;
    let Some(program) = kernel::fork().map_err(fault("start"))? else {
        drop(told);
        let failed = become_program(plan, &channel, group, temporary, confine, filter);
        let _ = fs::File::from(tell).write_all(&frame(&Report::Failed(failed)));
        exit(1)
    };
    drop((tell, channel));
    let_go_of_output()?;
    let mut said = Vec::new();
    let _ = fs::File::from(told).read_to_end(&mut said);
    if said.is_empty() {
        starter.say(&Report::Started);
        return Ok(program);
    }
    match serde_json::from_slice(said.get(4..).unwrap_or_default()) {
        Ok(Report::Failed(fault)) => Err(fault),
        _ => Err(Fault::new("start", "the program's process ended before the program was executed")),
    }
}

/// Sends bytes, few enough for one message, with a descriptor.
pub(super) fn hand_over(to: impl AsFd, bytes: &[u8], fd: Option<&OwnedFd>) -> Result<(), Errno> {
    let fds: Vec<_> = fd.into_iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Closes the output of this process, so that a reader sees the end of the stream when the program has ended.
fn let_go_of_output() -> Result<(), Fault> {
    let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(fault("start"))?;
    rustix::stdio::dup2_stdout(&nothing).map_err(fault("start"))?;
    rustix::stdio::dup2_stderr(&nothing).map_err(fault("start"))
}

/// Executes the last steps, in the process that becomes the program. Returns only if one of them fails.
fn become_program(
    plan: &Plan,
    channel: &OwnedFd,
    group: Option<&ControlGroup>,
    temporary: &Path,
    confine: impl FnOnce() -> Result<(), Fault>,
    filter: Option<seccomp::Filter>,
) -> Fault {
    let prepare = || {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(fault("start"))?;
        let _ = setsid();
        if let Some(group) = group {
            group.join().map_err(|error| Fault::new("cgroup", error))?;
        }
        resource_limits::apply(&plan.limits, plan.task)?;
        chdir(&plan.cwd)
            .map_err(|error| Fault::new("working directory", missing_in_view(error)).at(&plan.cwd))?;
        if filter.is_some() {
            drop_capabilities()?;
            rustix::thread::set_no_new_privs(true).map_err(fault("no-new-privileges"))?;
        }
        confine()?;
        kernel::close_on_exec_from(3).map_err(fault("descriptors"))?;
        match plan.channel {
            Some(ChannelAt::Third) => fcntl_setfd(channel, FdFlags::empty()).map_err(fault("channel"))?,
            Some(ChannelAt::Input) => rustix::stdio::dup2_stdin(channel).map_err(fault("channel"))?,
            None => {}
        }
        if let Some(filter) = filter {
            seccomp::apply(filter, getpid())?;
        }
        Ok(())
    };
    if let Err(fault) = prepare() {
        return fault;
    }
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).env_clear();
    command.envs(plan.env.iter().map(|(name, value)| (name, value)));
    // Only the supervisor knows the value of these two.
    command.env("HOME", temporary).env("TMPDIR", temporary);
    if plan.authorities.is_some() {
        let file = temporary.join(AUTHORITIES);
        command.envs(TRUST.map(|name| (name, &file)));
    }
    let error = command.exec();
    let program = Path::new(&plan.program);
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound if program.exists() => {
            "the interpreter that it names in its first line, or its loader, is not there for the process"
                .to_owned()
        }
        std::io::ErrorKind::NotFound => "there is no such program for the process".to_owned(),
        _ => error.to_string(),
    };
    Fault::new("program", reason).at(program)
}

fn missing_in_view(error: Errno) -> String {
    match error {
        Errno::NOENT => "it is not there for the process".into(),
        error => error.to_string(),
    }
}

/// Drops every capability permanently, for this process and all programs that it executes.
fn drop_capabilities() -> Result<(), Fault> {
    let layer = "capabilities";
    let held = rustix::thread::capabilities(None).map_err(fault(layer))?;
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        let bits = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
        set_capabilities_secure_bits(bits).map_err(fault(layer))?;
        for number in 0..64 {
            let one = CapabilitySet::from_bits_retain(1 << number);
            match rustix::thread::remove_capability_from_bounding_set(one) {
                Ok(()) => {}
                // The kernel has no further capabilities.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(Fault::new(layer, error)),
            }
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(fault(layer))
}

/// Waits until the program ends (returns its report) or the starter requests its end (`None`). Reaps orphans of the
/// program in the meantime.
fn watch(starter: &mut fs::File, program: Pid, mut crowd: Option<Crowd>) -> Option<Report> {
    let children = kernel::child_events().ok()?;
    loop {
        // A child may have ended before its signal was held back.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == program {
                return Some(ended(status));
            }
        }
        let mut fds = [PollFd::new(starter, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        match poll(&mut fds, crowd.is_some().then_some(&INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let (starter_speaks, child_changed) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if crowd.as_mut().is_some_and(Crowd::is_too_large) {
            return Some(Report::TooMany);
        }
        if child_changed {
            let mut record = [0; 128];
            let _ = read(&children, &mut record);
        }
        if starter_speaks {
            let mut bytes = [0; 16];
            match starter.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => {
                    for _ in bytes[..count].iter().filter(|&&byte| byte == INTERRUPT) {
                        let _ = kill_process(program, Signal::INT);
                    }
                }
            }
        }
    }
}

fn ended(status: WaitStatus) -> Report {
    Report::Ended { code: status.exit_status(), signal: status.terminating_signal() }
}

/// Kills every descendant. This process has adopted those whose parent has ended, so none of them is missed.
fn end_all_children() {
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(_) => return,
            Ok(Some(_)) => continue,
            Ok(None) => {}
        }
        for descendant in descendants() {
            let _ = kill_process(descendant.pid, Signal::KILL);
        }
        // At least one is dying.
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

/// The private temporary folder of tier B, removed with its content.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self, Fault> {
        use std::hash::{BuildHasher, Hasher};
        let top = fs::canonicalize("/tmp").unwrap_or_else(|_| PathBuf::from("/tmp"));
        let mut last = Fault::new("temporary folder", "no name is free").at(&top);
        for _ in 0..16 {
            let random = std::hash::RandomState::new().build_hasher().finish();
            let path = top.join(OsString::from(format!("llm-do-{random:016x}")));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => last = Fault::new("temporary folder", error).at(&path),
            }
        }
        Err(last)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut next = 0;
        while remove_layer(&self.0, &mut next).is_ok_and(|more| more) {}
        let _ = fs::remove_dir(&self.0);
    }
}

/// Removes the files in `top`, moves the contents of its folders up into it, and returns true if anything is left. No
/// process is left that could change anything meanwhile. The folders may be deeper than a recursion can go, and closed
/// to their owner.
fn remove_layer(top: &Path, next: &mut u64) -> std::io::Result<bool> {
    let mut more = false;
    for entry in fs::read_dir(top)? {
        let path = entry?.path();
        if !fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_file(&path)?;
            continue;
        }
        open_up(&path)?;
        for below in fs::read_dir(&path)? {
            let below = below?.path();
            if fs::symlink_metadata(&below)?.is_dir() {
                open_up(&below)?;
                *next += 1;
                fs::rename(&below, top.join(format!("lifted-{next}-{}", std::process::id())))?;
                more = true;
            } else {
                fs::remove_file(&below)?;
            }
        }
        fs::remove_dir(&path)?;
    }
    Ok(more)
}

fn open_up(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}
