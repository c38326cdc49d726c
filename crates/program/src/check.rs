//! The static checks of a program: everything that can be found before a run. See `docs/guides/check.md`.
//!
//! [`check`] loads the workers of a run, then all other workers of the project, and checks the whole program. Each
//! analysis has its own file. Nothing runs, except that the host may load Python files to find their tools.

mod authority;
mod capabilities;
mod cases;
mod configurations;
mod exposed;
pub mod flow;
mod graph;
mod names;
pub(crate) mod prompts;
pub(crate) mod rules;
pub(crate) mod scope;
mod server_tools;
mod stubs;
mod tools;

use crate::{
    authorities::Authorities,
    diagnostics::{Diagnostic, codes, tidy},
    effective::Effective,
    load_options::LoadOptions,
    loading::{Loading, Workers, finish},
    package::{Package, Packages},
    parallel::drop_in_background,
    pre_approvals,
    resolve::WorkerFile,
    source::SourceTree,
    span::Span,
    start::{Source, Start},
    yaml::Node,
};
use exposed::Exposed;
use flow::Flow;
use llm_do_core::{schema::Schema, toolset::ToolsetRegistry};
use scope::Scope;
use serde_json::{Value, json};
use std::{ops::Range, sync::Arc};

/// All findings of a program, in reading order, each once. A single file is checked with its callees; a project with
/// all its workers, called or not; a library with its exports.
pub fn check(source: Source, host: LoadOptions) -> Vec<Diagnostic> {
    check_with_flow(source, host).0
}

/// As [`check`], with what reaches what in the program.
pub fn check_with_flow(source: Source, host: LoadOptions) -> (Vec<Diagnostic>, Flow) {
    let source = source.listed();
    let mut found = Vec::new();
    let mut loading = Loading::begin(&source, host, &mut found);
    let Pass { mut found, flow, .. } = pass(&source, &mut loading, found);
    finish(&source, &mut found);
    drop_in_background(loading);
    (found, flow)
}

/// One pass over a program.
pub(crate) struct Pass {
    /// All findings, unfinished.
    pub(crate) found: Vec<Diagnostic>,
    /// The place there of the findings of each worker's instructions, in the order of the workers.
    pub(crate) prompts: Vec<Range<usize>>,
    flow: Flow,
}

/// Loads the workers of a program and runs every analysis. `found` has the findings of the beginning.
pub(crate) fn pass(source: &Source, loading: &mut Loading, mut found: Vec<Diagnostic>) -> Pass {
    let whole_folder = !matches!(source.start, Start::File(_));
    let entry = if loading.packages.program().is_library() && source.start == Start::Entry(None) {
        None // It has exports instead.
    } else {
        loading.entry(&source.start, &mut found)
    };
    let scanned = if whole_folder { loading.packages.program().scan() } else { Vec::new() };
    // Load the workers of a run first, so that their findings refer to the place that names them.
    let entry = entry.and_then(|entry| loading.start(entry, &mut found));
    let exported = exports(loading.packages.program(), &mut found);
    for (_, library) in loading.packages.iter().skip(1) {
        // Only the workers that the program reaches are loaded, but each must exist.
        exports(library, &mut found);
    }
    let scanned_for = scanned.iter().map(|located| (located.clone(), None));
    loading.closure(exported.into_iter().chain(scanned_for).collect(), &mut found);
    let entry = entry.as_ref();
    loading.complete &= entry.is_some() || loading.packages.program().is_library();
    if let (Some(entry), Start::Entry(None)) = (entry, &source.start) {
        let entry = &loading.workers[entry];
        loading.check_bindings(entry, &mut found);
        check_values(&loading.packages.program().manifest.bindings, entry, &mut found);
    }
    let scope = Scope {
        packages: &loading.packages,
        workers: &loading.workers,
        host: &loading.host,
        exposed: Exposed::by(loading.workers.values(), loading.host.code.as_deref()),
        entry,
        scanned: &scanned,
        complete: loading.complete,
        work: source.work.as_ref(),
    };
    loading.packages.compare_with_lock(&mut found);
    tools::check(&scope, &mut found);
    names::check(&scope, &mut found);
    let mut prompts = Vec::new();
    for of_worker in prompts::check(&scope) {
        let begin = found.len();
        found.extend(of_worker);
        prompts.push(begin..found.len());
    }
    capabilities::check(&scope, &mut found);
    configurations::check(&scope, &mut found);
    if whole_folder {
        configurations::unlisted(&scope, &mut found);
        stubs::check(&scope, &mut found);
    }
    graph::check(&scope, &mut found);
    server_tools::check(&scope, &mut found);
    let authorities =
        entry.map(|entry| Authorities::follow(scope.packages, scope.workers, scope.host, scope.work, entry));
    let authorities = authorities.unwrap_or_default();
    authority::check(&scope, &authorities, &mut found);
    pre_approvals::check(scope.packages.program(), scope.workers, scope.host, &authorities, &mut found);
    let flow = flow::check(&scope, &authorities, &mut found);
    rules::of_workers(&scope, &mut found);
    cases::check(&scope, source, &mut found);
    of_manifest(&scope, source, whole_folder, &mut found);
    Pass { found, prompts, flow }
}

