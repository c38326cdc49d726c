//! Libraries from folders.

use crate::world::{WORKER, World, changes, placed, refused};
use llm_do_packages::Placed;
use std::{fs, os::unix::fs::symlink, thread};

#[test]
fn one_version_cannot_have_two_contents() {
    let world = World::utils();
    assert_eq!(placed(&world.install("./utils")), Placed::Installed);
    assert_eq!(placed(&world.install("utils/")), Placed::Already);
    world.file("utils/workers/a.worker", "---\n---\nHo.\n").file("utils/x.txt", "new");
    for reason in [
        "with other files\n  `workers/a.worker` is changed\n  `x.txt` is new",
        "a library that changes gets another `version`",
        "to replace the installed files: --force",
    ] {
        refused(world.manager().install("./utils", false), reason);
    }
    let forced = world.manager().install("./utils", true).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(placed(&forced), Placed::Replaced);
    assert!(world.libs().join("utils@1.2.0/x.txt").exists());
    world.library("other", "utils", "1.2.0-rc1", "");
    world.install("./other");
    world.library("upper", "utils", "1.2.0-RC1", "");
    refused(world.manager().install("./upper", false), "ignore case");
    refused(world.manager().remove("utils", false), "more than once");
    assert_eq!(world.installed(), ["utils@1.2.0", "utils@1.2.0-rc1"]);
}

#[test]
fn damaged_lock_file_is_reported_and_rewritten() {
    let world = World::utils();
    world.file("project.yaml", "dependencies: [./utils]\n");
    world.install_dependencies();
    let lock = world.lock().expect("a lock file");
    let lie = lock.replacen(&lock[lock.find("lib.yaml").expect("a file") + 12..][..4], "0000", 1);
    world.file("llm-do.lock", &lie);
    refused(world.manager().install_dependencies(false, true), "E0609");
    world.install_dependencies();
    let shown = world.shown.take();
    assert!(shown.iter().any(|line| line.starts_with("warning[E0609]")), "{shown:?}");
    assert_eq!(world.lock(), Some(lock));
}

#[test]
fn library_in_use_is_not_removed_without_force() {
    let world = World::utils();
    world.library("more", "more", "1", "dependencies: [utils]\n");
    world.install("./utils");
    world.install("./more");
    world.file("other/project.yaml", "dependencies: [utils@1.2.0]\n");
    let other = world.manager_in(&world.project().join("other"));
    other.install_dependencies(false, false).unwrap_or_else(|error| panic!("{error}"));
    refused(world.manager().remove("utils", false), "other (llm-do.lock pins utils@1.2.0)");
    refused(world.manager().remove("utils", false), "more@1 (it names `utils`)");
    assert_eq!(world.installed().len(), 2);
    let removed = world.manager().remove("utils", true).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(removed.users.len(), 2);
    assert_eq!(world.installed(), ["more@1"]);
}

#[test]
fn reinstalling_a_library_updates_its_pin() {
    let world = World::utils();
    world.file("project.yaml", "dependencies: [utils]\n");
    refused(world.manager().install_dependencies(false, false), "E0601");
    assert!(world.lock().is_none());
    assert_eq!(changes(&world.install("./utils")), ["+ utils 1.2.0"]);
    // A change of an installed library is pinned, and reported.
    fs::write(world.libs().join("utils@1.2.0/workers/a.worker"), "---\n---\nHo.\n").expect("a file");
    assert_eq!(changes(&world.install_dependencies()), ["~ utils 1.2.0: `workers/a.worker` is changed"]);
    world.library("newer", "utils", "1.10.0", "");
    let newer = changes(&world.install("./newer"));
    assert!(newer[0].starts_with("~ utils 1.2.0 → 1.10.0: `lib.yaml` is changed, "), "{newer:?}");
    world.library("more", "more", "1", "");
    let notes = world.install("./more").notes;
    assert_eq!(notes, ["to use it here, add `more@1` to `dependencies` in project.yaml"]);
}

#[test]
fn missing_conflicting_and_cyclic_dependencies_are_errors() {
    let world = World::utils();
    world.library("b", "b", "1", "dependencies: [utils@9]\n");
    world.install("./utils");
    refused(world.manager().install("./b", false), "b@1 needs `utils@9`, which is not installed");
    refused(world.manager().install("./b", false), "installed: utils@1.2.0");
    world.library("b", "b", "1", "dependencies: [utlis]\n");
    refused(world.manager().install("./b", false), "did you mean `utils`?");

    world.library("new", "utils", "2", "");
    world.install("./new");
    world.library("c", "c", "1", "dependencies: [utils@2]\n");
    world.install("./c");
    world.file("project.yaml", "dependencies: [c, utils@1.2.0]\n");
    refused(
        world.manager().install_dependencies(false, false),
        "two versions of `utils` are needed: the project needs 1.2.0, c@1 needs 2",
    );

    world.library("x", "x", "1", "dependencies: [./y]\n");
    world.library("x/y", "y", "1", "dependencies: [./x]\n");
    world.library("x/y/x", "x", "1", "");
    refused(world.manager().install("./x", false), "x → y → x");
}

#[test]
fn invalid_library_is_not_installed() {
    let world = World::new();
    world.file("empty/readme", "").file("broken/lib.yaml", "name: [\n");
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
        refused(world.manager().install(spec, false), reason);
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
        let world = World::new();
        world.library("x", name, version, "");
        refused(world.manager().install("./x", false), reason);
        assert_eq!(world.installed(), [""; 0]);
    }
    let world = World::new();
    world.file("x/lib.yaml", "name: x\nversion: 1\nexports: [gone]\n");
    refused(world.manager().install("./x", false), "E0301");
    world.library("x", "x", "1", "").file("x/A", "").file("x/a", "");
    refused(world.manager().install("./x", false), "ignore case");
}

