//! Files of cases are a program's own files: a case reaches nothing outside of its copy, whatever it names.

use crate::scenario::Scenario;
use insta::assert_snapshot;
use std::{fs, os::unix::fs::symlink};

const SCRIPT: &str = "\
answers:
  - when: {turn: 0}
    calls:
      - {tool: read_file, arguments: {path: dir/mine.txt}}
      - {tool: write_file, arguments: {path: dir/new.txt, content: changed}}
  - text: \"{{ last }}\"
";

/// A worker that reads and writes in the folder that it is given.
fn writer(dir: &str) -> Scenario {
    let worker = "---\nmodel: script:s.yaml\nparameters: {dir: path}\ntoolsets: {filesystem: {}}\nsandbox: {write: [\"${dir}\"]}\n---\nTidy up.\n";
    let cases =
        format!("cases:\n- name: tidy\n  input: {{dir: {dir}}}\n  expect: {{output: {{matches: mine}}}}\n");
    let scenario = Scenario::new()
        .file("main.worker", worker)
        .file("s.yaml", SCRIPT)
        .file("main.cases.yaml", &cases)
        .file("inside/mine.txt", "mine");
    let outside = scenario.home().join("outside");
    fs::create_dir_all(&outside).expect("a folder");
    fs::write(outside.join("mine.txt"), "mine").expect("a file");
    symlink(&outside, scenario.project().join("link")).expect("a link");
    scenario
}

#[test]
fn a_path_of_an_input_is_a_path_of_the_copy() {
    let inside = writer("inside");
    let told = inside.run(&["test"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!inside.project().join("inside/new.txt").exists());
    let linked = writer("link");
    assert_snapshot!(linked.run(&["test", "--update"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: tidy
          `dir`: `link` leads out of the folder of this run
            signature: main(dir: path)
    0 of 1 cases pass
    "##);
    assert!(!linked.home().join("outside/new.txt").exists());
    assert!(!linked.project().join("main.recorded/tidy.1.jsonl").exists());
    let project = writer("inside");
    let root = project.project().join("inside").display().to_string();
    for dir in ["..", "inside/../..", "/", &root] {
        let cases = project.read("main.cases.yaml").expect("cases");
        let cases = cases.replace("dir: inside", &format!("dir: {dir:?}"));
        let project = writer("inside").file("main.cases.yaml", &cases);
        for command in [&["check"][..], &["test"]] {
            let told = project.run(command);
            assert_eq!(told.code, Some(2), "{dir}: {told}");
            assert!(told.to_string().contains("E0903"), "{dir}: {told}");
        }
    }
}

#[test]
fn a_path_that_is_not_there_fails_its_case_alone() {
    let cases = "\
cases:
- name: absent
  input: {dir: nowhere}
  expect: {output: {matches: mine}}
- name: there
  input: {dir: inside}
  expect: {output: {matches: mine}}
";
    let scenario = writer("inside").file("main.cases.yaml", cases);
    let worker = scenario.read("main.worker").expect("a worker").replace("write:", "read:");
    let scenario = scenario.file("main.worker", &worker);
    assert_snapshot!(scenario.run(&["test"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: absent
          `dir`: `nowhere` does not exist
            signature: main(dir: path)
    pass  main.cases.yaml: there
    1 of 2 cases pass

    --- stderr
    note: no case has a recording, so 2 cases ask models: `--update` records the answers, `--recorded` asks no model, and `--max-cost USD` limits the cost
    "##);
}

#[test]
fn a_folder_of_files_is_not_written_through_links() {
    let cases = "cases:\n- name: files\n  input: {dir: inside}\n  files: fixture\n  expect: {output: {matches: mine}}\n";
    let scenario = writer("inside").file("main.cases.yaml", cases).file("fixture/link/mine.txt", "changed");
    assert_snapshot!(scenario.run(&["test"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: files
          files: `link` is not a path below the root of the copy, or leads through a symbolic link
    0 of 1 cases pass

    --- stderr
    note: no case has a recording, so 1 case asks models: `--update` records the answers, `--recorded` asks no model, and `--max-cost USD` limits the cost
    "##);
    let outside = scenario.home().join("outside/mine.txt");
    assert_eq!(fs::read_to_string(outside).expect("a file"), "mine");
}

#[test]
fn a_linked_folder_of_recordings_is_left_alone() {
    let scenario = writer("inside");
    let outside = scenario.home().join("outside");
    fs::write(outside.join("kept.jsonl"), "kept").expect("a file");
    symlink(&outside, scenario.project().join("main.recorded")).expect("a link");
    let told = scenario.run(&["test", "--update"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains("symbolic link"), "{told}");
    assert!(outside.join("kept.jsonl").exists() && !outside.join("tidy.1.jsonl").exists());
}

#[test]
fn a_secret_in_a_file_is_in_no_report() {
    let secret = "sk-test-0123456789abcdefghij";
    let cases = format!(
        "cases:\n- name: files\n  input: {{dir: inside}}\n  files: {{out.txt: {secret}}}\n  expect: {{files: {{out.txt: other}}}}\n"
    );
    let scenario = writer("inside").file("main.cases.yaml", &cases).env("OPENAI_API_KEY", secret);
    let told = scenario.run(&["test", "--junit", "r.xml", "--summary", "r.md"]);
    assert_eq!(told.code, Some(1), "{told}");
    for text in
        [told.stdout, scenario.read("r.xml").expect("a report"), scenario.read("r.md").expect("a summary")]
    {
        assert!(text.contains("out.txt") && !text.contains(secret), "{text}");
    }
}
