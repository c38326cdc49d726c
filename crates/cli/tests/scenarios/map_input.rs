//! Matching of rows with parameters by `llm-do map`, and messages about rows that don't fit.

use crate::scenario::{Finished, Scenario, lines};
use serde_json::{Value, json};

const WORKER: &str =
    "---\nmodel: script:s.yaml\nparameters: {text: string, lang: string, n: integer?}\n---\nX\n";
const SCRIPT: &str = "answers:\n  - when: {last_regex: explode}\n    error: {kind: bad_request, message: no}\n  - text: fine\n";

fn scenario() -> Scenario {
    Scenario::new().file("w.worker", WORKER).file("s.yaml", SCRIPT)
}

fn map(scenario: &Scenario, input: &str, more: &[&str]) -> Finished {
    let words = ["map", "w.worker", input, "-o", "out.jsonl", "--max-cost", "unlimited"];
    scenario.run(&[&words[..], more].concat())
}

/// The inputs of the runs, as their records have them.
fn inputs(scenario: &Scenario, output: &str) -> Vec<Value> {
    let records = lines(&scenario.read(&format!("{output}.map/journal-000000.jsonl")).unwrap_or_default());
    let called = records.into_iter().filter(|line| line["record"]["kind"] == "call_started");
    called.map(|line| line["record"]["input"].clone()).collect()
}

#[test]
fn a_column_of_the_command_line_that_no_row_has_is_an_error() {
    let scenario = scenario().file("in.jsonl", "{\"text\": \"a\", \"lang\": \"en\"}\n");
    for more in [&["--ignore-column", "zzz"][..], &["--set-column", "n=typo"]] {
        let told = map(&scenario, "in.jsonl", more);
        assert!(told.code == Some(2) && told.stderr.contains("no row has a column `"), "{told}");
        assert!(!scenario.project().join("out.jsonl.map").exists());
    }
}

#[test]
fn a_parameter_from_a_column_and_from_the_command_line_is_an_error() {
    let scenario = scenario()
        .file("in.jsonl", "{\"text\": \"a\"}\n")
        .file("in.csv", "text\na\n")
        .file("docs/a.txt", "a");
    let both = ["--param", "lang=en", "--param", "text=z"];
    for input in ["in.jsonl", "in.csv"] {
        let told = map(&scenario, input, &both);
        assert!(told.code == Some(2) && told.stderr.contains("--ignore-column text"), "{told}");
        assert_eq!(map(&scenario, input, &[&both[..], &["--ignore-column", "text"]].concat()).code, Some(0));
        std::fs::remove_dir_all(scenario.project().join("out.jsonl.map")).unwrap();
        std::fs::remove_file(scenario.project().join("out.jsonl")).unwrap();
    }
    let told = map(&scenario, "docs", &both);
    assert!(told.code == Some(2) && told.stderr.contains("no parameter is for the files"), "{told}");
    let told = map(&scenario, "in.csv", &["--param", "lang=en", "--param", "n=many"]);
    assert!(told.code == Some(2) && told.stderr.contains("--param: `n=many`"), "{told}");
}

#[test]
fn a_key_twice_in_an_object_makes_the_row_unreadable() {
    let rows = "{\"text\": \"a\", \"text\": \"b\", \"lang\": \"en\"}\n{\"text\": \"a\", \"lang\": \"en\"}\n";
    let scenario = scenario().file("in.jsonl", rows);
    let told = map(&scenario, "in.jsonl", &[]);
    assert!(
        told.code == Some(1)
            && told.stderr.contains("in.jsonl:1 (row 1): an object has the key `text` twice"),
        "{told}"
    );
    assert_eq!(inputs(&scenario, "out.jsonl"), [json!({"text": "a", "lang": "en"})]);
}

