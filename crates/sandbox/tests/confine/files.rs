//! Files outside of the view, or in it and not for writing.

use crate::bench::{A, B, Bench, CANARY, NONE, both_tiers, in_tier, python, run};
use llm_do_sandbox::confine::Confinement;
use std::{fs, os::unix::fs::symlink, path::Path};

both_tiers!(
    nothing_outside_the_view_can_be_read,
    nothing_outside_the_view_can_be_written,
    what_is_given_can_be_used,
    a_mount_for_reading_cannot_be_changed,
    no_link_leads_out_of_a_mount,
    no_hard_link_brings_a_file_into_a_mount,
    the_temporary_folder_is_private_and_gone_afterwards,
    however_deep_the_temporary_folder_is_it_is_gone,
);

async fn nothing_outside_the_view_can_be_read(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import glob
secret = sys.argv[1]
attempt("secret", lambda: read(secret))
attempt("dots", lambda: read(sys.argv[2] + "/../../outside/canary.txt"))
attempt("listing", lambda: os.listdir(os.path.dirname(secret)))
attempt("home", lambda: [name for name in os.listdir("/root") if name != ".pyenv"][0])
attempt("homes", lambda: os.listdir("/home"))
attempt("shadow", lambda: read("/etc/shadow"))
attempt("machine", lambda: read("/etc/machine-id"))
attempt("hostname", lambda: read("/etc/hostname"))
attempt("var", lambda: os.listdir("/var/log"))
attempt("run", lambda: os.listdir("/run"))
attempt("sys", lambda: os.listdir("/sys"))
attempt("cwd", lambda: read("/proc/self/root" + secret))
attempt("thread", lambda: read("/proc/thread-self/root" + secret))
attempt("initial", lambda: read("/proc/1/root" + secret))
attempt("old root", lambda: read("/proc/1/cwd" + secret))
"#;
    let secret = bench.path("outside/canary.txt");
    let rw = bench.path("project/rw");
    let free = bench.run(NONE, script, &[&secret, &rw]).await;
    free.succeeded("secret");
    free.succeeded("dots");
    let ran = bench.run(tier, script, &[&secret, &rw]).await;
    for name in [
        "secret", "dots", "listing", "home", "homes", "shadow", "machine", "hostname", "var", "run", "sys",
        "cwd", "thread", "initial", "old root",
    ] {
        ran.refused(name);
    }
    assert!(!ran.out.contains(CANARY), "{ran:?}");
}

async fn nothing_outside_the_view_can_be_written(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
outside = sys.argv[1]
attempt("change", lambda: write(outside + "/canary.txt"))
attempt("append", lambda: write(outside + "/canary.txt", how="a"))
attempt("truncate", lambda: os.truncate(outside + "/canary.txt", 0))
attempt("truncate by opening", lambda: os.open(outside + "/canary.txt", os.O_RDONLY | os.O_TRUNC))
attempt("make", lambda: write(outside + "/new.txt"))
attempt("folder", lambda: os.mkdir(outside + "/new"))
attempt("link", lambda: os.symlink("/", outside + "/link"))
attempt("fifo", lambda: os.mkfifo(outside + "/fifo"))
attempt("remove", lambda: os.unlink(outside + "/canary.txt"))
attempt("rename", lambda: os.rename(outside + "/canary.txt", outside + "/other.txt"))
attempt("remove folder", lambda: os.rmdir(outside))
attempt("usr", lambda: write("/usr/new"))
attempt("root", lambda: write("/new"))
attempt("etc", lambda: write("/etc/passwd", how="a"))
attempt("sysctl", lambda: write("/proc/sys/kernel/core_pattern", "|/bin/sh"))
attempt("own", lambda: write("/proc/self/oom_score_adj", "-1000"))
attempt("dev", lambda: write("/dev/new"))
"#;
    let outside = bench.path("outside");
    let ran = bench.run(tier, script, &[&outside]).await;
    for name in [
        "change",
        "append",
        "truncate",
        "truncate by opening",
        "make",
        "folder",
        "link",
        "fifo",
        "remove",
        "rename",
        "remove folder",
        "usr",
        "root",
        "etc",
        "sysctl",
        "own",
        "dev",
    ] {
        ran.refused(name);
    }
    assert_eq!(bench.read("outside/canary.txt"), CANARY);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
    assert!(!Path::new("/usr/new").exists() && !Path::new("/new").exists());
}

