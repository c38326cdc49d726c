//! Confined processes against the kernel: namespaces, `io_uring`, mounts, modules, keys, other ABIs, other users.

use crate::{
    attempt::{Attempt, Group, Need, Outcome, Tried, Who::Process, must},
    probe::{A, B, Probe, Victim, launched, parts, python, run},
    world::World,
};
use llm_do::confine::Confinement;
use std::{fs, os::unix::fs::PermissionsExt, process::Command};

pub(crate) fn group() -> Group {
    let mut attempts: Vec<Attempt> = probes().into_iter().map(Probe::attempt).collect();
    let killed = |name, attack: fn(&World) -> Tried| {
        launched(Attempt::new(Process, crate::attempt::Layer::Launcher, name, "seccomp", attack), "A, B")
    };
    attempts.push(killed("a system call of the x32 ABI", x32));
    attempts.push(killed("a 32-bit system call (`int 0x80`) from machine code", of_32_bit));
    attempts.push(
        launched(
            Attempt::new(
                Process,
                crate::attempt::Layer::Launcher,
                "executing a set-user-ID program in a mount",
                "`no_new_privs`",
                set_user_id,
            ),
            "A, B",
        )
        .needs(Need::Root),
    );
    Group {
        title: "Confined processes and the kernel",
        about: "As above. Where a call would harm the machine, the control makes it with arguments that the \
                kernel refuses; the kernel's own error shows that the call reaches it.",
        attempts,
    }
}

