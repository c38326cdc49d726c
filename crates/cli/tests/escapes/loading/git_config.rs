//! Commands in the configuration of the repository in which `lib install` runs.

use crate::{
    attempt::{Outcome, Tried, must},
    world::World,
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

pub(super) fn git_config(world: &World) -> Tried {
    let git = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(folder);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &world.top).output().expect("git starts")
    };
    let repository = world.top.join("repository");
    fs::create_dir_all(repository.join("workers")).unwrap();
    fs::write(repository.join("lib.yaml"), "name: foreign\nversion: \"1.0.0\"\nexports: [a]\n").unwrap();
    fs::write(repository.join("workers/a.worker"), "---\n---\nHi.\n").unwrap();
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-qm", "x"]] {
        assert!(git(&repository, arguments).status.success());
    }
    let touched = world.outside("new");
    let touch = format!("touch {}", touched.display());
    fs::remove_dir_all(world.project(".git")).unwrap();
    assert!(git(&world.project(""), &["init", "-q"]).status.success());
    let hook = world.put(".git/hooks/post-checkout", format!("#!/bin/sh\n{touch}\n"));
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    for (key, value) in [
        ("core.fsmonitor", touch.as_str()),
        ("core.sshCommand", &touch),
        ("credential.helper", &format!("!{touch}")),
        ("core.pager", &touch),
        ("core.editor", &touch),
    ] {
        git(&world.project(""), &["config", key, value]);
    }
    // The control: git runs them in the project.
    git(&world.project(""), &["status"]);
    must(touched.exists(), "the control: git runs no such command")?;
    fs::remove_file(&touched).unwrap();
    world.rearm();
    let report = world.run(&["lib", "install", &format!("git+file://{}", repository.display())]);
    report.ended(0)?;
    Ok(Outcome::NotThere)
}
