//! Confined processes against other processes and against sockets.

use crate::{
    attempt::{Attack, Attempt, Group, Layer::Launcher, Outcome, Tried, Who::Process, must},
    probe::{A, B, Probe, Ran, Victim, finish, launched, parts, python, run},
    world::{World, wait},
};
use llm_do::confine::Confinement;
use std::{
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    process::Command,
};

const OTHERS: (&str, &str) = ("process namespace", "ESRCH");

pub(crate) fn other_probes() -> Vec<Probe> {
    let b = ("Landlock's scopes, or seccomp", "EPERM");
    vec![
        Probe::new("killing another process of the user", OTHERS, b, "import signal\nreturn os.kill(VICTIM, signal.SIGKILL)"),
        Probe::new(
            "stopping another process, by `kill`, `tgkill`, `rt_sigqueueinfo` and a pidfd",
            ("process namespace", "ESRCH|EPERM+ESRCH"),
            b,
            "import signal\ninfo = ctypes.create_string_buffer(128)\ninfo[8] = 0xff\nreturn each(lambda: os.kill(VICTIM, signal.SIGSTOP), lambda: syscall(234, 131, VICTIM, VICTIM, 19), lambda: syscall(200, 130, VICTIM, 19), lambda: signal.pidfd_send_signal(os.pidfd_open(VICTIM), 19))",
        ),
        Probe::filtered("changing the limits of another process (`prlimit`)", "return syscall(302, 261, VICTIM, 4, (ctypes.c_ulong * 2)(0, 0), 0)"),
        Probe::filtered("changing the priority, CPU affinity and scheduler of another process", "return each(lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 19), lambda: os.sched_setaffinity(VICTIM, {0}), lambda: os.sched_setscheduler(VICTIM, os.SCHED_IDLE, os.sched_param(0)))"),
        Probe::filtered("changing the priority of another process group", "return os.setpriority(os.PRIO_PGRP, VICTIM, 19)"),
        Probe::new("reading the environment of another process (`/proc/N/environ`)", ("process namespace", "ENOENT"), ("Landlock", "EACCES"), "return read(f'/proc/{VICTIM}/environ')"),
        Probe::new("opening the memory of another process (`/proc/N/mem`)", ("process namespace", "ENOENT"), ("Landlock", "EACCES"), "return open(f'/proc/{VICTIM}/mem', 'r+b')").control_as_root("ok"),
        Probe::new(
            "reading the command lines of all processes",
            ("process namespace", "LookupError"),
            ("Landlock", "EACCES|LookupError"),
            "for n in os.listdir('/proc'):\n  try:\n    if n.isdigit() and 'sle' + 'ep\\0' + '1000' in read(f'/proc/{n}/cmdline'):\n      return n\n  except OSError:\n    pass\nraise LookupError()",
        )
        .outcome(Outcome::NotThere),
    ]
}

pub(crate) fn others() -> Group {
    let mut attempts: Vec<Attempt> = other_probes().into_iter().map(Probe::attempt).collect();
    let more: [(&str, &str, Attack); 6] = [
        (
            "a signal to all processes (`kill(-1)`)",
            "A: process namespace; B: Landlock's scopes, or seccomp",
            all_processes,
        ),
        (
            "a signal sent by a file that becomes ready (`F_SETOWN`, `O_ASYNC`)",
            "A: process namespace; B: Landlock's scopes, or seccomp",
            ready_file,
        ),
        (
            "killing, stopping and tracing its own supervisor, and opening its memory",
            "A: PID 1 of the namespace; B: seccomp; no capabilities",
            supervisor,
        ),
        ("descriptors leaked to it by accident", "all descriptors but 0 to 3 are closed", inherited),
        ("reconnecting the host's channel to another socket", "seccomp", channel),
        (
            "the temporary folder of another process",
            "A: a private file system; B: a private folder",
            temporary,
        ),
    ];
    attempts.extend(more.map(|(name, mechanism, attack)| {
        launched(Attempt::new(Process, Launcher, name, mechanism, attack), "A, B")
    }));
    Group {
        title: "Confined processes and other processes",
        about: "The victim is a process of the same user that has the canary open and the secret in its \
                environment. It must survive.",
        attempts,
    }
}

