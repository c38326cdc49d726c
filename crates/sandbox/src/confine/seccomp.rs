//! System calls that a confined process may not make. Calls that a tool legitimately needs are allowed. Calls that
//! reach into the kernel, into other processes or over a socket fail with `EPERM`. Calls newer than this file fail
//! with `ENOSYS`.

use super::plan::{Fault, Reach};
use libc::c_long;
use rustix::process::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// The newest system call that this file knows (`mseal`, Linux 6.10). Newer ones, such as attributes by path and new
/// ways to mount, fail with `ENOSYS`, which programs expect of an older kernel.
const NEWEST: u32 = 462;

/// Marks a call of the x32 convention, which has the same architecture number as 64-bit calls.
const X32: u32 = 0x4000_0000;

const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

/// The settings of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// The internet sockets that are allowed.
    pub(super) network: Reach,
    /// Landlock is the only barrier between the program and the machine's files and processes: tier B.
    pub(super) alone: bool,
    /// The program may send signals only to itself, because neither a namespace nor Landlock restricts them.
    pub(super) only_signals_itself: bool,
}

/// Applies the filter to this process and all that it starts. The last step before the program is executed.
pub(super) fn apply(filter: Filter, own: Pid) -> Result<(), Fault> {
    let fault = |error: seccompiler::Error| Fault::new("seccomp", error);
    let mut programs = vec![
        compile(absent(), libc::ENOSYS)?,
        compile(refused(filter, own), libc::EPERM)?,
        newer_or_foreign(),
    ];
    if filter.alone {
        programs.push(compile(without_attributes(), libc::EOPNOTSUPP)?);
    }
    for program in &programs {
        seccompiler::apply_filter(program).map_err(fault)?;
    }
    Ok(())
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, Fault> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| Fault::new("seccomp", error))?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
        .and_then(TryInto::try_into)
        .map_err(|error| Fault::new("seccomp", error))
}

/// Ends the process at a call of the x32 convention, and answers `ENOSYS` to calls that are newer than this file. The
/// other filters end the process at a call of a foreign architecture.
fn newer_or_foreign() -> BpfProgram {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_IF_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, 0), // `nr` of `struct seccomp_data`
        step(JUMP_IF_GREATER, 2, 0, X32 - 1),
        step(JUMP_IF_GREATER, 2, 0, NEWEST),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Dword, op, value).expect("no system call has more than six arguments")
}

fn all_of(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("a rule has at least one condition")
}

fn is(argument: u8, value: i32) -> SeccompCondition {
    when(argument, SeccompCmpOp::Eq, bits(value))
}

fn is_not(argument: u8, value: i32) -> SeccompCondition {
    when(argument, SeccompCmpOp::Ne, bits(value))
}

/// Returns a condition that holds if the bits of `mask` in the argument equal those of `value`.
fn has(argument: u8, mask: u32, value: u32) -> SeccompCondition {
    when(argument, SeccompCmpOp::MaskedEq(mask.into()), value.into())
}

/// Returns the lower 32 bits of an argument that is an `int`.
fn bits(value: i32) -> u64 {
    u64::from(u32::from_ne_bytes(value.to_ne_bytes()))
}

/// Returns the calls whose arguments are in memory, where a filter can't see them. They are answered as by an older
/// kernel, so that programs use the calls with arguments in registers.
fn absent() -> Rules {
    [libc::SYS_clone3, libc::SYS_openat2].into_iter().map(|call| (call, Vec::new())).collect()
}

