//! Names that file systems that ignore case, or a model, would confuse.

use super::{
    exposed::Tool,
    scope::Scope,
    tools::{offers, place},
};
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    front_matter,
    parallel::in_parallel,
    resolve::WorkerFile,
    span::Span,
};
use llm_do_core::function::tool_name;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    case(scope, found);
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    // A clash that many workers share is reported once.
    let mut reported: BTreeSet<(&str, Arc<str>)> = BTreeSet::new();
    let reserved = reserved(scope);
    let clashes = in_parallel(workers, |effective| clashes(scope, effective, &reserved));
    for (common, clash) in clashes.into_iter().flatten() {
        if common.is_none_or(|common| reported.insert(common)) {
            found.push(clash);
        }
    }
}

/// A clash, and the toolset and function of a clash that other workers may share.
type Clash = (Option<(&'static str, Arc<str>)>, Diagnostic);

/// The names of built-in tools, each with its toolset. They are reserved, whether a worker has the toolset or not: a rule for
/// `read_file` is about the built-in tool.
fn reserved(scope: &Scope<'_>) -> BTreeMap<&'static str, &'static str> {
    let kinds = scope.host.toolsets.kinds();
    kinds
        .flat_map(|kind| kind.tools().iter().chain(kind.rule_names()).map(move |name| (*name, kind.name())))
        .collect()
}

/// Duplicate tool names of a worker.
fn clashes(
    scope: &Scope<'_>,
    effective: &Effective,
    reserved: &BTreeMap<&'static str, &'static str>,
) -> Vec<Clash> {
    let mut found = Vec::new();
    let code = scope.host.toolsets.code().map(|kind| kind.name());
    let tools = scope.exposed.tools(effective).filter(|tools| !tools.is_empty());
    let python = |name: &str| {
        let tool = tools?.get(name)?;
        offers(effective, code?, &tool.code.name).then_some(tool)
    };
    for kind in scope.host.toolsets.kinds().filter(|_| tools.is_some()) {
        for built_in in kind.tools().iter().chain(kind.rule_names()) {
            if let Some(tool) = python(built_in) {
                let other = Named::BuiltIn(kind.name()).shown();
                let clash = clash(&format!("the Python tool `{}`", tool.code.name), &other, built_in)
                    .at(&place(scope.packages, &tool.level, &tool.code))
                    .note("the names of built-in tools are reserved, because rules use them")
                    .help("rename the function: it cannot replace a built-in tool");
                found.push((Some((kind.name(), Arc::clone(&tool.code.name))), clash));
            }
        }
    }
    // Each name of a callee, as the model sees it.
    let mut names: BTreeMap<String, Named<'_>> = BTreeMap::new();
    for (_, at) in &effective.calls {
        let (reference, span) = &effective.callees[*at];
        let name = tool_name(reference.trim_start_matches("./"));
        let built_in = reserved.get(name.as_str()).map(|kind| Named::BuiltIn(kind));
        let python = python(&name).map(Named::Python);
        let other = names.insert(name.clone(), Named::Worker(reference, span)).or(built_in);
        let Some(other) = other.or(python) else { continue };
        let clash = clash(&format!("`{reference}`"), &other.shown(), &name)
            .at(span)
            .help("rename one of them, or remove one of them from the worker");
        let clash = match other.place(scope) {
            Some(place) => clash.related("the other one", &place),
            None => clash,
        };
        found.push((None, clash));
    }
    found
}

fn clash(this: &str, other: &str, name: &str) -> Diagnostic {
    Diagnostic::error(codes::NAME_CLASH, format!("{this} and {other} would both have the tool name `{name}`"))
}

/// The function behind a name.
enum Named<'a> {
    BuiltIn(&'static str),
    Python(&'a Tool),
    Worker(&'a str, &'a Span),
}

impl Named<'_> {
    fn shown(&self) -> String {
        match self {
            Self::BuiltIn(toolset) => format!("the tool of `{toolset}`"),
            Self::Python(tool) => format!("the Python tool `{}` of {}", tool.code.name, tool.level.name),
            Self::Worker(reference, _) => format!("the worker `{reference}`"),
        }
    }

    fn place(&self, scope: &Scope<'_>) -> Option<Span> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Python(tool) => Some(place(scope.packages, &tool.level, &tool.code)),
            Self::Worker(_, span) => Some((*span).clone()),
        }
    }
}

/// Workers whose IDs differ only in case. Many file systems treat them as one file.
fn case(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    let mut folded: BTreeMap<String, &WorkerFile> = BTreeMap::new();
    for located in scope.scanned {
        let Some(other) = folded.insert(located.id.to_lowercase(), located) else { continue };
        if other.id != located.id {
            let tree = scope.packages.program().tree.as_ref();
            found.push(
                Diagnostic::error(
                    codes::CASE_CLASH,
                    format!("the workers `{}` and `{}` differ only in case", other.id, located.id),
                )
                .at(&Span::whole(&front_matter::unread(tree, &located.path)))
                .note(format!("the other one is {}", other.path))
                .help("rename one of them: some file systems treat them as one file"),
            );
        }
    }
}