pub(crate) fn socket_probes() -> Vec<Probe> {
    let named = |world: &World| {
        // Never accepted, so that it must not be contacted. The socket exists as long as its file.
        let socket = UnixListener::bind(world.project("rw/socket")).unwrap();
        std::mem::forget(socket);
    };
    vec![
        Probe::filtered(
            "sockets of every family and type",
            "made = []\nfor family in range(1, 46):\n  for kind in (1, 2, 3, 4, 5, 6, 10):\n    try:\n      made.append((family, kind, socket.socket(family, kind)))\n    except OSError as error:\n      if error.errno != errno.EPERM:\n        made.append((family, kind, error)) if not FREE else 0\nif not made:\n  raise OSError(errno.EPERM, 'none')\nreturn made",
        ),
        Probe::filtered("TCP to a local port", "s = socket.socket()\nreturn s.connect(('127.0.0.1', PORT))"),
        Probe::filtered("UDP to a local port", "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nreturn s.sendto(b'x', ('127.0.0.1', PORT))"),
        Probe::filtered("a Unix socket in a mount", "s = socket.socket(socket.AF_UNIX)\nreturn s.connect(RW + '/socket')").prepare(named),
        Probe::filtered("an abstract Unix socket", "s = socket.socket(socket.AF_UNIX)\nreturn s.connect('\\0' + DOOR)"),
        Probe::filtered("listening on a local port", "s = socket.socket()\ns.bind(('127.0.0.1', 0))\nreturn s.listen()"),
        Probe::filtered(
            "sending from a datagram socket pair to a Unix socket",
            "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nreturn a.sendto(b'x', RW + '/datagrams')",
        )
        .prepare(|world| std::mem::forget(std::os::unix::net::UnixDatagram::bind(world.project("rw/datagrams")).unwrap())),
        Probe::filtered("a socket pair of type `SOCK_SEQPACKET`", "return each(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))"),
        Probe::filtered("a socket pair with bits set in the upper halves of the arguments, which the kernel ignores", "two = (ctypes.c_int * 2)()\nreturn syscall(53, 199, 1 | 1 << 32, 2 | 1 << 32, 0, two)"),
        Probe::filtered("with a network grant: Unix sockets, in a mount and abstract", "return each(lambda: socket.socket(socket.AF_UNIX).connect(RW + '/socket'), lambda: socket.socket(socket.AF_UNIX).connect('\\0' + DOOR))").network().prepare(named),
        Probe::filtered("with a network grant: netlink, which configures networks", "return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)").network(),
        Probe::filtered("with a network grant: raw and packet sockets", "return each(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))").network().control_as_root("ok"),
        Probe::filtered("with a network grant: `vsock` and `alg` sockets", "return each(lambda: socket.socket(40, 1), lambda: socket.socket(38, 5))").network().reaches(),
    ]
}

pub(crate) fn sockets() -> Group {
    Group {
        title: "Sockets",
        about: "A TCP port, a UDP port and an abstract Unix socket listen outside; nothing may contact them. \
                The control runs the same function unconfined, where it reaches the sockets of its own \
                world.",
        attempts: socket_probes().into_iter().map(Probe::attempt).collect(),
    }
}

pub(crate) fn in_tier(world: &World, tier: Confinement, script: &str) -> Ran {
    run(world, python(world, &parts(world), tier, script, &Victim::new(world)))
}

/// Sends a signal in each tier, and unconfined as the control.
fn hits(world: &World, confined: &str, free: &str) -> Tried {
    for (tier, script) in [(A, confined), (B, confined), (Confinement::Unconfined, free)] {
        let victim = Victim::counting(world);
        let ran = run(world, python(world, &parts(world), tier, script, &victim));
        let free = tier == Confinement::Unconfined;
        must(
            victim.was_hit() == free,
            format!("{}: {tier:?}: {ran:?}", if free { "the control hits no process" } else { "ESCAPE" }),
        )?;
    }
    Ok(Outcome::Refused)
}

fn all_processes(world: &World) -> Tried {
    // The control signals only the victim's process group.
    hits(
        world,
        "import signal\nreturn os.kill(-1, signal.SIGURG)",
        "import signal\nreturn os.killpg(VICTIM, signal.SIGURG)",
    )
}

fn ready_file(world: &World) -> Tried {
    let script = "import fcntl, signal\na, b = socket.socketpair()\nfcntl.fcntl(a, fcntl.F_SETOWN, VICTIM)\nfcntl.fcntl(a, 10, signal.SIGUSR1)\nfcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_ASYNC)\nreturn b.send(b'x')";
    hits(world, script, script)
}

