//! Checks cases against the signatures of the program. See `docs/reference/cases.md`.

use super::{rules, scope::Scope};
use crate::{
    cases::{
        self, CASES_JSONL, CASES_YAML, Case, CaseFiles, CasesFile, Ensured, InlineFile, Stub, StubResult,
        is_portable,
    },
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    resolve::PackageId,
    signature::{Given, input_value},
    source::{Kind, SourceTree},
    span::Span,
};
use llm_do_core::{outcome::FailureKind, schema::Schema};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

pub(super) fn check(scope: &Scope<'_>, files: &[CasesFile], found: &mut Vec<Diagnostic>) {
    let tree = scope.packages.program().tree.as_ref();
    let mut recorded: BTreeMap<String, Vec<&CasesFile>> = BTreeMap::new();
    for file in files {
        of_file(scope, tree, file, found);
        recorded.entry(cases::recorded_folder(&file.path)).or_default().push(file);
    }
    // In a single file they are found when it is read.
    for files in recorded.into_values().filter(|files| files.len() > 1) {
        cases::same_names(files.into_iter().flat_map(|file| &file.cases), found);
    }
}

fn of_file(scope: &Scope<'_>, tree: &dyn SourceTree, file: &CasesFile, found: &mut Vec<Diagnostic>) {
    let Some(first) = file.cases.first() else { return };
    let program = scope.packages.program();
    let candidates = cases::worker_candidates(&program.layout, &file.path);
    let of_program = |id: &str| {
        let worker = scope.workers.get(id)?;
        (worker.located.package == PackageId::PROGRAM).then_some(worker)
    };
    let Some(worker) = candidates.iter().find_map(|id| of_program(id)) else {
        // A worker that can't be understood is reported where it is.
        let is_there = |id: &String| scope.scanned.iter().any(|located| located.id == *id);
        if scope.complete || !candidates.iter().any(is_there) {
            let own = scope.workers.values().filter(|worker| worker.located.package == PackageId::PROGRAM);
            let names: Vec<&str> = own.map(|worker| &*worker.definition.id).collect();
            let name = candidates.first().map_or("", String::as_str);
            found.push(
                Diagnostic::error(
                    codes::CASES_OF_NOTHING,
                    format!("there is no worker `{name}` for the cases in `{}`", file.path),
                )
                .at(&first.name_span)
                .did_you_mean(name, names)
                .help(format!(
                    "name the file after its worker: `WORKER{CASES_YAML}` or `WORKER{CASES_JSONL}`, beside the worker or below `tests/`"
                )),
            );
        }
        return;
    };
    for case in &file.cases {
        input(worker, case, found);
        expectations(scope, tree, case, found);
        stubs(scope, case, found);
        case_files(tree, file, case, found);
    }
    let given = file.cases.iter().flat_map(|case| &case.given);
    let given = given.map(|stub| (stub.function.as_str(), &stub.span, None));
    let calls = file.cases.iter().flat_map(|case| &case.expect.calls);
    let calls = calls.map(|call| (call.calls.pattern.tool(), &call.span, Some(&call.calls)));
    rules::of_cases(scope, worker, given.chain(calls).collect(), found);
}

fn input(worker: &Effective, case: &Case, found: &mut Vec<Diagnostic>) {
    if worker.mistakes.concern(&["parameters", "schema_in_ref"]) {
        return;
    }
    let (id, signature) = (&worker.definition.id, &worker.definition.signature);
    let given = Given { json: case.input_node.as_ref().map(|_| &*case.input), ..Given::default() };
    let at = case.input_node.as_ref().map_or(&case.name_span, |node| &node.span);
    let wrong = match input_value(id, signature, given) {
        Err(error) => Some(error.to_string()),
        Ok(mut value) => {
            beyond_the_copy(worker, case, &value, at, found);
            // A path that is left out may be bound by the manifest.
            let bound = signature.parameters.iter().filter(|parameter| parameter.path.is_some());
            let map = value.as_object_mut();
            if let Some(map) = map {
                for parameter in bound {
                    map.entry(parameter.name.to_string()).or_insert_with(|| ".".into());
                }
            }
            violations(&signature.schema, &value)
        }
    };
    let is_expected = case.expect.fails == Some(FailureKind::InvalidInput);
    if let Some(wrong) = wrong.filter(|_| !is_expected) {
        found.push(
            Diagnostic::error(
                codes::BAD_CASE_INPUT,
                format!("`{id}` does not accept the input of the case `{}`: {wrong}", case.name),
            )
            .at(at)
            .help(format!("its signature is {}", crate::signature::show(id, signature))),
        );
    }
}