async fn what_is_given_can_be_used(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
rw, ro = sys.argv[1:]
attempt("read", lambda: read(ro + "/theirs.txt"))
attempt("list", lambda: sorted(os.listdir(ro)))
attempt("change", lambda: write(rw + "/mine.txt", "changed"))
attempt("make", lambda: write(rw + "/inner/new.txt", "new"))
attempt("folder", lambda: os.makedirs(rw + "/a/b"))
attempt("rename", lambda: os.rename(rw + "/inner/new.txt", rw + "/a/b/moved.txt"))
attempt("link", lambda: os.symlink("mine.txt", rw + "/link"))
attempt("through link", lambda: read(rw + "/link"))
attempt("remove", lambda: os.unlink(rw + "/link"))
attempt("null", lambda: write("/dev/null"))
attempt("random", lambda: len(read("/dev/urandom")))
attempt("temporary", lambda: write(os.environ["TMPDIR"] + "/x"))
attempt("home", lambda: os.path.expanduser("~") == os.environ["TMPDIR"] or 1/0)
import subprocess, tempfile, threading
attempt("child", lambda: subprocess.run(["sh", "-c", "echo from a child"], check=True, capture_output=True).stdout)
attempt("tempfile", lambda: tempfile.NamedTemporaryFile().write(b"x"))
attempt("thread", lambda: threading.Thread(target=print).start())
import asyncio
async def wait(): await asyncio.sleep(0)
attempt("event loop", lambda: asyncio.run(wait()))
import multiprocessing
attempt("semaphore", lambda: multiprocessing.get_context("spawn").Lock().acquire())
"#;
    let ran = bench.run(tier, script, &[&bench.path("project/rw"), &bench.path("project/ro")]).await;
    for name in [
        "read",
        "list",
        "change",
        "make",
        "folder",
        "rename",
        "link",
        "through link",
        "remove",
        "null",
        "random",
        "temporary",
        "home",
        "child",
        "tempfile",
        "thread",
        "event loop",
    ] {
        ran.succeeded(name);
    }
    if tier == A {
        ran.succeeded("semaphore");
    }
    assert_eq!(bench.read("project/rw/mine.txt"), "changed");
    assert_eq!(bench.read("project/rw/a/b/moved.txt"), "new");
    assert_eq!(ran.exit.code, Some(0), "{ran:?}");
}

async fn a_mount_for_reading_cannot_be_changed(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
ro, rw = sys.argv[1:]
attempt("change", lambda: write(ro + "/theirs.txt"))
attempt("truncate", lambda: os.truncate(ro + "/theirs.txt", 0))
attempt("truncate by opening", lambda: os.open(ro + "/theirs.txt", os.O_RDONLY | os.O_TRUNC))
attempt("make", lambda: write(ro + "/inner/new.txt"))
attempt("remove", lambda: os.unlink(ro + "/theirs.txt"))
attempt("move out", lambda: os.rename(ro + "/theirs.txt", rw + "/taken.txt"))
attempt("move in", lambda: os.rename(rw + "/mine.txt", ro + "/put.txt"))
attempt("move over", lambda: os.rename(rw + "/mine.txt", ro + "/theirs.txt"))
attempt("link in", lambda: os.link(rw + "/mine.txt", ro + "/linked.txt"))
attempt("by descriptor", lambda: write(f"/proc/self/fd/{os.open(ro + '/theirs.txt', os.O_RDONLY)}"))
os.symlink(ro + "/theirs.txt", rw + "/link")
attempt("through a link", lambda: write(rw + "/link"))
"#;
    let ran = bench.run(tier, script, &[&bench.path("project/ro"), &bench.path("project/rw")]).await;
    for name in [
        "change",
        "truncate",
        "truncate by opening",
        "make",
        "remove",
        "move out",
        "move in",
        "move over",
        "link in",
        "by descriptor",
        "through a link",
    ] {
        ran.refused(name);
    }
    assert_eq!(bench.read("project/ro/theirs.txt"), "to be read");
    assert_eq!(bench.read("project/rw/mine.txt"), "to be changed");
}

