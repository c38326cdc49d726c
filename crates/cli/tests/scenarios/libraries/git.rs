//! Libraries from git repositories, which the test makes.

use super::{WORKER, installed, lib, libs, refused, utils, with_library};
use crate::scenario::Scenario;
use insta::assert_snapshot;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Returns true if this machine has git. In CI it must.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
fn has_git() -> bool {
    let there = Command::new("git").arg("--version").stdout(Stdio::null()).status().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "CI has git");
    if !there {
        eprintln!("skipped: there is no git");
    }
    there
}

/// A git repository whose commits are the same on every machine.
struct Repository(PathBuf);

impl Repository {
    fn new(scenario: &Scenario, name: &str) -> Self {
        let folder = scenario.home().join(name);
        fs::create_dir(&folder).expect("a folder");
        let repository = Self(folder);
        repository.git(&["init", "--quiet", "--initial-branch=main", "--template="]);
        repository
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false"]);
        command
            .args(arguments)
            .current_dir(&self.0)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.0);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z");
        let output = command.output().expect("git starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
        self
    }

    fn library(&self, folder: &str, name: &str, version: &str, more: &str) -> &Self {
        self.file(&format!("{folder}lib.yaml"), &lib(name, version, more))
            .file(&format!("{folder}workers/a.worker"), WORKER)
    }

    fn commit(&self) -> &Self {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "x"]);
        self
    }

    fn tag(&self, name: &str) -> &Self {
        self.git(&["tag", name]);
        self
    }

    fn url(&self) -> String {
        format!("git+file://{}", self.0.display())
    }
}

