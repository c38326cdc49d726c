//! The stored corpus of the fuzz target of HTTP requests, run without a fuzzer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets an error has failed")]

#[path = "../../../fuzz/src/http_request.rs"]
#[allow(
    unexpected_cfgs,
    unreachable_pub,
    reason = "the fuzz package uses it as well, with the cfg `fuzzing`"
)]
mod http_request;

use std::{fs, panic, path::Path};

#[test]
fn requests_of_the_corpus_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_request");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "the corpus is gone");
    let failed: Vec<_> = files
        .iter()
        .filter(|file| {
            let bytes = fs::read(file).unwrap();
            assert!(bytes.len() <= 4096, "{} is not small", file.display());
            panic::catch_unwind(|| http_request::run(&bytes)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}
