//! The language server: its tests, in Python, with the real binary. `crates/lsp/tests` holds them.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use crate::scenario::Scenario;
use std::{env, path::Path};

/// Runs one test, or one file of tests, with the system's Python.
fn run(tests: &str) {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        eprintln!("skipped: there is no /usr/bin/python3");
        return;
    }
    let mut scenario = Scenario::new().env("LLM_DO_BIN", env!("CARGO_BIN_EXE_llm-do"));
    if let Ok(whole) = env::var("LLM_DO_TEST_WHOLE") {
        scenario = scenario.env("LLM_DO_TEST_WHOLE", &whole);
    }
    let mut command = scenario.command_of(python);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsp/tests");
    command.args(["-B", "-m", "unittest", "-v", tests]).current_dir(folder);
    let run = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn sessions_hold_whatever_the_client_sends() {
    run("test_session");
}

#[test]
fn features_answer_in_a_program() {
    run("test_features");
}

#[test]
fn bad_programs_have_the_findings_of_the_command_line() {
    run("test_programs.Programs.test_bad_programs_have_the_findings_of_the_command_line");
}

#[test]
fn edited_programs_have_the_findings_of_a_first_opening() {
    run("test_programs.Programs.test_edited_programs_have_the_findings_of_a_first_opening");
}

#[test]
fn every_prefix_of_every_example_has_answers() {
    run("test_programs.Programs.test_every_prefix_of_every_example_has_findings_and_answers");
}