/// Returns the calls that read extended attributes, which Landlock doesn't restrict: a process could read those of
/// every file on the machine. They are answered as by a file system that has none, which programs expect.
fn without_attributes() -> Rules {
    let calls = [
        libc::SYS_getxattr,
        libc::SYS_lgetxattr,
        libc::SYS_fgetxattr,
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
        libc::SYS_flistxattr,
    ];
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Calls that no confined program needs.
const NEVER: &[c_long] = &[
    // Into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The kernel makes the calls of a ring without asking the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts, roots, namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // `statmount`, `listmount`: the mounts of the machine.
    457,
    458,
    // Files by handle, without a path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_lookup_dcookie,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // `lsm_set_self_attr`.
    460,
    // Keys of the user.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Memory and messages that outlive a process, or that only a namespace separates.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// Calls that exist on this architecture only.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[c_long] = &[];

/// Calls with a mode argument that can make a file run with its owner's rights: the call and the argument's number.
const MODES: &[(c_long, u8)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (452 /* fchmodat2 */, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(c_long, u8)] = &[(libc::SYS_chmod, 1), (libc::SYS_mknod, 1), (libc::SYS_creat, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(c_long, u8)] = &[];

/// Changes of a file that Landlock doesn't restrict (as of its version 7).
const UNSEEN: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    452, // fchmodat2
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // Watches on files outside.
    libc::SYS_inotify_add_watch,
];
#[cfg(target_arch = "x86_64")]
const UNSEEN_HERE: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const UNSEEN_HERE: &[c_long] = &[];

/// Calls that change how another process runs, by its number in this argument; 0 is the caller.
const OTHERS: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Calls that send a signal, with the argument that names the receiver: a process, or the process of a thread.
const SIGNALS: &[(c_long, u8)] = &[
    (libc::SYS_kill, 0),
    (libc::SYS_tgkill, 0),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 0),
];

fn refused(filter: Filter, own: Pid) -> Rules {
    let mut rules = Rules::new();
    let mut always = |calls: &[c_long]| rules.extend(calls.iter().map(|&call| (call, Vec::new())));
    always(NEVER);
    always(NEVER_HERE);
    if filter.alone {
        always(UNSEEN);
        always(UNSEEN_HERE);
    }
    if filter.network == Reach::Nothing {
        always(&[libc::SYS_socket, libc::SYS_connect]);
    }
    if filter.network != Reach::Everything {
        always(&[libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4]);
    }
    if filter.only_signals_itself {
        always(&[libc::SYS_tkill, libc::SYS_pidfd_send_signal]);
    }
    let mut some = |call: c_long, which: Vec<SeccompRule>| {
        // A call without rules is refused with all arguments.
        match rules.get_mut(&call) {
            Some(already) if already.is_empty() => {}
            Some(already) => already.extend(which),
            None => {
                rules.insert(call, which);
            }
        }
    };

    // Without a network all of them are refused above.
    let types: &[i32] = match filter.network {
        Reach::Everything => &[libc::SOCK_STREAM, libc::SOCK_DGRAM],
        Reach::Proxy | Reach::Nothing => &[libc::SOCK_STREAM],
    };
    let foreign = all_of(vec![is_not(0, libc::AF_INET), is_not(0, libc::AF_INET6)]);
    some(libc::SYS_socket, vec![foreign, other_types(types)]);
    if filter.network == Reach::Proxy {
        // The proxy speaks TCP. Landlock doesn't restrict other stream protocols, such as MPTCP.
        some(libc::SYS_socket, vec![all_of(vec![is_not(2, 0), is_not(2, libc::IPPROTO_TCP)])]);
    }
    // A datagram socket of a pair could be connected to any named socket.
    let foreign = all_of(vec![is_not(0, libc::AF_UNIX)]);
    some(libc::SYS_socketpair, vec![foreign, other_types(&[libc::SOCK_STREAM])]);

    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        let flag = flag.unsigned_abs();
        some(libc::SYS_clone, vec![all_of(vec![has(0, flag, flag)])]);
    }

    // Input that is pushed into a terminal reaches its next reader.
    let ioctls: [u64; 5] = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCCONS, libc::TIOCSETD, libc::TIOCSCTTY];
    for request in ioctls {
        some(libc::SYS_ioctl, vec![all_of(vec![when(1, SeccompCmpOp::Eq, request)])]);
    }

    if filter.alone {
        // Some requests set attributes through a file that is open for reading only. Programs need those of terminals
        // (0x54..) and sockets (0x89..).
        let between =
            |low, high| all_of(vec![when(1, SeccompCmpOp::Gt, low), when(1, SeccompCmpOp::Lt, high)]);
        let below = all_of(vec![when(1, SeccompCmpOp::Lt, 0x5400)]);
        let above = all_of(vec![when(1, SeccompCmpOp::Gt, 0x89ff)]);
        some(libc::SYS_ioctl, vec![below, between(0x54ff, 0x8900), above]);
    }

    // The call may ask for the personality, and choose the one that the process has.
    let personality = [0, 0xffff_ffff_u64];
    let other = personality.iter().map(|&known| when(0, SeccompCmpOp::Ne, known)).collect();
    some(libc::SYS_personality, vec![all_of(other)]);

    for &(call, argument) in [MODES, MODES_HERE].into_iter().flatten() {
        some(call, vec![set_id(argument, libc::S_ISUID), set_id(argument, libc::S_ISGID)]);
    }
    let create = libc::O_CREAT.unsigned_abs();
    let tmpfile = libc::O_TMPFILE.unsigned_abs();
    for bit in [libc::S_ISUID, libc::S_ISGID] {
        for making in [create, tmpfile] {
            #[cfg(target_arch = "x86_64")]
            some(libc::SYS_open, vec![all_of(vec![has(1, making, making), has(2, bit, bit)])]);
            some(libc::SYS_openat, vec![all_of(vec![has(2, making, making), has(3, bit, bit)])]);
        }
    }

    for &(call, argument) in OTHERS {
        some(call, vec![all_of(vec![is_not(argument, 0), is_not(argument, own.as_raw_nonzero().get())])]);
    }
    // The processes of a group or a user.
    some(libc::SYS_setpriority, vec![all_of(vec![is_not(0, 0)])]);
    some(libc::SYS_ioprio_set, vec![all_of(vec![is_not(0, 1)])]);

    // A lease on a file that it may only read would delay every writer of the file; `F_NOTIFY` is an older `inotify`.
    for command in [libc::F_SETLEASE, libc::F_NOTIFY] {
        some(libc::SYS_fcntl, vec![all_of(vec![is(1, command)])]);
    }

    if filter.only_signals_itself {
        for &(call, argument) in SIGNALS {
            some(call, vec![all_of(vec![is_not(argument, own.as_raw_nonzero().get())])]);
        }
        // A file that becomes ready sends a signal too.
        for command in [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG] {
            some(libc::SYS_fcntl, vec![all_of(vec![is(1, command)])]);
        }
    }
    rules
}

/// Refuses sockets of all types but these, with or without flags.
fn other_types(allowed: &[i32]) -> SeccompRule {
    let with_flags = |kind: &i32| {
        let (close, block) = (libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK);
        [*kind, kind | close, kind | block, kind | close | block]
    };
    all_of(allowed.iter().flat_map(with_flags).map(|kind| is_not(1, kind)).collect())
}

fn set_id(argument: u8, bit: u32) -> SeccompRule {
    all_of(vec![has(argument, bit, bit)])
}
