//! Handling by `llm-do map` of files at the place of its output, and of its own state.

use crate::scenario::{Finished, Scenario, lines};
use std::{fs, path::PathBuf, process::Stdio, thread, time::Duration};

const WORKER: &str =
    "---\nmodel: script:s.yaml\nparameters: {text: string}\ntoolsets: [filesystem]\n---\nX\n";
const SCRIPT: &str = "answers:\n  - when: {last_regex: explode}\n    error: {kind: bad_request, message: no}\n  - text: fine\n";
/// The second answer does not come.
const STUCK: &str =
    "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files}]\n  - text: late\n    delay_ms: 60000\n";
const COMMAND: [&str; 7] = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
const FAILURES: &str = "out.jsonl.failures.jsonl";

fn scenario() -> Scenario {
    Scenario::new().file("w.worker", WORKER).file("s.yaml", SCRIPT).file("in.csv", "text\na\nexplode\n")
}

fn journals(scenario: &Scenario) -> Vec<PathBuf> {
    let state = fs::read_dir(scenario.project().join("out.jsonl.map")).into_iter().flatten();
    let paths = state.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.file_name().expect("a name").to_string_lossy().starts_with("journal-")).collect()
}

/// Returns the number of times that the records have this word.
fn recorded(scenario: &Scenario, word: &str) -> usize {
    let count = |path: &PathBuf| fs::read_to_string(path).expect("a segment").matches(word).count();
    journals(scenario).iter().map(count).sum()
}

