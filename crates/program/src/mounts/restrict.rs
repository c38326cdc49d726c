//! `sandbox.restrict`: the paths that a worker keeps of those that it would see.

use super::{Layers, Merged};
use crate::{
    diagnostics::{Diagnostic, codes},
    shape::bad_value,
    span::Span,
    yaml::Node,
};
use llm_do_core::authority::VirtualPath;

/// Returns the intersection of both layers: the paths of each list that the other list covers.
pub(super) fn intersection(both: &[&Node], found: &mut Vec<Diagnostic>) -> Vec<VirtualPath> {
    let mut kept: Option<Vec<VirtualPath>> = None;
    for list in both.iter().filter_map(|sandbox| sandbox.get("restrict")) {
        let mut paths = Vec::new();
        for (text, span) in list.texts() {
            match VirtualPath::parse(text) {
                Ok(path) => paths.push(path),
                Err(refusal) => {
                    found.push(Diagnostic::error(codes::BAD_VALUE, refusal.to_string()).at(span));
                }
            }
        }
        if paths.is_empty() {
            found.push(
                bad_value(list, "`restrict` contains no valid path")
                    .help("list the paths that the worker may reach; for a worker without files, remove `toolsets.filesystem`"),
            );
            continue;
        }
        kept = Some(match kept {
            None => paths,
            Some(before) => {
                let mut narrowed = Vec::new();
                for a in &before {
                    for b in &paths {
                        if a.rest(b).is_some() {
                            narrowed.push(a.clone());
                        } else if b.rest(a).is_some() {
                            narrowed.push(b.clone());
                        }
                    }
                }
                narrowed.sort();
                narrowed.dedup();
                if narrowed.is_empty() {
                    found.push(
                        Diagnostic::error(
                            codes::CONFLICT,
                            "this `restrict` has no path in common with the project's `restrict`",
                        )
                        .at(&list.span)
                        .help("a worker can narrow the project's sandbox, but not widen it"),
                    );
                }
                narrowed
            }
        });
    }
    kept.unwrap_or_default()
}

/// Reports each path of `restrict` that is in no mount of the merged sandbox.
pub(super) fn report_unreachable(layers: Layers<'_>, merged: &Merged, found: &mut Vec<Diagnostic>) {
    let paths = declaring(layers).filter_map(|sandbox| sandbox.get("restrict")).flat_map(Node::texts);
    for (text, span) in paths {
        unreachable(text, span, merged, found);
    }
}

/// Returns the layers whose `restrict` applies to declared mounts. Without mounts, a worker sees what its caller sees.
fn declaring<'a>(layers: Layers<'a>) -> impl Iterator<Item = &'a Node> {
    let declares = |sandbox: &&Node| sandbox.get("root").is_some() || sandbox.get("paths").is_some();
    let project = layers.project.filter(declares);
    let worker = layers.worker.filter(|worker| project.is_some() || declares(worker));
    project.into_iter().chain(worker)
}

/// Reports a path of `restrict` that is in no mount.
fn unreachable(text: &str, span: &Span, merged: &Merged, found: &mut Vec<Diagnostic>) {
    let Ok(path) = VirtualPath::parse(text) else { return };
    let handed = merged.read.iter().chain(&merged.write).map(|(name, _)| VirtualPath::root().join(name));
    let mounts: Vec<VirtualPath> =
        merged.narrowing.mounts.iter().map(|mount| mount.at.clone()).chain(handed).collect();
    if mounts.iter().any(|at| path.rest(at).is_some() || at.rest(&path).is_some()) {
        return;
    }
    let names: Vec<&str> = mounts.iter().map(VirtualPath::as_str).collect();
    let nothing =
        Diagnostic::error(codes::MISSING_ROOT, format!("`restrict` names `{path}`, which is in no mount"))
            .at(span)
            .did_you_mean(path.as_str(), names.iter().copied());
    found.push(match nothing.nearest.is_empty() {
        true => nothing.help(format!("the mounts are {}", names.join(", "))),
        false => nothing,
    });
}
