//! Small bad programs, and functions that load them.
//!
//! A folder `check/NAME` is a program and `check/NAME.expected` has its findings. `check/NAME.start` selects how it is
//! started if not by its entry: `entry ID`, `file PATH`, `target WORD` (as on a command line in the folder,
//! with `registry` as the flat registry), or `long PATH` (that file is made longer than any definition may be).
//! A stand-in inspects Python. `check/NAME.libs` has the installed libraries; it is next to the program, so that they
//! are not part of it.
#![allow(dead_code, reason = "each test that includes this uses a part")]

use crate::stand_in::{self, Reader};
use llm_do_core::authority::Place;
use llm_do_migrate::Migration;
use llm_do_program::{
    Diagnostic, LoadOptions, Program, Source, Start, check,
    diagnostics::{
        codes,
        render::{Colour, render},
    },
    library::DiskLibraries,
    source::{DiskTree, LARGEST_DEFINITION, MemoryTree},
    span::{SourceFile, Span},
    target::{self, Request, Surroundings},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the folders of all cases, sorted.
pub(crate) fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check");
    let mut folders: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && path.extension().is_none())
        .collect();
    folders.sort();
    assert!(folders.len() > 30, "the cases are gone");
    folders
}

/// Returns the findings of a case.
pub(crate) fn findings(folder: &Path) -> Vec<Diagnostic> {
    let start = fs::read_to_string(folder.with_extension("start")).unwrap_or_default();
    let start = match start.trim().split_once(' ') {
        None => Start::Entry(None),
        Some(("entry", id)) => Start::Entry(Some(id.to_owned())),
        Some(("file", path)) => Start::File(path.to_owned()),
        Some(("target", word)) => return targeted(folder, word),
        Some(("long", path)) => {
            let long = "x".repeat(usize::try_from(LARGEST_DEFINITION).unwrap());
            let text = fs::read_to_string(folder.join(path)).unwrap() + &long;
            return of_files([(path, text.as_str())], "").0;
        }
        Some(_) => {
            panic!("{}: write `entry ID`, `file PATH`, `target WORD` or `long PATH`", folder.display())
        }
    };
    let tree = DiskTree::open(folder).unwrap();
    let libraries = folder.with_extension("libs");
    let reader = Reader::default().and_below(folder).and_below(&libraries);
    let source = Source { tree: Arc::new(tree), start, manifest: true, work: None };
    let mut found = load(source, vec![libraries.clone()], reader);
    let real = fs::canonicalize(&libraries).unwrap_or_else(|_| libraries.clone());
    let texts = found.iter_mut().flat_map(|finding| {
        std::iter::once(&mut finding.message).chain(&mut finding.notes).chain(&mut finding.help)
    });
    for text in texts {
        *text = text.replace(&*libraries.to_string_lossy(), "[LIBRARIES]");
    }
    for finding in &mut found {
        let spans = finding.span.iter_mut().chain(finding.related.iter_mut().map(|it| &mut it.span));
        spans.for_each(|span| *span = shown_below(span, &real));
    }
    found
}

/// Returns a case that is a folder with an entry or a file to start, and its host.
pub(crate) fn program(folder: &Path) -> Option<(Source, LoadOptions)> {
    let start = fs::read_to_string(folder.with_extension("start")).unwrap_or_default();
    let start = match start.trim().split_once(' ') {
        None => Start::Entry(None),
        Some(("entry", id)) => Start::Entry(Some(id.to_owned())),
        Some(("file", path)) => Start::File(path.to_owned()),
        Some(_) => return None,
    };
    let libraries = folder.with_extension("libs");
    let reader = Reader::default().and_below(folder).and_below(&libraries);
    let tree = Arc::new(DiskTree::open(folder).unwrap());
    Some((Source { tree, start, manifest: true, work: None }, host(vec![libraries], reader)))
}

fn host(roots: Vec<PathBuf>, reader: Reader) -> LoadOptions {
    let providers =
        ["anthropic", "openai", "gemini", "google", "ollama", "local", "script"].map(str::to_owned).to_vec();
    LoadOptions {
        toolsets: stand_in::registry(),
        providers,
        libraries: Arc::new(DiskLibraries { roots }),
        code: Some(Arc::new(reader)),
        older_forms: Some(Arc::new(Migration)),
        ..LoadOptions::default()
    }
}

/// Returns the same span, with its file relative to the folder of libraries, so that the place of the repository is not
/// shown.
fn shown_below(span: &Span, libraries: &Path) -> Span {
    let path = span.file().path().replace(&*libraries.to_string_lossy(), "[LIBRARIES]");
    let file = SourceFile::new(path, Arc::clone(span.file().text()));
    match span.range() {
        Some(range) => Span::new(&file, range),
        None => Span::whole(&file),
    }
}

/// The folder of libraries in the pages.
pub(crate) const LIBRARIES: &str = "~/.llm-do/libs";

/// Returns the findings of a program of these files, of which some may belong to libraries, and those of one code as
/// text.
pub(crate) fn of_files<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    shown: &str,
) -> (Vec<Diagnostic>, String) {
    let folder = tempfile::tempdir().unwrap();
    let libraries = folder.path().canonicalize().unwrap().join("libs");
    let mut own = Vec::new();
    for (name, text) in files {
        match name.strip_prefix(LIBRARIES) {
            Some(below) => {
                let path = libraries.join(below.trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            None => own.push((name, text)),
        }
    }
    let reader = Reader::of("/p", own.iter().copied()).and_below(&libraries);
    let tree = MemoryTree::new(Place::new("/p"), own);
    let source = Source { tree: Arc::new(tree), start: Start::Entry(None), manifest: true, work: None };
    let found = load(source, vec![libraries.clone()], reader);
    let of_code: Vec<Diagnostic> = found.iter().filter(|finding| finding.code.id == shown).cloned().collect();
    let said = render(&of_code, Colour::Never).replace(&*libraries.to_string_lossy(), LIBRARIES);
    (found, said)
}

fn targeted(folder: &Path, word: &str) -> Vec<Diagnostic> {
    let request = Request { positionals: vec![word.to_owned(), String::new()], ..Request::default() };
    let around = Surroundings {
        here: folder.to_owned(),
        registry: Some(folder.join("registry").to_string_lossy().into_owned()),
        ..Surroundings::default()
    };
    let mut found = match target::find(&request, &around) {
        Ok(target) => {
            let mut found = target.warnings;
            found.extend(load(target.source, Vec::new(), Reader::default()));
            found
        }
        Err(errors) => errors.0,
    };
    for text in found.iter_mut().flat_map(|finding| finding.notes.iter_mut().chain(&mut finding.help)) {
        *text = text.replace(&*folder.to_string_lossy(), "[FOLDER]");
    }
    found
}

fn load(source: Source, roots: Vec<PathBuf>, reader: Reader) -> Vec<Diagnostic> {
    let host = host(roots, reader);
    let checked = check(source.clone(), host.clone());
    // `check` also finds every error of loading; but a library needs no entry.
    if let Err(errors) = Program::load(source, host) {
        for error in errors.0.iter().filter(|error| error.code != codes::NO_ENTRY) {
            assert!(
                checked.iter().any(|found| found.code == error.code && found.message == error.message),
                "{error}"
            );
        }
    }
    checked
}
