//! Nothing depends on being root. As root, the front is run once more as nobody.

use crate::bench::{A, B, Bench, CANARY, in_tier};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordinary_user_is_confined_as_well() {
    for (tier, letter) in [(A, "a"), (B, "b")] {
        in_tier(tier, |_| async move { as_nobody(letter) }).await;
    }
}

fn as_nobody(letter: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: every other test runs as an ordinary user already");
        return;
    }
    let bench = Bench::new();
    // Where nobody may go: the build may lie where root alone does.
    let front = bench.path("front");
    fs::copy(env!("CARGO_BIN_EXE_llm-do-confine"), &front).unwrap();
    for path in ["", "project", "project/rw", "project/ro", "outside", "front"] {
        fs::set_permissions(bench.path(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let script = format!(
        "id -u; cat {secret}; echo x > {rw}/made; echo x > {ro}/made; cat {ro}/theirs.txt; \
         echo; echo in $TMPDIR; umask 777; mkdir -p $TMPDIR/a; mkdir $TMPDIR/closed; echo end",
        secret = bench.path("outside/canary.txt").display(),
        rw = bench.path("project/rw").display(),
        ro = bench.path("project/ro").display(),
    );
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let ran = Command::new("setpriv")
        .args(nobody)
        .arg(&front)
        .args(["--tier", letter, "--write"])
        .arg(bench.path("project/rw"))
        .arg("--read")
        .arg(bench.path("project/ro"))
        .args(["/bin/sh", "-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(out.starts_with("65534\n"), "{ran:?}");
    assert!(out.contains("to be read") && !out.contains(CANARY), "{ran:?}");
    let temporary = out.lines().find_map(|line| line.strip_prefix("in ")).unwrap();
    assert!(temporary == "/tmp" || !Path::new(temporary).exists(), "{temporary} is left");
    assert!(out.ends_with("end\n"), "{ran:?}");
    assert!(bench.path("project/rw/made").exists() && !bench.path("project/ro/made").exists(), "{ran:?}");
}
