//! The static checks of a program: everything that can be found before a run. See `docs/guides/check.md`.
//!
//! [`check`] loads the workers of a run, then all other workers of the project, and checks the whole program. Each
//! analysis has its own file. Nothing runs, except that the host may load Python files to find their tools.

mod authority;
mod capabilities;
mod cases;
pub(crate) mod checked;
mod configurations;
pub(crate) mod exposed;
mod fixed;
pub mod flow;
mod graph;
mod names;
mod prompts;
pub(crate) mod rules;
pub(crate) mod scope;
mod server_tools;
mod stubs;
mod tools;

use crate::{
    authorities::Authorities,
    cases::{self as case_files, CasesFile},
    diagnostics::{Diagnostic, codes, tidy},
    effective::Effective,
    load_options::LoadOptions,
    loading::{Loading, Workers, check_bindings, finish},
    package::{Package, Packages},
    parallel::drop_in_background,
    pre_approvals,
    purity::is_pure,
    resolve::WorkerFile,
    source::SourceTree,
    span::Span,
    start::{Source, Start},
    stubs::{Stub, written},
    yaml::Node,
};
use checked::Checked;
use exposed::Exposed;
use flow::Flow;
use graph::Graph;
use llm_do_core::{function::tool_name, toolset::ToolsetRegistry};
use scope::Scope;
use std::{mem, sync::Arc};

/// Returns all findings of a program, in reading order, each once. A single file is checked with its callees; a project
/// with all its workers, called or not; a library with its exports. A project without an entry is a program for others
/// if it exports workers: each export is then treated as an entry.
pub fn check(source: Source, host: LoadOptions) -> Vec<Diagnostic> {
    check_whole(source, host).found
}

/// The result of the checks of a whole program.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The findings, in reading order.
    pub found: Vec<Diagnostic>,
    /// The flow of untrusted content in the program.
    pub flow: Flow,
    /// The program's own workers without effects, by name.
    pub pure: Vec<Arc<str>>,
}

/// Runs [`check`], and also returns the flow and the workers without effects.
pub fn check_whole(source: Source, host: LoadOptions) -> Report {
    // Options without a way to cancel always give a result.
    let Some(mut checked) = Checked::read(source, host) else { return Report::default() };
    let mut found = checked.findings();
    finish(&checked.source, &checked.loading.host, &mut found);
    let flow = mem::take(&mut checked.flow);
    let Loading { workers, host, .. } = &checked.loading;
    let own = workers.iter().filter(|(_, worker)| !worker.definition.source.is_foreign());
    let pure = own.filter(|(_, worker)| is_pure(worker, workers, &host.toolsets));
    let pure = pure.map(|(name, _)| Arc::clone(name)).collect();
    drop_in_background(checked);
    Report { found, flow, pure }
}

/// The files of a program beside its workers' own, which an edit of workers does not change.
pub(crate) struct Files {
    /// All workers of the project; empty for a single file, which is checked with its callees.
    pub(crate) scanned: Vec<WorkerFile>,
    stubs: Vec<Stub>,
    pub(crate) cases: Vec<CasesFile>,
}

impl Files {
    fn of(source: &Source, program: &Package, scanned: Vec<WorkerFile>, found: &mut Vec<Diagnostic>) -> Self {
        let tree = program.tree.as_ref();
        names::case(program, &scanned, found);
        let stubs = if source.is_folder() { written(tree) } else { Vec::new() };
        let cases = match &source.start {
            Start::File(file) => case_files::of_worker_file(tree, file),
            Start::Entry(_) => case_files::files(tree),
        };
        let cases = cases.iter().filter_map(|path| case_files::read(tree, path, found)).collect();
        Self { scanned, stubs, cases }
    }
}

/// Runs the analyses of one worker, which read no other worker.
fn of_worker(scope: &Scope<'_>, effective: &Effective) -> Vec<Diagnostic> {
    let mut found = prompts::of_worker(&scope.host.toolsets, effective);
    names::of_worker(scope, effective, &mut found);
    capabilities::of_worker(scope, effective, &mut found);
    configurations::of_worker(scope, effective, &mut found);
    server_tools::of_worker(scope, effective, &mut found);
    tools::of_worker(scope, effective, &mut found);
    found
}

/// Runs the analyses of a program as a whole, except those of its calls.
fn of_program(scope: &Scope<'_>, source: &Source, files: &Files, found: &mut Vec<Diagnostic>) -> Flow {
    let program = scope.packages.program();
    if let (Some(entry), Start::Entry(None)) = (scope.entry, &source.start) {
        let (bindings, entry) = (&program.manifest.bindings, &scope.workers[entry]);
        check_bindings(bindings, entry, found);
        check_values(bindings, entry, found);
    }
    fixed::check(scope, found);
    tools::check(scope, found);
    capabilities::check(scope, found);
    if scope.host.cancel.is_wanted() {
        return Flow::default();
    }
    if source.is_folder() {
        configurations::unlisted(scope, found);
        stubs::check(scope, &files.stubs, found);
    }
    let authorities =
        Authorities::follow(scope.packages, scope.workers, scope.host, scope.work, scope.roots());
    authority::check(scope, &authorities, found);
    pre_approvals::check(program, scope.workers, scope.host, &authorities, found);
    if scope.host.cancel.is_wanted() {
        return Flow::default();
    }
    let flow = flow::check(scope, &authorities, found);
    rules::of_workers(scope, found);
    cases::check(scope, &files.cases, found);
    of_manifest(scope, source, source.is_folder(), found);
    flow
}

