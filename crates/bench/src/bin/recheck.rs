//! Measures the cost of checking an edited program: the first check of the project in a folder, then edits of one of
//! its workers, as an editor sends them. Prints one JSON object with milliseconds; `bench/check` runs this program.

use llm_do::{
    core::toolset::ToolsetRegistry,
    program::{Checker, Extent, LoadOptions, Source, Start, source::DiskTree},
};
use llm_do_bench::{Failure, print};
use mimalloc::MiMalloc;
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Instant};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const EDITS: usize = 25;

/// A project and the worker that is edited.
struct Editor<'a> {
    checker: Checker,
    worker: &'a str,
}

impl Editor<'_> {
    /// Milliseconds of a check with another text of the worker. The check must have that extent and that number of
    /// findings.
    fn check(&mut self, text: String, extent: Extent, findings: usize) -> Result<f64, Failure> {
        let texts = BTreeMap::from([(self.worker.to_owned(), text)]);
        let start = Instant::now();
        let (found, looked_at) = self.checker.check(texts);
        let took = start.elapsed().as_secs_f64() * 1e3;
        match (looked_at, found.len()) {
            seen if seen == (extent, findings) => Ok(took),
            seen => Err(format!("{seen:?}, not {:?}", (extent, findings)).into()),
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, worker] = arguments.as_slice() else {
        return Err("usage: recheck FOLDER WORKER_FILE".into());
    };
    let tree = Arc::new(DiskTree::open(Path::new(folder))?);
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let host = LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
    let text = fs::read_to_string(Path::new(folder).join(worker))?;
    let mut editor = Editor { checker: Checker::new(source, host), worker };
    let first = editor.check(text.clone(), Extent::Everything, 0)?;
    let (mut instructions, mut errors) = (Vec::new(), Vec::new());
    let (mut keys, mut seen, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..EDITS {
        instructions.push(editor.check(format!("{text}Sentence {n}.\n"), Extent::Workers, 0)?);
    }
    for n in 0..EDITS {
        // The first error asks what a migration would change.
        errors.push(editor.check(format!("{text}{{{{ nothing_{n} }}}}\n"), Extent::Workers, 1)?);
    }
    for n in 0..EDITS {
        let described = text.replacen("description: ", &format!("description: Edit {n}. "), 1);
        keys.push(editor.check(described, Extent::Workers, 0)?);
    }
    for n in 0..EDITS {
        // Its callers see its parameters. One that its instructions do not use is a finding.
        let typed = text.replacen("parameters: {", &format!("parameters: {{of_{n}: string?, "), 1);
        seen.push(editor.check(typed, Extent::Program, 1)?);
    }
    editor.check(text.clone(), Extent::Program, 0)?;
    for n in 0..EDITS {
        // A callee more, and one less.
        let callee = if n % 2 == 0 { "main, " } else { "" };
        let calling = text.replacen("allow_workers: [", &format!("allow_workers: [{callee}"), 1);
        calls.push(editor.check(calling, Extent::Program, 0)?);
    }
    print(&json!({
        "first_ms": first,
        "instructions_ms": instructions,
        "first_error_ms": errors[0],
        "errors_ms": errors[1..],
        "keys_ms": keys,
        "seen_keys_ms": seen,
        "calls_ms": calls,
    }))?;
    Ok(())
}
