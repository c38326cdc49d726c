//! Every YAML block of the pages on worker files and projects is a program that loads without findings.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod stand_in;

use llm_do_core::authority::Place;
use llm_do_program::{
    LoadOptions, Program, Source, Start,
    diagnostics::render::{Colour, render},
    lock::{LOCK_FILE, Lock},
    manifest::Manifest,
    source::MemoryTree,
};
use std::{path::Path, sync::Arc};

const PLAIN: &str = "---\nparameters: {style: string?, source: path?}\n---\nDo it.\n";

/// The files to which the pages' examples refer.
const SURROUNDINGS: [(&str, &str); 9] = [
    ("agents/writer.worker", PLAIN),
    ("shared/reviewer.worker", PLAIN),
    ("workers/helper.worker", PLAIN),
    (
        "workers/editor.worker",
        "---\nparameters: {text: string, style: [strict, mild], language: string}\n---\nEdit.\n",
    ),
    ("workers/reports/summarizer.worker", PLAIN),
    ("tools/checker.worker", PLAIN),
    (
        "tools.py",
        "def greet(name: str) -> str:\n    pass\n\ndef wave() -> str:\n    pass\n\ndef main(input, ctx):\n    pass\n",
    ),
    ("toolsets/formatting.py", "def shorten(text: str) -> str:\n    pass\n"),
    ("schemas/shapes.py", "class Order:\n    text: str\n\nclass Receipt:\n    total: int\n"),
];

/// Returns the blocks of a page with the line on which each begins.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (i, line) in page.lines().enumerate() {
        match (&mut open, line) {
            (None, "```yaml") => open = Some((i + 2, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

fn check(page: &str, least: usize, file_of: impl Fn(&str) -> Option<&'static str>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.len() >= least, "{page} has lost its examples");
    for (line, block) in blocks {
        let Some(file) = file_of(&block) else { continue };
        let mut files = SURROUNDINGS.to_vec();
        if file != "main.worker" && file != "main.yaml" {
            files.push(("main.worker", PLAIN));
        }
        let path = if file == "main.yaml" { "workers/main.yaml" } else { file };
        files.push((path, &block));
        let code = Some(Arc::new(stand_in::Reader::of("/p", files.iter().copied())) as _);
        let tree = Arc::new(MemoryTree::new(Place::new("/p"), files));
        let host = LoadOptions {
            toolsets: stand_in::registry(),
            providers: vec!["anthropic".into()],
            code,
            ..LoadOptions::default()
        };
        let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
        let found = match Program::load(source, host) {
            Ok(loaded) => loaded.warnings,
            Err(errors) => errors.0,
        };
        assert!(found.is_empty(), "{page}:{line}:\n{block}\n{}", render(&found, Colour::Never));
    }
}

#[test]
fn every_worker_of_the_documentation_loads() {
    check("reference/worker-files.md", 6, |block| {
        Some(if block.starts_with("---") { "main.worker" } else { "main.yaml" })
    });
}

#[test]
fn every_manifest_of_the_documentation_loads() {
    // Workers on these pages call others that do not exist here; `json_schema.rs` checks their form.
    for page in ["guides/projects.md", "reference/manifest.md"] {
        check(page, 3, |block| (!block.starts_with("---")).then_some("project.yaml"));
    }
}

#[test]
fn every_file_of_the_page_on_libraries_is_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/libraries.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut kinds, mut dependencies) = (Vec::new(), Vec::new());
    for piece in text.split("\n```yaml ").skip(1) {
        let (kind, rest) = piece.split_once('\n').unwrap();
        let block = &rest[..=rest.find("\n```").unwrap()];
        let mut found = Vec::new();
        let tree = |name: &str| MemoryTree::new(Place::new("/p"), [(name, block)]);
        match kind {
            "lock" => assert_eq!(Lock::load(&tree(LOCK_FILE), &mut found).unwrap().to_text(), block),
            "library" => _ = Manifest::load_library(&tree("lib.yaml"), &mut found).unwrap(),
            _ => dependencies.push(Manifest::load(&tree("project.yaml"), &mut found).dependencies.len()),
        }
        assert_eq!(found, [], "{kind}");
        kinds.push(kind);
    }
    assert_eq!(kinds, ["library", "manifest", "manifest", "lock"], "the page has lost its examples");
    assert_eq!(dependencies, [1, 3]);
}

#[test]
fn every_worker_of_the_page_on_server_side_tools_loads() {
    check("reference/server-side-tools.md", 1, |_| Some("main.worker"));
}

#[test]
fn every_worker_of_the_page_on_commands_loads() {
    check("guides/shell.md", 2, |_| Some("main.worker"));
}
