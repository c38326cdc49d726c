//! The stored corpora of the fuzz targets, run without a fuzzer, so that old findings stay fixed.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "the fuzz package is a crate, and this a module")]
mod targets;

use std::{fs, panic, path::Path};

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "the corpus of `{target}` is gone");
    let failed: Vec<_> = files
        .iter()
        .filter(|file| {
            let bytes = fs::read(file).unwrap();
            assert!(bytes.len() <= 4096, "{} is not small", file.display());
            panic::catch_unwind(|| run(&bytes)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "{target} fails with {failed:?}");
}

#[test]
fn answers_of_the_corpus_hold() {
    replay("answer", targets::answer::run);
}

#[test]
fn completions_of_the_corpus_hold() {
    replay("completions", targets::completions::run);
}

#[test]
fn front_matter_of_the_corpus_holds() {
    replay("front_matter", targets::front_matter::run);
}

#[test]
fn manifests_of_the_corpus_hold() {
    replay("manifest", targets::manifest::run);
}

#[test]
fn references_of_the_corpus_hold() {
    replay("reference", targets::reference::run);
}

#[test]
fn rules_of_the_corpus_hold() {
    replay("rule", targets::rule::run);
}

#[test]
fn commands_of_the_corpus_hold() {
    replay("shell_words", targets::shell_words::run);
}

#[test]
fn templates_of_the_corpus_hold() {
    replay("template", targets::template::run);
}
