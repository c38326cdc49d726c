//! Modules that cannot be imported: no run that can reach their worker starts, and the error names the location and the
//! reason.

use super::fixture::{
    Running, assert_no_process_is_left, has_python, holds, output, processes_of, record, run, succeed,
    wait_for,
};
use crate::scenario::{Scenario, lines};
use rustix::process::Signal;
use serde_json::json;

/// A worker that calls a helper with these tools, and answers.
fn helper_with(tools: &str) -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [helper]\n---\nGo.\n")
        .file("workers/helper/worker.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nHelp.\n")
        .file("workers/helper/tools.py", tools)
        .file(
            "s.yaml",
            &json!({"answers": [
                {"when": {"worker": "main", "turn": 0}, "calls": [{"tool": "helper", "arguments": {}}]},
                {"when": {"worker": "helper", "turn": 0}, "calls": [{"tool": "add", "arguments": {"a": 2, "b": 3}}]},
                {"text": "{{ worker }} goes on"},
            ]})
            .to_string(),
        )
}

/// The error of a run that could call a worker with these tools.
fn failure_with(tools: &str) -> String {
    let scenario = helper_with(tools);
    let told = run(&scenario, &["."]);
    assert_eq!((told.code, &*told.stdout), (Some(2), ""), "{told}");
    assert!(scenario.runs().is_empty(), "nothing was asked of a model");
    told.stderr
}

#[test]
fn syntax_error_names_its_line() {
    if !has_python() {
        return;
    }
    let told = failure_with("def add(a: int, b: int) -> int:\n    return a +\n");
    holds(&told, &["workers/helper/tools.py:2", "has a syntax error"]);
}

#[test]
fn import_error_names_its_line() {
    if !has_python() {
        return;
    }
    let told = failure_with("def start():\n    raise ValueError('not today')\n\nstart()\n");
    holds(&told, &["workers/helper/tools.py:2", "ValueError: not today"]);
    let told = failure_with("import sys\nsys.exit(3)\n");
    holds(&told, &["workers/helper/tools.py:2", "sys.exit(3)"]);
}

#[test]
fn missing_package_error_names_the_interpreter_and_the_install_command() {
    if !has_python() {
        return;
    }
    let told = failure_with("import no_such_package.deep\n\ndef add(a: int, b: int) -> int:\n    return a\n");
    holds(
        &told,
        &[
            "workers/helper/tools.py:1",
            "`no_such_package` is not installed",
            "/usr/bin/python3 (from PATH)",
            "-m venv .venv",
            "pip install no_such_package",
        ],
    );
}

#[test]
fn module_that_exits_the_process_is_reported() {
    if !has_python() {
        return;
    }
    holds(&failure_with("import os\nos._exit(3)\n"), &["workers/helper/tools.py", "exit code 3"]);
    holds(&failure_with("import ctypes\nctypes.string_at(0)\n"), &["workers/helper/tools.py", "memory"]);
}

#[test]
fn threads_and_prints_at_import_do_not_block() {
    if !has_python() {
        return;
    }
    let scenario = helper_with(
        "import os, threading, time\nprint('imported')\nos.write(1, b'past Python\\n')\n\ndef forever():\n    while True:\n        \
         time.sleep(0.01)\n\nthreading.Thread(target=forever).start()\n\ndef add(a: int, b: int) -> int:\n    return a + b\n",
    );
    let told = succeed(&scenario, &[".", "--output", "stream-json"]);
    // Printed output goes to the journal, not into the event stream.
    lines(&told.stdout);
    assert_eq!(output(&scenario, "0/0.0/0.0"), 5);
    holds(record(&scenario, "0/0.0/0.0", "tool_ended")["log"].as_str().unwrap_or_default(), &["imported"]);
}

#[test]
fn endless_import_can_be_interrupted() {
    if !has_python() {
        return;
    }
    let scenario = helper_with("while True:\n    pass\n");
    let running = Running::start(&scenario, &["."]);
    wait_for("the import is at work", || processes_of(&scenario).iter().any(|stat| stat.contains("(python")));
    running.signal(Signal::INT);
    let told = running.end(&scenario);
    assert_ne!(told.code, Some(0), "{told}");
    assert!(!told.stderr.contains("not imported after"), "it ended before the import's own limit: {told}");
    assert_no_process_is_left(&scenario);
}

#[test]
fn endless_import_times_out() {
    if !has_python() {
        return;
    }
    let told = failure_with("import time\nwhile True:\n    time.sleep(0.05)\n");
    holds(&told, &["workers/helper/tools.py", "not imported after 60 s"]);
}
