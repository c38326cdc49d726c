//! Attacks on the kernel: namespaces, rings, tracing, modules, keys, foreign calls, programs that run as another
//! user.

use crate::bench::{Bench, NONE, both_tiers, run, shell};
use llm_do_sandbox::confine::Confinement;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

both_tiers!(
    no_namespace_can_be_made,
    calls_that_reach_into_the_kernel_are_refused,
    a_foreign_convention_is_killed,
    a_program_that_would_run_as_another_user_does_not,
    there_are_no_capabilities,
    the_filter_cannot_be_taken_off,
);

async fn no_namespace_can_be_made(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
def done(result):
    return result if result == "ok" else 1/0
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000, uts=0x4000000,
                       cgroup=0x2000000, time=0x80).items():
    attempt("unshare " + name, lambda: done(syscall(272, 97, flag)))
    if name != "time":
        def clone():
            result = libc.syscall(ctypes.c_long(220 if ARM else 56), ctypes.c_long(flag | 17), None, None, None, None)
            if result == 0:
                os._exit(0)
            return result > 0 or 1/0
        attempt("clone " + name, clone)
args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
def clone3():
    result = libc.syscall(ctypes.c_long(435), args, ctypes.c_long(88))
    if result == 0:
        os._exit(0)
    return result > 0 or 1/0
attempt("clone3", clone3)
attempt("setns", lambda: done(syscall(308, 268, os.open("/proc/self/ns/user", os.O_RDONLY), 0)))
attempt("setns by process", lambda: done(syscall(308, 268, os.pidfd_open(os.getpid()), 0x20000)))
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"] {
        ran.refused(&format!("unshare {name}"));
        ran.refused(&format!("clone {name}"));
    }
    for name in ["unshare time", "clone3", "setns", "setns by process"] {
        ran.refused(name);
    }
}

async fn calls_that_reach_into_the_kernel_are_refused(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
calls = dict(
    io_uring_setup=(425, 425), io_uring_enter=(426, 426), io_uring_register=(427, 427), ptrace=(101, 117),
    process_vm_readv=(310, 270), process_vm_writev=(311, 271), process_madvise=(440, 440), kexec_load=(246, 104),
    kexec_file_load=(320, 294), mount=(165, 40), umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51),
    open_tree=(428, 428), move_mount=(429, 429), fsopen=(430, 430), fsconfig=(431, 431), fsmount=(432, 432),
    fspick=(433, 433), mount_setattr=(442, 442), statmount=(457, 457), listmount=(458, 458),
    open_tree_attr=(467, 467), bpf=(321, 280), perf_event_open=(298, 241), userfaultfd=(323, 282), add_key=(248, 217),
    request_key=(249, 218), keyctl=(250, 219), open_by_handle_at=(304, 265), name_to_handle_at=(303, 264),
    fanotify_init=(300, 262), quotactl=(179, 60), quotactl_fd=(443, 443), swapon=(167, 224), swapoff=(168, 225),
    reboot=(169, 142), init_module=(175, 105), finit_module=(313, 273), delete_module=(176, 106),
    pidfd_getfd=(438, 438), kcmp=(312, 272), acct=(163, 89), syslog=(103, 116), settimeofday=(164, 170),
    clock_settime=(227, 112), adjtimex=(159, 171), sethostname=(170, 161), setdomainname=(171, 162),
    shmget=(29, 194), msgget=(68, 186), semget=(64, 190), mq_open=(240, 180), move_pages=(279, 239),
    migrate_pages=(256, 238), iopl=(172, None), ioperm=(173, None), modify_ldt=(154, None), openat2=(437, 437),
    clone3=(435, 435), setxattrat=(463, 463), file_setattr=(469, 469), lsm_set_self_attr=(460, 460), far=(9999, 9999),
)
# Unconfined only those that do nothing without arguments.
harmless = sys.argv[1:] or calls
for name in harmless:
    x86, arm = calls[name]
    attempt(name, lambda: syscall(x86, arm, 0, 0, 0, 0, 0) in ("EPERM", "ENOSYS") and 1/0)