#[test]
fn dependencies_of_a_project_are_pinned() {
    if !has_git() {
        return;
    }
    let scenario = with_library(Scenario::new(), "libs/text", "text", "0.1.0", "");
    let repository = Repository::new(&scenario, "repository");
    repository.library("tools/", "tools", "1.0.0", "dependencies: [./inner]\n");
    repository
        .library("tools/inner/", "inner", "2", "")
        .file("README", "not of the library")
        .commit()
        .tag("v1");
    let manifest = format!("dependencies:\n  - ./libs/text\n  - {}@v1#tools\n", repository.url());
    let scenario = scenario.file("project.yaml", &manifest).file("main.worker", WORKER);
    assert_snapshot!(scenario.run(&["lib", "install"]), @"
    exit 0
    --- stdout
    text@0.1.0  installed  [DIR]/home/.llm-do/libs/text@0.1.0
    tools@1.0.0  installed  4be0aa7a45  [DIR]/home/.llm-do/libs/tools@1.0.0
    inner@2  installed  4be0aa7a45  [DIR]/home/.llm-do/libs/inner@2
    + inner 2 (4be0aa7a45)
    + text 0.1.0
    + tools 1.0.0 (4be0aa7a45)
    llm-do.lock pins 3 libraries

    --- stderr
    note: fetching file://[DIR]/repository
    ");
    assert_eq!(installed(&scenario), ["inner@2", "text@0.1.0", "tools@1.0.0"]);
    let lock = scenario.read("llm-do.lock").expect("a lock file");
    assert_snapshot!(scenario.steady(&lock), @r#"
    # Written by `llm-do lib install`: what the libraries of this project resolved to. Keep it under version control.
    version: 1
    libraries:
      - name: "inner"
        version: "2"
        source: "./inner"
        commit: "4be0aa7a4548aca34853a88a5dedc213fecba045"
        hash: "45c2fd95861b3db9d47cc563334eb0b8a030370dba0d743cd76423e362fb207d"
        files:
          "lib.yaml": "ff98d716e03c37139805967357a20e842bf75447e30bc8262447f13d40ef1287"
          "workers/a.worker": "695a6f533b5aa1dc77258c500391b4996a9d21029b156175d480c030c4a5df30"
      - name: "text"
        version: "0.1.0"
        source: "./libs/text"
        hash: "6cb503d86733ea1f928f04d78c81a11c11377bcb151efc09749ac52def680428"
        files:
          "lib.yaml": "72f1c59a8e37fa4457ffd1a0aad01dd36ec4aac53a9aeb416b1280528e8ee2bc"
          "workers/a.worker": "695a6f533b5aa1dc77258c500391b4996a9d21029b156175d480c030c4a5df30"
      - name: "tools"
        version: "1.0.0"
        source: "git+file://[DIR]/repository@v1#tools"
        commit: "4be0aa7a4548aca34853a88a5dedc213fecba045"
        hash: "9fc9a3f162046dec698780f63c7b18bbabc5be8593c941468ac1e12977ef5862"
        files:
          "inner/lib.yaml": "ff98d716e03c37139805967357a20e842bf75447e30bc8262447f13d40ef1287"
          "inner/workers/a.worker": "695a6f533b5aa1dc77258c500391b4996a9d21029b156175d480c030c4a5df30"
          "lib.yaml": "60b7b97d23b5a9ed9912e7facf785c3f6a9b20f9fbc9a9fb0196f5e0990fec6c"
          "workers/a.worker": "695a6f533b5aa1dc77258c500391b4996a9d21029b156175d480c030c4a5df30"
    "#);
    assert_snapshot!(scenario.run(&["lib", "install"]), @"
    exit 0
    --- stdout
    text@0.1.0  already installed  [DIR]/home/.llm-do/libs/text@0.1.0
    tools@1.0.0  already installed  4be0aa7a45  [DIR]/home/.llm-do/libs/tools@1.0.0
    inner@2  already installed  4be0aa7a45  [DIR]/home/.llm-do/libs/inner@2
    llm-do.lock is as it was and pins 3 libraries

    --- stderr
    note: fetching file://[DIR]/repository
    ");
    assert_eq!(scenario.read("llm-do.lock").as_ref(), Some(&lock));
}

#[test]
fn repository_hooks_and_filters_do_not_run() {
    if !has_git() {
        return;
    }
    let scenario = Scenario::new();
    // Hooks, filters and line endings of a repository and of the user have no effect: the bytes are those of the commit.
    let wild = Repository::new(&scenario, "wild");
    wild.library("", "x", "1", "").file(".gitattributes", "* text eol=crlf filter=evil\n").commit();
    let marker = scenario.home().join("marker");
    let touch = format!("#!/bin/sh\ntouch {}\n", marker.display());
    for hook in ["post-checkout", "reference-transaction", "pre-auto-gc"] {
        for folder in [wild.0.join(".git/hooks"), scenario.home().join("template/hooks")] {
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(hook), &touch).expect("a hook");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(folder.join(hook), mode).expect("a mode");
        }
    }
    let config = format!(
        "[filter \"evil\"]\nsmudge = touch {0}\nrequired = true\n[init]\ntemplateDir = {1}\n[core]\nautocrlf = true\n",
        marker.display(),
        scenario.home().join("template").display()
    );
    fs::write(scenario.home().join("home/.gitconfig"), config).expect("a configuration");
    let elsewhere = scenario.home().join("nested/.git").display().to_string();
    let scenario = scenario.env("GIT_DIR", elsewhere).env("GIT_TEMPLATE_DIR", "/nonexistent");
    let told = scenario.run(&["lib", "install", &wild.url()]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!marker.exists(), "something ran");
    let worker = fs::read_to_string(libs(&scenario).join("x@1/workers/a.worker")).expect("a worker");
    assert_eq!(worker, WORKER);
    assert_eq!(installed(&scenario), ["x@1"], "and nothing is left behind");
}

#[test]
fn folders_are_installed_without_git() {
    let scenario = utils().env("PATH", "/nonexistent");
    refused(&scenario.run(&["lib", "install", "git+https://localhost/x"]), "`git` is not installed");
    assert_eq!(scenario.run(&["lib", "install", "./utils"]).code, Some(0));
}