async fn no_link_leads_out_of_a_mount(tier: Confinement) {
    let bench = Bench::new();
    symlink(bench.path("outside"), bench.path("project/rw/folder")).unwrap();
    symlink(bench.path("outside/canary.txt"), bench.path("project/ro/file")).unwrap();
    symlink("../../outside/canary.txt", bench.path("project/rw/relative")).unwrap();
    let script = r#"
rw, ro, outside = sys.argv[1:]
attempt("folder", lambda: read(rw + "/folder/canary.txt"))
attempt("file", lambda: read(ro + "/file"))
attempt("relative", lambda: read(rw + "/relative"))
attempt("write", lambda: write(rw + "/folder/new.txt"))
os.symlink(outside, rw + "/own")
attempt("own", lambda: read(rw + "/own/canary.txt"))
os.symlink("/proc/1/root", rw + "/magic")
attempt("magic", lambda: read(rw + "/magic" + outside + "/canary.txt"))
"#;
    let (rw, ro, outside) = (bench.path("project/rw"), bench.path("project/ro"), bench.path("outside"));
    let ran = bench.run(tier, script, &[&rw, &ro, &outside]).await;
    for name in ["folder", "file", "relative", "write", "own", "magic"] {
        ran.refused(name);
    }
    assert!(!ran.out.contains(CANARY) && !bench.path("outside/new.txt").exists());
}

async fn no_hard_link_brings_a_file_into_a_mount(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
rw, ro, secret = sys.argv[1:]
attempt("secret", lambda: os.link(secret, rw + "/secret"))
attempt("readable", lambda: os.link(ro + "/theirs.txt", rw + "/theirs"))
attempt("program", lambda: os.link("/usr/bin/env", rw + "/env"))
attempt("by descriptor", lambda: os.link(f"/proc/self/fd/{os.open(ro + '/theirs.txt', os.O_RDONLY)}", rw + "/fd", follow_symlinks=True))
"#;
    let (rw, ro, secret) =
        (bench.path("project/rw"), bench.path("project/ro"), bench.path("outside/canary.txt"));
    let ran = bench.run(tier, script, &[&rw, &ro, &secret]).await;
    for name in ["secret", "readable", "program", "by descriptor"] {
        ran.refused(name);
    }
}

async fn the_temporary_folder_is_private_and_gone_afterwards(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
here = os.environ["TMPDIR"]
write(here + "/left", "behind")
os.mkdir(here + "/closed"); write(here + "/closed/x")
print("here: ok", here)
print("others: ok", sorted(set(os.listdir(here)) - set(sys.argv[1:])))
"#;
    // The folders above the tests' own folder are seen, where it lies in the machine's temporary folder.
    let above: Vec<String> = bench.in_temporary().into_iter().collect();
    let above: Vec<&Path> = above.iter().map(Path::new).collect();
    let ran = bench.run(tier, script, &above).await;
    assert_eq!(ran.of("others"), "ok ['closed', 'left']");
    let here = Path::new(ran.of("here").strip_prefix("ok ").unwrap());
    assert!(!here.join("left").exists() && !here.join("closed").exists());
    // A second process doesn't find what the first left.
    let script = "attempt('left', lambda: sorted(set(os.listdir(os.environ['TMPDIR'])) - set(sys.argv[1:])))";
    let again = bench.run(tier, script, &above).await;
    assert_eq!(again.of("left"), "ok []");
}

async fn however_deep_the_temporary_folder_is_it_is_gone(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
here = os.environ["TMPDIR"]
os.chdir(here)
for _ in range(3000):
    os.mkdir("d")
    open("file", "w").close()
    os.symlink(sys.argv[1], "link")
    os.chdir("d")
os.mkdir("closed", 0)
print("here: ok", here)
"#;
    let ran = bench.run(tier, script, &[&bench.path("outside")]).await;
    let here = ran.of("here").strip_prefix("ok ").unwrap();
    assert!(here == "/tmp" || !Path::new(here).exists(), "{here} is left");
    assert_eq!(bench.read("outside/canary.txt"), CANARY);
}

/// The program's definitions and secrets lie inside a folder that is given whole. Only namespaces support that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protected_and_invisible_names_are_masked() {
    in_tier(A, masked).await;
}

