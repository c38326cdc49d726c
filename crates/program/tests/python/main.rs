//! The sources of a worker's Python tools, nearest first: its imports and its folder, then its package, then each
//! library that its package depends on. See `docs/guides/python-tools.md`.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod checking;
mod entries;
mod levels;
mod libraries;
#[path = "../stand_in/mod.rs"]
mod stand_in;

use llm_do_core::{
    authority::{Access, Network, Place},
    function::FunctionSource,
    toolset::ToolsetRegistry,
    worker::{CodeEntry, CodeModule, CodePackage, Definitions, ToolLevel, WorkerDefinition},
};
use llm_do_program::{
    Diagnostics, LoadOptions, Program, ShownTools, Source, Start, check,
    code::{CodeProblem, CodeReader, ModuleTools},
    contents::Contents,
    diagnostics::{Code, codes},
    library::MemoryLibraries,
    list_workers,
    lock::{LOCK_FILE, Lock, Pinned},
    source::{DiskTree, Kind, MemoryTree, RealPlace, SourceError, SourceTree},
};
use serde_json::{Value, json};
use stand_in::Reader;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

type Files<'a> = &'a [(&'a str, &'a str)];

const PLAIN: &str = "---\n---\nDo it.\n";

const PYTHON: &str = "def greet(name: str) -> str:\n    return name\n";

fn host() -> LoadOptions {
    LoadOptions { toolsets: stand_in::registry(), ..LoadOptions::default() }
}

fn tree_at(root: &str, files: Files<'_>) -> Arc<dyn SourceTree> {
    Arc::new(MemoryTree::new(Place::new(root), files.iter().copied()))
}

fn load_with(files: Files<'_>, start: Start, host: LoadOptions) -> Result<Arc<Program>, Diagnostics> {
    let source = Source { tree: tree_at("/p", files), start, manifest: true, work: None };
    Program::load(source, host).map(|loaded| loaded.program)
}

fn load(files: Files<'_>) -> Arc<Program> {
    load_with(files, Start::Entry(None), host()).unwrap()
}

fn codes_of(files: Files<'_>, host: LoadOptions) -> Vec<Code> {
    let found = load_with(files, Start::Entry(None), host).unwrap_err();
    found.0.iter().map(|finding| finding.code).collect()
}

fn worker(program: &Program, reference: &str) -> Arc<WorkerDefinition> {
    program.worker(program.entry(), reference).unwrap()
}

/// Formats levels as `name: module module`, modules relative to the root of their package.
fn told(levels: &[ToolLevel]) -> Vec<String> {
    levels
        .iter()
        .map(|level| {
            let modules: Vec<String> = level
                .modules
                .iter()
                .map(|module| match &module.module {
                    CodeModule::File(place) => place.rest(&level.package.root).unwrap().to_owned(),
                    CodeModule::Installed { module, function } => format!("{module}:{function}"),
                })
                .collect();
            format!("{}: {}", level.name, modules.join(" "))
        })
        .collect()
}
