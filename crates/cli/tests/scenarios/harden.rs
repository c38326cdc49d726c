//! A worker becomes code, and code becomes a worker, with the same name and signature, compared with recorded calls.

use crate::{
    python::has_python,
    scenario::{Scenario, lines},
};
use insta::assert_snapshot;
use std::fs;

/// A caller that asks for three prices, one of them twice.
const CALLER: &str = "\
answers:
  - when: {worker: price, last: of pear}
    json: {total: 1.5, note: pears}
  - when: {worker: price, last: of fig}
    json: {total: 0.3333333, note: figs}
  - when: {worker: price}
    text: I don't know that.
    finish: refusal
  - when: {worker: main, turn: 0}
    calls:
      - {tool: price, arguments: {item: pear, n: 3}}
      - {tool: price, arguments: {n: 3, item: pear}}
      - {tool: price, arguments: {item: fig, n: 1}}
      - {tool: price, arguments: {item: nothing, n: 1}}
  - text: \"{{ last }}\"
";

const PRICE: &str = "\
---
model: script:s.yaml
parameters: {item: string, n: integer}
returns: {total: number, note: string}
---
What do {{ n }} of {{ item }} cost?
";

const MAIN: &str = "---\nmodel: script:s.yaml\nallow_workers: [price]\n---\nAsk for prices.\n";

fn with_worker() -> Scenario {
    Scenario::new().file("main.worker", MAIN).file("workers/price.worker", PRICE).file("s.yaml", CALLER)
}

/// The same after a run. `None` where there is no Python.
fn ran() -> Option<Scenario> {
    let scenario = with_worker();
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(0), "{told}");
    has_python().then_some(scenario)
}

const GOOD: &str = "\
from typing import TypedDict

class Price(TypedDict):
    total: float
    note: str

def price(item: str, n: int) -> Price:
    each = {'pear': 0.5, 'fig': 1 / 3}
    if item not in each:
        raise NotImplementedError(f'{item} is left to the worker')
    return {'total': n * each[item], 'note': item + 's'}
";

