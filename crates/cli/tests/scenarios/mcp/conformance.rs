//! The public conformance suite for clients, which starts `conformance_client.py` with the address of its server.

use crate::mcp_serve::real_clients::{node, text, tools};
use std::path::Path;

#[test]
fn public_conformance_suite_for_clients_finds_only_what_is_not_done() {
    let Some(tools) = tools() else { return };
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/mcp");
    let results = tempfile::tempdir().expect("a folder");
    let words = [tools.join("venv/bin/python"), files.join("conformance_client.py")];
    let client = words.iter().map(|word| format!("'{}'", word.display())).collect::<Vec<_>>().join(" ");
    let mut suite = node(&tools, "conformance", "dist/index.js");
    suite.args(["client", "--suite", "all", "--command"]);
    suite.arg(format!("{client} '{}'", env!("CARGO_BIN_EXE_llm-do")));
    suite.arg("--expected-failures").arg(files.join("expected-failures.yaml"));
    suite.arg("--output-dir").arg(results.path()).current_dir(results.path());
    let output = suite.output().expect("the suite runs");
    assert!(output.status.success(), "{}", text(&output));
}
