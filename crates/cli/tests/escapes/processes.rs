//! Confined processes against other processes, against sockets, and against their own limits and termination.

use crate::{
    attempt::{Attack, Attempt, Group, Layer::Launcher, Need, Outcome, Tried, Who::Process, must},
    probe::{A, B, Probe, Ran, Victim, finish, launched, parts, python, python_in, run},
    world::{TIMEOUT, World, eventually, wait},
};
use llm_do::confine::{Confinement, ProcessView, Tier};
use llm_do_core::authority::{Access, Place};
use std::{
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::{
            fs::symlink,
            net::{UnixListener, UnixStream},
        },
    },
    process::Command,
    time::Duration,
};

const OTHERS: (&str, &str) = ("process namespace", "ESRCH");

pub(crate) fn others() -> Group {
    let b = ("Landlock's scopes, or seccomp", "EPERM");
    let mut attempts: Vec<Attempt> = vec![
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
    .into_iter()
    .map(Probe::attempt)
    .collect();
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

pub(crate) fn sockets() -> Group {
    let named = |world: &World| {
        // Never accepted, so that it must not be contacted. The socket exists as long as its file.
        let socket = UnixListener::bind(world.project("rw/socket")).unwrap();
        std::mem::forget(socket);
    };
    let probes = vec![
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
    ];
    Group {
        title: "Sockets",
        about: "A TCP port, a UDP port and an abstract Unix socket listen outside; nothing may contact them. \
                The control runs the same function unconfined, where it reaches the sockets of its own \
                world.",
        attempts: probes.into_iter().map(Probe::attempt).collect(),
    }
}

pub(crate) fn limits() -> Group {
    let mut attempts: Vec<Attempt> = vec![
        Probe::new(
            "more memory than its limit",
            ("`RLIMIT_DATA`", "MemoryError"),
            ("`RLIMIT_DATA`", "MemoryError"),
            "return len(bytearray(1 << 30))",
        )
        .limits(|limits| limits.memory = 256 << 20)
        .outcome(Outcome::Bounded),
        Probe::new(
            "a sparse file of a terabyte",
            ("`RLIMIT_FSIZE`", "EFBIG"),
            ("`RLIMIT_FSIZE`", "EFBIG"),
            "with open(RW + '/sparse', 'wb') as file:\n  return file.truncate(1 << 40)",
        )
        .outcome(Outcome::Bounded),
        Probe::new(
            "opening descriptors without bound",
            ("`RLIMIT_NOFILE`", "EMFILE"),
            ("`RLIMIT_NOFILE`", "EMFILE"),
            "return len([open('/dev/null') for _ in range(200)])",
        )
        .limits(|limits| limits.open_files = 64)
        .outcome(Outcome::Bounded),
        Probe::new(
            "raising its own limits",
            ("no capabilities", "EPERM"),
            ("no capabilities", "EPERM"),
            "return syscall(302, 261, 0, 7, (ctypes.c_ulong * 2)(64, 1 << 20 if not FREE else 64), 0)",
        )
        .limits(|limits| limits.open_files = 64),
        Probe::new(
            "using processor time without bound",
            ("`RLIMIT_CPU`", "signal 24|signal 9"),
            ("`RLIMIT_CPU`", "signal 24|signal 9"),
            "import time\nwhile time.process_time() < (0.1 if FREE else 60):\n  pass",
        )
        .limits(|limits| limits.processor_seconds = Some(1))
        .outcome(Outcome::Ended),
        Probe::new(
            "filling its temporary folder with one file",
            ("size of a tmpfs", "ENOSPC"),
            ("`RLIMIT_FSIZE`", "EFBIG"),
            "return write(os.environ['TMPDIR'] + '/full', 'x' * (8 << 20))",
        )
        .limits(|limits| {
            limits.temporary = 1 << 20;
            limits.file_size = 4 << 20;
        })
        .outcome(Outcome::Bounded),
        Probe::new(
            "filling an `rw` mount",
            ("each file: `RLIMIT_FSIZE`", "ok"),
            ("each file: `RLIMIT_FSIZE`", "ok"),
            "for n in range(8):\n  write(f'{RW}/{n}', 'x' * (1 << 20))",
        )
        .limits(|limits| limits.file_size = 1 << 20)
        .outcome(Outcome::Undefended(
            "the size of each file is limited, the number is not; use a mount on a separate disk",
        )),
    ]
    .into_iter()
    .map(Probe::attempt)
    .collect();
    let more: [(&'static str, &'static str, &'static str, Attack); 10] = [
        (
            "creating processes without bound (a fork bomb)",
            "A, B",
            "a control group; without one, A: `pid_max` of the namespace, `RLIMIT_NPROC`; B: the supervisor counts",
            fork_bomb,
        ),
        (
            "filling its temporary folder with many files",
            "B",
            "only the size of each file is limited",
            many_files,
        ),
        ("probing the existence and size of a file outside", "B", "Landlock does not hide names", exists),
        (
            "a daemonised child (own session, double fork)",
            "A, B",
            "A: the process namespace ends; B: the supervisor, a subreaper, kills it",
            daemon,
        ),
        ("ignoring every signal when its call is stopped", "A, B", "the supervisor sends `SIGKILL`", ignores),
        ("suspending itself when its call is stopped", "A, B", "the supervisor sends `SIGKILL`", stopped),
        (
            "leaving shared memory behind (`/dev/shm`)",
            "A, B",
            "A: a private file system; B: Landlock",
            shared_memory,
        ),
        (
            "replacing a mount by a link before the start",
            "A, B",
            "mounts are opened without following links",
            swapped_place,
        ),
        (
            "moving a hidden file away before the start",
            "A",
            "the launcher scans for hidden files again at the start",
            moved_hidden,
        ),
        ("a mount of `/`, `/proc`, `/sys` or `/dev`", "A, B", "these places are never mounted", never_given),
    ];
    attempts.extend(more.map(|(name, tier, mechanism, attack)| {
        launched(Attempt::new(Process, Launcher, name, mechanism, attack), tier)
    }));
    attempts.push(
        launched(
            Attempt::new(
                Process,
                Launcher,
                "more memory through shared mappings, files in memory (`memfd_create`) and many processes",
                "a control group",
                shared_memory_of_all,
            ),
            "A, B",
        )
        .needs(Need::ControlGroup),
    );
    attempts.push(launched(
        Attempt::new(
            Process,
            Launcher,
            "planting a hook in a mount without a `.git`",
            "the mount is scanned after the process ends",
            planted,
        ),
        "A, B",
    ));
    Group {
        title: "Limits, start and end of processes",
        about: "After each attempt, no process that sees the folder of the attempt may be left.",
        attempts,
    }
}

fn in_tier(world: &World, tier: Confinement, script: &str) -> Ran {
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

const FORK_BOMB: &str = "import time\nmade = 0\nwhile made < 600:\n  try:\n    if os.fork() == 0:\n      time.sleep(1000)\n      os._exit(0)\n    made += 1\n    time.sleep(0.001)\n  except OSError as error:\n    print('made', made, flush=True)\n    raise";

fn fork_bomb(world: &World) -> Tried {
    let victim = Victim::new(world);
    for tier in [A, B] {
        let mut process = python(world, &parts(world), tier, FORK_BOMB, &victim);
        process.limits.processes = 32;
        let ran = run(world, process);
        let counted = tier == B && ran.exit.reason.as_deref().unwrap_or("").contains("more processes");
        must(counted || ran.verdict() == "EAGAIN", format!("ESCAPE: {tier:?}: {ran:?}"))?;
    }
    let other = World::new();
    let free = run(&other, python(&other, &parts(&other), Confinement::Unconfined, FORK_BOMB, &victim));
    must(free.verdict() == "ok", format!("the control can't fork: {free:?}"))?;
    Ok(Outcome::Bounded)
}

fn many_files(world: &World) -> Tried {
    let script =
        "for n in range(8):\n  write(f\"{os.environ['TMPDIR']}/{n}\", 'x' * (1 << 20))\nreturn 'filled'";
    let victim = Victim::new(world);
    let mut process = python(world, &parts(world), B, script, &victim);
    process.limits.temporary = 1 << 20;
    let ran = run(world, process);
    must(ran.verdict() == "ok", format!("it is bounded now; change the outcome: {ran:?}"))?;
    let mut process = python(world, &parts(world), A, script, &victim);
    process.limits.temporary = 1 << 20;
    let ran = run(world, process);
    must(ran.verdict() == "ENOSPC", format!("ESCAPE: in tier A: {ran:?}"))?;
    Ok(Outcome::Undefended(
        "tier B limits only the size of each file, and removes the files at the end; tier A limits the folder",
    ))
}

fn exists(world: &World) -> Tried {
    let ran = in_tier(world, B, "return os.stat(CANARY).st_size");
    must(ran.verdict() == "ok", format!("it is hidden now; change the outcome: {ran:?}"))?;
    let ran = in_tier(world, A, "return os.stat(CANARY).st_size");
    must(ran.verdict() == "ENOENT", format!("ESCAPE: in tier A: {ran:?}"))?;
    Ok(Outcome::Undefended(
        "in tier B, a known path reveals its existence and size, no content; in tier A it does not exist",
    ))
}

const DAEMON: &str = "import time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    while True:\n      time.sleep(1000)\n  os._exit(0)\nos.wait()\nreturn 'left'";

fn daemon(world: &World) -> Tried {
    for tier in [A, B] {
        // Its output is closed too, although the child held it.
        let ran = in_tier(world, tier, DAEMON);
        must(ran.verdict() == "ok", format!("{tier:?}: {ran:?}"))?;
        let gone = eventually(Duration::from_secs(20), || {
            world.processes().iter().all(|process| process.contains("(sleep)"))
        });
        must(gone, format!("ESCAPE: {tier:?} leaves {:?}", world.processes()))?;
    }
    // The control: without a supervisor, the process remains.
    let other = World::new();
    let mark = other.project("rw").display().to_string();
    let script =
        format!("import os, sys\nmark = {mark:?}\ndef left():\n  {}\nleft()", DAEMON.replace('\n', "\n  "));
    let ran = Command::new("/usr/bin/python3").args(["-I", "-c", &script]).status().unwrap();
    let left = other.processes();
    for stat in &left {
        let id =
            stat.split(' ').next().and_then(|id| id.parse().ok()).and_then(rustix::process::Pid::from_raw);
        let _ = rustix::process::kill_process(id.unwrap(), rustix::process::Signal::KILL);
    }
    must(ran.success() && left.len() == 1, format!("the control leaves {left:?}"))?;
    Ok(Outcome::Ended)
}

fn ends(world: &World, script: &str) -> Tried {
    for tier in [A, B] {
        let victim = Victim::new(world);
        let process = python(world, &parts(world), tier, script, &victim);
        world.arm();
        wait(async {
            let mut running = process.start().await.expect("it starts");
            let mut out = tokio::io::BufReader::new(running.stdout().expect("a pipe"));
            let mut line = String::new();
            tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.expect("a line");
            running.interrupt();
            running.kill();
            let ended = tokio::time::timeout(TIMEOUT / 2, running.wait()).await;
            must(ended.is_ok(), format!("ESCAPE: {tier:?}: it does not end"))
        })?;
        drop(victim);
        world.check_oracles()?;
    }
    Ok(Outcome::Ended)
}

fn ignores(world: &World) -> Tried {
    ends(
        world,
        "import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nprint('ready', flush=True)\nwhile True:\n  try: time.sleep(100)\n  except BaseException: pass",
    )
}

fn stopped(world: &World) -> Tried {
    ends(
        world,
        "import signal\nprint('ready', flush=True)\nif os.fork() == 0:\n  os.kill(os.getpid(), signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
    )
}

fn shared_memory(world: &World) -> Tried {
    let script = format!("return write('/dev/shm/{}')", world.abstract_socket());
    let left = format!("/dev/shm/{}", world.abstract_socket());
    for tier in [A, B] {
        let ran = in_tier(world, tier, &script);
        must(ran.verdict() == if tier == A { "ok" } else { "EACCES" }, format!("{tier:?}: {ran:?}"))?;
        must(!fs::exists(&left).unwrap(), format!("ESCAPE: {tier:?} leaves {left}"))?;
    }
    let other = World::new();
    let free =
        run(&other, python(&other, &parts(&other), Confinement::Unconfined, &script, &Victim::new(&other)));
    must(
        free.verdict() == "ok" && fs::remove_file(&left).is_ok(),
        format!("the control leaves nothing: {free:?}"),
    )?;
    Ok(Outcome::Inside)
}

fn shared_memory_of_all(world: &World) -> Tried {
    let shared = "import mmap\nblocks = [mmap.mmap(-1, 16 << 20) for _ in range(40)]\nfor block in blocks:\n  block.write(bytes(16 << 20))\nreturn 'much'";
    let files = "for number in range(40):\n  file = os.memfd_create('x')\n  os.write(file, bytes(16 << 20))\nreturn 'much'";
    let many = "import time\nfor number in range(6):\n  if os.fork() == 0:\n    block = bytearray(b'x') * (100 << 20)\n    time.sleep(1)\n    os._exit(0)\nif any(os.wait()[1] for number in range(6)):\n  raise MemoryError()\nreturn 'much'";
    let victim = Victim::new(world);
    for script in [shared, files, many] {
        for tier in [A, B] {
            let mut process = python(world, &parts(world), tier, script, &victim);
            process.limits.memory = 200 << 20;
            let ran = run(world, process);
            must(
                ["signal 9", "MemoryError"].contains(&ran.verdict().as_str()),
                format!("ESCAPE: {tier:?}: {ran:?}"),
            )?;
        }
        let other = World::new();
        let free = run(&other, python(&other, &parts(&other), Confinement::Unconfined, script, &victim));
        must(free.verdict() == "ok", format!("the control: {free:?}"))?;
    }
    Ok(Outcome::Bounded)
}

fn swapped_place(world: &World) -> Tried {
    for (tier, name) in [(A, Tier::Namespaces), (B, Tier::Landlock)] {
        let view = ProcessView::of(&parts(world), name).unwrap();
        fs::rename(world.project("rw"), world.project("away")).unwrap();
        symlink(world.outside(""), world.project("rw")).unwrap();
        world.arm();
        let victim = Victim::new(world);
        let script =
            "return each(lambda: read(RW + '/canary.txt'), lambda: read(CANARY), lambda: write(RW + '/new'))";
        let process = python_in(world, view, tier, script, &victim);
        let started = wait(async {
            match process.start().await {
                Ok(running) => Some(finish(running).await),
                Err(_) => None,
            }
        });
        if let Some(ran) = started {
            world.disclose(&ran.out);
            must(ran.verdict() != "ok", format!("ESCAPE: {tier:?}: {ran:?}"))?;
        }
        fs::remove_file(world.project("rw")).unwrap();
        fs::rename(world.project("away"), world.project("rw")).unwrap();
    }
    Ok(Outcome::Refused)
}

fn moved_hidden(world: &World) -> Tried {
    let hidden = world.put("sub/.env", &world.secret);
    let view = ProcessView::of(&world.whole(), Tier::Namespaces).unwrap();
    fs::rename(&hidden, world.project("sub/found.txt")).unwrap();
    fs::write(&hidden, "a decoy").unwrap();
    world.arm();
    let process = python_in(world, view, A, "return read(PROJECT + '/sub/found.txt')", &Victim::new(world));
    match wait(process.start()) {
        Ok(_) => Err("ESCAPE: it was started".into()),
        Err(error) => {
            must(error.to_string().contains(".env"), error.to_string())?;
            Ok(Outcome::Refused)
        }
    }
}

fn never_given(world: &World) -> Tried {
    for place in ["/", "/proc", "/proc/self", "/sys", "/dev"] {
        for tier in [Tier::Namespaces, Tier::Landlock] {
            let mut mount = world.mount("/m", "project/ro", Access::Read);
            mount.place = Place::new(place);
            let view = ProcessView::of(&world.authority(vec![mount]), tier).unwrap();
            // Only the part within the bounds may be visible, which is the project.
            let within = view.shown().iter().all(|shown| shown.place.starts_with(world.project("")));
            must(
                within && view.left_out().len() == 1 + usize::from(place == "/" && tier == Tier::Landlock),
                format!("ESCAPE: {place} is given: {view:?}"),
            )?;
        }
    }
    Ok(Outcome::Refused)
}

fn planted(world: &World) -> Tried {
    for tier in [A, B] {
        let Confinement::Tier(name) = tier else { continue };
        let rw = world.authority(vec![world.mount("/rw", "project/rw", Access::Write)]);
        let before = ProcessView::of(&rw, name).unwrap();
        let script = "os.makedirs(RW + '/.git/hooks')\nwrite(RW + '/new.worker')\nreturn write(RW + '/.git/hooks/post-commit')";
        let ran = in_tier(world, tier, script);
        must(ran.verdict() == "ok", format!("it is refused now; change the outcome: {ran:?}"))?;
        let found = before.planted(&rw).unwrap();
        let places: Vec<_> = found.iter().map(|planted| &planted.place).collect();
        must(
            places == [&world.project("rw/.git"), &world.project("rw/new.worker")],
            format!("ESCAPE: found {found:?}"),
        )?;
        fs::remove_dir_all(world.project("rw/.git")).unwrap();
        must(!world.project("rw/new.worker").exists(), "ESCAPE: the worker is not set aside".to_owned())?;
        fs::remove_file(world.project("rw/new.worker.set-aside")).unwrap();
    }
    Ok(Outcome::Shown)
}
