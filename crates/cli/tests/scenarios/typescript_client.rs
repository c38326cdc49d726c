//! The TypeScript client (`clients/typescript`): its types are checked, and its tests run in Node with the real binary.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use crate::{python_client::clients, scenario::Scenario};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

/// Copies the package, so that nothing is built beside its sources.
fn package(scenario: &Scenario, modules: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/typescript");
    for folder in ["", "src", "tests"] {
        fs::create_dir_all(scenario.project().join(folder)).expect("a folder");
        for entry in fs::read_dir(sources.join(folder)).expect("the package") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let to = scenario.project().join(folder).join(path.file_name().expect("a name"));
                fs::copy(&path, to).expect("a copy");
            }
        }
    }
    symlink(modules, scenario.project().join("node_modules")).expect("a link");
}

fn succeeds(mut command: Command) {
    let run = command.output().expect("Node starts");
    let said = [&run.stdout[..], &run.stderr].concat();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Uses the `node_modules` in the folder that `LLM_DO_TEST_CLIENTS` names.
#[test]
fn package_is_strictly_typed_and_its_tests_pass() {
    let Some(clients) = clients() else {
        eprintln!("skipped: LLM_DO_TEST_CLIENTS names no folder with clients");
        return;
    };
    let scenario = Scenario::new().env("LLM_DO_BIN", env!("CARGO_BIN_EXE_llm-do"));
    package(&scenario, &clients.join("node_modules"));
    let mut build = scenario.command_of(&clients.join("node_modules/.bin/tsc"));
    build.args(["-p", "tsconfig.json"]);
    succeeds(build);
    let mut test = scenario.command_of(Path::new("/usr/bin/node"));
    test.args(["--test", "tests/client.test.js", "tests/chat.test.js"]);
    succeeds(test);
}
