//! Environment variables for Python functions: declared, granted, and secret.

use super::fixture::{WORKER, call, calling, has_python, holds, output, run, succeed};
use crate::{scenario::Scenario, terminal_session::Session};
use insta::assert_snapshot;
use serde_json::json;
use std::fs;

const KEY: &str = "w3ather-key-0123456789";

const TOOLS: &str = "import os\n\n\
                     def has() -> bool:\n    return os.environ.get('WEATHER_KEY', '').startswith('w3ather')\n\n\
                     def tells() -> str:\n    print('key', os.environ.get('WEATHER_KEY'))\n    return str(os.environ.get('WEATHER_KEY'))\n\n\
                     def fails() -> str:\n    raise ValueError(os.environ['WEATHER_KEY'])\n";

fn worker(env: &str) -> String {
    WORKER.replace("---\nGo", &format!("sandbox: {{env: [{env}]}}\n---\nGo"))
}

fn scenario() -> Scenario {
    calling(TOOLS, &[call("has"), call("tells"), call("fails")])
        .file("main.worker", &worker("WEATHER_KEY"))
        .env("WEATHER_KEY", KEY)
        .env("OTHER_KEY", "another-key-0123456789")
}

#[test]
fn granted_variable_reaches_the_function_and_nothing_else() {
    if !has_python() {
        return;
    }
    let scenario = scenario();
    let told = succeed(&scenario, &[".", "--grant", "env=WEATHER_KEY", "-v"]);
    assert_eq!(output(&scenario, "0/0.0"), true);
    assert_eq!(output(&scenario, "0/1.0"), "[secret WEATHER_KEY]");
    let journal =
        scenario.runs().first().map(|run| fs::read_to_string(run.join("journal.jsonl")).expect("a journal"));
    for text in [&told.stdout, &told.stderr, &journal.expect("a run")] {
        assert!(!text.contains(KEY), "{text}");
    }
    // It is no variable of other workers' code.
    let other = scenario.file("main.worker", WORKER);
    succeed(&other, &[".", "--grant", "env=WEATHER_KEY"]);
    assert_eq!(output(&other, "0/0.0"), false);
}

#[test]
fn variable_without_a_grant_is_refused_with_the_flag() {
    if !has_python() {
        return;
    }
    let scenario = scenario();
    assert_snapshot!(run(&scenario, &["."]), @"
    exit 3
    --- stderr
    error: the program asks for more than its own folder:
      to give its Python functions the environment variable WEATHER_KEY (asked for at main.worker:4)
    hint: if you trust it with that, run it again with --grant env=WEATHER_KEY
    ");
    // A remembered grant is for exactly that variable.
    let mut session = Session::start(scenario.command_on_terminal(&["."]));
    session.expect("--grant env=WEATHER_KEY");
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys("r");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(scenario.run(&["."]).code, Some(0));
    let more = scenario.file("main.worker", &worker("WEATHER_KEY, OTHER_KEY"));
    assert_eq!(more.run(&["."]).code, Some(3));
}

#[test]
fn variables_that_cannot_be_given_are_errors() {
    if !has_python() {
        return;
    }
    let scenario = scenario().file("main.worker", &worker("LD_PRELOAD, PATH, GIT_SSH_COMMAND, 'A B'"));
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["`LD_PRELOAD`", "`PATH`", "`GIT_SSH_COMMAND`", "`A B`", "E0203"]);
    let unset = scenario.file("main.worker", &worker("MISSING_KEY"));
    let told = unset.run(&[".", "--grant", "env=MISSING_KEY"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["MISSING_KEY", "is not set"]);
    let short = unset.file("main.worker", &worker("SHORT")).env("SHORT", "abc");
    let told = short.run(&[".", "--grant", "env=SHORT"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["SHORT", "shorter than 8 bytes"]);
    let told = short.run(&[".", "--grant", "env=PYTHONPATH"]);
    holds(&told.stderr, &["env=PYTHONPATH"]);
}

#[test]
fn library_never_gets_a_variable_of_itself() {
    if !has_python() {
        return;
    }
    let uses = |scenario: Scenario| {
        scenario
            .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: ['tools-lib:asker']\n---\nGo.\n")
            .file("libs/tools-lib/lib.yaml", "name: tools-lib\nversion: 1.0.0\nexports: [asker]\n")
            .file("libs/tools-lib/workers/asker.worker", &worker("WEATHER_KEY"))
            .file("libs/tools-lib/tools.py", TOOLS)
            .file(
                "s.yaml",
                &json!({"answers": [
                    {"when": {"worker": "main", "turn": 0}, "calls": [{"tool": "tools-lib__asker", "arguments": {}}]},
                    {"when": {"worker": "tools-lib:asker", "turn": 0}, "calls": [call("has")]},
                    {"text": "done"},
                ]})
                .to_string(),
            )
            .env("LLM_DO_LIBS", "libs")
    };
    let arguments = [".", "--approval", "approve_all", "--grant", "env=WEATHER_KEY"];
    let scenario = uses(scenario()).file("project.yaml", "dependencies: [tools-lib]\n");
    let told = scenario.run(&arguments);
    assert_eq!(told.code, Some(2), "{told}");
    holds(
        &told.stderr,
        &["this library asks for the variable `WEATHER_KEY`", "sandbox: {env: [WEATHER_KEY]}"],
    );
    let scenario =
        scenario.file("project.yaml", "dependencies: [tools-lib]\nsandbox: {env: [WEATHER_KEY]}\n");
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(3));
    succeed(&scenario, &arguments);
    assert_eq!(output(&scenario, "0/0.0/0.0"), true);
}
