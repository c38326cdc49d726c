//! The Python client (`python/llm_do/client`): its tests, in Python, with the real binary. `python/tests` holds them.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use crate::scenario::Scenario;
use std::{
    env,
    path::{Path, PathBuf},
};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests")
}

/// Runs one file of tests.
fn run(python: &Path, file: &str) {
    let scenario = Scenario::new().env("LLM_DO_BIN", env!("CARGO_BIN_EXE_llm-do"));
    let mut command = scenario.command_of(python);
    command.args(["-B", "-m", "unittest", "-v", file]).current_dir(tests());
    let run = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

/// The system's Python, without any package.
fn alone(file: &str) {
    match Path::new("/usr/bin/python3") {
        python if python.exists() => run(python, file),
        _ => eprintln!("skipped: there is no /usr/bin/python3"),
    }
}

#[test]
fn calls_maps_and_streams_share_one_process() {
    alone("test_calls");
}

#[test]
fn conversations_are_held_and_files_attached() {
    alone("test_chats");
}

#[test]
fn operator_approves_denies_and_edits() {
    alone("test_operator");
}

#[test]
fn cancelled_calls_and_processes_that_end_leave_nothing_behind() {
    alone("test_ends");
}

/// The process is killed before each line of the client, and ends in each other way, while a program is loaded.
#[test]
fn load_settles_however_its_process_ends() {
    alone("test_load_ends");
}

#[test]
fn outputs_are_read_as_types_that_are_compared_at_load() {
    alone("test_returns");
}

/// Uses the environment `venv` in the folder that `LLM_DO_TEST_CLIENTS` names.
#[test]
fn pydantic_models_and_agent_frameworks() {
    match clients() {
        Some(clients) => run(&clients.join("venv/bin/python"), "test_frameworks"),
        None => eprintln!("skipped: LLM_DO_TEST_CLIENTS names no folder with clients"),
    }
}

/// The folder with a Python environment `venv` and with `node_modules`.
pub(crate) fn clients() -> Option<PathBuf> {
    let clients = env::var_os("LLM_DO_TEST_CLIENTS").map(PathBuf::from);
    assert!(clients.is_some() || env::var_os("CI").is_none(), "CI has them");
    clients
}
