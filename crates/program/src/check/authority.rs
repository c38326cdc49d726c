//! Calls that would be refused for want of authority (SPEC §6.3): found by going through the calls as a run would.

use super::Whole;
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

/// Different authorities that one worker is looked at with: a program has few, and chains are many.
const MOST: usize = 16;

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    let Some(entry) = whole.entry.and_then(|entry| whole.workers.get(entry)) else { return };
    let Ok(first) = beginning(whole).narrow(&entry.definition.id, &entry.definition.sandbox.narrowing) else {
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
        for (name, at) in &caller.calls {
            let Some(callee) = whole.workers.get(name) else { continue };
            let mut narrowing = callee.definition.sandbox.narrowing.clone();
            narrowing.foreign |= matches!(callee.definition.source, FunctionSource::Library(_));
            match authority.narrow(&callee.definition.id, &narrowing) {
                Ok(narrowed) => waiting.push_back((callee, narrowed)),
                Err(refusal @ Refusal::OutsideBounds { .. }) => {
                    let refused = Diagnostic::error(codes::OUT_OF_BOUNDS, refusal.to_string())
                        .at(&caller.callees[*at].1)
                        .label(format!("called by `{}`", caller.definition.id))
                        .help("widen `restrict` of the callers, or let the callee do without the mount");
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

/// What a run of the program would start with if the operator granted everything that it asks for.
fn beginning(whole: &Whole<'_>) -> Authority {
    let program = whole.packages.program();
    let mut network = Network::Off;
    let own = program.own.iter().map(|place| Extent { place: place.clone(), access: Access::Write });
    let mut extents: Vec<Extent> = own.collect();
    for grant in whole.workers.values().flat_map(|effective| &effective.grants) {
        match &grant.what {
            Wanted::Place { place, access } => {
                extents.push(Extent { place: place.clone(), access: *access });
            }
            Wanted::Network(_) => network = Network::On,
        }
    }
    let seen = whole.work.unwrap_or_else(|| program.tree.root());
    let view = View::new(vec![Mount::new(VirtualPath::root(), seen.clone(), Access::Write)]);
    Authority::new(Bounds::new(extents, network), view, Arc::clone(&program.protection))
}