#[test]
fn failures_hold_the_complete_input() {
    let rows =
        "{\"text\": \"explode\"}\n{\"text\": 5}\n{\"text\": \"a\", \"n\": \"x\"}\n\"explode too\"\n{cut\n";
    let scenario = scenario().file("in.jsonl", rows);
    assert_eq!(map(&scenario, "in.jsonl", &["--param", "lang=en"]).code, Some(1));
    let failures = lines(&scenario.read("out.jsonl.failures.jsonl").unwrap());
    assert_eq!(failures.len(), 5);
    assert!(failures.iter().all(|line| line["lang"] == "en"), "{failures:?}");
    assert_eq!(failures[3]["$row"], "explode too", "it is no object, and there are two texts to give");
    // Mended, they run without the flags of the first command.
    let mended: String = failures
        .into_iter()
        .map(|mut line| {
            match line.get("$row") {
                Some(_) => line["$row"] = json!({"text": "mended"}),
                None => line["text"] = "b".into(),
            }
            line.as_object_mut().unwrap().remove("n");
            format!("{line}\n")
        })
        .collect();
    let scenario = scenario.file("mended.jsonl", &mended);
    let told =
        scenario.run(&["map", "w.worker", "mended.jsonl", "-o", "second.jsonl", "--max-cost", "unlimited"]);
    assert_eq!(told.code, Some(0), "{told}");
    let mut texts: Vec<Value> =
        inputs(&scenario, "second.jsonl").into_iter().map(|input| input["text"].clone()).collect();
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["b", "b", "b", "mended", "mended"]);
}

#[test]
fn a_row_that_could_not_be_read_is_wrapped_once() {
    let scenario = scenario().file("in.jsonl", "{cut\n");
    assert_eq!(map(&scenario, "in.jsonl", &[]).code, Some(1));
    let first = lines(&scenario.read("out.jsonl.failures.jsonl").unwrap());
    assert_eq!(first[0]["$row"], "{cut");
    let second =
        ["map", "w.worker", "out.jsonl.failures.jsonl", "-o", "second.jsonl", "--max-cost", "unlimited"];
    let told = scenario.run(&second);
    assert!(
        told.code == Some(1) && told.stderr.contains("such as {\"$row\": {\"PARAMETER\": \"VALUE\"}}"),
        "{told}"
    );
    assert_eq!(lines(&scenario.read("second.jsonl.failures.jsonl").unwrap())[0]["$row"], "{cut");
}

#[test]
fn rows_are_checked_in_a_project_with_bindings_too() {
    let scenario = Scenario::new()
        .file("main.worker", WORKER)
        .file("s.yaml", SCRIPT)
        .file("project.yaml", "name: p\nbindings: {lang: en}\n")
        .file("in.jsonl", "{\"text\": 5}\n{}\n{\"text\": \"a\"}\n{\"text\": \"b\", \"lang\": \"de\"}\n");
    let told = scenario.run(&["map", ".", "in.jsonl", "-o", "out.jsonl", "--max-cost", "unlimited"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains("2 rows can't be used and fail:\n  in.jsonl:1 (row 1)"), "{told}");
    assert_eq!(
        inputs(&scenario, "out.jsonl"),
        [json!({"text": "a", "lang": "en"}), json!({"text": "b", "lang": "de"})]
    );
}

#[test]
fn instructions_and_attachments_are_columns_beside_the_declared_parameters() {
    let scenario = Scenario::new()
        .file("w.worker", "---\nmodel: script:s.yaml\nparameters: {text: string}\n---\nX\n")
        .file("s.yaml", SCRIPT)
        .file("in.csv", "text,instructions\na,be brief\nb,\n")
        .file("in.jsonl", "{\"text\": \"c\", \"attachments\": []}\n");
    let told = map(&scenario, "in.csv", &[]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(
        inputs(&scenario, "out.jsonl"),
        [json!({"text": "a", "instructions": "be brief"}), json!({"text": "b"})]
    );
    let words = ["map", "w.worker", "in.jsonl", "-o", "second.jsonl", "--max-cost", "unlimited"];
    let told = scenario.run(&[&words[..], &["--param", "instructions=hi"]].concat());
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(inputs(&scenario, "second.jsonl")[0]["instructions"], "hi");
}
