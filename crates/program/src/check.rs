//! The static checks of a program: everything that can be found before a run. See `docs/guides/check.md`.
//!
//! [`check`] loads the workers of a run, then all other workers of the project, and checks the whole program. Each
//! analysis has its own file. Nothing runs, except that the host may load Python files to find their tools.

mod authority;
mod capabilities;
mod exposed;
mod graph;
mod names;
mod prompts;
mod scope;
mod tools;

use crate::{
    diagnostics::{Diagnostic, codes},
    load_options::LoadOptions,
    loading::{Loading, finish},
    package::Package,
    parallel::drop_in_background,
    resolve::WorkerFile,
    span::Span,
    start::{Source, Start},
    yaml::Node,
};
use exposed::Exposed;
use llm_do_core::{schema::Schema, worker::WorkerDefinition};
use scope::Scope;
use serde_json::{Value, json};

/// All findings of a program, in reading order, each once. A single file is checked with its callees; a project with
/// all its workers, called or not; a library with its exports.
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
    // Load the workers of a run first, so that their findings refer to the place that names them.
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
    let scope = Scope {
        packages: &loading.packages,
        workers: &loading.workers,
        host: &loading.host,
        exposed: Exposed::by(loading.workers.values(), &loading.host),
        entry,
        scanned: &scanned,
        work: source.work.as_ref(),
    };
    loading.packages.compare_with_lock(&mut found);
    tools::check(&scope, &mut found);
    names::check(&scope, &mut found);
    prompts::check(&scope, &mut found);
    capabilities::check(&scope, &mut found);
    graph::check(&scope, &mut found);
    authority::check(&scope, &mut found);
    finish(&source, &mut found);
    drop(scope);
    drop_in_background(loading);
    found
}

/// The workers that `exports` names. Each must exist.
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

/// Checks the values that the manifest binds to the entry's parameters against their schemas.
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
                    format!("`{}` does not accept this value for `{name}`: {}", entry.id, reasons.join("; ")),
                )
                .at(&node.span),
            );
        }
    }
}
