//! Capabilities that are declared for nothing: mounts that show nothing, or that nothing can use.

use super::Whole;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    package::Package,
    span::Span,
    yaml::{Data, Node},
};
use llm_do_core::{authority::Access, worker::CODE};

/// Toolsets whose tools are processes, which beside code are the only ones that could use the network.
const PROCESSES: [&str; 2] = ["mcp", "shell"];

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    whole.each(found, |effective, found| {
        missing(effective, whole.packages.get(effective.located.package), found);
        useless(effective, found);
    });
    let anyone = whole.workers.values().any(|effective| runs_processes(effective));
    let project = whole.packages.program().manifest.sandbox.as_ref();
    if let Some(network) = project.and_then(network).filter(|_| !anyone) {
        found.push(useless_network("no worker has a tool", network));
    }
}

/// Mounts for reading whose folder is not there: they show nothing. One for writing is made at the first write.
fn missing(effective: &Effective, package: &Package, found: &mut Vec<Diagnostic>) {
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
            .help("make the folder, or remove the mount"),
        );
    }
}

fn runs_processes(effective: &Effective) -> bool {
    runs_code(effective) || PROCESSES.iter().any(|kind| effective.toolsets.contains_key(*kind))
}

/// Whether it has Python tools, or is Python itself. Without a module the toolset of that name holds nothing.
fn runs_code(effective: &Effective) -> bool {
    !effective.definition.tools.is_empty() || effective.definition.code.is_some()
}

/// `network_enabled`, where it is not false.
fn network(sandbox: &Node) -> Option<&Span> {
    let network = sandbox.get("network_enabled")?;
    (network.data != Data::Flag(false)).then_some(&network.span)
}

fn useless_network(who: &str, span: &Span) -> Diagnostic {
    Diagnostic::warning(
        codes::UNUSED_CAPABILITY,
        format!("the network is enabled, and {who} that could use it"),
    )
    .at(span)
    .help("remove it: it would only make the operator grant what nothing needs")
}

fn useless(effective: &Effective, found: &mut Vec<Diagnostic>) {
    let Some(sandbox) = effective.keys.get("sandbox") else { return };
    let id = &effective.definition.id;
    if let Some(span) = network(sandbox).filter(|_| !runs_processes(effective)) {
        found.push(useless_network(&format!("`{id}` has no tool"), span));
    }
    let of_files = |name: &str| ![CODE, "workers"].contains(&name);
    let uses_files = runs_code(effective) || effective.toolsets.keys().any(|name| of_files(name));
    let mounts = ["root", "paths", "read", "write"].into_iter().find_map(|key| sandbox.entry(key));
    if let Some(entry) = mounts.filter(|_| !uses_files && effective.callees.is_empty()) {
        found.push(
            Diagnostic::warning(
                codes::UNUSED_CAPABILITY,
                format!("`{id}` has mounts, and neither a tool nor a callee that could use them"),
            )
            .at(&entry.key_span)
            .help("give it file tools (`toolsets: {filesystem: {}}`), or remove the mounts"),
        );
    }
}
