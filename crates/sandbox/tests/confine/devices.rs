//! Device nodes: only those without data of users are available.

use crate::bench::{B, Bench, both_tiers};
use llm_do_sandbox::confine::Confinement;

both_tiers!(only_harmless_devices_can_be_opened, no_device_can_be_made, no_terminal_is_pushed_input);

async fn only_harmless_devices_can_be_opened(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
for name in ("null", "zero", "full", "random", "urandom"):
    attempt(name, lambda: os.open("/dev/" + name, os.O_RDWR if name == "null" else os.O_RDONLY))
for name in ("tty", "console", "kmsg", "mem", "port", "ptmx", "pts/0", "fuse", "kvm", "vda", "sda", "nvme0n1", "loop0",
             "net/tun", "loop-control", "mapper/control", "uinput", "vhost-net", "tty0", "ttyS0", "hpet", "btrfs-control"):
    attempt(name, lambda: os.open("/dev/" + name, os.O_RDONLY))
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ["null", "zero", "full", "random", "urandom"] {
        ran.succeeded(name);
    }
    for name in [
        "tty",
        "console",
        "kmsg",
        "mem",
        "port",
        "ptmx",
        "pts/0",
        "fuse",
        "kvm",
        "vda",
        "sda",
        "nvme0n1",
        "loop0",
        "net/tun",
        "loop-control",
        "mapper/control",
        "uinput",
        "vhost-net",
        "tty0",
        "ttyS0",
        "hpet",
        "btrfs-control",
    ] {
        ran.refused(name);
    }
}

async fn no_device_can_be_made(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
for where, folder in (("mount", sys.argv[1]), ("temporary", os.environ["TMPDIR"])):
    attempt("memory in " + where, lambda: os.mknod(folder + "/mem", 0o020600, os.makedev(1, 1)))
    attempt("disk in " + where, lambda: os.mknod(folder + "/disk", 0o060600, os.makedev(254, 0)))
# Others would wait at these.
attempt("fifo", lambda: os.mkfifo(sys.argv[1] + "/fifo"))
attempt("socket", lambda: os.mknod(sys.argv[1] + "/socket", 0o140600))
attempt("own fifo", lambda: os.mkfifo(os.environ["TMPDIR"] + "/fifo"))
"#;
    let ran = bench.run(tier, script, &[&bench.path("project/rw")]).await;
    for name in ["memory in mount", "disk in mount", "memory in temporary", "disk in temporary"] {
        ran.refused(name);
    }
    ran.refused("fifo");
    ran.refused("socket");
    // Where the tests themselves lie below the temporary folder, nothing may be allowed in that but in them.
    if tier == B || bench.in_temporary().is_none() {
        ran.succeeded("own fifo");
    } else {
        ran.refused("own fifo");
    }
}

async fn no_terminal_is_pushed_input(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import fcntl
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541c), ("TIOCCONS", 0x541d), ("TIOCSETD", 0x5423)):
    attempt(name, lambda: fcntl.ioctl(0, request, b"x"))
    # The kernel looks at the low half alone.
    attempt(name + " high", lambda: syscall(16, 29, 0, request | 1 << 32, b"x") == "EPERM" and 1/0)
attempt("size", lambda: fcntl.ioctl(1, 0x5413, bytes(8)))
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ["TIOCSTI", "TIOCLINUX", "TIOCCONS", "TIOCSETD"] {
        assert_eq!(ran.of(name), "EPERM", "{ran:?}");
        ran.refused(&format!("{name} high"));
    }
    assert_eq!(ran.of("size"), "ENOTTY", "an ordinary question is answered as ever: {ran:?}");
}
