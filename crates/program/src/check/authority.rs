//! Finds calls that would be refused because of missing authority, by following the calls as a run would. See
//! `docs/reference/sandbox.md`.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    mounts::Wanted,
};
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Refusal, View, VirtualPath},
    function::FunctionSource,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Maximum number of authorities to check per worker. A program has few authorities but can have many call chains.
const MOST: usize = 16;

pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    let Some(entry) = scope.entry.and_then(|entry| scope.workers.get(entry)) else { return };
    let Ok(first) = beginning(scope).narrow(&entry.definition.id, &entry.definition.sandbox.narrowing) else {
        return;
    };
    let mut seen: BTreeMap<&Arc<str>, Vec<Authority>> = BTreeMap::new();
    let mut waiting = VecDeque::from([(entry, first)]);
    while let Some((caller, authority)) = waiting.pop_front() {
        let with = seen.entry(&caller.definition.id).or_default();
        if with.contains(&authority) || with.len() == MOST {
            continue;
        }
        with.push(authority.clone());
        if caller.mistakes.concern(&["sandbox"]) {
            continue;
        }
        for (name, at) in &caller.calls {
            let Some(callee) = scope.workers.get(name) else { continue };
            let mut narrowing = callee.definition.sandbox.narrowing.clone();
            narrowing.foreign |= matches!(callee.definition.source, FunctionSource::Library(_));
            match authority.narrow(&callee.definition.id, &narrowing) {
                Ok(narrowed) => waiting.push_back((callee, narrowed)),
                Err(refusal @ Refusal::OutsideBounds { .. }) => {
                    let refused = Diagnostic::error(codes::OUT_OF_BOUNDS, refusal.to_string())
                        .at(&caller.callees[*at].1)
                        .label(format!("called by `{}`", caller.definition.id))
                        .help("widen the callers' `restrict`, or remove the mount from the callee");
                    found.push(match callee.keys.entry("sandbox") {
                        Some(sandbox) => refused.related("its mounts are declared here", &sandbox.key_span),
                        None => refused,
                    });
                }
                Err(_) => {}
            }
        }
    }
}

/// The authority at the start of a run if the operator granted everything that the program asks for.
fn beginning(scope: &Scope<'_>) -> Authority {
    let program = scope.packages.program();
    let mut network = Network::Off;
    let own = program.own.iter().map(|place| Extent { place: place.clone(), access: Access::Write });
    let mut extents: Vec<Extent> = own.collect();
    for grant in scope.workers.values().flat_map(|effective| &effective.grants) {
        match &grant.what {
            Wanted::Place { place, access } => {
                extents.push(Extent { place: place.clone(), access: *access });
            }
            Wanted::Network(_) => network = Network::On,
            Wanted::Variable(_) => {}
        }
    }
    let seen = scope.work.unwrap_or_else(|| program.tree.root());
    let view = View::new(vec![Mount::new(VirtualPath::root(), seen.clone(), Access::Write)]);
    Authority::new(Bounds::new(extents, network), view, Arc::clone(&program.protection))
}
