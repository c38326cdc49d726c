//! Names that would be confused: by file systems that ignore case, or by a model.

use super::{
    Whole,
    tools::{Tool, offers, place},
};
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    front_matter,
    parallel::in_parallel,
    resolve::WorkerFile,
    span::Span,
};
use llm_do_core::{function::tool_name, worker::CODE};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    case(whole, found);
    let workers: Vec<&Effective> = whole.workers.values().map(AsRef::as_ref).collect();
    // What many workers have in common is told once.
    let mut told: BTreeSet<(&str, Arc<str>)> = BTreeSet::new();
    for (common, clash) in in_parallel(workers, |effective| clashes(whole, effective)).into_iter().flatten() {
        if common.is_none_or(|common| told.insert(common)) {
            found.push(clash);
        }
    }
}

/// A clash, and of one that other workers may have too the toolset and the function.
type Clash = (Option<(&'static str, Arc<str>)>, Diagnostic);

/// Names of which a worker's model would see two.
fn clashes(whole: &Whole<'_>, effective: &Effective) -> Vec<Clash> {
    let mut found = Vec::new();
    let python = |name: &str| {
        let tool = whole.exposed.tools(effective)?.get(name)?;
        offers(effective, CODE, &tool.code.name).then_some(tool)
    };
    // Each name that the model sees, with what gets it.
    let mut names: BTreeMap<Cow<'_, str>, Named<'_>> = BTreeMap::new();
    for kind in effective.toolsets.keys().filter_map(|name| whole.host.toolsets.get(name)) {
        for built_in in kind.tools().iter().filter(|tool| offers(effective, kind.name(), tool)) {
            let named = Named::BuiltIn(kind.name());
            if let Some(tool) = python(built_in) {
                let clash = clash(&format!("the Python tool `{}`", tool.code.name), &named.shown(), built_in)
                    .at(&place(whole.packages, &tool.level, &tool.code))
                    .help("rename the function: nothing takes the place of a tool that is built in");
                found.push((Some((kind.name(), Arc::clone(&tool.code.name))), clash));
            }
            names.insert(Cow::Borrowed(built_in), named);
        }
    }
    for (_, at) in &effective.calls {
        let (reference, span) = &effective.callees[*at];
        let name = tool_name(reference.trim_start_matches("./"));
        let python = python(&name).map(Named::Python);
        let other = names.insert(Cow::Owned(name.clone()), Named::Worker(reference, span));
        let Some(other) = other.or(python) else { continue };
        let clash = clash(&format!("`{reference}`"), &other.shown(), &name)
            .at(span)
            .help("rename the worker, or take one of the two from it");
        let clash = match other.place(whole) {
            Some(place) => clash.related("the other one", &place),
            None => clash,
        };
        found.push((None, clash));
    }
    found
}

fn clash(this: &str, other: &str, name: &str) -> Diagnostic {
    Diagnostic::error(
        codes::NAME_CLASH,
        format!("{this} and {other} would both be called `{name}` by the model"),
    )
}

/// What gets a name.
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

    fn place(&self, whole: &Whole<'_>) -> Option<Span> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Python(tool) => Some(place(whole.packages, &tool.level, &tool.code)),
            Self::Worker(_, span) => Some((*span).clone()),
        }
    }
}

/// Workers whose IDs differ only in case: on many systems that is one file.
fn case(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    let mut folded: BTreeMap<String, &WorkerFile> = BTreeMap::new();
    for located in whole.scanned {
        let Some(other) = folded.insert(located.id.to_lowercase(), located) else { continue };
        if other.id != located.id {
            let tree = whole.packages.program().tree.as_ref();
            found.push(
                Diagnostic::error(
                    codes::CASE_CLASH,
                    format!("the workers `{}` and `{}` differ only in case", other.id, located.id),
                )
                .at(&Span::whole(&front_matter::unread(tree, &located.path)))
                .note(format!("the other one is {}", other.path))
                .help("rename one of them: on some systems they are one file"),
            );
        }
    }
}
