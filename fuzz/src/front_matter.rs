//! A worker file: its front matter, its keys, and the check of a program that has it.

use super::findings::{Program, hold, hold_span};
use llm_do_program::{
    front_matter::{self, Document},
    keys, shape,
    span::SourceFile,
    yaml::Node,
};

/// Files that a worker may name.
const AROUND: [(&str, &[u8]); 5] = [
    ("workers/helper.worker", b"---\nparameters: {style: string?, source: path?}\n---\nDo it.\n"),
    ("workers/reports/summary.worker", b"---\n---\n{{ input }}\n"),
    ("templates/part.jinja", b"{{ x }}{% include 'part.jinja' ignore missing %}"),
    ("prompts/main.md", b"{{ name }} {{ file('notes.txt') }}"),
    ("schemas/out.json", b"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}}"),
];

/// Takes the bytes as a `.worker` file, and as one that is YAML only.
pub fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let file = SourceFile::new("main.worker", text);
        match front_matter::worker(file) {
            Ok(document) => {
                let body = document.body.as_ref().expect("a `.worker` file has instructions");
                let before = text.get(..body.range.start).expect("the instructions are in the file");
                assert_eq!(body.range.end, text.len());
                assert_eq!(before.lines().count(), body.lines_before as usize);
                hold_document(&document);
            }
            Err(error) => hold(&[*error]),
        }
        match front_matter::yaml_only(SourceFile::new("main.yaml", text)) {
            Ok(document) => hold_document(&document),
            Err(error) => hold(&[*error]),
        }
    }
    for path in ["main.worker", "workers/main.yaml"] {
        Program::of(AROUND.into_iter().chain([(path, bytes)])).check();
    }
}

fn hold_document(document: &Document) {
    hold_node(&document.keys);
    let mut found = Vec::new();
    let checked = shape::check(&document.keys, keys::WORKER, "", &mut found);
    hold(&found);
    // A valid value is unchanged by a second check.
    let again = shape::check(&checked, keys::WORKER, "", &mut Vec::new());
    assert_eq!(again.to_json(), checked.to_json());
}

fn hold_node(node: &Node) {
    hold_span(&node.span);
    node.items().iter().for_each(hold_node);
    for entry in node.entries() {
        hold_span(&entry.key_span);
        hold_node(&entry.value);
    }
}
