//! Installing, pinning and removing libraries (docs/guides/libraries.md).

mod git;
mod own_folder;

use crate::scenario::{Finished, Scenario};
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
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
fn one_version_cannot_have_two_contents() {
    let scenario = utils();
    scenario.run(&["lib", "install", "./utils"]);
    let scenario = scenario.file("utils/workers/a.worker", "---\n---\nHo.\n").file("utils/x.txt", "new");
    let told = scenario.run(&["lib", "install", "./utils"]);
    assert_snapshot!(told, @"
    exit 2
    --- stderr
    error: `utils@1.2.0` is installed already, in [DIR]/home/.llm-do/libs/utils@1.2.0, with other files
      `workers/a.worker` is changed
      `x.txt` is new
    hint: a library that changes gets another `version`
    hint: to replace the installed files: --force
    ");
    let told = scenario.run(&["lib", "install", "./utils", "--force", "--json"]);
    assert_eq!(json(&told)["installed"][0]["state"], "replaced");
    assert!(libs(&scenario).join("utils@1.2.0/x.txt").exists());
    let scenario = with_library(scenario, "other", "utils", "1.2.0-rc1", "");
    assert_eq!(scenario.run(&["lib", "install", "./other"]).code, Some(0));
    let scenario = with_library(scenario, "upper", "utils", "1.2.0-RC1", "");
    refused(&scenario.run(&["lib", "install", "./upper"]), "ignore case");
    refused(&scenario.run(&["lib", "remove", "utils"]), "more than once");
    assert_eq!(installed(&scenario), ["utils@1.2.0", "utils@1.2.0-rc1"]);
}

#[test]
fn damaged_lock_file_is_reported_and_rewritten() {
    let scenario = utils().file("project.yaml", "dependencies: [./utils]\n");
    scenario.run(&["lib", "install"]);
    let lock = scenario.read("llm-do.lock").expect("a lock file");
    let lie = lock.replacen(&lock[lock.find("lib.yaml").expect("a file") + 12..][..4], "0000", 1);
    let scenario = scenario.file("llm-do.lock", &lie);
    let told = scenario.run(&["lib", "install", "--locked"]);
    refused(&told, "E0609");
    let told = scenario.run(&["lib", "install"]);
    assert!(told.code == Some(0) && told.stderr.contains("warning[E0609]"), "{told}");
    assert_eq!(scenario.read("llm-do.lock"), Some(lock));
}

#[test]
fn library_in_use_is_not_removed_without_force() {
    let scenario = with_library(utils(), "more", "more", "1", "dependencies: [utils]\n");
    scenario.run(&["lib", "install", "./utils"]);
    scenario.run(&["lib", "install", "./more"]);
    let scenario = scenario.file("other/project.yaml", "dependencies: [utils@1.2.0]\n");
    assert_eq!(scenario.run(&["lib", "install", "--project", "other"]).code, Some(0));
    assert_snapshot!(scenario.run(&["lib", "remove", "utils"]), @"
    exit 2
    --- stderr
    error: `utils@1.2.0` is in use:
      [DIR]/project/other (llm-do.lock pins utils@1.2.0)
      more@1 (it names `utils`)
    hint: to remove it anyway: --force
    ");
    assert_eq!(installed(&scenario).len(), 2);
    let told = scenario.run(&["lib", "remove", "utils", "--force", "--json"]);
    assert_eq!(json(&told)["was_used_by"].as_array().map(Vec::len), Some(2), "{told}");
    assert_eq!(installed(&scenario), ["more@1"]);
}

#[test]
fn reinstalling_a_library_updates_its_pin() {
    let scenario = utils().file("project.yaml", "dependencies: [utils]\n");
    refused(&scenario.run(&["lib", "install"]), "E0601");
    assert!(scenario.read("llm-do.lock").is_none());
    let told = scenario.run(&["lib", "install", "./utils"]);
    assert!(told.stdout.contains("+ utils 1.2.0"), "{told}");
    // A change of an installed library is pinned, and reported.
    fs::write(libs(&scenario).join("utils@1.2.0/workers/a.worker"), "---\n---\nHo.\n").expect("a file");
    let told = scenario.run(&["lib", "install", "--json"]);
    assert_eq!(json(&told)["lock"]["changes"][0]["files"][0]["path"], "workers/a.worker", "{told}");
    let scenario = with_library(scenario, "newer", "utils", "1.10.0", "");
    let told = scenario.run(&["lib", "install", "./newer"]);
    assert!(told.stdout.contains("~ utils 1.2.0 → 1.10.0: `lib.yaml` is changed, "), "{told}");
    let scenario = with_library(scenario, "more", "more", "1", "");
    let told = scenario.run(&["lib", "install", "./more"]);
    assert!(told.stderr.contains("add `more@1` to `dependencies` in project.yaml"), "{told}");
}

#[test]
fn missing_conflicting_and_cyclic_dependencies_are_errors() {
    let scenario = with_library(utils(), "b", "b", "1", "dependencies: [utils@9]\n");
    scenario.run(&["lib", "install", "./utils"]);
    let told = scenario.run(&["lib", "install", "./b"]);
    refused(&told, "b@1 needs `utils@9`, which is not installed");
    refused(&told, "installed: utils@1.2.0");
    let scenario = with_library(scenario, "b", "b", "1", "dependencies: [utlis]\n");
    refused(&scenario.run(&["lib", "install", "./b"]), "did you mean `utils`?");

    let scenario = with_library(scenario, "new", "utils", "2", "");
    scenario.run(&["lib", "install", "./new"]);
    let scenario = with_library(scenario, "c", "c", "1", "dependencies: [utils@2]\n");
    scenario.run(&["lib", "install", "./c"]);
    let scenario = scenario.file("project.yaml", "dependencies: [c, utils@1.2.0]\n");
    let told = scenario.run(&["lib", "install"]);
    refused(&told, "two versions of `utils` are needed: the project needs 1.2.0, c@1 needs 2");

    let scenario = with_library(scenario, "x", "x", "1", "dependencies: [./y]\n");
    let scenario = with_library(scenario, "x/y", "y", "1", "dependencies: [./x]\n");
    let scenario = with_library(scenario, "x/y/x", "x", "1", "");
    refused(&scenario.run(&["lib", "install", "./x"]), "x → y → x");
}

#[test]
fn invalid_library_is_not_installed() {
    let scenario = Scenario::new().file("empty/readme", "").file("broken/lib.yaml", "name: [\n");
    for (spec, reason) in [
        ("./empty", "E0602"),
        ("./broken", "E0107"),
        ("./nowhere", "cannot be read"),
        ("utils", "there is no registry"),
        ("https://example.org/x", "git+https://example.org/x"),
        ("git+ext::sh -c touch% pwned", "cannot be fetched"),
        ("git+ext::sh", "would run a command"),
        ("git+https://u:secret@localhost/x", "credential helper"),
        ("git+./x#../y", "is outside the repository"),
        ("git+--upload-pack=x", "no address"),
        ("", "cannot be installed"),
    ] {
        refused(&scenario.run(&["lib", "install", "--", spec]), reason);
    }
    for (name, version, reason) in [
        ("../x", "1", "is not a library name"),
        ("a/b", "1", "is not a library name"),
        ("lib", "1", "E0610"),
        ("local", "1", "E0610"),
        ("con", "1", "E0610"),
        ("Utils", "1", "lower case"),
        ("x", "'../1'", "is not a version"),
        ("x", "'1/2'", "is not a version"),
        ("'x\u{1b}[2J'", "1", "E0107"),
    ] {
        let scenario = with_library(Scenario::new(), "x", name, version, "");
        let told = scenario.run(&["lib", "install", "./x"]);
        refused(&told, reason);
        assert!(!told.stderr.contains('\u{1b}'), "{told}");
        assert_eq!(installed(&scenario), [""; 0]);
    }
    let scenario = Scenario::new().file("x/lib.yaml", "name: x\nversion: 1\nexports: [gone]\n");
    refused(&scenario.run(&["lib", "install", "./x"]), "E0301");
    let scenario = with_library(Scenario::new(), "x", "x", "1", "").file("x/A", "").file("x/a", "");
    refused(&scenario.run(&["lib", "install", "./x"]), "ignore case");
}

#[test]
fn links_out_of_a_library_are_not_followed() {
    let scenario = utils().file("secret.txt", "secret");
    symlink("../secret.txt", scenario.project().join("utils/link")).expect("a link");
    refused(&scenario.run(&["lib", "install", "./utils"]), "`link` is a symbolic link");
    assert_eq!(installed(&scenario), [""; 0]);

    // A path in a manifest stays in the project, links included.
    let scenario = Scenario::new().file("project.yaml", "dependencies: [./libs/x]\n").file("libs/readme", "");
    let outside = with_library(Scenario::new(), "x", "x", "1", "");
    symlink(outside.project().join("x"), scenario.project().join("libs/x")).expect("a link");
    refused(&scenario.run(&["lib", "install"]), "leads out of the project");
    let scenario = scenario.file("project.yaml", "dependencies: [../x]\n");
    refused(&scenario.run(&["lib", "install"]), "is outside the root");

    // The folder of libraries and a library in it may be links: their targets are not deleted.
    let scenario = utils();
    let real = scenario.home().join("real");
    fs::create_dir_all(real.join("libs")).expect("folders");
    fs::create_dir_all(libs(&scenario).parent().expect("a folder")).expect("folders");
    symlink(real.join("libs"), libs(&scenario)).expect("a link");
    assert_eq!(scenario.run(&["lib", "install", "./utils"]).code, Some(0));
    assert!(real.join("libs/utils@1.2.0/lib.yaml").exists());
    symlink(scenario.project().join("utils"), libs(&scenario).join("utils")).expect("a link");
    assert_eq!(scenario.run(&["lib", "remove", "utils@1.2.0"]).code, Some(0));
    assert_eq!(scenario.run(&["lib", "remove", "utils"]).code, Some(0));
    assert!(scenario.project().join("utils/lib.yaml").exists());
}

#[test]
fn concurrent_installs_leave_one_complete_library() {
    let mut scenario = utils();
    for i in 0..200 {
        scenario = scenario.file(&format!("utils/data/{i}.txt"), &"x".repeat(i));
    }
    let start = || {
        let mut command = scenario.command(&["lib", "install", "./utils", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    };
    let both: Vec<Finished> = [start(), start()]
        .into_iter()
        .map(|child| scenario.finished(child.wait_with_output().expect("it ends")))
        .collect();
    let mut states: Vec<String> = both
        .iter()
        .map(|told| json(told)["installed"][0]["state"].as_str().unwrap_or_default().to_owned())
        .collect();
    states.sort();
    assert_eq!(states, ["already_installed", "installed"]);
    assert_eq!(json(&scenario.run(&["lib", "info", "utils", "--json"]))["files"], 202);
    assert_eq!(installed(&scenario), ["utils@1.2.0"]);
}

#[test]
fn leftovers_of_a_killed_install_are_removed() {
    let scenario = utils();
    let half = libs(&scenario).join(".installing-abc/library");
    fs::create_dir_all(&half).expect("folders");
    fs::write(half.join("lib.yaml"), "name: half\nversion: 1\n").expect("a file");
    assert_eq!(json(&scenario.run(&["lib", "list", "--json"]))["libraries"], Value::Array(Vec::new()));
    assert_eq!(scenario.run(&["lib", "install", "./utils"]).code, Some(0));
    assert_eq!(installed(&scenario), ["utils@1.2.0"]);
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
fn damaged_installed_libraries_are_listed_with_the_reason() {
    let scenario = utils();
    scenario.run(&["lib", "install", "./utils"]);
    fs::create_dir_all(libs(&scenario).join("empty")).expect("a folder");
    fs::rename(libs(&scenario).join("utils@1.2.0"), libs(&scenario).join("utils@9")).expect("a folder");
    let told = scenario.run(&["lib", "list"]);
    assert!(told.code == Some(0) && told.stdout.contains("it has no `lib.yaml`"), "{told}");
    assert!(told.stdout.contains("the folder holds `utils@1.2.0`"), "{told}");
    let list = json(&scenario.run(&["lib", "list", "--json"]));
    assert!(
        list["libraries"].as_array().expect("a list").iter().all(|one| one["problem"].is_string()),
        "{list}"
    );
    refused(&scenario.run(&["lib", "info", "empty"]), "not a usable library");
    for odd in ["../utils", "./utils", "utils@../x", "git+https://localhost/x", ".lock", ""] {
        refused(
            &scenario.run(&["lib", "remove", "--force", "--", odd]),
            "is not the name of an installed library",
        );
    }
    assert_eq!(installed(&scenario), ["empty", "utils@9"]);
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
fn a_library_whose_exported_workers_do_not_load_is_not_installed() {
    let scenario = utils()
        .file("utils/workers/a.worker", "---\nallow_workers: [b, other:c]\n---\nHi.\n")
        .file("utils/workers/b.worker", "---\nmodle: a:b\n---\nHi.\n");
    let told = scenario.run(&["lib", "install", "./utils"]);
    refused(&told, "unknown key `modle`");
    refused(&told, "workers/b.worker");
    assert_eq!(installed(&scenario), [""; 0]);
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
