//! The compiler's view of a program: everything that can be known to be wrong before it runs (SPEC §5).
//!
//! [`check`] loads what a run would, then every other worker of the project, and looks at the whole: each analysis is a
//! file below. It reads definitions and runs nothing but a look
//! into the Python tools, where the host can look into them.

mod authority;
mod capabilities;
mod graph;
mod names;
mod prompts;
mod tools;

use crate::{
    diagnostics::{Diagnostic, codes, tidy},
    effective::Effective,
    loading::{Loading, Workers},
    package::{Package, Packages},
    parallel::{in_parallel, let_go},
    program::{LoadOptions, Source, Start},
    resolve::WorkerFile,
    span::Span,
    yaml::Node,
};
use llm_do_core::{authority::Place, schema::Schema, worker::WorkerDefinition};
use serde_json::{Value, json};
use std::sync::Arc;

/// A program with everything in it that loads.
struct Whole<'a> {
    packages: &'a Packages,
    workers: &'a Workers,
    host: &'a LoadOptions,
    /// What the Python of its workers exposes.
    exposed: tools::Exposed,
    /// What a run starts with, if that loads.
    entry: Option<&'a Arc<str>>,
    /// All workers of the program's folder; empty for a lone file, which is checked with what it calls.
    scanned: &'a [WorkerFile],
    /// For a lone file: what it works on.
    work: Option<&'a Place>,
}

/// Everything that is found wrong with a program, in reading order, each thing once. A lone file is checked with what it
/// calls; a project with all its workers, whether anything calls them or not; a library with its exports.
pub fn check(source: Source, host: LoadOptions) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut loading = Loading::begin(&source, host, &mut found);
    let whole_folder = !matches!(source.start, Start::File(_));
    let entry = if loading.packages.program().is_library() && source.start == Start::Entry(None) {
        None // It has exports instead.
    } else {
        loading.entry(&source.start, &mut found)
    };
    let scanned = if whole_folder { loading.packages.program().scan() } else { Vec::new() };
    // What a run would load comes first, so that what is wrong with it is told where it is named.
    let entry = entry.and_then(|entry| loading.start(entry, &mut found));
    let exported = exported(loading.packages.program(), &mut found);
    let scanned_for = scanned.iter().map(|located| (located.clone(), None));
    loading.closure(exported.into_iter().chain(scanned_for).collect(), &mut found);
    let entry = entry.as_ref();
    if let (Some(entry), Start::Entry(None)) = (entry, &source.start) {
        let entry = &loading.workers[entry].definition;
        loading.check_bindings(entry, &mut found);
        check_values(&loading.packages.program().manifest.bindings, entry, &mut found);
    }
    let whole = Whole {
        packages: &loading.packages,
        workers: &loading.workers,
        host: &loading.host,
        exposed: tools::Exposed::by(loading.workers.values(), &loading.host),
        entry,
        scanned: &scanned,
        work: source.work.as_ref(),
    };
    loading.packages.compare_with_lock(&mut found);
    tools::check(&whole, &mut found);
    names::check(&whole, &mut found);
    prompts::check(&whole, &mut found);
    capabilities::check(&whole, &mut found);
    graph::check(&whole, &mut found);
    authority::check(&whole, &mut found);
    tidy(&mut found);
    drop(whole);
    let_go(loading);
    found
}

impl Whole<'_> {
    /// What an analysis of single workers finds, in their order.
    fn each(&self, found: &mut Vec<Diagnostic>, look: impl Fn(&Effective, &mut Vec<Diagnostic>) + Sync) {
        let workers: Vec<&Effective> = self.workers.values().map(AsRef::as_ref).collect();
        let look = |effective| {
            let mut found = Vec::new();
            look(effective, &mut found);
            found
        };
        found.extend(in_parallel(workers, look).into_iter().flatten());
    }
}

/// The workers that `exports` names: each must be there.
fn exported(program: &Package, found: &mut Vec<Diagnostic>) -> Vec<(WorkerFile, Option<Span>)> {
    let mut exported = Vec::new();
    for (text, span) in &program.manifest.exports {
        match program.layout.resolve(program.tree.as_ref(), text) {
            Ok(located) => exported.push((located, Some(span.clone()))),
            Err(error) => {
                let names: Vec<String> = program.scan().into_iter().map(|worker| worker.id).collect();
                found.push(error.did_you_mean(text, names.iter().map(String::as_str)).or_at(Some(span)));
            }
        }
    }
    exported
}

/// The values that the manifest binds to the entry's parameters: each must fit its parameter's schema.
fn check_values(bindings: &[(String, Node)], entry: &WorkerDefinition, found: &mut Vec<Diagnostic>) {
    let mut schema = entry.signature.schema.value().as_ref().clone();
    if let Value::Object(schema) = &mut schema {
        schema.shift_remove("required");
    }
    let Ok(schema) = Schema::new(schema) else { return };
    for (name, node) in bindings {
        let parameter = entry.signature.parameters.iter().find(|p| *p.name == **name);
        if parameter.is_none_or(|p| p.path.is_some()) {
            continue;
        }
        if let Err(violations) = schema.validate(&json!({ name: node.to_json() })) {
            let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
            found.push(
                Diagnostic::error(
                    codes::UNSATISFIABLE_CALL,
                    format!("`{}` cannot take this as its `{name}`: {}", entry.id, reasons.join("; ")),
                )
                .at(&node.span),
            );
        }
    }
}
