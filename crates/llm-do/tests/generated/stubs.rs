//! The stubs that the test `stubs` compiles.

use crate::{here, is_up_to_date};
use llm_do::host::{
    Effects, Located, RunOptions, Settings,
    core::worker::Definitions as _,
    program::stubs::{Language, write},
};
use std::path::Path;

fn written(program: &Path) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut settings = Settings::for_target(program.to_str().unwrap());
    settings.home = home.path().to_owned();
    let loaded = Located::find(settings).unwrap().load(Effects::Denied, &RunOptions::default()).unwrap();
    let signatures = loaded.program().signatures();
    assert_eq!(signatures.broken, []);
    write(Language::Rust, loaded.program().project_name(), &signatures)
}

#[test]
fn stubs_are_those_that_are_compiled() {
    let here = here();
    for (program, file) in [("../../examples/extractor", "extractor.rs"), ("tests/stubs/odd", "odd.rs")] {
        let program = here.join(program).canonicalize().unwrap();
        is_up_to_date(&here.join("tests/stubs").join(file), &written(&program));
    }
}
