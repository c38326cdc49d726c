//! The stored corpora of the fuzz targets for wire formats, run without a fuzzer, so that old findings stay fixed.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

#[path = "../../../fuzz/src/wire.rs"]
#[allow(unreachable_pub, reason = "the fuzz package is a crate, and this a module")]
mod wire;

use llm_do_wire::Wire;
use std::{fs, panic, path::Path};

#[test]
fn answers_of_the_corpora_hold() {
    for (target, format) in [
        ("wire_anthropic", Wire::Anthropic),
        ("wire_completions", Wire::OpenAi),
        ("wire_gemini", Wire::Gemini),
        ("wire_responses", Wire::Responses),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 10, "the corpus of `{target}` is gone");
        for file in files {
            let bytes = fs::read(&file).unwrap();
            assert!(bytes.len() <= 4096, "{} is not small", file.display());
            let held = panic::catch_unwind(|| wire::run(format, &bytes));
            assert!(held.is_ok(), "{target} fails with {}", file.display());
        }
    }
}