attempt("personality", lambda: not sys.argv[1:] and syscall(135, 92, 0x40000) == "ok" or 1/0)
attempt("personality asked", lambda: syscall(135, 92, 0xffffffff))
print("names: ok", *calls)
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ran.of("names").split(' ').skip(1) {
        assert!(ran.of(name).starts_with("ZeroDivisionError"), "{name} is let through: {ran:?}");
    }
    ran.refused("personality");
    assert_eq!(ran.of("personality asked"), "ok ok");
    // The kernel has its say on some of them where nothing is filtered.
    let harmless = ["io_uring_setup", "process_vm_readv", "shmget", "openat2"];
    let free = bench.run(NONE, script, &harmless.map(Path::new)).await;
    for name in harmless {
        free.succeeded(name);
    }
}

async fn a_foreign_convention_is_killed(tier: Confinement) {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let bench = Bench::new();
    // getpid by the x32 convention, and by the one of 32 bit from machine code.
    let x32 = bench.run(tier, "syscall(0x40000000 + 39, None)", &[]).await;
    assert_eq!(x32.exit.signal, Some(31), "{x32:?}");
    let script = r#"
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("foreign: ok", call())
"#;
    let free = bench.run(NONE, script, &[]).await;
    let ran = bench.run(tier, script, &[]).await;
    assert!(!ran.out.contains("foreign"), "{ran:?}");
    if free.out.contains("foreign: ok") {
        assert_eq!(ran.exit.signal, Some(31), "{ran:?}");
    }
}

async fn a_program_that_would_run_as_another_user_does_not(tier: Confinement) {
    let bench = Bench::new();
    let copy = bench.path("project/ro/id");
    fs::copy("/usr/bin/id", &copy).unwrap();
    // As root: give it to somebody else, so that a change of user would be seen. Else the machine's own must do.
    let given_away = std::os::unix::fs::chown(&copy, Some(12345), Some(12345)).is_ok();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755)).unwrap();
    let free = Command::new(&copy).output().unwrap();
    if given_away {
        let said = String::from_utf8_lossy(&free.stdout).into_owned();
        assert!(said.contains("12345"), "the program does not change its user at all: {said}");
    }
    let ran =
        run(shell(bench.view(tier), tier, &format!("{}; grep -c . /dev/null; su -c id", copy.display())))
            .await;
    assert!(ran.out.contains("uid="), "{ran:?}");
    assert!(!ran.out.contains("12345") && ran.out.matches("uid=").count() == 1, "{ran:?}");
}

async fn there_are_no_capabilities(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
header, data = Header(0x20080522, 0), (ctypes.c_uint32 * 6)()
print("capget: ok", syscall(125, 90, ctypes.byref(header), data), *data)
print("privileges: ok", libc.prctl(39, 0, 0, 0, 0))
full = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
attempt("capset", lambda: syscall(126, 91, ctypes.byref(header), full) == "ok" or 1/0)
attempt("setuid", lambda: os.setuid(1))
attempt("setgroups", lambda: os.setgroups([1]))
attempt("nice", lambda: os.nice(-1))
"#;
    let ran = bench.run(tier, script, &[]).await;
    assert_eq!(ran.of("capget"), "ok ok 0 0 0 0 0 0");
    assert_eq!(ran.of("privileges"), "ok 1");
    for name in ["capset", "setuid", "setgroups", "nice"] {
        ran.refused(name);
    }
}

async fn the_filter_cannot_be_taken_off(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import subprocess
print("mode: ok", libc.prctl(21, 0, 0, 0, 0))
# A child, and what it executes, are held as well.
code = "import socket\ntry:\n socket.socket()\n print('free')\nexcept OSError as e:\n print('held', e.errno)"
print("child: ok", subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True).stdout)
"#;
    let ran = bench.run(tier, script, &[]).await;
    assert_eq!(ran.of("mode"), "ok 2");
    assert_eq!(ran.of("child"), "ok held 1", "{ran:?}");
}