#[test]
fn recorded_calls_of_a_worker_become_cases() {
    let scenario = with_worker();
    assert_eq!(scenario.run(&["."]).code, Some(0));
    assert_snapshot!(scenario.run(&["runs", "export", "last", "--cases", "price"]), @"
    exit 0
    --- stdout
    3 new of 3 cases in cases/price/price.cases.jsonl
    ");
    let cases = lines(&scenario.read("cases/price/price.cases.jsonl").unwrap());
    assert_eq!(cases.len(), 3);
    assert_eq!(cases[0]["input"], serde_json::json!({"item": "pear", "n": 3}));
    assert_eq!(cases[0]["expect"]["output"]["exactly"], serde_json::json!({"total": 1.5, "note": "pears"}));
    assert_eq!((&cases[0]["from"]["call"], &cases[0]["from"]["calls"]), (&"0/0.0".into(), &2.into()));
    assert_eq!(cases[2]["expect"]["fails"], "refusal");
    // A second time nothing is new, and cases written by hand remain.
    let own = "{\"name\":\"by-hand\",\"input\":{\"item\":\"fig\",\"n\":9},\"expect\":{\"output\":{\"exactly\":{\"total\":3}}}}\n";
    let file = scenario.project().join("cases/price/price.cases.jsonl");
    fs::write(&file, fs::read_to_string(&file).unwrap() + own).unwrap();
    assert_snapshot!(scenario.run(&["runs", "export", "all", "--cases", "price", "--json"]), @r#"
    exit 0
    --- stdout
    {"file":"cases/price/price.cases.jsonl","cases":4,"new":0}
    "#);
    assert!(scenario.read("cases/price/price.cases.jsonl").unwrap().contains("by-hand"));
    assert_snapshot!(scenario.run(&["runs", "export", "last", "--cases", "nobody"]), @"
    exit 2
    --- stderr
    error: `nobody` is called in none of these runs
    hint: `llm-do runs show [RUN]` shows what is
    ");
    assert_eq!(scenario.run(&["runs", "export", "last"]).code, Some(2));
}

#[test]
fn function_is_compared_with_recorded_results_of_a_worker() {
    let Some(scenario) = ran() else { return };
    let scenario = scenario.file("workers/price.py", GOOD);
    // 1 / 3 is close to the worker's result, not equal.
    let told = scenario.run(&["harden", "price", "--with", "workers/price.py:price"]);
    assert_snapshot!(told, @r#"
    exit 1
    --- stdout
    pass  [RUN] 0/0.0  {"item":"pear","n":3}
    fail  [RUN] 0/0.2  {"item":"fig","n":1}
          total: recorded 0.3333333, now 0.3333333333333333
    skip  [RUN] 0/0.3  {"item":"nothing","n":1}
          the recorded call failed: the model declined to answer: I don't know that.
    1 pass, 1 fail, 1 not covered; 3 of 4 recorded calls are covered
    "#);
    assert_snapshot!(scenario.run(&["harden", "price", "--with", "workers/price.py:price", "--tolerance", "1e-6"]), @r#"
    exit 0
    --- stdout
    pass  [RUN] 0/0.0  {"item":"pear","n":3}
    pass  [RUN] 0/0.2  {"item":"fig","n":1}
    skip  [RUN] 0/0.3  {"item":"nothing","n":1}
          the recorded call failed: the model declined to answer: I don't know that.
    2 pass, 0 fail, 1 not covered; 3 of 4 recorded calls are covered
    "#);
    assert_eq!(
        scenario.run(&["harden", "price", "--with", "workers/price.py:price", "--compare", "schema"]).code,
        Some(0)
    );
    assert_eq!(scenario.run(&["runs", "export", "last", "--cases", "price"]).code, Some(0));
    let told = scenario.run(&[
        "harden",
        "price",
        "--with",
        "workers/price.py:price",
        "--cases",
        "cases/price",
        "--compare",
        "tolerance",
        "--json",
    ]);
    assert_eq!(told.code, Some(0), "{told}");
    let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(report["coverage"], serde_json::json!({"covered": 3, "calls": 4}));
    assert_eq!(report["cases"][2]["verdict"], "not_covered");
    // None of this is recorded as a run.
    assert_eq!(scenario.runs().len(), 1);
}

#[test]
fn result_that_violates_the_schema_fails_its_case() {
    let Some(scenario) = ran() else { return };
    let scenario = scenario.file(
        "workers/price.py",
        "import os\n\ndef price(item: str, n: int) -> dict:\n    if item == 'pear':\n        open('main.worker', 'w').write('gone')\n    return {'total': 'much', 'note': ''}\n\ndef other(item: str) -> dict:\n    return {}\n",
    );
    let told = scenario.run(&["harden", "price", "--with", "workers/price.py:price", "--compare", "schema"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(
        told.stdout.contains("may not touch") && told.stdout.contains("doesn't fit its schema"),
        "{told}"
    );
    assert_eq!(scenario.read("main.worker").as_deref(), Some(MAIN));
    let told = scenario.run(&["harden", "price", "--with", "workers/price.py:other"]);
    assert!(told.code == Some(1) && told.stdout.contains("0 pass, 2 fail"), "{told}");
    for (with, says) in [
        ("workers/price.py:none", "none"),
        ("workers/none.py:price", "there is no file"),
        ("price", "is not FILE:FUNCTION"),
        ("/etc/passwd.py:x", "there is no file"),
    ] {
        let told = scenario.run(&["harden", "price", "--with", with]);
        assert!(told.code != Some(0) && told.to_string().contains(says), "{with}: {told}");
    }
    assert_eq!(scenario.run(&["harden", "nobody", "--with", "workers/price.py:price"]).code, Some(2));
}

#[test]
fn code_worker_keeps_name_and_signature() {
    let Some(scenario) = ran() else { return };
    let before = scenario.journal();
    let scenario = scenario.file("workers/price.py", &GOOD.replace("1 / 3", "0.3333333")).file(
        "workers/price.worker",
        "---\nparameters: {item: string, n: integer}\nreturns: {total: number, note: string}\ncode: price.py:price\n---\n",
    );
    assert_eq!(scenario.run(&["check", "."]).stderr, "nothing is wrong\n");
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(0), "{told}");
    let after = scenario.journal();
    let of = |journal: &[serde_json::Value], kind: &str, path: &str| {
        journal.iter().find(|record| record["kind"] == kind && record["path"] == path).cloned().unwrap()
    };
    let tools = |journal: &[serde_json::Value]| of(journal, "conversation_started", "0")["tools"].clone();
    assert_eq!(tools(&before), tools(&after), "the caller sees the same tool");
    for path in ["0/0.0", "0/0.2"] {
        let ending = |journal: &[serde_json::Value]| of(journal, "call_ended", path)["ending"].clone();
        assert_eq!(ending(&before), ending(&after), "{path}");
    }
    assert!(!after.iter().any(|record| record["kind"] == "model_requested" && record["path"] != "0"));
    // The function is held to its signature and to the files of its worker.
    let scenario = scenario
        .file("workers/price.py", "def price(item: str, n: int) -> dict:\n    return {'total': 'much'}\n");
    let told = scenario.run(&["."]);
    assert!(told.stdout.contains("doesn't fit its schema"), "{told}");
}

#[test]
fn worker_replaces_a_tool_under_the_same_name() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nAsk for prices.\n")
        .file("tools.py", GOOD)
        .file("s.yaml", CALLER);
    let told = scenario.run(&["."]);
    assert!(told.code == Some(0) && told.stdout.contains("1.5"), "{told}");
    assert_eq!(scenario.run(&["runs", "export", "last", "--cases", "price", "-o", "kept"]).code, Some(0));
    let cases = lines(&scenario.read("kept/price.cases.jsonl").unwrap());
    assert_eq!((cases.len(), &cases[0]["expect"]["output"]["exactly"]["total"]), (3, &1.5.into()));
    fs::remove_file(scenario.project().join("tools.py")).unwrap();
    let scenario = scenario.file("main.worker", MAIN).file("workers/price.worker", PRICE);
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.run(&["runs", "export", "last", "--cases", "price", "-o", "worker"]).code, Some(0));
    let now = lines(&scenario.read("worker/price.cases.jsonl").unwrap());
    assert_eq!((&now[0]["input"], &now[0]["expect"]), (&cases[0]["input"], &cases[0]["expect"]));
}

#[test]
fn worker_with_code_and_prompt_is_rejected() {
    for (worker, says) in [
        ("---\ncode: price.py:price\n---\nAnd more.\n", "a worker with `code` cannot have instructions"),
        (
            "---\ncode: price.py:price\nmodel: script:s.yaml\n---\n",
            "`model` and `code` cannot be used together",
        ),
        ("---\ncode: none.py:price\n---\n", "the code `none.py:price` does not exist"),
        ("---\ncode: ../price.py:price\n---\n", "is outside the root"),
        ("---\ncode: price\n---\n", "is not a reference to a function"),
    ] {
        let scenario = with_worker().file("workers/price.worker", worker).file("workers/price.py", GOOD);
        let told = scenario.run(&["check", "."]);
        assert!(told.code == Some(2) && told.stdout.contains(says), "{worker}: {told}");
    }
    if has_python() {
        let scenario = with_worker()
            .file("workers/price.worker", "---\ncode: price.py:prize\n---\n")
            .file("workers/price.py", GOOD);
        let told = scenario.run(&["check", "."]);
        assert!(told.code == Some(2) && told.stdout.contains("workers/price.worker:2"), "{told}");
    }
}

#[test]
fn code_worker_of_a_library_needs_an_approval() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("project.yaml", "name: p\ndependencies: [kit]\n")
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [\"kit:price\"]\n---\nAsk.\n")
        .file("libs/kit@1.0.0/lib.yaml", "name: kit\nversion: 1.0.0\nexports: [price]\n")
        .file(
            "libs/kit@1.0.0/workers/price.worker",
            "---\nparameters: {item: string, n: integer}\ncode: price.py:price\n---\n",
        )
        .file("libs/kit@1.0.0/workers/price.py", GOOD)
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: kit__price, arguments: {item: pear, n: 3}}]\n  - text: \"{{ last }}\"\n",
        );
    let told = scenario.run(&[".", "--lib", "libs", "--approval", "auto_deny"]);
    assert!(told.code == Some(0) && told.stdout.contains("needs an approval"), "{told}");
    assert!(!scenario.journal().iter().any(|record| record["kind"] == "tool_started"));
    let told = scenario.run(&[".", "--lib", "libs", "--approval", "approve_all"]);
    assert!(told.code == Some(0) && told.stdout.contains("pears"), "{told}");
}

#[test]
fn code_worker_receives_path_parameters() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("project.yaml", "sandbox: {paths: {letters: ./letters}}\n")
        .file("letters/a.txt", "Dear all")
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [count]\n---\nCount.\n")
        .file(
            "workers/count.worker",
            "---\nparameters: {file: path}\nreturns: {letters: integer, place: path}\nsandbox: {paths: {}}\ncode: count.py:count\n---\n",
        )
        .file(
            "workers/count.py",
            "from pathlib import Path\n\ndef count(file: Path) -> dict:\n    return {'letters': len(file.read_text()), 'place': '/file'}\n",
        )
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: count, arguments: {file: /letters/a.txt}}, {tool: count, arguments: {file: /main.worker}}]\n  - text: \"{{ last }}\"\n",
        );
    let told = scenario.run(&["."]);
    assert!(told.stdout.contains("{\"letters\":8,\"place\":\"/letters/a.txt\"}"), "{told}");
    assert!(told.stdout.contains("/main.worker"), "{told}");
}