async fn masked(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
p = sys.argv[1]
attempt("plan", lambda: write(p + "/plan.md", "changed"))
attempt("env", lambda: read(p + "/.env").decode() or 1/0)
attempt("env size", lambda: os.stat(p + "/.env").st_size or 1/0)
attempt("journal", lambda: read(p + "/.llm-do/journal"))
attempt("journals", lambda: os.listdir(p + "/.llm-do")[0])
attempt("worker", lambda: read(p + "/main.worker"))
attempt("config", lambda: read(p + "/.git/config"))
for name, path in (("env", "/.env"), ("worker", "/main.worker"), ("config", "/.git/config")):
    attempt("write " + name, lambda: write(p + path))
    attempt("remove " + name, lambda: os.unlink(p + path))
    attempt("rename " + name, lambda: os.rename(p + path, p + "/other"))
    attempt("over " + name, lambda: os.rename(p + "/plan.md", p + path))
    attempt("link " + name, lambda: os.link(p + path, p + "/linked"))
    attempt("mode " + name, lambda: os.chmod(p + path, 0o777))
attempt("hook", lambda: (os.mkdir(p + "/.git/hooks"), write(p + "/.git/hooks/post-commit")))
attempt("rename git", lambda: os.rename(p + "/.git", p + "/git"))
attempt("remove journals", lambda: os.rmdir(p + "/.llm-do"))
attempt("into journals", lambda: write(p + "/.llm-do/new"))
"#;
    let project = bench.path("project");
    let ran = run(python(bench.whole(tier), tier, script, &[&project])).await;
    for name in ["plan", "worker", "config"] {
        ran.succeeded(name);
    }
    for name in
        ["env", "env size", "journal", "journals", "hook", "rename git", "remove journals", "into journals"]
    {
        ran.refused(name);
    }
    for name in ["env", "worker", "config"] {
        for what in ["write", "remove", "rename", "over", "link", "mode"] {
            ran.refused(&format!("{what} {name}"));
        }
    }
    assert!(!ran.out.contains(CANARY), "{ran:?}");
    assert_eq!(bench.read("project/.env"), CANARY);
    assert!(bench.read("project/main.worker").contains("Protected"));
    assert_eq!(bench.read("project/plan.md"), "changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_something_to_hide_is_not_given_by_landlock_alone() {
    in_tier(B, not_given).await;
}

async fn not_given(tier: Confinement) {
    let bench = Bench::new();
    let view = bench.whole(tier);
    assert_eq!(view.left_out().len(), 1, "{view:?}");
    assert!(view.shown().is_empty());
    let script = "attempt('env', lambda: read(sys.argv[1] + '/.env'))\nattempt('plan', lambda: read(sys.argv[1] + '/plan.md'))";
    let ran = run(python(view, tier, script, &[&bench.path("project")])).await;
    ran.refused("env");
    ran.refused("plan");
}

/// A folder that holds something hidden may be renamed: the hidden file stays hidden under every name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_masked_stays_masked_when_folders_move() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir_all(bench.path("project/sub/deep")).unwrap();
        fs::write(bench.path("project/sub/deep/.env"), CANARY).unwrap();
        fs::write(bench.path("project/sub/deep/x.worker"), "as it was").unwrap();
        let script = r#"
p = sys.argv[1]
attempt("rename", lambda: os.rename(p + "/sub", p + "/moved"))
attempt("deep", lambda: os.rename(p + "/moved/deep", p + "/up"))
for folder in ("/sub/deep", "/moved/deep", "/up"):
    attempt("read " + folder, lambda: read(p + folder + "/.env").decode() or 1/0)
    attempt("write " + folder, lambda: write(p + folder + "/x.worker"))
    attempt("replace " + folder, lambda: (write(p + "/new"), os.rename(p + "/new", p + folder + "/x.worker")))
    attempt("exchange " + folder, lambda: libc.renameat2(-100, (p + "/plan.md").encode(), -100, (p + folder + "/.env").encode(), 2) == 0 or 1/0)
"#;
        let ran = run(python(bench.whole(tier), tier, script, &[&bench.path("project")])).await;
        for folder in ["/sub/deep", "/moved/deep", "/up"] {
            for what in ["read", "write", "replace", "exchange"] {
                ran.refused(&format!("{what} {folder}"));
            }
        }
        assert!(!ran.out.contains(CANARY), "{ran:?}");
        let here = ["project/sub/deep", "project/moved/deep", "project/up"].map(|rest| bench.path(rest));
        let here = here.iter().find(|path| path.exists()).unwrap();
        assert_eq!(fs::read_to_string(here.join("x.worker")).unwrap(), "as it was");
        assert_eq!(fs::read_to_string(here.join(".env")).unwrap(), CANARY);
    })
    .await;
}

/// A mount inside a read-only folder is read-only too; a plain remount would leave it writable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mounts_inside_a_folder_for_reading_are_for_reading() {
    in_tier(A, |_| async move {
        let bench = Bench::new();
        let ro = bench.path("project/ro");
        let inside = format!("cd {0}/inner; cat file; echo x > new || echo refused; ls", ro.display());
        // In namespaces of its own, so that the machine's mounts stay as they are.
        let script = format!(
            "mount -t tmpfs none {0}/inner && echo mounted > {0}/inner/file && exec {1} --tier a --read {0} /bin/sh -c '{inside}'",
            ro.display(),
            env!("CARGO_BIN_EXE_llm-do-confine"),
        );
        let ran = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "mounted\nrefused\nfile\n", "{ran:?}");
    })
    .await;
}
