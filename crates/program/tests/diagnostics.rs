//! Small bad programs, each with what is said about it in a file beside it. `UPDATE_EXPECT=1` rewrites those files.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::toolset::ToolsetRegistry;
use llm_do_program::{
    Host, Program, Source, Start,
    diagnostics::render::{Colour, render},
    library::DiskLibraries,
    source::DiskTree,
};
use std::{fs, path::Path, sync::Arc};

fn said_of(folder: &Path) -> String {
    let start = match fs::read_to_string(folder.with_extension("start")) {
        Ok(text) => match text.trim().split_once(' ') {
            Some(("entry", id)) => Start::Entry(Some(id.to_owned())),
            Some(("file", path)) => Start::File(path.to_owned()),
            _ => panic!("{}: write `entry ID` or `file PATH`", folder.display()),
        },
        Err(_) => Start::Entry(None),
    };
    let tree = DiskTree::open(folder).unwrap();
    let source = Source { tree: Arc::new(tree), start, manifest: true, work: None };
    let providers = ["anthropic", "openai", "ollama", "local", "script"].map(str::to_owned).to_vec();
    // Libraries of a case lie beside it, so that no library is part of the program.
    let libraries = Arc::new(DiskLibraries { roots: vec![folder.with_extension("libs")] });
    let host = Host { toolsets: ToolsetRegistry::built_in(), providers, libraries, ..Host::default() };
    let found = match Program::load(source, host) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors.0,
    };
    let here = folder.parent().unwrap().canonicalize().unwrap();
    render(&found, Colour::Never).replace(&*here.to_string_lossy(), "")
}

#[test]
fn every_bad_program_is_explained_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check");
    let mut folders: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && path.extension().is_none())
        .collect();
    folders.sort();
    assert!(folders.len() > 30, "the cases are gone");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for folder in folders {
        let said = said_of(&folder);
        let file = folder.with_extension("expected");
        if update {
            fs::write(&file, &said).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            wrong.push(format!("== {}\n-- expected:\n{expected}\n-- said:\n{said}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites the expectations", wrong.join("\n"));
}
