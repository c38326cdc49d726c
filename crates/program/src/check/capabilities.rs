//! Unused capabilities: mounts of missing folders, and capabilities without a tool for them.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    package::Package,
    span::Span,
    yaml::{Data, Node},
};
use llm_do_core::{
    authority::{Access, Mount, VirtualPath},
    risk::Risk,
    toolset::{ToolsetKind, ToolsetRegistry},
};
use std::sync::Arc;

/// The keys that give a worker tools and callees.
const TOOLS: [&str; 4] = ["toolsets", "imports", "allow_workers", "code"];

/// Finds the unused capabilities of one worker that depend on nothing else.
pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    missing(effective, scope.packages.get(effective.located.package), found);
    useless(effective, &scope.host.toolsets, found);
    unread(effective, &scope.host.toolsets, found);
}

/// Finds the unused capabilities that depend on the other workers.
pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    scope.each(found, |effective, found| restricted_to_nothing(scope, effective, found));
    let may = |effective: &Effective| {
        runs_processes(effective, &scope.host.toolsets) || effective.mistakes.concern(&TOOLS)
    };
    let project = scope.packages.program().manifest.sandbox.as_ref();
    if let Some(network) = project.and_then(network)
        && scope.complete
        && !scope.workers.values().any(|effective| may(effective))
    {
        found.push(useless_network("no worker has a tool", network));
    }
}

/// Finds read-only mounts of missing folders. For a writable mount, the first write creates the folder.
fn missing(effective: &Effective, package: &Package, found: &mut Vec<Diagnostic>) {
    if effective.mistakes.concern(&["sandbox"]) {
        return;
    }
    for mount in &effective.definition.sandbox.narrowing.mounts {
        if mount.access == Access::Write || !mount.place.is_within(package.tree.root()) {
            continue;
        }
        let there = package.tree.locate(mount.place.as_str());
        if there.is_ok_and(|real| real.kind.is_some()) {
            continue;
        }
        let name = mount.at.name();
        let sandboxes = [effective.keys.get("sandbox"), package.manifest.sandbox.as_ref()];
        let declared = sandboxes.into_iter().flatten().find_map(|sandbox| match name {
            "" => sandbox.get("root").map(|root| &root.span),
            name => sandbox.get("paths")?.entry(name).map(|entry| &entry.value.span),
        });
        found.push(
            Diagnostic::warning(
                codes::MISSING_PATH,
                format!("the mount `{}` is empty: its folder does not exist", mount.at),
            )
            .or_at(declared)
            .help("create the folder, or remove the mount"),
        );
    }
}

/// Finds paths of `restrict` that do not exist, if the worker sees the same files as its caller.
fn restricted_to_nothing(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let Some(list) = effective.keys.get("sandbox").and_then(|sandbox| sandbox.get("restrict")) else {
        return;
    };
    let package = scope.packages.get(effective.located.package);
    if effective.definition.sandbox.narrowing.declared || package.library.is_some() {
        return;
    }
    let mounts = || scope.workers.values().flat_map(|worker| &worker.definition.sandbox.narrowing.mounts);
    let served: Vec<Mount> = scope
        .workers
        .values()
        .flat_map(|worker| scope.host.toolsets.mounts(&worker.definition, None))
        .collect();
    let mounts = || mounts().chain(&served);
    let base = scope.work.unwrap_or_else(|| package.tree.root());
    for (text, span) in list.texts() {
        let Ok(path) = VirtualPath::parse(text) else { continue };
        let real = package.tree.locate(base.join(path.as_str().trim_start_matches('/')).as_str());
        let exists = real.is_ok_and(|real| real.kind.is_some());
        if exists || mounts().any(|mount| path.rest(&mount.at).is_some() || mount.at.rest(&path).is_some()) {
            continue;
        }
        found.push(
            Diagnostic::warning(
                codes::MISSING_PATH,
                format!("`restrict` names `{path}`, which does not exist"),
            )
            .at(span)
            .help("correct the path, or create the folder"),
        );
    }
}