/// Finds paths of an input that lead out of the copy of the program, in which the case runs. The case follows links
/// when it runs.
fn beyond_the_copy(worker: &Effective, case: &Case, input: &Value, at: &Span, found: &mut Vec<Diagnostic>) {
    let parameters = &worker.definition.signature.parameters;
    for parameter in parameters.iter().filter(|parameter| parameter.path.is_some()) {
        let path = input.get(&*parameter.name).and_then(Value::as_str);
        if let Some(path) = path.filter(|path| !is_portable(path)) {
            let message = format!(
                "`{}` of the case `{}`: `{path}` is not a path below the program's root",
                parameter.name, case.name
            );
            let help = "a case runs on a copy of the program, and sees no other files: write a relative path without `..`";
            found.push(Diagnostic::error(codes::BAD_CASE_INPUT, message).at(at).help(help));
        }
    }
}

/// Returns the violations of a schema by a value, in one line.
fn violations(schema: &Schema, value: &Value) -> Option<String> {
    let reasons = schema.validate(&schema.filled(value)).err()?;
    Some(reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn expectations(scope: &Scope<'_>, tree: &dyn SourceTree, case: &Case, found: &mut Vec<Diagnostic>) {
    let expect = &case.expect;
    if expect.fails.is_some()
        && (expect.output.is_some() || expect.judge.is_some() || !expect.ensures.is_empty())
    {
        found.push(
            Diagnostic::error(
                codes::CONFLICT,
                format!("the case `{}` expects both a failure and an output", case.name),
            )
            .at(&case.name_span)
            .help("a call that fails has no output: keep `fails`, or `output`, `ensures` and `judge`"),
        );
    }
    if let Some((judge, span)) = &expect.judge {
        match scope.workers.get(judge.as_str()) {
            Some(judge) => found.extend(bad_judge(judge, span)),
            None if scope.complete => {
                let names = scope.workers.keys().map(|id| &**id);
                found.push(
                    Diagnostic::error(
                        codes::BAD_JUDGE,
                        format!("there is no worker `{judge}` that could judge"),
                    )
                    .at(span)
                    .did_you_mean(judge, names),
                );
            }
            None => {}
        }
    }
    for ensured in &expect.ensures {
        if let Ensured::Function { file, span, .. } = ensured
            && !matches!(tree.kind(file), Ok(Some(Kind::File)))
        {
            found.push(
                Diagnostic::error(
                    codes::TOOL_MODULE_NOT_FOUND,
                    format!("`ensures` of the case `{}` names `{file}`, which does not exist", case.name),
                )
                .at(span)
                .help("the file is relative to the program's root"),
            );
        }
    }
    for file in expect.files.iter().filter(|file| !is_portable(&file.path)) {
        found.push(bad_path(case, &file.path, &file.span, "is not a path below the root"));
    }
}

/// Returns true if a worker returns the judgement of a judge: `{pass: boolean, reason: string}`.
pub(super) fn returns_judgement(worker: &Effective) -> bool {
    let has = |name: &str, kind: &str| {
        let returns = worker.definition.returns.as_ref()?.value();
        let required = returns.get("required")?.as_array()?.iter().any(|required| required == name);
        (required && returns.get("properties")?.get(name)?.get("type")? == kind).then_some(())
    };
    has("pass", "boolean").is_some() && has("reason", "string").is_some()
}

/// Returns the finding for a worker that can't be a judge: it does not return `{pass: boolean, reason: string}`, or
/// needs other input than the call's input and output.
fn bad_judge(judge: &Effective, span: &Span) -> Option<Diagnostic> {
    let id = &judge.definition.id;
    let wrong = |message: String| {
        let finding = Diagnostic::error(codes::BAD_JUDGE, message).at(span);
        Some(finding.help("a judge has `parameters: {input: …, output: …}`, or only one of them, and `returns: {pass: boolean, reason: string}`"))
    };
    if judge.mistakes.concern(&["returns", "schema_out_ref", "parameters", "schema_in_ref"]) {
        return None;
    }
    if !returns_judgement(judge) {
        return wrong(format!("`{id}` cannot judge: it does not return {{pass: boolean, reason: string}}"));
    }
    let other = judge
        .definition
        .signature
        .parameters
        .iter()
        .find(|parameter| parameter.required && !["input", "output"].contains(&&*parameter.name))?;
    wrong(format!("`{id}` cannot judge: it requires `{}`", other.name))
}

fn stubs(scope: &Scope<'_>, case: &Case, found: &mut Vec<Diagnostic>) {
    for stub in &case.given {
        if stub.all().is_empty() {
            found.push(bad_stub(&stub.span, format!("`{}` is given no result", stub.function)));
        }
        let Some(returns) = returns_of(scope, stub) else { continue };
        for result in stub.all() {
            let StubResult::Output(value, span) = result else { continue };
            if let Some(wrong) = violations(&returns, value) {
                let message = format!("`{}` cannot return this: {wrong}", stub.function);
                found.push(bad_stub(span, message));
            }
        }
    }
}

fn bad_stub(span: &Span, message: String) -> Diagnostic {
    Diagnostic::error(codes::BAD_STUB, message).at(span)
        .help("write an output, a list of outputs for its calls in order, or `{error: TEXT}`; `{exactly: VALUE}` is an output that is a list or has one of these keys")
}

/// Returns the schema of the output of a stubbed worker.
fn returns_of(scope: &Scope<'_>, stub: &Stub) -> Option<Arc<Schema>> {
    let name = stub.function.as_str();
    let worker = scope.workers.get(name).or_else(|| scope.workers.get(name.replace("__", "/").as_str()))?;
    if worker.mistakes.concern(&["returns", "schema_out_ref"]) {
        return None;
    }
    worker.definition.returns.clone()
}

fn case_files(tree: &dyn SourceTree, file: &CasesFile, case: &Case, found: &mut Vec<Diagnostic>) {
    match &case.files {
        CaseFiles::None => {}
        CaseFiles::Inline(files) => {
            for file in files {
                if let Some(wrong) = cannot_be_written(tree, files, &file.path) {
                    found.push(bad_path(case, &file.path, &file.span, &wrong));
                }
            }
        }
        CaseFiles::Folder(folder, span) => {
            let there = is_portable(folder)
                && matches!(tree.kind(&cases::beside_file(&file.path, folder)), Ok(Some(Kind::Folder)));
            if !there {
                found.push(
                    Diagnostic::error(
                        codes::BAD_CASE_FILES,
                        format!(
                            "`files` of the case `{}`: `{folder}` is no folder beside the file",
                            case.name
                        ),
                    )
                    .at(span)
                    .help("a folder is relative to the folder of the file of cases, without `..`"),
                );
            }
        }
    }
}

/// Returns the reason why no file of that path can be added to the program's files and the case's own.
fn cannot_be_written(tree: &dyn SourceTree, files: &[InlineFile], path: &str) -> Option<String> {
    if !is_portable(path) {
        return Some("is not a path below the root".into());
    }
    if path.ends_with('/') || matches!(tree.kind(path), Ok(Some(Kind::Folder))) {
        return Some("is a folder".into());
    }
    let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
    let file = above.find(|folder| {
        let is_own = files.iter().any(|file| file.path == **folder);
        is_own || matches!(tree.kind(folder), Ok(Some(Kind::File)))
    })?;
    Some(format!("lies below `{file}`, which is a file"))
}

fn bad_path(case: &Case, path: &str, span: &Span, wrong: &str) -> Diagnostic {
    Diagnostic::error(codes::BAD_CASE_FILES, format!("`files` of the case `{}`: `{path}` {wrong}", case.name))
        .at(span)
        .help("a path is relative to the program's root, without `..`: `input/a.txt`")
}
