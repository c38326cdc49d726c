//! Configurations of toolsets that are valid but can't work, whatever the operator grants: a place that does not exist,
//! a variable that no process may get. A run is refused for the same reasons.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::{Effective, not_given},
    yaml::{Entry, Node},
};
use llm_do_core::{
    gate::Pattern,
    toolset::{Configuration, Declarations, ForeseenTools, Requirement},
};

pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    if effective.mistakes.concern(&["toolsets"]) {
        return;
    }
    let package = scope.packages.get(effective.located.package);
    for (name, configuration) in &effective.toolsets {
        let Some(kind) = scope.host.toolsets.get(name) else { continue };
        let own = Configuration::parse(&configuration.to_json(), name).unwrap_or_default().own;
        let problems = kind.problems(&effective.definition, &own);
        let is_usable = problems.is_empty();
        for problem in problems {
            let at = &configuration.at_pointer(&problem.pointer).span;
            let message = format!("the toolset `{name}` can't work: {}", problem.reason);
            found.push(Diagnostic::error(codes::BAD_TOOLSET_CONFIG, message).at(at));
        }
        if is_usable && kind.lists() {
            let root = scope.packages.program().protection.root();
            let foreseen = kind.foreseen(&effective.definition, &own, root);
            not_offered(name, configuration, &foreseen, found);
        }
        if !kind.lists() && !kind.runs_code() && !kind.delegates() && !kind.tools().is_empty() {
            let configured = effective.configured(&**kind);
            let configured = configured.iter().map(|tool| &*tool.name);
            let tools: Vec<&str> = kind.tools().iter().copied().chain(configured).collect();
            no_tools(name, configuration, &tools, found);
        }
        if package.library.is_none() || !is_usable {
            continue;
        }
        // A library gets only variables that the program gives all of its workers.
        for requirement in kind.requires(&effective.definition, &own) {
            if let Requirement::Variable(variable) = requirement {
                found.extend(not_given(scope.packages.program(), &variable, &configuration.span));
            }
        }
    }
}

/// Reports definitions of the program's manifest that no worker lists.
pub(super) fn unlisted(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    if !scope.complete {
        return;
    }
    for (kind, definitions) in &scope.packages.program().declared {
        let Some(kind) = scope.host.toolsets.get(kind) else { continue };
        let Some(Declarations { property, noun, .. }) = kind.declarations() else { continue };
        let listed = |declared: &&Entry| {
            scope.workers.values().any(|worker| {
                let own = worker.toolsets.get(kind.name()).and_then(|own| own.get(property));
                own.map(Node::entries).unwrap_or_default().iter().any(|own| own.key_span == declared.key_span)
            })
        };
        for declared in definitions.entries().iter().filter(|declared| !listed(declared)) {
            let name = &declared.key;
            found.push(
                Diagnostic::warning(codes::UNLISTED, format!("no worker lists the {noun} `{name}`"))
                    .at(&declared.key_span)
                    .help(format!(
                        "list it in a worker: `toolsets: {{{}: [{name}]}}`, or remove it",
                        kind.name()
                    )),
            );
        }
    }
}

/// Reports names under `tools` that are not tools of a kind whose tools are always the same.
fn no_tools(toolset: &str, configuration: &Node, tools: &[&str], found: &mut Vec<Diagnostic>) {
    for (wanted, span) in configuration.get("tools").into_iter().flat_map(Node::texts) {
        if !tools.contains(&wanted) {
            let message = format!("the toolset `{toolset}` has no tool `{wanted}`");
            found.push(
                Diagnostic::error(codes::UNKNOWN_TOOL, message)
                    .at(span)
                    .did_you_mean(wanted, tools.iter().copied())
                    .note(format!("its tools are {}", tools.join(", "))),
            );
        }
    }
}

/// Reports names under `tools` that no tool has. A run lists the existing tools; before, only the tools that the
/// operator has agreed to are known.
fn not_offered(toolset: &str, configuration: &Node, foreseen: &ForeseenTools, found: &mut Vec<Diagnostic>) {
    if !foreseen.open.is_empty() {
        return;
    }
    for (wanted, span) in configuration.get("tools").into_iter().flat_map(Node::texts) {
        let fits = |pattern: &Pattern| {
            foreseen.tools.iter().any(|tool| pattern.names_one_of(&[&tool.name, &tool.tool_name]))
        };
        // A run reports a pattern that can't be parsed.
        if Pattern::parse(wanted).is_ok_and(|pattern| !fits(&pattern)) {
            let message = format!("the toolset `{toolset}` has no tool `{wanted}`");
            let names = foreseen.tools.iter().map(|tool| &*tool.name);
            found.push(
                Diagnostic::error(codes::UNKNOWN_TOOL, message)
                    .at(span)
                    .did_you_mean(wanted, names)
                    .note("only tools that you have agreed to are known; `llm-do mcp inspect` shows what a server offers now"),
            );
        }
    }
}
