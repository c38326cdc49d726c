//! The input that a worker gets (docs/reference/worker-files.md): defaults, and parameters with the names of built-in
//! variables. A run, a delegation, a preview and `gate explain` have one way into a worker.

use crate::scenario::Scenario;
use serde_json::{Value, json};

const CHILD: &str = "---\nmodel: script:child.yaml\nschema_in_ref: child.json\n---\n\
                     {{ pages }} {{ item.unit }} {{ item.name }} {{ input }}\n";

fn scenario() -> Scenario {
    Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:main.yaml\nallow_workers: [child]\nallow_empty_input: false\nparameters:\n  \
             pages: {type: integer, default: 3}\n  sender: {name: string, mail: {type: string, default: none}}\n\
             ensures: [input.pages == 3]\n---\n{{ pages }} {{ sender.mail }} {{ input.sender.mail }}\n",
        )
        .file("main.yaml", "answers:\n  - calls: [{tool: child, arguments: {item: {name: x}}}]\n    when: {turn: 0}\n  - text: done\n")
        .file("workers/child.worker", CHILD)
        .file(
            "workers/child.json",
            r#"{"type": "object", "properties": {"pages": {"default": 1}, "item": {"$ref": "item.json#/$defs/item"}}, "required": ["pages"]}"#,
        )
        .file(
            "workers/item.json",
            r#"{"$defs": {"item": {"type": "object", "properties": {"name": {}, "unit": {"type": "string", "default": "kg"}}}}}"#,
        )
        .file("child.yaml", "answers: [{text: ok}]\n")
}

/// Returns the instructions of each worker with its message.
fn instructions(records: &[Value]) -> Vec<String> {
    let told = |record: &Value| {
        let system = record["system"].as_str()?;
        Some(format!("{system}{}", record["message"]["parts"][0]["text"].as_str().unwrap_or_default()))
    };
    records.iter().filter_map(told).collect()
}

#[test]
fn defaults_are_filled_in_for_every_caller() {
    let scenario = scenario();
    let given = ["--input", r#"{"sender": {"name": "Ada"}}"#];
    let told = scenario.run(&[&["."], &given[..]].concat());
    assert_eq!(told.code, Some(0), "{told}");
    let journal = scenario.journal();
    let child = "1 kg x {'item': {'name': 'x', 'unit': 'kg'}, 'pages': 1}";
    assert_eq!(instructions(&journal), ["3 none none", child]);
    let shown = scenario.run(&[&["show", "--prompt"], &given[..]].concat());
    assert!(shown.stdout.contains("3 none none"), "{shown}");
    let shown = scenario.run(&["show", "child", "--prompt", "--input", r#"{"item": {"name": "x"}}"#]);
    assert!(shown.stdout.contains(child), "{shown}");
}

#[test]
fn approvals_and_rules_see_defaults() {
    let scenario = scenario();
    let told = scenario.run(&[
        ".",
        "--input",
        r#"{"sender": {"name": "Ada"}}"#,
        "--ask",
        "child",
        "--approval",
        "defer",
    ]);
    assert_eq!(told.code, Some(5), "{told}");
    let asked = scenario.journal().into_iter().find(|record| record["kind"] == "asked").expect("a question");
    let input = json!({"item": {"name": "x", "unit": "kg"}, "pages": 1});
    assert!(asked.to_string().contains(&input.to_string()), "{asked}");
    let explained =
        scenario.run(&["gate", "explain", "child", "{}", "--input", r#"{"sender": {"name": "Ada"}}"#]);
    assert_eq!(explained.code, Some(0), "{explained}");
}

#[test]
fn a_call_with_nothing_but_defaults_is_empty() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nallow_empty_input: false\nparameters: {n: {type: integer, default: 3}}\n---\n{{ n }}\n",
        )
        .file("s.yaml", "answers: [{text: ok}]\n");
    let told = scenario.run(&["."]);
    assert!(told.code == Some(2) && told.stderr.contains("needs an input"), "{told}");
    assert_eq!(scenario.run(&[".", "--param", "n=4"]).code, Some(0));
}

#[test]
fn a_parameter_comes_before_a_built_in_variable() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nparameters: {input: string, run: string, worker: string?}\n---\n\
             {{ input }} {{ run }} {{ worker }} {{ project.name is defined }}\n",
        )
        .file("open.worker", "---\nmodel: script:s.yaml\n---\n{{ worker.id }} {{ input.worker }}\n")
        .file("s.yaml", "answers: [{text: ok}]\n");
    let told = scenario.run(&[".", "--param", "input=a", "--param", "run=b"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(instructions(&scenario.journal()), ["a b None True"]);
    let checked = scenario.run(&["check", "."]);
    assert_eq!(checked.stdout.matches("W0809").count(), 3, "{checked}");
    // A key that only the caller chose hides nothing.
    let shown = scenario.run(&["show", "./open.worker", "--prompt", "--input", r#"{"worker": "mine"}"#]);
    assert!(shown.stdout.contains("open mine"), "{shown}");
}
