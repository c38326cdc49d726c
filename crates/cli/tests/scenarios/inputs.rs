//! The input that a worker gets (docs/reference/worker-files.md).

use crate::scenario::Story;
use serde_json::Value;

fn instructions(records: &[Value]) -> Vec<&str> {
    records.iter().filter_map(|record| record["system"].as_str()).collect()
}

#[test]
fn a_parameter_comes_before_a_built_in_variable() {
    let story = Story::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nparameters: {input: string, run: string, worker: string?}\n---\n\
             {{ input }} {{ run }} {{ worker }} {{ project.name is defined }}\n",
        )
        .file("open.worker", "---\nmodel: script:s.yaml\n---\n{{ worker.id }} {{ input.worker }}\n")
        .file("s.yaml", "answers: [{text: ok}]\n");
    let told = story.run(&[".", "--param", "input=a", "--param", "run=b"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(instructions(&story.journal()), ["a b None True"]);
    let checked = story.run(&["check", "."]);
    assert_eq!(checked.stdout.matches("W0809").count(), 3, "{checked}");
    // A key that only the caller chose hides nothing.
    let shown = story.run(&["show", "./open.worker", "--prompt", "--input", r#"{"worker": "mine"}"#]);
    assert!(shown.stdout.contains("open mine"), "{shown}");
}
