//! Libraries from git repositories, which the test makes.

use crate::world::{WORKER, World, changes, lib, refused};
use std::{
    fs,
    os::unix::fs::symlink,
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

/// A git repository.
struct Repository(PathBuf);

impl Repository {
    fn new(world: &World, name: &str) -> Self {
        let folder = world.dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        let repository = Self(folder);
        repository.git(&["init", "--quiet", "--initial-branch=main", "--template="]);
        repository
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false"]);
        command.args(arguments).current_dir(&self.0).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
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
fn lock_file_restores_exactly_the_pinned_libraries() {
    if !has_git() {
        return;
    }
    let world = World::new();
    let repository = Repository::new(&world, "repository");
    repository.library("", "tools", "1.0.0", "").commit();
    world.file("project.yaml", &format!("dependencies: ['{}']\n", repository.url()));
    let locked = || world.manager().install_dependencies(false, true);
    refused(locked(), "there is no `llm-do.lock`");
    world.install_dependencies();
    assert_eq!(world.shown.take(), [format!("fetching file://{}", repository.0.display())]);
    let lock = world.lock().expect("a lock file");
    repository.library("", "tools", "2.0.0", "").commit();
    // As on another machine, where the libraries are not installed.
    fs::remove_dir_all(world.libs()).expect("libraries");
    locked().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(world.installed(), ["tools@1.0.0"]);
    assert_eq!(world.lock().as_ref(), Some(&lock));

    // A changed file of an installed library is reported.
    fs::write(world.libs().join("tools@1.0.0/workers/a.worker"), "---\n---\nOther.\n").expect("a file");
    fs::write(world.libs().join("tools@1.0.0/new"), "").expect("a file");
    let info = world.manager().info("tools").unwrap_or_else(|error| panic!("{error}"));
    let (_, differences) = info.pinned.expect("a pin");
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(differences, ["`new` is new", "`workers/a.worker` is changed"]);
    refused(locked(), "with other files");
}

#[test]
fn a_moved_tag_changes_nothing_until_it_is_installed_again() {
    if !has_git() {
        return;
    }
    let world = World::new();
    let repository = Repository::new(&world, "repository");
    repository.library("tools/", "tools", "1.0.0", "dependencies: [./inner]\n");
    repository
        .library("tools/inner/", "inner", "2", "")
        .file("README", "not of the library")
        .commit()
        .tag("v1");
    world.file("project.yaml", &format!("dependencies: ['{}@v1#tools']\n", repository.url()));
    assert_eq!(changes(&world.install_dependencies()).len(), 2);
    assert_eq!(world.installed(), ["inner@2", "tools@1.0.0"]);
    let lock = world.lock();
    repository.library("tools/", "tools", "1.1.0", "").commit();
    repository.git(&["tag", "--force", "v1"]);
    world.manager().install_dependencies(false, true).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(world.lock(), lock);
    let moved = changes(&world.install_dependencies());
    assert!(moved[0].starts_with("- inner 2 (") && moved[1].starts_with("~ tools 1.0.0 ("), "{moved:?}");
}

#[test]
fn links_and_submodules_of_a_repository_are_refused() {
    if !has_git() {
        return;
    }
    let world = World::new();
    let linked = Repository::new(&world, "linked");
    linked.library("", "x", "1", "");
    symlink("/etc/passwd", linked.0.join("workers/b.worker")).expect("a link");
    refused(world.manager().install(&linked.commit().url(), false), "`workers/b.worker`");

    let nested = Repository::new(&world, "nested");
    nested.library("", "x", "1", "").commit();
    let commit = "1234567890123456789012345678901234567890";
    nested.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
    nested.git(&["commit", "--quiet", "-m", "x"]);
    refused(world.manager().install(&nested.url(), false), "it is a submodule");
    assert_eq!(world.installed(), [""; 0]);
}

#[test]
fn git_references_and_subfolders_are_resolved() {
    if !has_git() {
        return;
    }
    let world = World::new();
    let repository = Repository::new(&world, "repository");
    repository.library("", "x", "1", "").commit().tag("v1");
    repository.library("", "x", "2", "").library("deep/lib/", "deep", "1", "").commit();
    repository.git(&["branch", "feature/two"]);
    repository.library("", "x", "3", "").commit();
    let url = repository.url();
    let state = |spec: &str| {
        let one = world.install(spec).outcomes.remove(0);
        (one.label, one.commit.unwrap_or_default())
    };
    let first = state(&format!("{url}@v1"));
    assert_eq!(first.0, "x@1");
    assert_eq!(state(&format!("{url}@{}", first.1)), first);
    assert_eq!(state(&format!("{url}@{}", &first.1[..8])), first);
    let label = |spec: String| state(&spec).0;
    assert_eq!(label(url.clone()), "x@3");
    // A branch may have slashes.
    assert_eq!(label(format!("{url}@feature/two")), "x@2");
    assert_eq!(label(format!("{url}@feature/two#deep/lib")), "deep@1");
    assert_eq!(label(format!("git+{}", repository.0.display())), "x@3");
    assert_eq!(label(format!("{url}#deep/lib")), "deep@1");
    for (spec, reason) in [
        (format!("{url}@none"), "git cannot fetch"),
        (format!("{url}@0000000"), "has no commit `0000000`"),
        (format!("{url}@v1..main"), "not a branch, tag or commit"),
        (format!("{url}#none"), "has no folder `none`"),
        (format!("{url}#lib.yaml"), "has no folder"),
        (format!("{url}.gone"), "git cannot fetch"),
    ] {
        refused(world.manager().install(&spec, false), reason);
    }
    let empty = Repository::new(&world, "empty");
    refused(world.manager().install(&empty.url(), false), &empty.url()["git+".len()..]);
}