#[test]
fn a_library_whose_exported_workers_do_not_load_is_not_installed() {
    let world = World::utils();
    world
        .file("utils/workers/a.worker", "---\nallow_workers: [b, other:c]\n---\nHi.\n")
        .file("utils/workers/b.worker", "---\nmodle: a:b\n---\nHi.\n");
    refused(world.manager().install("./utils", false), "unknown key `modle`");
    refused(world.manager().install("./utils", false), "workers/b.worker");
    assert_eq!(world.installed(), [""; 0]);
}

#[test]
fn links_out_of_a_library_are_not_followed() {
    let world = World::utils();
    world.file("secret.txt", "secret");
    symlink("../secret.txt", world.project().join("utils/link")).expect("a link");
    refused(world.manager().install("./utils", false), "`link` is a symbolic link");
    assert_eq!(world.installed(), [""; 0]);

    // A path in a manifest stays in the project, links included.
    let (world, outside) = (World::new(), World::new());
    world.file("project.yaml", "dependencies: [./libs/x]\n").file("libs/readme", "");
    outside.library("x", "x", "1", "");
    symlink(outside.project().join("x"), world.project().join("libs/x")).expect("a link");
    refused(world.manager().install_dependencies(false, false), "leads out of the project");
    world.file("project.yaml", "dependencies: [../x]\n");
    refused(world.manager().install_dependencies(false, false), "is outside the root");

    // The folder of libraries and a library in it may be links: their targets are not deleted.
    let world = World::utils();
    let real = world.dir().join("real");
    for folder in [&real.join("libs"), &world.dir().join("home")] {
        fs::create_dir_all(folder).expect("folders");
    }
    symlink(real.join("libs"), world.libs()).expect("a link");
    world.install("./utils");
    assert!(real.join("libs/utils@1.2.0/lib.yaml").exists());
    symlink(world.project().join("utils"), world.libs().join("utils")).expect("a link");
    for library in ["utils@1.2.0", "utils"] {
        world.manager().remove(library, false).unwrap_or_else(|error| panic!("{library}: {error}"));
    }
    assert!(world.project().join("utils/lib.yaml").exists());
    assert_eq!(world.installed(), [""; 0]);
}

#[test]
fn concurrent_installs_leave_one_complete_library() {
    let world = World::utils();
    for i in 0..200 {
        world.file(&format!("utils/data/{i}.txt"), &"x".repeat(i));
    }
    let install = || placed(&world.install("./utils"));
    let both = thread::scope(|scope| {
        let both = [scope.spawn(install), scope.spawn(install)];
        both.map(|one| one.join().expect("it ends"))
    });
    assert!(both.contains(&Placed::Installed) && both.contains(&Placed::Already), "{both:?}");
    let info = world.manager().info("utils").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(info.contents.len(), 202);
    assert_eq!(world.installed(), ["utils@1.2.0"]);
}

#[test]
fn leftovers_of_a_killed_install_are_removed() {
    let world = World::utils();
    let half = world.libs().join(".installing-abc/library");
    fs::create_dir_all(&half).expect("folders");
    fs::write(half.join("lib.yaml"), "name: half\nversion: 1\n").expect("a file");
    assert!(world.manager().list().expect("a list").is_empty());
    world.install("./utils");
    assert_eq!(world.installed(), ["utils@1.2.0"]);
}

#[test]
fn damaged_installed_libraries_are_listed_with_the_reason() {
    let world = World::utils();
    world.install("./utils");
    fs::create_dir_all(world.libs().join("empty")).expect("a folder");
    fs::rename(world.libs().join("utils@1.2.0"), world.libs().join("utils@9")).expect("a folder");
    let list = world.manager().list().expect("a list");
    let problems: Vec<&str> =
        list.iter().filter_map(|one| Some(one.manifest.as_ref().err()?.as_str())).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("it has no `lib.yaml`"), "{problems:?}");
    assert_eq!(problems[1], "the folder holds `utils@1.2.0`");
    refused(world.manager().info("empty"), "not a usable library");
    for odd in ["../utils", "./utils", "utils@../x", "git+https://localhost/x", ".lock", ""] {
        refused(world.manager().remove(odd, true), "is not the name of an installed library");
    }
    refused(world.manager().info("utils@8"), "did you mean `utils@9`?");
    assert_eq!(world.installed(), ["empty", "utils@9"]);
}

#[test]
fn a_library_of_another_project_is_not_replaced() {
    let world = World::new();
    world.library("libs/style", "style", "1.0", "").file("project.yaml", "dependencies: [./libs/style]\n");
    world.install_dependencies();
    world.file("libs/style/workers/a.worker", "---\n---\nHo.\n");
    let edited = world.install_dependencies();
    assert_eq!(placed(&edited), Placed::Replaced);
    assert_eq!(changes(&edited), ["~ style 1.0: `workers/a.worker` is changed"]);
    // Another project has installed another library of this name and version.
    fs::write(world.libs().join("style@1.0/workers/a.worker"), "---\n---\nTheirs.\n").expect("a file");
    world.file("libs/style/workers/a.worker", WORKER);
    refused(world.manager().install_dependencies(false, false), "--force");
}
