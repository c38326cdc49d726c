//! The authorities that the workers of a program would have, by following the calls as a run would. See
//! `docs/reference/sandbox.md`.

use crate::{
    effective::Effective,
    load_options::LoadOptions,
    loading::Workers,
    mounts::{Wanted, default_mount},
    package::Packages,
};
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Network, Place, Refusal, View},
    definition::WorkerDefinition,
    function::FunctionSource,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Maximum number of authorities to follow per worker. A program has few authorities but can have many call chains.
const MOST: usize = 16;

/// The authorities of the workers that a run can reach.
#[derive(Default)]
pub(crate) struct Authorities<'a> {
    /// The different authorities of each worker.
    pub(crate) of: BTreeMap<&'a Arc<str>, Vec<Authority>>,
    /// The calls that would be refused.
    pub(crate) refused: Vec<RefusedCall<'a>>,
}

/// A call that the caller's bounds do not allow.
pub(crate) struct RefusedCall<'a> {
    pub(crate) caller: &'a Arc<str>,
    /// The place of the callee among the caller's calls.
    pub(crate) callee: usize,
    pub(crate) refusal: Refusal,
}

impl<'a> Authorities<'a> {
    /// Follows the calls from the workers that runs start with, as if the operator granted everything that the program
    /// asks for.
    pub(crate) fn follow<'r>(
        packages: &Packages,
        workers: &'a Workers,
        host: &LoadOptions,
        work: Option<&Place>,
        roots: impl IntoIterator<Item = &'r Arc<str>>,
    ) -> Self {
        let mut all = Self::default();
        let showing = |worker: &Effective, authority: Authority| {
            let WorkerDefinition { sandbox, .. } = worker.definition.as_ref();
            authority.showing(host.toolsets.mounts(&worker.definition, None), sandbox.narrowing.approvals)
        };
        let bounds = bounds(packages, workers);
        let mut waiting = VecDeque::new();
        for root in roots.into_iter().filter_map(|root| workers.get(root)) {
            let beginning = beginning(packages, &bounds, host, work, root);
            if let Ok(first) = beginning.narrow(&root.definition.id, &root.definition.sandbox.narrowing) {
                waiting.push_back((root, showing(root, first)));
            }
        }
        while let Some((caller, authority)) = waiting.pop_front() {
            let with = all.of.entry(&caller.definition.id).or_default();
            if with.contains(&authority) || with.len() == MOST {
                continue;
            }
            with.push(authority.clone());
            if caller.mistakes.concern(&["sandbox"]) {
                continue;
            }
            for (at, (name, _)) in caller.calls.iter().enumerate() {
                let Some(callee) = workers.get(name) else { continue };
                let mut narrowing = callee.definition.sandbox.narrowing.clone();
                narrowing.foreign |= matches!(callee.definition.source, FunctionSource::Library(_));
                match authority.narrow(&callee.definition.id, &narrowing) {
                    Ok(narrowed) => waiting.push_back((callee, showing(callee, narrowed))),
                    Err(refusal @ Refusal::OutsideBounds { .. }) => {
                        let caller = &caller.definition.id;
                        all.refused.push(RefusedCall { caller, callee: at, refusal });
                    }
                    Err(_) => {}
                }
            }
        }
        all
    }
}

/// Returns the bounds of the program's own places, with everything that its workers ask for.
fn bounds(packages: &Packages, workers: &Workers) -> Bounds {
    let program = packages.program();
    let mut network = Network::Off;
    let own = program.own.iter().map(|place| Extent { place: place.clone(), access: Access::Write });
    let mut extents: Vec<Extent> = own.collect();
    for grant in workers.values().flat_map(|effective| &effective.grants) {
        match &grant.what {
            Wanted::Place { place, access } => {
                extents.push(Extent { place: place.clone(), access: *access });
            }
            Wanted::Network(_) => network = Network::On,
            Wanted::Variable(_) => {}
        }
    }
    Bounds::new(extents, network)
}

fn beginning(
    packages: &Packages,
    bounds: &Bounds,
    host: &LoadOptions,
    work: Option<&Place>,
    root: &Effective,
) -> Authority {
    let program = packages.program();
    let approvals = root.definition.sandbox.narrowing.approvals;
    let first = default_mount(program.tree.root(), work, &host.homes, approvals);
    let view = View::new(vec![first]);
    Authority::new(bounds.clone(), view, Arc::clone(&program.protection))
}
