//! Loading any file ends with a definition or with findings that can be shown.

use llm_do_core::{authority::Place, toolset::ToolsetRegistry};
use llm_do_program::{
    Diagnostic, LoadOptions, Program, Source, Start,
    diagnostics::{
        json::to_json,
        render::{Colour, render},
    },
    source::MemoryTree,
};
use proptest::prelude::*;
use std::sync::Arc;

fn load(files: Vec<(&str, Vec<u8>)>) {
    let tree = Arc::new(MemoryTree::new(Place::new("/p"), files));
    let host = LoadOptions {
        toolsets: ToolsetRegistry::built_in(),
        providers: vec!["a".into()],
        ..LoadOptions::default()
    };
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    if let Err(errors) = Program::load(source, host) {
        assert!(errors.0.iter().any(Diagnostic::is_error));
        assert!(!render(&errors.0, Colour::Never).is_empty());
        assert!(!render(&errors.0, Colour::Always).is_empty());
        let shown = render(&errors.0, Colour::Never);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
        assert_eq!(to_json(&errors.0)["diagnostics"].as_array().map(Vec::len), Some(errors.0.len()));
    }
}

/// Pieces of worker files, so that random texts get past the first line.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("---\n".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\r\n".to_owned()),
        Just("model: ".to_owned()),
        Just("parameters:\n  ".to_owned()),
        Just("returns: ".to_owned()),
        Just("toolsets: {filesystem: ".to_owned()),
        Just("sandbox:\n  paths:\n    ".to_owned()),
        Just("restrict: [".to_owned()),
        Just("allow_workers: [".to_owned()),
        Just("tool_rules: {".to_owned()),
        Just("limits: {timeout: ".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("<<: ".to_owned()),
        Just("? ".to_owned()),
        Just("!!binary ".to_owned()),
        Just("{{ x | ".to_owned()),
        Just("{% if ".to_owned()),
        Just("..".to_owned()),
        Just("array<".to_owned()),
        "[a-z_]{1,8}: ",
        "[\\PC]{0,6}",
        "[\\x00-\\x7f]{0,6}",
        "[\\]\\[{}:,\n ]{1,4}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_worker_file_breaks_the_loader(text in pieces()) {
        load(vec![("main.worker", text.clone().into_bytes())]);
        load(vec![("main.worker", format!("---\n{text}\n---\nHi {text}").into_bytes())]);
    }

    #[test]
    fn no_manifest_breaks_the_loader(text in pieces()) {
        load(vec![("main.worker", b"---\n---\nHi\n".to_vec()), ("project.yaml", text.into_bytes())]);
    }

    #[test]
    fn no_bytes_break_the_loader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        load(vec![("main.worker", bytes)]);
    }

    #[test]
    fn no_reference_leaves_the_root(reference in "[./a-z:\\\\]{0,20}|\\PC{0,20}") {
        let layout = llm_do_program::resolve::Layout { roots: vec!["workers".into()] };
        let tree = MemoryTree::new(Place::new("/p"), [("workers/a.worker", "x"), ("main.worker", "x")]);
        if let Ok(located) = layout.resolve(&tree, &reference) {
            prop_assert!(!located.path.split('/').any(|part| part == ".."));
            prop_assert!(!located.path.starts_with('/'));
        }
    }
}
