//! The examples with Python tools, run as a reader would, with a script for the model.

use super::fixture::{failure, has_python, holds, output, record, run, succeed};
use crate::scenario::{Finished, Scenario};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("the examples")
}

/// A copy, since runs write into their projects.
fn example(name: &str) -> Scenario {
    let scenario = Scenario::new();
    copy(&examples().join(name), &scenario.project());
    scenario
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (kind, name) = (entry.file_type().expect("a kind"), entry.file_name());
        // Leftovers of a developer who tried the example.
        if [".venv", ".llm-do", "__pycache__"].iter().any(|left| name == *left) {
            continue;
        }
        if kind.is_dir() {
            copy(&entry.path(), &to.join(name));
        } else {
            fs::copy(entry.path(), to.join(name)).expect("a copy");
        }
    }
}

fn succeed_with(scenario: &Scenario, script: &str, message: &str) -> Finished {
    let script = examples().join("scripts").join(script);
    succeed(scenario, &[".", message, "--model", &format!("script:{}", script.display())])
}

#[test]
fn calculator_example_runs() {
    if !has_python() {
        return;
    }
    let scenario = example("calculator");
    let told = succeed_with(&scenario, "calculator.yaml", "What do 1000 become?");
    assert_eq!(
        told.stdout,
        "In ten years it is 1418.34; Ada pays 33.34, the others 33.33; and it is 29 days.\n"
    );
    assert_eq!(output(&scenario, "0/0.0"), "1418.34");
    assert_eq!(output(&scenario, "0/0.1"), json!({"Ada": "33.34", "Grace": "33.33", "Edsger": "33.33"}));
    assert_eq!(output(&scenario, "0/0.2"), 29);
    let started = record(&scenario, "0", "conversation_started");
    let tools = started["tools"].as_array().expect("tools");
    let compound = tools.iter().find(|tool| tool["name"] == "compound").expect("it is offered");
    assert_eq!(compound["description"], "What a sum grows to with compound interest.");
    assert_eq!(
        compound["input"]["properties"]["rate"]["description"],
        "Yearly rate in percent, such as 3.5."
    );
    assert!(succeed(&scenario, &["check", "."]).stderr.contains("nothing is wrong\n"));
}

#[test]
fn orchestrator_example_runs() {
    if !has_python() {
        return;
    }
    let scenario = example("orchestrator");
    let told = succeed_with(&scenario, "orchestrator.yaml", "Ferry or flight?");
    let said: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(
        said,
        json!({
            "answer": "Take the ferry, because it costs half as much. Both ways are safe in summer.",
            "views": ["cost", "safety"],
            "attempts": 2,
        })
    );
    let journal = scenario.journal();
    let started = |name: &str| {
        journal.iter().filter(|record| record["kind"] == "call_started" && record["function"] == name).count()
    };
    assert_eq!(["planner", "expert", "writer", "critic"].map(started), [1, 3, 2, 2]);
    assert!(journal.iter().any(|record| record["kind"] == "tool_ended"
        && record["path"].as_str().is_some_and(|path| path.contains("step-number"))
        && record["ending"]["output"] == 15));
    assert!(journal.iter().any(|record| {
        record["kind"] == "note"
            && record["text"].as_str().is_some_and(|text| text.contains("2 of 3 experts have answered"))
    }));
    assert!(succeed(&scenario, &["check", "."]).stderr.contains("nothing is wrong\n"));
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
fn analysis_example_runs_with_its_own_environment() {
    if !has_python() {
        return;
    }
    let scenario = example("analysis");
    // Without the environment the error says what to do.
    let told = run(&scenario, &["check", "."]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&format!("{}{}", told.stdout, told.stderr), &["polars", "tools.py"]);
    let skipped = |what: &str, output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(std::env::var_os("CI").is_none(), "{what}: {said}");
        eprintln!("skipped: {what}: {said}");
    };
    let venv = scenario.project().join(".venv");
    let made =
        Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).output().expect("Python starts");
    if !made.status.success() {
        return skipped("no environment can be made", &made);
    }
    let install =
        ["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", "-r", "requirements.txt"];
    let installed = Command::new(venv.join("bin/python"))
        .args(install)
        .current_dir(scenario.project())
        .output()
        .expect("pip starts");
    if !installed.status.success() {
        return skipped("PyPI can't be reached", &installed);
    }
    let told = succeed_with(&scenario, "analysis.yaml", "Which station has the most rides?");
    assert_eq!(told.stdout, "Market has the most rides, 360, before Harbour with 300 and Hill with 75.\n");
    assert_eq!(output(&scenario, "0/0.0"), json!({"station": "String", "day": "String", "rides": "Int64"}));
    assert_eq!(failure(&scenario, "0/1.0"), "There is no column 'trips'. There are: station, day, rides.");
    assert_eq!(
        output(&scenario, "0/2.0"),
        json!([
            {"station": "Market", "rides": 360},
            {"station": "Harbour", "rides": 300},
            {"station": "Hill", "rides": 75},
        ])
    );
    let runtime = record(&scenario, "0", "run_started")["runtimes"][0]["path"].to_string();
    assert!(runtime.contains("/project/.venv/bin/python"), "{runtime}");
    assert!(succeed(&scenario, &["check", "."]).stderr.contains("nothing is wrong\n"));
}
