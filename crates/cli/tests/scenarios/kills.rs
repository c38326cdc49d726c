//! Kills at system calls that write: acknowledged changes exist afterwards. `scripts/prove kills` tries each of them.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::{path::Path, process::Command};

/// Runs a part of the check: each of these courses at each such call.
fn sample(courses: &[&str], more: &[&str]) {
    if Command::new("strace").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI has strace");
        eprintln!("skipped: strace is not installed");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kills");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(["--binary", env!("CARGO_BIN_EXE_llm-do")]).args(more);
    command.args(courses.iter().map(|course| format!("--only={course}")));
    let done = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    for course in courses {
        assert!(said.contains(&format!("{course}: ")), "{said}");
    }
}

#[test]
fn a_sample_of_kills_loses_nothing_that_was_acknowledged() {
    let courses =
        ["run", "chat", "map", "serve", "check-fix", "mcp-add-from", "runs-resume", "run-to-file", "lib-pin"];
    sample(&courses, &["--every", "7"]);
}

#[test]
fn a_sample_of_failing_disks_loses_nothing_that_was_acknowledged() {
    sample(&["run", "chat", "map", "run-to-file", "mcp-add-from"], &["--errors", "--every", "5"]);
}