pub(crate) fn probes() -> Vec<Probe> {
    vec![
        Probe::filtered("`io_uring`, which makes calls that no filter sees", "return each(lambda: syscall(425, 425, 0, 0), lambda: syscall(426, 426, 0, 0, 0, 0, 0, 0), lambda: syscall(427, 427, 0, 0, 0, 0))")
            .reaches(),
        Probe::filtered("tracing another process (`ptrace`)", "return each(lambda: syscall(101, 117, 0x4206, VICTIM, 0, 0))").control_as_root("ok"),
        Probe::filtered("being traced by its parent (`PTRACE_TRACEME`)", "return syscall(101, 117, 0, 0, 0, 0)"),
        Probe::filtered(
            "reading and writing another process's memory",
            "word = ctypes.create_string_buffer(8)\niov = (ctypes.c_ulong * 2)(ctypes.addressof(word), 8)\nfar = (ctypes.c_ulong * 2)(0x1000, 8)\nreturn each(lambda: syscall(310, 270, VICTIM, iov, 1, far, 1, 0), lambda: syscall(311, 271, VICTIM, iov, 1, far, 1, 0))",
        )
        .reaches_as_root(),
        Probe::filtered("taking a descriptor of another process (`pidfd_getfd`)", "return syscall(438, 438, os.pidfd_open(os.getpid() if not FREE else VICTIM), 0, 0)").control_as_root("ok"),
        Probe::filtered("comparing kernel objects (`kcmp`)", "return syscall(312, 272, os.getpid(), os.getpid(), 0, 0, 0)").reaches(),
        Probe::filtered(
            "a new user namespace, by `unshare`",
            "return syscall(272, 97, 0x10000000)",
        )
        .reaches_as_root(),
        Probe::filtered(
            "new mount, PID, network and other namespaces, by `unshare`",
            "return each(*[lambda f=f: syscall(272, 97, f) for f in (0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000)])",
        )
        .control_as_root("ok"),
        Probe::filtered(
            "new namespaces, by `clone`",
            "def clone(flag):\n  child = syscall(56, 220, flag | 17, 0, 0, 0, 0)\n  if child == 0:\n    os._exit(0)\n  os.waitpid(child, 0)\n  return child\nreturn each(*[lambda f=f: clone(f) for f in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000)])",
        )
        .control_as_root("ok"),
        Probe::new(
            "`clone3`, whose arguments no filter can read",
            ("seccomp", "ENOSYS"),
            ("seccomp", "ENOSYS"),
            "args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)\nchild = syscall(435, 435, args, 88)\nif child == 0:\n  os._exit(0)\nreturn os.waitpid(child, 0)",
        ),
        Probe::filtered("entering namespaces (`setns`)", "fd = os.open('/proc/self/ns/uts', os.O_RDONLY)\nreturn each(lambda: syscall(308, 268, fd, 0), lambda: syscall(308, 268, os.pidfd_open(os.getpid()), 0x4000000))")
            .control_as_root("ok"),
        Probe::filtered("mounting over masks and unmounting them (`mount`, `umount2`)", "return each(lambda: syscall(165, 40, 0, 0, 0, 0, 0), lambda: syscall(166, 39, b'/nowhere', 2))").reaches_as_root(),
        Probe::filtered("changing the root (`chroot`, `pivot_root`)", "return each(lambda: syscall(161, 51, b'/nowhere'), lambda: syscall(155, 41, b'/nowhere', b'/nowhere'))").reaches_as_root(),
        Probe::filtered(
            "the newer mount calls (`fsopen`, `open_tree`, `move_mount`, `mount_setattr`)",
            "return each(lambda: syscall(430, 430, b'nosuchfs', 0), lambda: syscall(428, 428, -100, b'/nowhere', 1), lambda: syscall(429, 429, -1, b'x', -1, b'y', 0), lambda: syscall(442, 442, -1, b'x', 0, 0, 0))",
        )
        .reaches_as_root(),
        Probe::filtered("listing the mounts of the machine (`statmount`, `listmount`)", "return each(lambda: syscall(457, 457, 0, 0, 0, 0), lambda: syscall(458, 458, 0, 0, 0, 0))").reaches(),
        Probe::filtered("loading programs into the kernel (`bpf`)", "return syscall(321, 280, 5, 0, 0)").reaches_as_root(),
        Probe::filtered("performance counters (`perf_event_open`)", "return syscall(298, 241, 0, 0, -1, -1, 0)").reaches(),
        Probe::filtered("handling page faults of the kernel (`userfaultfd`)", "return syscall(323, 282, 1)").reaches_as_root(),
        Probe::filtered("the kernel key ring (`add_key`, `keyctl`)", "return each(lambda: syscall(248, 217, b'user', b'probe', b'x', 1, -1), lambda: syscall(250, 219, 0, -1, 1))").reaches(),
        Probe::filtered(
            "opening files by handle, without a path (`open_by_handle_at`)",
            "handle = (ctypes.c_uint32 * 34)(128)\nmount = ctypes.c_int()\nreturn each(lambda: syscall(303, 264, -100, RO.encode() + b'/theirs.txt', handle, ctypes.byref(mount), 0), lambda: syscall(304, 265, os.open(RO, 0), handle, 0))",
        )
        .control_as_root("ok"),
        Probe::filtered("monitoring all files (`fanotify`)", "return syscall(300, 262, 0, 0)").reaches_as_root(),
        Probe::filtered("loading modules and kernels (`init_module`, `kexec_load`)", "return each(lambda: syscall(175, 105, 0, 0, 0), lambda: syscall(313, 273, -1, b'', 0), lambda: syscall(176, 106, b'none', 0), lambda: syscall(246, 104, 0, 99, 0, 0xffff))").reaches_as_root(),
        Probe::filtered("shutting the machine down (`reboot`)", "return syscall(169, 142, 0, 0, 0, 0)").reaches_as_root(),
        Probe::filtered("swap and accounting (`swapon`, `acct`)", "return each(lambda: syscall(167, 224, b'/nowhere', 0), lambda: syscall(168, 225, b'/nowhere'), lambda: syscall(163, 89, b'/nowhere'))").reaches_as_root(),
        Probe::filtered("setting the clock (`settimeofday`, `clock_settime`, `adjtimex`)", "return each(lambda: syscall(164, 170, 1, 0), lambda: syscall(227, 112, 0, 0), lambda: syscall(159, 171, 0))").reaches_as_root(),
        Probe::filtered("setting the host name and domain name", "return each(lambda: syscall(170, 161, b'x', 4096), lambda: syscall(171, 162, b'x', 4096))").reaches_as_root(),
        Probe::filtered("reading the kernel log (`syslog`)", "return syscall(103, 116, 3, ctypes.create_string_buffer(64), 64)").control_as_root("ok"),
        Probe::filtered("disk quotas (`quotactl`)", "return syscall(179, 60, 0, 0, 0, 0)").reaches_as_root(),
        Probe::filtered("I/O ports and the segment table (`iopl`, `ioperm`, `modify_ldt`)", "return each(lambda: syscall(172, None, 4), lambda: syscall(173, None, 70000, 1, 1), lambda: syscall(154, None, 99, 0, 0))").reaches(),
        Probe::new(
            "a core dump, also one that the machine passes to a program",
            ("`RLIMIT_CORE` of 1 byte", "EPERM"),
            ("`RLIMIT_CORE` of 1 byte", "EPERM"),
            "import resource\nhard = resource.getrlimit(resource.RLIMIT_CORE)[1]\nif hard != 1 and not FREE:\n  return hard\nif FREE:\n  return 'ok'\nreturn syscall(302, 261, 0, 4, (ctypes.c_ulong * 2)(1 << 20, 1 << 20), 0)",
        ),
        Probe::filtered("changing the personality (no address randomisation)", "return syscall(135, 92, 0x40000)"),
        Probe::filtered("System V shared memory, message queues and semaphores, which outlive the process", "return each(lambda: syscall(29, 194, 0, 0, 0), lambda: syscall(68, 186, 12345, 0), lambda: syscall(64, 190, 0, 0, 0), lambda: syscall(240, 180, 0, 0, 0, 0))").reaches(),
        Probe::filtered("injecting input into the terminal (`TIOCSTI`, `TIOCLINUX`, `TIOCSETD`)", "import fcntl\nreturn each(*[lambda r=r: fcntl.ioctl(0, r, b'x') for r in (0x5412, 0x541c, 0x541d, 0x5423)])").reaches(),
        Probe::filtered("`TIOCSTI` with bits set in the upper half, which the kernel ignores", "return syscall(16, 29, 0, 0x5412 | 1 << 32, b'x')").reaches(),
        Probe::new(
            "`openat2`, whose arguments no filter can read",
            ("seccomp", "ENOSYS"),
            ("seccomp", "ENOSYS"),
            "return syscall(437, 437, -100, b'/usr', 0, 0)",
        )
        .reaches(),
        Probe::new(
            "system calls newer than the filter",
            ("seccomp", "ENOSYS"),
            ("seccomp", "ENOSYS"),
            "return syscall(463, 463, -1, 0, 0, 0, 0, 0)",
        )
        .reaches(),
        Probe::new(
            "regaining capabilities (`capset`)",
            ("no capabilities", "EPERM"),
            ("no capabilities", "EPERM"),
            "class H(ctypes.Structure):\n  _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]\ndata = (ctypes.c_uint32 * 6)(*[1 << 21, 1 << 21, 0, 0, 0, 0])\nreturn syscall(126, 91, ctypes.byref(H(0x20080522, 0)), data)",
        )
        .control_as_root("ok"),
        Probe::new(
            "becoming another user (`setuid`, `setgroups`)",
            ("user namespace", "EINVAL|EPERM|EINVAL+EPERM"),
            ("no capabilities", "EPERM"),
            "return each(lambda: os.setgroups([1]), lambda: os.setgid(1), lambda: os.setuid(1))",
        )
        .control_as_root("ok"),
        Probe::filtered(
            "escaping the filter by executing another program",
            "import subprocess\ncode = 'import socket, sys\\ntry: socket.socket()\\nexcept OSError as e: sys.exit(e.errno)'\ncode = subprocess.run([sys.executable, '-I', '-c', code]).returncode\nif code:\n  raise OSError(code, 'in the child')",
        ),
    ]
}

