//! `run` refuses what `check` calls an error in the code of the entry's closure.

use super::fixture::{WORKER, has_python, holds};
use crate::scenario::Scenario;

const SCRIPT: &str = "answers: [{text: done}]\n";

fn scenario(tools: &str) -> Scenario {
    Scenario::new().file("main.worker", WORKER).file("tools.py", tools).file("s.yaml", SCRIPT)
}

/// Checks and runs the program: both must have the same exit code. The run must print these words.
fn both(scenario: &Scenario, code: Option<i32>, words: &[&str]) {
    let checked = scenario.run(&["check", "."]);
    let ran = scenario.run(&[".", "--approval", "auto_deny"]);
    assert_eq!((checked.code, ran.code), (code, code), "{checked}{ran}");
    let said = if code == Some(0) { &ran.stdout } else { &ran.stderr };
    holds(said, words);
}

#[test]
fn function_that_cannot_be_a_tool_stops_the_run() {
    if !has_python() {
        return;
    }
    let marked = "from llm_do import tool\n\n@tool\ndef f(*names): pass\n\n@tool\ndef g(x: int): pass\n";
    both(&scenario(marked), Some(2), &["E0707", "tools.py:3", "`f` cannot be a tool", "*names"]);
    let listed = "__all__ = ['f']\n\ndef f(x, /): pass\n";
    both(&scenario(listed), Some(2), &["E0707", "`f` cannot be a tool", "positional-only"]);
    let registered = "def register(agent):\n    @agent.tool_plain\n    def f(*x): pass\n";
    both(&scenario(registered), Some(2), &["E0707", "`f` cannot be a tool"]);
    both(&scenario("def _helper(*x): pass\n\ndef f(x: int) -> int:\n    return x\n"), Some(0), &["done"]);
}

#[test]
fn module_that_exposes_nothing_stops_the_run() {
    if !has_python() {
        return;
    }
    both(&scenario("X = 1\n"), Some(2), &["E0705", "`tools.py` exposes no tools"]);
    let imported = Scenario::new()
        .file("main.worker", &WORKER.replace("---\nGo", "imports: {tools: [helpers.py]}\n---\nGo"))
        .file("helpers.py", "def helper(x):\n    return x\n")
        .file("s.yaml", SCRIPT);
    both(&imported, Some(2), &["E0705", "`helpers.py` exposes no tools", "main.worker:4"]);
}

#[test]
fn errors_in_the_code_of_a_callee_stop_the_run_and_those_of_others_do_not() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [helper]\n---\nGo.\n")
        .file("workers/helper/worker.worker", "---\nmodel: script:s.yaml\n---\nHelp.\n")
        .file("workers/helper/tools.py", "def f(x: int) -> int:\n    return x +\n")
        .file("s.yaml", SCRIPT);
    both(&scenario, Some(2), &["E0708", "workers/helper/tools.py:2"]);
    let scenario = scenario.file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n");
    assert_eq!(scenario.run(&["check", "."]).code, Some(2));
    assert_eq!(scenario.run(&["."]).code, Some(0));
}

#[test]
fn module_of_the_entry_need_not_expose_tools() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("project.yaml", "entry: tools.py:main\n")
        .file("tools.py", "def main(input: str) -> str:\n    return 'done'\n");
    assert_eq!(scenario.run(&["check", "."]).code, Some(0));
    assert_eq!(scenario.run(&[".", "go"]).stdout, "done\n");
    let scenario = scenario.file("tools.py", "def main(*inputs) -> str:\n    return 'done'\n");
    both(&scenario, Some(2), &["E0707", "the entry `main` cannot be called"]);
}

#[test]
fn a_worker_that_wants_python_is_refused_without_python() {
    let scenario = scenario("def f(x: int) -> int:\n    return x\n");
    let told = scenario.run(&[".", "--no-import-tools"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["E0703", "the toolset `custom` is Python", "main.worker:3"]);
    let scenario = scenario.file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n");
    assert_eq!(scenario.run(&[".", "--no-import-tools"]).stdout, "done\n");
}
