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
    package::Package,
    resolve::WorkerFile,
    span::Span,
};
use llm_do_core::function::tool_name;
use std::collections::{BTreeMap, HashMap};

/// Duplicate tool names of a worker. The names of built-in tools are reserved, whether a worker has the toolset or not: a rule
/// for `read_file` is about the built-in tool.
pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let code = scope.host.toolsets.code().map(|kind| kind.name());
    let tools = scope.exposed.tools(effective).filter(|tools| !tools.is_empty());
    let python = |name: &str| {
        let tool = tools?.get(name)?;
        offers(effective, code?, &tool.code.name).then_some(tool)
    };
    for (built_in, kind) in scope.reserved.iter().filter(|_| tools.is_some()) {
        if let Some(tool) = python(built_in) {
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
        let built_in = scope.reserved.get(name.as_str()).map(|kind| Named::BuiltIn(kind));
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

/// Workers whose IDs differ only in case. Many file systems treat them as one file.
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
