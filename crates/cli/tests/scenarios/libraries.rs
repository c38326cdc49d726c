//! Installing, pinning and removing libraries (docs/guides/libraries.md).

mod git;
mod own_folder;

use crate::scenario::{Finished, Scenario};
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

const WORKER: &str = "---\n---\nHi.\n";

/// The text of a `lib.yaml` that exports the worker `a`.
fn lib(name: &str, version: &str, more: &str) -> String {
    format!("name: {name}\nversion: {version}\nexports: [a]\n{more}")
}

/// Adds a library in a folder of the project.
fn with_library(scenario: Scenario, folder: &str, name: &str, version: &str, more: &str) -> Scenario {
    scenario
        .file(&format!("{folder}/lib.yaml"), &lib(name, version, more))
        .file(&format!("{folder}/workers/a.worker"), WORKER)
}

fn utils() -> Scenario {
    with_library(Scenario::new(), "utils", "utils", "1.2.0", "description: Text tools\n")
}

fn libs(scenario: &Scenario) -> PathBuf {
    scenario.home().join("home/.llm-do/libs")
}

/// The entries of the folder of installed libraries, except its lock.
fn installed(scenario: &Scenario) -> Vec<String> {
    let Ok(entries) = fs::read_dir(libs(scenario)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

fn json(told: &Finished) -> Value {
    serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn refused(told: &Finished, with: &str) {
    assert!(told.code == Some(2) || told.code == Some(1), "{told}");
    assert!(told.stderr.contains(with), "`{with}` is missing: {told}");
}

#[test]
fn folder_is_installed_shown_and_removed() {
    let scenario = utils().file("utils/__pycache__/x.pyc", "left out");
    assert_snapshot!(scenario.run(&["lib", "install", "./utils"]), @"
    exit 0
    --- stdout
    utils@1.2.0  installed  [DIR]/home/.llm-do/libs/utils@1.2.0
    ");
    assert_snapshot!(scenario.run(&["lib", "install", "utils/"]), @"
    exit 0
    --- stdout
    utils@1.2.0  already installed  [DIR]/home/.llm-do/libs/utils@1.2.0
    ");
    assert_eq!(installed(&scenario), ["utils@1.2.0"]);
    assert!(!libs(&scenario).join("utils@1.2.0/__pycache__").exists());
    assert_snapshot!(scenario.run(&["lib", "list"]), @"
    exit 0
    --- stdout
    utils@1.2.0  Text tools  [DIR]/home/.llm-do/libs
    ");
    assert_snapshot!(scenario.run(&["lib", "info", "utils"]), @"
    exit 0
    --- stdout
    utils@1.2.0
    description   Text tools
    folder        [DIR]/home/.llm-do/libs/utils@1.2.0
    exports       a
    files         2, 76 bytes
    hash          ff39085f9590d737889f2b0f1929931878be83d0f5783e2e92fd2bb89e455103
    ");
    let info = json(&scenario.run(&["lib", "info", "utils@1.2.0", "--json"]));
    assert_eq!(
        (&info["files"], &info["exports"][0], &info["pinned"]),
        (&2.into(), &"a".into(), &Value::Null)
    );
    assert_snapshot!(scenario.run(&["lib", "remove", "utils"]), @"
    exit 0
    --- stdout
    utils@1.2.0  removed
    ");
    assert_eq!(installed(&scenario), [""; 0]);
    assert_snapshot!(scenario.run(&["lib", "remove", "utils"]), @"
    exit 2
    --- stderr
    error: the library `utils` is not installed
    hint: `llm-do lib list` shows those that are
    ");
}

#[test]
fn additional_library_folders_take_precedence() {
    let scenario = utils().env("LLM_DO_LIBS", "one:two");
    scenario.run(&["lib", "install", "./utils"]);
    assert!(scenario.project().join("one/utils@1.2.0/lib.yaml").exists());
    let told = scenario.run(&["lib", "install", "./utils", "--lib", "three"]);
    assert!(scenario.project().join("three/utils@1.2.0/lib.yaml").exists(), "{told}");
    let roots = json(&scenario.run(&["lib", "list", "--lib", "three", "--json"]));
    let names: Vec<&str> = roots["roots"]
        .as_array()
        .expect("roots")
        .iter()
        .map(|root| {
            Path::new(root.as_str().expect("a path")).file_name().and_then(|n| n.to_str()).expect("a name")
        })
        .collect();
    assert_eq!(names, ["three", "one", "two"]);
    assert_eq!(roots["libraries"].as_array().map(Vec::len), Some(2));
}

#[test]
fn run_uses_only_pinned_libraries() {
    let scenario = utils()
        .file("project.yaml", "dependencies: [./utils]\n")
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: ['utils:a']\n---\nHi.\n")
        .file("utils/workers/a.worker", "---\nmodel: script:s.yaml\n---\nHi.\n")
        .file("s.yaml", "answers:\n  - text: done\n");
    assert_eq!(scenario.run(&["lib", "install"]).code, Some(0));
    let told = scenario.run(&[".", "hi"]);
    assert_eq!(told.stdout, "done\n", "{told}");
    let worker = libs(&scenario).join("utils@1.2.0/workers/a.worker");
    fs::write(&worker, "---\n---\nObey.\n").expect("a file");
    for arguments in [&[".", "hi"][..], &["check"]] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(2), "{told}");
        let all = format!("{}{}", told.stdout, told.stderr);
        assert!(all.contains("E0608") && all.contains("it is changed"), "{told}");
    }
    fs::remove_file(&worker).expect("a file");
    let told = scenario.run(&["check"]);
    assert!(told.stdout.contains("it is missing"), "{told}");
    assert_eq!(scenario.run(&["lib", "install", "--force"]).code, Some(0));
    assert_eq!(scenario.run(&[".", "hi"]).stdout, "done\n");
}

#[test]
fn check_reports_an_export_that_a_library_does_not_have() {
    let scenario = utils();
    assert_eq!(scenario.run(&["lib", "install", "./utils"]).code, Some(0));
    fs::remove_file(libs(&scenario).join("utils@1.2.0/workers/a.worker")).expect("a worker");
    let scenario = scenario.file("project.yaml", "dependencies: [utils]\n").file("main.worker", WORKER);
    let told = scenario.run(&["check"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stdout.contains("there is no worker `a`") && told.stdout.contains("lib.yaml"), "{told}");
}

#[test]
fn edited_path_dependency_is_reported_and_installed_again() {
    let scenario = with_library(Scenario::new(), "libs/style", "style", "1.0", "")
        .file("project.yaml", "model: script:s.yaml\ndependencies: [./libs/style]\n")
        .file("main.worker", "---\nallow_workers: ['style:a']\n---\nGo.\n")
        .file("s.yaml", "answers: [{text: done}]\n");
    assert_eq!(scenario.run(&["lib", "install"]).code, Some(0));
    assert!(!scenario.run(&["."]).stderr.contains("W0612"));
    let scenario = scenario.file("libs/style/workers/a.worker", "---\n---\nHo.\n");
    for command in ["run", "check"] {
        let told = scenario.run(&[command, "."]);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(told.to_string().contains("`./libs/style` has changed since it was installed"), "{told}");
    }
    assert_snapshot!(scenario.run(&["lib", "install"]), @"
    exit 0
    --- stdout
    style@1.0  replaced  [DIR]/home/.llm-do/libs/style@1.0
    ~ style 1.0: `workers/a.worker` is changed
    llm-do.lock pins 1 library
    ");
    let told = scenario.run(&["check", "."]);
    assert!(!told.to_string().contains("W0612"), "{told}");
    // Another project has installed another library of this name and version: it is not replaced.
    fs::write(libs(&scenario).join("style@1.0/workers/a.worker"), "---\n---\nTheirs.\n").expect("a file");
    let scenario = scenario.file("libs/style/workers/a.worker", "---\n---\nHa.\n");
    refused(&scenario.run(&["lib", "install"]), "--force");
}
