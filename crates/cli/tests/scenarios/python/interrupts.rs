//! Runs that are interrupted while Python is running: exit code 130, a closed journal, no process left.

use super::fixture::{
    Running, WRITER, assert_no_process_is_left, has_python, output, processes_of, script, succeed, wait_for,
    writing,
};
use crate::scenario::Scenario;
use rustix::process::Signal;
use serde_json::json;
use std::fs;

const STARTED: &str = "import time\nfrom pathlib import Path\nfrom llm_do import ToolContext\n\n\
                       def started(out):\n    (out / 'draft').touch()\n    (out / 'draft').rename(out / 'started')\n\n";

/// Interrupts the run as soon as its function has started.
fn interrupted(scenario: &Scenario) {
    let running = Running::start(scenario, &["."]);
    wait_for("the function works", || scenario.read("out/started").is_some());
    assert!(processes_of(scenario).len() > 1, "the host can be seen");
    running.signal(Signal::INT);
    let told = running.end(scenario);
    assert_eq!(told.code, Some(130), "{told}");
    let journal = scenario.journal();
    let last = journal.last().expect("a record");
    assert_eq!((&last["kind"], &last["status"]), (&json!("run_ended"), &json!("interrupted")));
    assert_no_process_is_left(scenario);
}

#[test]
fn interrupt_stops_a_running_function() {
    if !has_python() {
        return;
    }
    let tools = "def f(ctx: ToolContext) -> int:\n    started(ctx.sandbox.path('/out'))\n    time.sleep(100_000)\n    return 1\n";
    interrupted(&writing(&format!("{STARTED}{tools}"), &[json!({"tool": "f", "arguments": {}})]));
}

#[test]
fn function_stopped_at_its_timeout_runs_finally() {
    if !has_python() {
        return;
    }
    let tools = "def f(out: Path) -> int:\n    try:\n        time.sleep(100_000)\n    finally:\n        started(out)\n    return 1\n\n\
                 def g(out: Path) -> bool:\n    for _ in range(6000):\n        if (out / 'started').exists():\n            return True\n        \
                 time.sleep(0.01)\n    return False\n";
    let arguments = json!({"out": "/out"});
    let calls = [json!({"tool": "f", "arguments": arguments}), json!({"tool": "g", "arguments": arguments})];
    let worker = WRITER.replace("---\nGo.", "tool_rules: {f: {timeout: 300ms}}\n---\nGo.");
    let scenario = writing(&format!("{STARTED}{tools}"), &calls).file("main.worker", &worker);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/1.0"), true, "`finally` has run");
}

#[test]
fn interrupted_function_runs_finally() {
    if !has_python() {
        return;
    }
    let tools = "def f(out: Path) -> int:\n    started(out)\n    try:\n        time.sleep(100_000)\n    finally:\n        \
                 (out / 'cleaned').touch()\n    return 1\n";
    let scenario =
        writing(&format!("{STARTED}{tools}"), &[json!({"tool": "f", "arguments": {"out": "/out"}})]);
    interrupted(&scenario);
    assert!(scenario.read("out/cleaned").is_some(), "`finally` has run");
}

#[test]
fn interrupt_stops_a_loop_that_ignores_it() {
    if !has_python() {
        return;
    }
    let tools = "def f(out: Path) -> int:\n    started(out)\n    while True:\n        try:\n            while True:\n                pass\n        \
                 except BaseException:\n            pass\n";
    interrupted(&writing(
        &format!("{STARTED}{tools}"),
        &[json!({"tool": "f", "arguments": {"out": "/out"}})],
    ));
}

#[test]
fn interrupt_stops_a_function_that_waits_for_its_call() {
    if !has_python() {
        return;
    }
    let tools = "def f(ctx: ToolContext) -> str:\n    return ctx.call('slow')\n\n\
                 def g(ctx: ToolContext) -> int:\n    started(ctx.sandbox.path('/out'))\n    time.sleep(100_000)\n    return 1\n";
    let slow = "---\nmodel: script:slow.yaml\ntoolsets: [custom]\n---\nBe slow.\n";
    let scenario = writing(&format!("{STARTED}{tools}"), &[json!({"tool": "f", "arguments": {}})])
        .file("main.worker", WRITER)
        .file("project.yaml", "sandbox: {paths: {out: {root: ./out, mode: rw}}}\n")
        .file("workers/slow.worker", slow)
        .file("slow.yaml", &script(&[json!({"tool": "g", "arguments": {}})]));
    interrupted(&scenario);
    // Nested calls end once in the journal or not at all.
    let ends = scenario.journal().iter().filter(|record| record["kind"] == "run_ended").count();
    assert_eq!(ends, 1);
}

#[test]
fn interrupt_stops_async_functions_and_their_threads() {
    if !has_python() {
        return;
    }
    let tools = "import asyncio\n\nasync def f(out: Path) -> int:\n    started(out)\n    \
                 await asyncio.get_running_loop().run_in_executor(None, time.sleep, 100_000)\n    return 1\n";
    interrupted(&writing(
        &format!("{STARTED}{tools}"),
        &[json!({"tool": "f", "arguments": {"out": "/out"}})],
    ));
}

#[test]
fn killed_run_leaves_no_process() {
    if !has_python() {
        return;
    }
    let tools = "def f(out: Path) -> int:\n    started(out)\n    while True:\n        time.sleep(1)\n";
    let scenario =
        writing(&format!("{STARTED}{tools}"), &[json!({"tool": "f", "arguments": {"out": "/out"}})]);
    let running = Running::start(&scenario, &["."]);
    wait_for("the function works", || scenario.read("out/started").is_some());
    assert!(processes_of(&scenario).len() > 1, "the host can be seen");
    running.signal(Signal::KILL);
    assert_eq!(running.end(&scenario).code, None);
    assert_no_process_is_left(&scenario);
}

#[test]
fn interrupted_test_leaves_neither_its_copy_nor_a_process() {
    if !has_python() {
        return;
    }
    let tools = "def f(ctx: ToolContext) -> int:\n    started(ctx.sandbox.path('/out'))\n    time.sleep(100_000)\n    return 1\n";
    let calls = [json!({"tool": "f", "arguments": {}})];
    let cases = "cases:\n- name: first\n  expect: {calls: [f]}\n- name: second\n  expect: {calls: [f]}\n";
    let scenario = writing(&format!("{STARTED}{tools}"), &calls).file("main.cases.yaml", cases);
    let temporary = scenario.home().join("temporary");
    fs::create_dir(&temporary).expect("a folder");
    let scenario = scenario.env("TMPDIR", temporary.to_string_lossy());
    let copies = || fs::read_dir(&temporary).expect("a folder").map(|entry| entry.expect("an entry").path());
    let running = Running::start(&scenario, &["test"]);
    wait_for("the function works", || copies().any(|copy| copy.join("project/out/started").exists()));
    running.signal(Signal::INT);
    let told = running.end(&scenario);
    assert_eq!(told.code, Some(130), "{told}");
    assert!(told.stdout.contains("0 of 0 cases pass; 2 did not run, because it was interrupted"), "{told}");
    assert_eq!(copies().collect::<Vec<_>>(), [] as [std::path::PathBuf; 0]);
    assert_no_process_is_left(&scenario);
}
