//! Grants that a program needs for processes of this machine. The portable host knows the others.

use crate::grant::{Grant, MissingGrant, NeededBy};
use llm_do_core::{
    authority::{Access, Extent},
    toolset::ToolsetRegistry,
    worker::WorkerDefinition,
};
use llm_do_python::Python;
use llm_do_sandbox::{confine::Confiner, place_of};
use std::sync::Arc;

/// Returns the grant for the packages of the program's Python tools, if they are not fetched yet.
pub(crate) fn packages(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    python: &Python,
) -> Option<MissingGrant> {
    let code = kinds.code()?;
    if !workers.iter().any(|worker| code.starts_processes(worker)) {
        return None;
    }
    let wanted = python.unprepared()?;
    Some(MissingGrant { grant: Grant::Uv, needed_by: NeededBy::Program, asked_at: wanted.asked_by() })
}

/// Returns the grants for places outside the program that the Python of its own environment reads.
pub(crate) fn interpreter(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    python: &Python,
) -> Vec<MissingGrant> {
    let starts =
        |worker: &Arc<WorkerDefinition>| kinds.code().is_some_and(|code| code.starts_processes(worker));
    let Some((places, asked_at)) = workers.iter().any(starts).then(|| python.ungranted()).flatten() else {
        return Vec::new();
    };
    let missing = places.iter().filter_map(|place| {
        let place = place_of(place).ok()?;
        Some(MissingGrant {
            grant: Grant::Place(Extent { place, access: Access::Read }),
            needed_by: NeededBy::Interpreter,
            asked_at: asked_at.display().to_string(),
        })
    });
    missing.collect()
}

/// Returns the grant to run processes of the tools on a machine that can't confine them. Another run of this process
/// may have had that grant; this one needs its own.
pub(crate) fn confinement(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    confiner: &Confiner,
    grants: &[Grant],
) -> Option<MissingGrant> {
    let worker = workers.iter().find(|worker| kinds.starts_processes(worker))?;
    if grants.contains(&Grant::Unconfined) {
        return None;
    }
    let unconfined = confiner.is_unconfined() || confiner.confinement().is_err();
    unconfined.then(|| MissingGrant {
        grant: Grant::Unconfined,
        needed_by: NeededBy::Program,
        asked_at: worker.instructions.file.to_string(),
    })
}
