//! Names that a model, or a file system that ignores case, would confuse.

use super::{
    exposed::Tool,
    scope::Scope,
    tools::{offers, place},
};
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    front_matter,
    package::Package,
    resolve::WorkerFile,
    span::Span,
};
use llm_do_core::function::tool_name;
use std::collections::{BTreeMap, HashMap};

/// Finds duplicate tool names of a worker. The names of built-in tools are reserved: a rule for `shell` applies to the
/// built-in tool.
pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let code = scope.host.toolsets.code().map(|kind| kind.name());
    let tools = scope.exposed.tools(effective).filter(|tools| !tools.is_empty());
    let python = |name: &str| {
        let tool = tools?.get(name)?;
        offers(effective, code?, &tool.code.name).then_some(tool)
    };
    let reserved = |name: &str| {
        let kind = scope.reserved.get(name)?;
        let is_reserved = kind.reserves_everywhere()
            || effective.definition.source.is_foreign()
            || effective.toolsets.keys().any(|toolset| {
                scope.host.toolsets.get(toolset).is_some_and(|named| named.name() == kind.name())
                    && offers(effective, toolset, name)
            });
        is_reserved.then_some(kind.name())
    };
    // Tools that the configuration of a toolset makes, each with its toolset.
    let configured = effective.toolsets.keys().filter_map(|name| scope.host.toolsets.get(name));
    let configured = configured.flat_map(|kind| {
        effective.configured(&**kind).into_iter().map(|tool| (tool.name.to_string(), kind.name()))
    });
    let configured: BTreeMap<String, &'static str> = configured.collect();
    for (name, kind) in &configured {
        let span = &effective.toolsets[*kind].span;
        if let Some(other) = reserved(name) {
            let (this, other) = (Named::BuiltIn(kind).shown(), Named::BuiltIn(other).shown());
            found.push(clash(&this, &other, name).at(span).help("rename the command"));
        }
        if let Some(tool) = python(name) {
            let other = Named::BuiltIn(kind).shown();
            found.push(
                clash(&format!("the Python tool `{}`", tool.code.name), &other, name)
                    .at(&place(scope.packages, &tool.level, &tool.code))
                    .help("rename one of them"),
            );
        }
    }
    for built_in in scope.reserved.keys().filter(|_| tools.is_some()) {
        if let (Some(kind), Some(tool)) = (reserved(built_in), python(built_in)) {
            let other = Named::BuiltIn(kind).shown();
            found.push(
                clash(&format!("the Python tool `{}`", tool.code.name), &other, built_in)
                    .at(&place(scope.packages, &tool.level, &tool.code))
                    .note("the names of built-in tools are reserved, because rules use them")
                    .help("rename the function: it cannot replace a built-in tool"),
            );
        }
    }
    // Each name of a callee, as the model sees it.
    let mut names: BTreeMap<String, Named<'_>> = BTreeMap::new();
    for (_, at) in &effective.calls {
        let (reference, span) = &effective.callees[*at];
        let name = tool_name(reference.trim_start_matches("./"));
        let built_in = reserved(&name).or_else(|| configured.get(&name).copied()).map(Named::BuiltIn);
        let python = python(&name).map(Named::Python);
        let other = names.insert(name.clone(), Named::Worker(reference, span)).or(built_in);
        let Some(other) = other.or(python) else { continue };
        let clash = clash(&format!("`{reference}`"), &other.shown(), &name)
            .at(span)
            .help("rename one of them, or remove one of them from the worker");
        found.push(match other.place(scope) {
            Some(place) => clash.related("the other one", &place),
            None => clash,
        });
    }
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

/// Finds workers whose IDs differ only in case. Many file systems treat them as one file.
pub(super) fn case(program: &Package, workers: &[WorkerFile], found: &mut Vec<Diagnostic>) {
    let mut folded: HashMap<String, &WorkerFile> = HashMap::with_capacity(workers.len());
    for located in workers {
        let Some(other) = folded.insert(located.id.to_lowercase(), located) else { continue };
        if other.id != located.id {
            let tree = program.tree.as_ref();
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