/// Runs the command until a row waits for its second answer, and kills it.
fn kill_in_the_middle(scenario: &Scenario) {
    let mut child = scenario.command(&COMMAND).stderr(Stdio::null()).spawn().expect("it starts");
    while recorded(scenario, "\"tool_ended\"") == 0 {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before it was killed");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

fn refused(told: &Finished, file: &str) {
    assert!(told.code == Some(2) && told.stderr.contains(&format!("move {file} away")), "{told}");
}

#[test]
fn a_file_that_the_user_made_after_a_kill_is_not_overwritten() {
    for file in ["out.jsonl", FAILURES] {
        let scenario = scenario().file("s.yaml", STUCK);
        kill_in_the_middle(&scenario);
        let scenario = scenario.file(file, "precious\n").file("s.yaml", SCRIPT);
        refused(&scenario.run(&COMMAND), file);
        assert_eq!(scenario.read(file).as_deref(), Some("precious\n"));
        fs::remove_file(scenario.project().join(file)).unwrap();
        assert!(scenario.run(&COMMAND).code.is_some_and(|code| code < 2));
    }
}

#[test]
fn a_file_that_the_user_edited_is_not_overwritten() {
    for file in ["out.jsonl", FAILURES] {
        let scenario = scenario();
        assert_eq!(scenario.run(&COMMAND).code, Some(1));
        assert_eq!(scenario.run(&COMMAND).code, Some(1), "the command's own files are replaced");
        // Of the same length.
        let edited = scenario.read(file).unwrap().replace("\"row\":", "\"raw\":");
        let scenario = scenario.file(file, &edited);
        refused(&scenario.run(&[&COMMAND[..], &["--retry-failed"]].concat()), file);
        assert_eq!(scenario.read(file).as_ref(), Some(&edited));
        fs::rename(scenario.project().join(file), scenario.project().join("mine.jsonl")).unwrap();
        assert_eq!(scenario.run(&COMMAND).code, Some(1));
        assert_eq!(lines(&scenario.read(file).unwrap()).len(), 1);
    }
    // Made while the map runs.
    let slow = "answers:\n  - text: fine\n    delay_ms: 700\n";
    let scenario = scenario().file("s.yaml", slow);
    let child = scenario.command(&COMMAND).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    while scenario.read("out.jsonl.map/journal-000000.jsonl").is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    let scenario = scenario.file("out.jsonl", "precious\n");
    let told = scenario.finished(child.wait_with_output().unwrap());
    assert!(told.code == Some(1) && told.stderr.contains("move out.jsonl away"), "{told}");
    fs::remove_file(scenario.project().join("out.jsonl")).unwrap();
    assert_eq!(scenario.run(&COMMAND).code, Some(0));
    assert_eq!(lines(&scenario.read("out.jsonl").unwrap()).len(), 2);
}

#[test]
fn rows_continue_after_the_records_of_ended_rows_were_removed() {
    let scenario = scenario().file("in.csv", "text\na\n");
    for row in ["b", "c"] {
        assert_eq!(scenario.run(&COMMAND).code, Some(0));
        fs::write(scenario.project().join("in.csv"), format!("text\na\n{row}\n")).unwrap();
    }
    assert_eq!(journals(&scenario).len(), 2);
    journals(&scenario).into_iter().for_each(|path| fs::remove_file(path).unwrap());
    let scenario = scenario.file("s.yaml", STUCK);
    kill_in_the_middle(&scenario);
    let scenario = scenario.file("s.yaml", &STUCK.replace("60000", "0"));
    let told = scenario.run(&COMMAND);
    assert!(told.code == Some(0) && told.stderr.contains("1 of the missing rows began before"), "{told}");
    assert_eq!(recorded(&scenario, "\"tool_started\""), 1, "the call is not made again");
}

#[test]
fn a_folder_of_something_else_is_refused_untouched() {
    let scenario = scenario().file("out.jsonl.map/precious", "");
    let told = scenario.run(&COMMAND);
    refused(&told, "out.jsonl.map");
    assert_eq!(fs::read_dir(scenario.project().join("out.jsonl.map")).unwrap().count(), 1);
    // What a command that was killed at once has left is its own.
    let scenario = self::scenario().file("out.jsonl.map/.gitignore", "*\n").file("out.jsonl.map/lock", "");
    assert_eq!(scenario.run(&COMMAND).code, Some(1));
}

#[test]
fn ways_out_name_all_files_of_the_map() {
    let scenario = scenario().file("more.csv", "text\nb\n");
    assert_eq!(scenario.run(&COMMAND).code, Some(1));
    let other = ["map", "w.worker", "more.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
    let all = "remove out.jsonl.map, out.jsonl and out.jsonl.failures.jsonl";
    let told = scenario.run(&other);
    assert!(told.code == Some(2) && told.stderr.contains(all), "{told}");
    let header = scenario.read("out.jsonl.map/map.json").unwrap();
    let scenario = scenario.file("out.jsonl.map/map.json", &header.replace("2", "3"));
    let told = scenario.run(&COMMAND);
    assert!(told.code == Some(2) && told.stderr.contains(all), "{told}");
    fs::remove_dir_all(scenario.project().join("out.jsonl.map")).unwrap();
    for file in ["out.jsonl", FAILURES] {
        fs::remove_file(scenario.project().join(file)).unwrap();
    }
    assert!(scenario.run(&other).code == Some(0));
}

#[test]
fn an_output_that_is_no_file_is_a_wrong_command_line() {
    for (output, says) in [
        ("o/dir/", "o/dir/ is a folder"),
        (".", ". is a folder"),
        ("-", "the output can't be a pipe"),
        ("w.worker/out.jsonl", "w.worker is not a folder"),
        ("w.worker/o/out.jsonl", "w.worker is not a folder"),
    ] {
        let scenario = scenario();
        let told = scenario.run(&["map", "w.worker", "in.csv", "-o", output, "--max-cost", "unlimited"]);
        assert!(told.code == Some(2) && told.stderr.contains(says), "{told}");
    }
    let told = scenario().run(&["map", "w.worker", "-", "-o", "out.jsonl", "--max-cost", "unlimited"]);
    assert!(told.code == Some(2) && told.stderr.contains("it can't be a pipe"), "{told}");
}

#[test]
fn a_broken_line_of_the_results_is_named() {
    let scenario = scenario();
    assert_eq!(scenario.run(&COMMAND).code, Some(1));
    let results = scenario.read("out.jsonl.map/results.jsonl").unwrap();
    let scenario = scenario.file("out.jsonl.map/results.jsonl", &format!("{results}oops\n{results}"));
    let told = scenario.run(&COMMAND);
    let line = results.lines().count() + 1;
    assert!(told.stderr.contains(&format!("out.jsonl.map/results.jsonl: line {line}:")), "{told}");
}

#[test]
fn an_output_in_the_folder_of_the_inputs_is_no_row() {
    let scenario = Scenario::new()
        .file("w.worker", "---\nmodel: script:s.yaml\nparameters: {text: string}\n---\nX\n")
        .file("s.yaml", SCRIPT)
        .file("docs/a.txt", "fine")
        .file("docs/b.txt", "explode");
    let words = ["map", "w.worker", "docs", "-o", "docs/out.jsonl", "--max-cost", "unlimited"];
    for _ in 0..2 {
        let told = scenario.run(&words);
        assert!(told.code == Some(1) && told.stdout.starts_with("2 rows: 1 done"), "{told}");
    }
}
