//! Modes, owners, times and attributes, which Landlock doesn't restrict, and modes that pass on the user's rights.

use crate::bench::{A, Bench, NONE, both_tiers, in_tier};
use llm_do_sandbox::confine::Confinement;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

both_tiers!(nothing_about_a_file_outside_or_for_reading_can_be_changed, no_file_gets_the_rights_of_its_owner);

const CHANGE: &str = r#"
for name, path in (("outside", sys.argv[1]), ("readable", sys.argv[2]), ("program", "/usr/bin/env")):
    attempt("mode of " + name, lambda: os.chmod(path, 0o777))
    attempt("owner of " + name, lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt("times of " + name, lambda: os.utime(path, (1, 1)))
    attempt("attribute of " + name, lambda: os.setxattr(path, "user.x", b"1"))
    attempt("no attribute of " + name, lambda: os.removexattr(path, "user.there"))
    def opened():
        return os.open(path, os.O_RDONLY)
    attempt("mode by descriptor of " + name, lambda: os.fchmod(opened(), 0o777))
    attempt("times by descriptor of " + name, lambda: os.utime(opened(), (1, 1)))
    attempt("owner by descriptor of " + name, lambda: os.fchown(opened(), os.getuid(), os.getgid()))
    attempt("attribute by descriptor of " + name, lambda: os.setxattr(opened(), "user.x", b"1"))
    import fcntl, struct
    attempt("flags by descriptor of " + name, lambda: fcntl.ioctl(opened(), 0x40086602, struct.pack("l", 0x80)))
    attempt("new mode call of " + name, lambda: syscall(452, 452, -100, path.encode(), 0o777, 0) == "ok" or 1/0)
"#;

async fn nothing_about_a_file_outside_or_for_reading_can_be_changed(tier: Confinement) {
    let bench = Bench::new();
    let (outside, readable) = (bench.path("outside/canary.txt"), bench.path("project/ro/theirs.txt"));
    let before = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.mode(), found.uid(), found.mtime(), found.ctime_nsec())
    };
    let (was_outside, was_readable) = (before(&outside), before(&readable));
    let ran = bench.run(tier, CHANGE, &[&outside, &readable]).await;
    for of in ["outside", "readable", "program"] {
        for what in [
            "mode",
            "owner",
            "times",
            "attribute",
            "no attribute",
            "mode by descriptor",
            "times by descriptor",
            "owner by descriptor",
            "attribute by descriptor",
            "flags by descriptor",
            "new mode call",
        ] {
            ran.refused(&format!("{what} of {of}"));
        }
    }
    assert_eq!((before(&outside), before(&readable)), (was_outside, was_readable));
    // The same does change things where nothing holds it.
    let other = Bench::new();
    let (outside, readable) = (other.path("outside/canary.txt"), other.path("project/ro/theirs.txt"));
    let script = CHANGE.replace("/usr/bin/env", readable.to_str().unwrap());
    let free = other.run(NONE, &script, &[&outside, &readable]).await;
    for what in
        ["mode of outside", "times of outside", "mode by descriptor of readable", "new mode call of readable"]
    {
        free.succeeded(what);
    }
}

async fn no_file_gets_the_rights_of_its_owner(tier: Confinement) {
    let bench = Bench::new();
    let script = r##"
rw = sys.argv[1]
write(rw + "/tool", "#!/bin/sh")
for bits, name in ((0o4755, "user"), (0o2755, "group")):
    attempt(f"chmod {name}", lambda: os.chmod(rw + "/tool", bits))
    attempt(f"fchmod {name}", lambda: os.fchmod(os.open(rw + "/tool", os.O_RDWR), bits))
    attempt(f"open {name}", lambda: os.open(rw + "/opened" + name, os.O_CREAT | os.O_WRONLY, bits))
    attempt(f"mknod {name}", lambda: os.mknod(rw + "/made" + name, 0o100000 | bits))
    attempt(f"temporary {name}", lambda: os.open(rw, os.O_TMPFILE | os.O_RDWR, bits))
    attempt(f"fchmodat2 {name}", lambda: syscall(452, 452, -100, (rw + "/tool").encode(), bits, 0) == "ok" or 1/0)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, bits, 0)
    attempt(f"openat2 {name}", lambda: syscall(437, 437, -100, (rw + "/second").encode(), how, 24) == "ok" or 1/0)
"##;
    let ran = bench.run(tier, script, &[&bench.path("project/rw")]).await;
    for what in ["chmod", "fchmod", "open", "mknod", "temporary", "fchmodat2", "openat2"] {
        for whose in ["user", "group"] {
            ran.refused(&format!("{what} {whose}"));
        }
    }
    for entry in fs::read_dir(bench.path("project/rw")).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert!(entry.file_type().unwrap().is_dir() || mode & 0o6000 == 0, "{entry:?} has mode {mode:o}");
    }
}

/// Tools may set any modes and times in a writable mount, if namespaces confine them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_and_times_can_be_set_in_a_mount_for_writing() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        let script = "f = sys.argv[1] + '/mine.txt'\nattempt('mode', lambda: os.chmod(f, 0o700))\nattempt('times', lambda: os.utime(f, (1, 1)))\nimport shutil\nattempt('copy', lambda: shutil.copy2(f, f + '.copy'))";
        let ran = bench.run(tier, script, &[&bench.path("project/rw")]).await;
        for name in ["mode", "times", "copy"] {
            ran.succeeded(name);
        }
    })
    .await;
}
