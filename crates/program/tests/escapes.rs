//! Every place of a definition that names a path, with `..`, an absolute path and a symbolic link out of the root:
//! files outside are neither used nor shown.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod stand_in;

use llm_do_core::template;
use llm_do_program::{
    LoadOptions, Program, Source, Start, check,
    diagnostics::render::{Colour, render},
    library::DiskLibraries,
    source::DiskTree,
};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

/// Text that must never be shown.
const SECRET: &str = "hunter2";
const WORKER: &str = "---\n---\nDo it.\n";

/// Files of a project; `PATH` is a placeholder for the named path.
const PLACES: &[&[(&str, &str)]] = &[
    &[("project.yaml", "entry: PATH")],
    &[("project.yaml", "exports: ['PATH']")],
    &[("project.yaml", "worker_paths: ['PATH']"), ("main.worker", "---\nallow_workers: [secret]\n---\nX")],
    &[("project.yaml", "workers: {root: 'PATH'}"), ("main.worker", "---\nallow_workers: [secret]\n---\nX")],
    &[
        ("project.yaml", "templates: {root: 'PATH'}"),
        ("main.worker", "---\n---\n{% include 'secret.worker' %}"),
    ],
    &[("project.yaml", "prompts: {root: 'PATH'}"), ("main.worker", "---\n---\n{{ file('secret.worker') }}")],
    &[("project.yaml", "tools: {roots: ['PATH']}")],
    &[("project.yaml", "tools: {modules: ['PATH/secret.py']}")],
    &[("project.yaml", "entry: PATH/secret.py:main")],
    &[("project.yaml", "dependencies: ['./PATH']")],
    &[("main.worker", "---\nallow_workers: ['PATH/secret.worker']\n---\nX")],
    &[("main.worker", "---\nallow_workers: ['./PATH/secret']\n---\nX")],
    &[("main.worker", "---\nimports: {workers: ['./PATH/secret']}\n---\nX")],
    &[("main.worker", "---\nimports: {tools: ['PATH/secret.py']}\n---\nX")],
    &[("main.worker", "---\ntoolsets: {custom: {module: 'PATH/secret.py'}}\n---\nX")],
    &[("main.worker", "---\ntoolsets: {custom: {module: PATH}}\n---\nX")],
    &[("main.worker", "---\nschema_in_ref: PATH/secret.json\n---\nX")],
    &[("main.worker", "---\nschema_in_ref: PATH/secret.py:Secret\n---\nX")],
    &[("main.worker", "---\nschema_out_ref: PATH/secret.json\n---\nX")],
    &[("main.worker", "---\n---\n{% include 'PATH/secret.worker' %}")],
    &[("main.worker", "---\n---\n{{ file('PATH/secret.worker') }}")],
];

/// Creates a project beside a folder with secrets, and a link to that folder in it.
fn project(folder: &Path, files: &[(&str, &str)], path: &str) {
    let outside = folder.join("outside");
    fs::create_dir_all(&outside).unwrap();
    for (name, text) in [
        ("secret.worker", format!("---\ndescription: {SECRET}\n---\n{SECRET}\n")),
        ("secret.json", format!("{{\"type\": \"object\", \"description\": \"{SECRET}\"}}")),
        ("secret.py", format!("# {SECRET}\n")),
        ("lib.yaml", format!("name: {SECRET}\nversion: 1.0.0\n")),
        ("main.worker", format!("---\n---\n{SECRET}\n")),
    ] {
        fs::write(outside.join(name), text).unwrap();
    }
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("main.worker"), WORKER).unwrap();
    symlink("../outside", project.join("link")).unwrap();
    let path = path.replace("OUTSIDE", &outside.to_string_lossy());
    for (name, text) in files {
        fs::write(project.join(name), text.replace("PATH", &path)).unwrap();
    }
}

#[test]
fn nothing_outside_the_root_is_used_or_shown() {
    for files in PLACES {
        for path in ["../outside", "link", "OUTSIDE", "x/../../outside", "link/../../outside"] {
            let folder = tempfile::tempdir().unwrap();
            project(folder.path(), files, path);
            let tree = Arc::new(DiskTree::open(&folder.path().join("project")).unwrap());
            let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
            let libraries = Arc::new(DiskLibraries { roots: vec![folder.path().join("none")] });
            let code = Some(Arc::new(stand_in::Reader::default().and_below(folder.path())) as _);
            let host =
                LoadOptions { toolsets: stand_in::registry(), libraries, code, ..LoadOptions::default() };
            let what = format!("{files:?} with `{path}`");

            let found = check(source.clone(), host.clone());
            assert!(!found.is_empty(), "{what}: nothing is said");
            let said = render(&found, Colour::Never);
            assert!(!said.contains(SECRET), "{what}: {said}");

            let Ok(loaded) = Program::load(source, host) else { continue };
            // It runs without what it named: then rendering it finds nothing either.
            let entry = loaded.program.entry();
            assert!(!format!("{entry:?}").contains(SECRET), "{what}");
            assert_eq!((loaded.program.loaded().len(), entry.tools.len()), (1, 0), "{what}");
            let text = &entry.instructions;
            let origin = template::Origin::file("main.worker");
            let rendered = template::render(&text.text, &origin, &json!({}), Arc::clone(&text.templates));
            assert!(rendered.map_or(true, |text| !text.contains(SECRET)), "{what}");
        }
    }
}
