//! Python in the documentation: every block of the guide is a module that llm-do can load, and errors are what Python says.

use super::fixture::{has_python, run};
use crate::scenario::Scenario;
use std::path::Path;

#[test]
fn python_blocks_of_the_guide_are_valid_tool_modules() {
    if !has_python() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/python-tools.md");
    let page = std::fs::read_to_string(page).expect("the guide");
    let blocks: Vec<&str> = page
        .split("\n```python\n")
        .skip(1)
        .map(|piece| piece.split_once("\n```").expect("a block has an end").0)
        .collect();
    assert!(blocks.len() >= 8, "the guide has lost its examples");
    let mut scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nGo.\n")
        .file("s.yaml", "answers:\n  - text: done\n")
        .file("tools/rates.json", "{}");
    for (n, block) in blocks.iter().enumerate() {
        let file = if block.contains("def main(") { "flow.py" } else { &format!("tools/m{n}.py") };
        scenario = scenario.file(file, &format!("{block}\n"));
    }
    let check = |entry: &str| {
        let told = run(&scenario, &["check", ".", "--entry", entry]);
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), "nothing is wrong\n"), "{told}");
    };
    check("main");
    let told = run(&scenario, &["."]);
    assert_eq!(told.stdout, "done\n", "{told}");
    let offered = super::fixture::offered(&scenario);
    for name in [
        "split",
        "forecast",
        "tomorrow",
        "distance",
        "convert",
        "refund",
        "price",
        "shout",
        "who",
        "chart",
        "population",
        "review",
        "publish",
        "count_lines",
    ] {
        let asked = ["refund"].contains(&name);
        assert!(asked || offered.iter().any(|one| one == name), "{name}: {offered:?}");
    }
    std::fs::remove_file(scenario.project().join("main.worker")).expect("a file");
    check("flow.py:main");
}

#[test]
fn page_of_a_syntax_error_shows_what_python_says() {
    if !has_python() {
        return;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |page: &str| std::fs::read_to_string(docs.join(page)).expect("a page");
    let page = read("diagnostics/E0708.md");
    let block = |page: &str, start: &str| {
        let (_, rest) = page.split_once(start).expect("a block");
        rest.split_once("```").expect("its end").0.to_owned()
    };
    let scenario = Scenario::new()
        .file("main.worker", &block(&page, "```yaml\n"))
        .file("tools.py", &block(&page, "```python\n"));
    let told = run(&scenario, &["check"]);
    assert_eq!(told.code, Some(2), "{told}");
    // The words of an older Python.
    if !told.stdout.contains("invalid syntax") {
        assert_eq!(told.stdout, block(&page, "```text\n"), "{told}");
        assert!(read("guides/check.md").contains(&told.stdout), "{told}");
    }
}
