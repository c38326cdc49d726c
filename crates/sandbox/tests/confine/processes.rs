//! Other processes: their memory, their environment, signals to them, and the files that describe them.

use crate::bench::{A, Bench, NONE, both_tiers, run, shell};
use llm_do_sandbox::confine::{Confinement, ProcessView};
use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

both_tiers!(
    no_environment_of_another_process_can_be_read,
    no_other_process_is_touched,
    no_supervisor_is_touched,
    nothing_is_inherited_but_what_is_given,
);

/// A process of ours that does no harm and that others may try to harm.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Self {
        // Of a process group of its own, for what is done to whole groups.
        let mut command = Command::new("sleep");
        command.arg("1000").env("VICTIM_KEY", "hunter2").process_group(0);
        let victim = Self(command.spawn().unwrap());
        // Between fork and exec it may still show our environment.
        let environment = format!("/proc/{}/environ", victim.0.id());
        while !fs::read(&environment).unwrap().windows(7).any(|bytes| bytes == b"hunter2") {
            std::thread::yield_now();
        }
        victim
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn no_environment_of_another_process_can_be_read(tier: Confinement) {
    let bench = Bench::new();
    let victim = Victim::new();
    let pid = victim.0.id().to_string();
    let script = r#"
pid = sys.argv[1]
def found():
    seen = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                seen.append(read(f"/proc/{entry}/environ"))
            except OSError:
                pass
    return b"hunter2" in b"".join(seen) or 1/0
if len(sys.argv) > 2:
    attempt("search", found)
attempt("environ", lambda: b"hunter2" in read(f"/proc/{pid}/environ") or 1/0)
attempt("cmdline", lambda: b"sleep" in read(f"/proc/{pid}/cmdline") or 1/0)
attempt("first", lambda: read("/proc/1/environ"))
attempt("memory", lambda: open("/proc/1/mem", "r+b"))
attempt("descriptors", lambda: os.readlink("/proc/1/fd/0"))
attempt("through a descriptor", lambda: os.open("/proc/1/fd/4", os.O_RDWR))
attempt("parent", lambda: read(f"/proc/{os.getppid()}/environ"))
"#;
    let free = bench.run(NONE, script, &[Path::new(&pid)]).await;
    free.succeeded("environ");
    let ran = bench.run(tier, script, &[Path::new(&pid), Path::new("all")]).await;
    for name in
        ["search", "environ", "cmdline", "first", "memory", "descriptors", "through a descriptor", "parent"]
    {
        ran.refused(name);
    }
}

const TOUCH: &str = r#"
import signal, resource
pid = int(sys.argv[1])
word = ctypes.create_string_buffer(8)
iov = (ctypes.c_ulong * 2)(ctypes.addressof(word), 8)
far = (ctypes.c_ulong * 2)(0x1000, 8)
def done(result):
    return result if result == "ok" else 1/0
def rights(pid):
    return resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
attempt("probe", lambda: os.kill(pid, 0))
attempt("stop", lambda: os.kill(pid, signal.SIGSTOP))
attempt("go on", lambda: os.kill(pid, signal.SIGCONT))
attempt("thread", lambda: done(syscall(234, 131, pid, pid, 0)))
attempt("old thread", lambda: done(syscall(200, 130, pid, 0)))
attempt("queue", lambda: done(syscall(129, 138, pid, 0, ctypes.create_string_buffer(128))))
attempt("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))
attempt("take", lambda: done(syscall(438, 438, os.pidfd_open(pid), 0, 0)))
attempt("attach", lambda: done(syscall(101, 117, 16, pid, 0, 0)))
attempt("seize", lambda: done(syscall(101, 117, 0x4206, pid, 0, 0)))
attempt("read", lambda: done(syscall(310, 270, pid, iov, 1, far, 1, 0)))
attempt("write", lambda: done(syscall(311, 271, pid, iov, 1, far, 1, 0)))
attempt("compare", lambda: done(syscall(312, 272, pid, pid, 0, 0, 0)))
attempt("limits", lambda: rights(pid))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("whole group", lambda: os.setpriority(os.PRIO_PGRP, pid, 19))
attempt("processors", lambda: os.sched_setaffinity(pid, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
attempt("files first", lambda: done(syscall(251, 30, 1, pid, 3 << 13)))
attempt("trace me", lambda: done(syscall(101, 117, 0, 0, 0, 0)))
"#;

async fn no_other_process_is_touched(tier: Confinement) {
    let bench = Bench::new();
    let victim = Victim::new();
    let pid = victim.0.id().to_string();
    let free = bench.run(NONE, TOUCH, &[Path::new(&pid)]).await;
    for name in [
        "probe",
        "thread",
        "old thread",
        "pidfd",
        "limits",
        "priority",
        "whole group",
        "processors",
        "scheduler",
    ] {
        free.succeeded(name);
    }
    let victim = Victim::new();
    let pid = victim.0.id().to_string();
    let ran = bench.run(tier, TOUCH, &[Path::new(&pid)]).await;
    for name in [
        "probe",
        "stop",
        "go on",
        "thread",
        "old thread",
        "queue",
        "pidfd",
        "take",
        "attach",
        "seize",
        "read",
        "write",
        "compare",
        "limits",
        "priority",
        "whole group",
        "processors",
        "scheduler",
        "files first",
        "trace me",
    ] {
        ran.refused(name);
    }
}

async fn no_supervisor_is_touched(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import signal
for name, pid in (("parent", os.getppid()), ("first", 1)):
    # In its namespace signals do reach the first process, which the kernel then spares.
    attempt("kill " + name, lambda: os.kill(pid, signal.SIGKILL))
    attempt("terminate " + name, lambda: os.kill(pid, signal.SIGTERM))
    attempt("attach " + name, lambda: syscall(101, 117, 16, pid, 0, 0) == "ok" or 1/0)
    attempt("memory " + name, lambda: open(f"/proc/{pid}/mem", "r+b"))
attempt("everybody", lambda: os.kill(-1, signal.SIGURG))
print("alive: ok", flush=True)
raise SystemExit(23)
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ["attach parent", "memory parent", "attach first", "memory first"] {
        ran.refused(name);
    }
    ran.succeeded("alive");
    assert_eq!(ran.exit.code, Some(23), "the supervisor did not live to tell: {ran:?}");
    if tier != A {
        ran.refused("kill parent");
    }
}

async fn nothing_is_inherited_but_what_is_given(tier: Confinement) {
    // Safe or not, a test can't set variables of its own process; cargo and the shell have set plenty.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let mut process = shell(ProcessView::empty(), tier, "env | sort; echo; umask; ulimit -c");
    process.env.push(("GIVEN".into(), "by the test".into()));
    let ran = run(process).await;
    let names: Vec<&str> = ran
        .out
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split('=').next())
        .collect();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "PATH", "PWD", "TERM", "TMPDIR"], "{ran:?}");
    assert!(ran.out.ends_with("\n0\n"), "core dumps are on: {ran:?}");
}