/// Returns the errors of the code of loaded workers. A run refuses everything that [`check`] reports as an error in the
/// closure of its entry.
pub(crate) fn code(packages: &Packages, workers: &Workers, host: &LoadOptions) -> Vec<Diagnostic> {
    let mut exposed = Exposed::default();
    exposed.add(workers.values().map(AsRef::as_ref), host.code.as_deref());
    let scope = Scope::of(packages, workers, host, &exposed);
    let mut found = Vec::new();
    tools::modules_of_workers(&scope, &mut found);
    scope.each(&mut found, |effective, found| tools::of_worker(&scope, effective, found));
    found.retain(Diagnostic::is_error);
    tidy(&mut found);
    found
}

/// Returns the errors of the workers that a library exports, and of those that they call. The libraries that it depends
/// on need not be installed, and no Python is inspected.
pub fn check_exports(tree: Arc<dyn SourceTree>, toolsets: ToolsetRegistry) -> Vec<Diagnostic> {
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let mut found = Vec::new();
    let host = LoadOptions { toolsets, ..LoadOptions::default() };
    let mut loading = Loading::begin(&source, host, &mut found);
    let exported = exports(loading.packages.program(), &mut found);
    loading.closure(exported, &mut found);
    found.extend(loading.findings());
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
    let exposed = Exposed::default();
    let scope = Scope::of(packages, workers, host, &exposed);
    scope.each(&mut Vec::new(), |effective, found| {
        found.extend(prompts::of_worker(&host.toolsets, effective));
    });
}

/// Returns the findings of [`check`] about the workers of a run that keep the run from starting, beyond those of
/// loading, and warnings about rules. Python files are inspected only if a rule depends on them.
pub(crate) fn before_run(source: &Source, loading: &Loading, entry: &Arc<str>) -> Vec<Diagnostic> {
    let Loading { packages, workers, host, .. } = loading;
    let mut found = Vec::new();
    // Python is not inspected yet.
    let exposed = Exposed::default();
    let complete = loading.is_complete();
    let work = source.work.as_ref();
    let scope = Scope { entry: Some(entry), complete, work, ..Scope::of(packages, workers, host, &exposed) };
    scope.each(&mut found, |effective, found| {
        names::of_worker(&scope, effective, found);
        found.extend(prompts::of_worker(&host.toolsets, effective));
        configurations::of_worker(&scope, effective, found);
    });
    graph::check(&scope, &Graph::of(workers), &[], &mut found);
    fixed::check(&scope, &mut found);
    let authorities = Authorities::follow(packages, workers, host, source.work.as_ref(), [entry]);
    authority::check(&scope, &authorities, &mut found);
    found.retain(Diagnostic::is_error);
    pre_approvals::check(packages.program(), workers, host, &authorities, &mut found);
    let read = rules::read_code(&scope);
    let scope = Scope { exposed: read.as_ref().unwrap_or(&exposed), ..scope };
    rules::of_workers(&scope, &mut found);
    of_manifest(&scope, source, false, &mut found);
    found
}

/// Checks the rules of the manifest, which apply to all workers of the program. The workers outside of the scope are
/// only loaded if the rules name functions that the workers of the scope do not have.
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
    let Loading { packages, workers, host, .. } = &loading;
    let mut exposed = Exposed::default();
    exposed.add(workers.values().map(AsRef::as_ref), host.code.as_deref());
    let complete = loading.is_complete();
    let all = Scope { complete, work: scope.work, ..Scope::of(packages, workers, host, &exposed) };
    rules::of_manifest(&all, true, found);
}

/// Returns the workers that `exports` names. Each must exist, and have its own name as a tool of a server.
fn exports(package: &Package, found: &mut Vec<Diagnostic>) -> Vec<(WorkerFile, Option<Span>)> {
    let mut exported = Vec::new();
    for (text, span) in &package.manifest.exports {
        match package.layout.resolve(package.tree.as_ref(), text) {
            Ok(located) => {
                let name = tool_name(&located.id);
                let same = |(other, _): &&(WorkerFile, Option<Span>)| {
                    other.id != located.id && tool_name(&other.id) == name
                };
                if let Some((other, at)) = exported.iter().find(same) {
                    let message = format!(
                        "`{}` and `{}` would both be the tool `{name}` of a server",
                        located.id, other.id
                    );
                    let help = "rename one of them, or export only one";
                    let clash = Diagnostic::error(codes::NAME_CLASH, message).at(span).help(help);
                    found.push(match at {
                        Some(at) => clash.related("the other one", at),
                        None => clash,
                    });
                }
                exported.push((located, Some(span.clone())));
            }
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
    for (name, node) in bindings {
        let parameter = entry.signature.parameters.iter().find(|p| *p.name == **name);
        if parameter.is_none_or(|p| p.path.is_some()) {
            continue;
        }
        if let Some(reasons) = fixed::refused(entry, name, node) {
            found.push(
                Diagnostic::error(
                    codes::UNSATISFIABLE_CALL,
                    format!("`{}` does not accept this value for `{name}`: {reasons}", entry.id),
                )
                .at(&node.span),
            );
        }
    }
}