/// Returns true if the worker has tools that are processes: only those could use the network. An unknown kind of
/// toolset may start processes.
fn runs_processes(effective: &Effective, kinds: &ToolsetRegistry) -> bool {
    runs_code(effective)
        || kinds.starts_processes(&effective.definition)
        || effective.toolsets.keys().any(|name| kinds.get(name).is_none())
}

/// Returns true if the worker has Python tools or is a Python function. Without modules, the toolset has no tools.
fn runs_code(effective: &Effective) -> bool {
    !effective.definition.tools.is_empty() || effective.definition.code.is_some()
}

/// Returns the place of `network_enabled`, if it is not false.
fn network(sandbox: &Node) -> Option<&Span> {
    let network = sandbox.get("network_enabled")?;
    (network.data != Data::Flag(false)).then_some(&network.span)
}

fn useless_network(who: &str, span: &Span) -> Diagnostic {
    Diagnostic::warning(
        codes::UNUSED_CAPABILITY,
        format!("the network is enabled, but {who} that could use it"),
    )
    .at(span)
    .help("remove it, so that the operator does not have to grant it")
}

/// Finds toolsets whose mounts no tool of the worker reads.
fn unread(effective: &Effective, kinds: &ToolsetRegistry, found: &mut Vec<Diagnostic>) {
    let reads = |name: &str| {
        let reads =
            |kind: &dyn ToolsetKind| kind.tools().iter().any(|tool| kind.risk(tool) == Some(Risk::Read));
        // The tool that loads a skill reads no other file.
        kinds.get(name).is_none_or(|kind| kind.skill_folders().is_none() && reads(&**kind))
    };
    let has_reader = !effective.callees.is_empty() || effective.toolsets.keys().any(|name| reads(name));
    if has_reader || effective.mistakes.concern(&TOOLS) {
        return;
    }
    for mount in kinds.mounts(&effective.definition, None) {
        let of_kind = |(name, _): &(&Arc<str>, &Node)| match mount.place.server() {
            Some(served) => ***name == *served.kind,
            None => kinds.get(name).is_some_and(|kind| kind.skill_folders().is_some()),
        };
        let toolset = effective.toolsets.iter().find(of_kind).map(|(_, node)| node);
        let id = &effective.definition.id;
        found.push(
            Diagnostic::warning(
                codes::UNUSED_CAPABILITY,
                format!("`{id}` sees `{}`, but has no tool or callee that could read it", mount.at),
            )
            .or_at(toolset.map(|node| &node.span))
            .help("give it file tools (`toolsets: {filesystem: {}}`), or do not ask for it"),
        );
    }
}

fn useless(effective: &Effective, kinds: &ToolsetRegistry, found: &mut Vec<Diagnostic>) {
    let Some(sandbox) = effective.keys.get("sandbox") else { return };
    if effective.mistakes.concern(&TOOLS) {
        return;
    }
    let id = &effective.definition.id;
    if let Some(span) = network(sandbox).filter(|_| !runs_processes(effective, kinds)) {
        found.push(useless_network(&format!("`{id}` has no tool"), span));
    }
    if let Some(entry) = sandbox.entry("env").filter(|_| !runs_code(effective)) {
        found.push(
            Diagnostic::warning(
                codes::UNUSED_CAPABILITY,
                format!("`{id}` has environment variables, but no Python function that gets them"),
            )
            .at(&entry.key_span)
            .help("remove them, so that the operator does not have to grant them"),
        );
    }
    let of_files = |name: &str| kinds.get(name).is_none_or(|kind| !kind.delegates() && !kind.runs_code());
    let uses_files = runs_code(effective) || effective.toolsets.keys().any(|name| of_files(name));
    let mounts = ["root", "paths", "read", "write"].into_iter().find_map(|key| sandbox.entry(key));
    if let Some(entry) = mounts.filter(|_| !uses_files && effective.callees.is_empty()) {
        found.push(
            Diagnostic::warning(
                codes::UNUSED_CAPABILITY,
                format!("`{id}` has mounts, but no tool or callee that could use them"),
            )
            .at(&entry.key_span)
            .help("give it file tools (`toolsets: {filesystem: {}}`), or remove the mounts"),
        );
    }
}
