//! The files of a library's own folder: its workers may read those that its sandbox declares, and write none.

use super::{lib, libs};
use crate::scenario::Scenario;
use serde_json::Value;
use std::fs;

/// A project whose worker calls a library's, which reads a file of the library's own folder.
fn with_data(mode: &str) -> Scenario {
    let sandbox = format!("sandbox: {{paths: {{data: {{root: ./data, mode: {mode}}}}}}}");
    Scenario::new()
        .file("project.yaml", "dependencies: [utils]\n")
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: ['utils:a']\n---\nGo.\n")
        .file("libs/utils/lib.yaml", &lib("utils", "1.0.0", ""))
        .file(
            "libs/utils/workers/a.worker",
            &format!("---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n{sandbox}\n---\nRead.\n"),
        )
        .file("libs/utils/data/words.txt", "bees")
        .file(
            "s.yaml",
            "answers:\n  - when: {worker: main, turn: 0}\n    calls: [{tool: utils__a, arguments: {input: go}}]\n  \
             - when: {worker: 'utils:a', turn: 0}\n    calls: [{tool: read_file, arguments: {path: data/words.txt}}, {tool: list_files, arguments: {path: /}}, {tool: write_file, arguments: {path: data/x.txt, content: x}}]\n  \
             - text: '{{ last }}'\n",
        )
}

#[test]
fn workers_of_a_library_read_its_own_folder_and_nothing_else() {
    let scenario = with_data("ro");
    fs::create_dir_all(libs(&scenario)).expect("a folder");
    fs::rename(scenario.project().join("libs/utils"), libs(&scenario).join("utils")).expect("it moves");
    let checked = scenario.run(&["check", "."]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let told = scenario.run(&[".", "go", "--approval", "approve_all"]);
    assert_eq!(told.code, Some(0), "{told}");
    let journal = scenario.journal();
    let endings: Vec<&Value> = journal
        .iter()
        .filter(|record| record["path"].as_str().is_some_and(|path| path.starts_with("0/0.0/0.")))
        .filter_map(|record| record.get("ending"))
        .collect();
    let mut given: Vec<&str> = endings.iter().filter_map(|ending| ending["output"].as_str()).collect();
    given.sort_unstable();
    assert_eq!(given, ["/data/\n/data/words.txt  (4 bytes)", "bees"], "and nothing of the program's files");
    assert!(!libs(&scenario).join("utils/data/x.txt").exists());
}

#[test]
fn a_library_may_not_write_into_its_own_folder() {
    let scenario = with_data("rw");
    fs::create_dir_all(libs(&scenario)).expect("a folder");
    fs::rename(scenario.project().join("libs/utils"), libs(&scenario).join("utils")).expect("it moves");
    for arguments in [["check", "."], [".", "go"]] {
        let told = scenario.run(&arguments);
        assert_eq!(told.code, Some(2), "{told}");
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains("E0803") && said.contains("may read the library's own folder"), "{told}");
    }
}