fn x32(world: &World) -> Tried {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(Outcome::Ended);
    }
    killed(world, "return syscall(0x40000000 + 39, None)", "ENOSYS|ok")
}

fn of_32_bit(world: &World) -> Tried {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(Outcome::Ended);
    }
    // mov eax, 20; int 0x80; ret. On a kernel without 32-bit support it is a fault in any process.
    let script = "import mmap\npage = mmap.mmap(-1, 4096, prot=7)\npage.write(bytes.fromhex('b814000000cd80c3'))\nreturn ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()";
    killed(world, script, "ok|signal 11")
}

/// The kernel kills a process that makes a system call of another ABI.
fn killed(world: &World, script: &str, free: &str) -> Tried {
    let other = World::new();
    let said =
        run(&other, python(&other, &parts(&other), Confinement::Unconfined, script, &Victim::new(&other)))
            .verdict();
    must(free.split('|').any(|expected| expected == said), format!("the control says {said}"))?;
    for tier in [A, B] {
        let ran = run(world, python(world, &parts(world), tier, script, &Victim::new(world)));
        let expected = if said == "signal 11" { ["signal 11", "signal 31"] } else { ["signal 31"; 2] };
        must(expected.contains(&ran.verdict().as_str()), format!("{tier:?}: {ran:?}"))?;
    }
    Ok(Outcome::Ended)
}

/// A copy of `id` that belongs to another user and has the set-user-ID bit.
fn set_user_id(world: &World) -> Tried {
    let copy = world.project("ro/id");
    fs::copy("/usr/bin/id", &copy).unwrap();
    std::os::unix::fs::chown(&copy, Some(12345), Some(12345)).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755)).unwrap();
    let free = Command::new(&copy).output().unwrap();
    must(String::from_utf8_lossy(&free.stdout).contains("12345"), "the control: it changes no user at all")?;
    let script =
        "import subprocess\nprint(subprocess.run([RO + '/id'], capture_output=True, text=True).stdout)";
    for tier in [A, B] {
        let ran = run(world, python(world, &parts(world), tier, script, &Victim::new(world)));
        must(ran.out.contains("uid=") && !ran.out.contains("12345"), format!("ESCAPE: {tier:?}: {ran:?}"))?;
    }
    Ok(Outcome::Refused)
}
