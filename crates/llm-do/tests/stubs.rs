//! Tests that the output of `llm-do stubs --rust` compiles against this crate and fits its program. The test
//! `generated` writes the files in `tests/stubs`.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

#[rustfmt::skip]
#[path = "stubs/extractor.rs"]
#[allow(unreachable_pub, reason = "as in a library")]
mod extractor;
/// Stubs of workers whose names and keys have another meaning in Rust.
#[rustfmt::skip]
#[path = "stubs/odd.rs"]
#[allow(unreachable_pub, reason = "as in a library")]
mod odd;

use llm_do::{Error, Problem, Program, serde_json::json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap()
}

/// The example, in a folder of its own.
fn copy(to: &Path) {
    let worker = here().join("../../examples/extractor/main.worker");
    fs::copy(worker, to.join("main.worker")).unwrap();
}

#[tokio::test]
async fn a_program_is_called_with_the_types_of_its_stub() {
    let folder = tempfile::tempdir().unwrap();
    copy(folder.path());
    let script = fs::read_to_string(here().join("../../examples/scripts/extractor.yaml")).unwrap();
    let program = Program::builder(folder.path())
        .home(folder.path().join("home"))
        .temporary_journals()
        .signatures(extractor::SIGNATURES)
        .script(script)
        .open()
        .unwrap();
    let worker = program.entry().unwrap().returns::<extractor::MainOutput>().unwrap();
    let invoice = worker.call(extractor::MainInput { text: "INVOICE NW-2291".into() }).await.unwrap();
    assert_eq!((&*invoice.invoice_number, invoice.total), ("NW-2291", 614.5));
    assert_eq!(invoice.currency, extractor::MainOutputCurrency::EUR);
    assert_eq!(invoice.lines[1].description, "1 workbench, beech");
    // Only what fits the worker is sent.
    let wrong = worker.call(json!({"txt": 1})).await;
    assert!(
        matches!(&wrong, Err(Error::InvalidInput(error)) if error.message.contains("`text`")),
        "{wrong:?}"
    );
}

#[test]
fn a_stub_of_other_signatures_is_refused_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    copy(folder.path());
    let file = folder.path().join("main.worker");
    let changed = fs::read_to_string(&file).unwrap().replace("total: number", "total: string");
    fs::write(file, changed).unwrap();
    let open = || Program::builder(folder.path()).home(folder.path().join("home")).script("answers: []");
    let refused = open().signatures(extractor::SIGNATURES).open().err();
    assert!(matches!(&refused, Some(Problem::Stubs { .. })), "{refused:?}");
    assert!(refused.unwrap().to_string().contains("llm-do stubs --rust"));
    // Without the hash, the type itself tells.
    let misfit = open().open().unwrap().entry().unwrap().returns::<extractor::MainOutput>().err().unwrap();
    assert!(misfit.to_string().contains("`total` may be string, and not only number"), "{misfit}");
}