/// The errors of the code of loaded workers. A run refuses what [`check`] calls an error in the closure of its entry.
pub(crate) fn code(packages: &Packages, workers: &Workers, host: &LoadOptions) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    tools::workers(&Scope::of_code(packages, workers, host), &mut found);
    found.retain(Diagnostic::is_error);
    tidy(&mut found);
    found
}

/// The errors of the workers that a library exports, and of those that they call. The libraries that it depends on need
/// not be there, and no Python is inspected.
pub fn check_exports(tree: Arc<dyn SourceTree>, toolsets: ToolsetRegistry) -> Vec<Diagnostic> {
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let mut found = Vec::new();
    let host = LoadOptions { toolsets, ..LoadOptions::default() };
    let mut loading = Loading::begin(&source, host, &mut found);
    let exported = exports(loading.packages.program(), &mut found);
    loading.closure(exported, &mut found);
    // A dependency by path or address has no name before it is installed.
    let dependent = !loading.packages.program().manifest.dependencies.is_empty();
    let absent = |code| code == codes::LIBRARY_NOT_FOUND || (dependent && code == codes::UNDECLARED_LIBRARY);
    found.retain(|finding| finding.is_error() && !absent(finding.code));
    tidy(&mut found);
    found
}

/// Reads the templates and files that the instructions of loaded workers include.
pub(crate) fn read_templates(loading: &Loading) {
    let Loading { packages, workers, host, .. } = loading;
    prompts::check(&Scope::of_prompts(packages, workers, host));
}

/// What [`check`] finds about the workers of a run and keeps the run from starting, beyond what loading finds; and
/// warnings about rules. Python files are inspected only where a rule depends on them.
pub(crate) fn before_run(source: &Source, loading: &Loading, entry: &Arc<str>) -> Vec<Diagnostic> {
    let Loading { packages, workers, host, .. } = loading;
    let mut found = Vec::new();
    let mut scope = Scope::of_run(packages, workers, host, entry, source.work.as_ref());
    scope.complete = loading.complete;
    names::check(&scope, &mut found);
    found.extend(prompts::check(&scope).into_iter().flatten());
    graph::check(&scope, &mut found);
    configurations::check(&scope, &mut found);
    let authorities = Authorities::follow(packages, workers, host, source.work.as_ref(), entry);
    authority::check(&scope, &authorities, &mut found);
    found.retain(Diagnostic::is_error);
    pre_approvals::check(packages.program(), workers, host, &authorities, &mut found);
    rules::read_code(&mut scope);
    rules::of_workers(&scope, &mut found);
    of_manifest(&scope, source, false, &mut found);
    found
}

/// Checks the rules of the manifest, which are for all workers of the program. The others are only loaded if the rules
/// name functions that the workers of the scope do not have.
fn of_manifest(scope: &Scope<'_>, source: &Source, whole: bool, found: &mut Vec<Diagnostic>) {
    let mut of_scope = Vec::new();
    rules::of_manifest(scope, whole, &mut of_scope);
    if of_scope.is_empty() || whole || !source.manifest {
        found.extend(of_scope);
        return;
    }
    // The findings of the other workers are not about this run.
    let others = &mut Vec::new();
    let mut loading = Loading::begin(source, scope.host.clone(), others);
    if let Some(entry) = loading.entry(&Start::Entry(None), others) {
        loading.start(entry, others);
    }
    let all = loading.packages.program().scan().into_iter().map(|located| (located, None)).collect();
    loading.closure(all, others);
    let Loading { packages, workers, host, complete, .. } = &loading;
    let all = Scope {
        packages,
        workers,
        host,
        exposed: Exposed::by(workers.values(), host.code.as_deref()),
        entry: None,
        scanned: &[],
        complete: *complete,
        work: scope.work,
    };
    rules::of_manifest(&all, true, found);
}

/// The workers that `exports` names. Each must exist.
fn exports(package: &Package, found: &mut Vec<Diagnostic>) -> Vec<(WorkerFile, Option<Span>)> {
    let mut exported = Vec::new();
    for (text, span) in &package.manifest.exports {
        match package.layout.resolve(package.tree.as_ref(), text) {
            Ok(located) => exported.push((located, Some(span.clone()))),
            Err(error) => {
                let names: Vec<String> = package.scan().into_iter().map(|worker| worker.id).collect();
                found.push(error.did_you_mean(text, names.iter().map(String::as_str)).or_at(Some(span)));
            }
        }
    }
    exported
}

/// Checks the values that the manifest binds to the entry's parameters against their schemas.
fn check_values(bindings: &[(String, Node)], entry: &Effective, found: &mut Vec<Diagnostic>) {
    if entry.mistakes.concern(&["parameters", "schema_in_ref"]) {
        return;
    }
    let entry = &entry.definition;
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