fn supervisor(world: &World) -> Tried {
    let script = r#"
        import signal
        for pid in (os.getppid(), 1):
            for action in (lambda: os.kill(pid, signal.SIGKILL), lambda: os.kill(pid, signal.SIGTERM), lambda: os.kill(pid, signal.SIGSTOP)):
                try: action()
                except OSError as e: print(pid, e)
        def memory(): return open(f'/proc/{os.getppid()}/mem', 'r+b')
        def trace(): return syscall(101, 117, 0x4206, os.getppid(), 0, 0)
        for action in (memory, trace):
            try: sys.exit(f'works: {action()}')
            except OSError: pass
        os._exit(23)
    "#;
    for tier in [A, B] {
        let ran = in_tier(world, tier, script);
        must(
            ran.exit.code == Some(23),
            format!("ESCAPE: {tier:?}: the supervisor did not survive: {ran:?}"),
        )?;
    }
    // The control: an ordinary parent is killed.
    let code = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)";
    let ran = Command::new("/bin/sh")
        .args(["-c", "/usr/bin/python3 -I -c \"$0\"; exit 23", code])
        .output()
        .unwrap();
    must(ran.status.code() != Some(23), "the control: the parent lives")?;
    Ok(Outcome::Refused)
}

fn inherited(world: &World) -> Tried {
    // A descriptor without close-on-exec, as a careless library leaks it.
    let file = File::open(world.outside("canary.txt")).unwrap();
    let open = rustix::io::dup(&file).unwrap();
    let script = "import stat\nfor fd in range(3, 256):\n  try:\n    print(fd, os.pread(fd, 100, 0))\n  except OSError as error:\n    if error.errno != errno.EBADF: print(fd, error)";
    let free = Command::new("/usr/bin/python3")
        .args(["-I", "-c", &format!("import os, errno\n{script}")])
        .output()
        .unwrap();
    must(String::from_utf8_lossy(&free.stdout).contains(&world.secret), "the control: nothing is inherited")?;
    for tier in [A, B] {
        let ran = in_tier(world, tier, script);
        must(
            ran.out.lines().filter(|line| !line.is_empty()).count() == 1,
            format!("ESCAPE: {tier:?}: {ran:?}"),
        )?;
    }
    drop(open);
    Ok(Outcome::NotThere)
}

fn channel(world: &World) -> Tried {
    let named = world.project("rw/door");
    let listener = UnixListener::bind(&named).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = "s = socket.socket(fileno=3)\nreturn each(lambda: s.connect(RW + '/door'), lambda: s.bind(RW + '/door2'), lambda: s.listen())";
    for tier in [A, B] {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let victim = Victim::new(world);
        let mut process = python(world, &parts(world), tier, script, &victim);
        process.channel = Some(llm_do_sandbox::confine::Channel::Third(OwnedFd::from(theirs)));
        let ran = run(world, process);
        must(ran.verdict() == "EPERM" && listener.accept().is_err(), format!("ESCAPE: {tier:?}: {ran:?}"))?;
    }
    Ok(Outcome::Refused)
}

fn temporary(world: &World) -> Tried {
    let leave = "write(os.environ['TMPDIR'] + '/left', 'behind')\nprint('here', os.environ['TMPDIR'], flush=True)\nimport time\nwhile True: time.sleep(100)";
    for tier in [A, B] {
        let victim = Victim::new(world);
        let first = python(world, &parts(world), tier, leave, &victim);
        wait(async {
            let mut first = first.start().await.expect("it starts");
            let mut out = tokio::io::BufReader::new(first.stdout().expect("a pipe"));
            let mut line = String::new();
            tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.expect("a line");
            let path = line.trim().strip_prefix("here ").expect("a path").to_owned();
            let script = format!(
                "return each(lambda: read({path:?} + '/left'), lambda: read(os.environ['TMPDIR'] + '/left'))"
            );
            let second = python(world, &parts(world), tier, &script, &victim);
            let ran = finish(second.start().await.expect("it starts")).await;
            first.kill();
            first.wait().await;
            must(
                ran.verdict() == "ENOENT" || ran.verdict() == "EACCES+ENOENT",
                format!("ESCAPE: {tier:?}: {ran:?}"),
            )?;
            // The first folder is gone. In tier A it was a separate /tmp.
            must(path == "/tmp" || !fs::exists(&path).unwrap_or(true), format!("ESCAPE: {path} is left"))
        })?;
    }
    Ok(Outcome::NotThere)
}
