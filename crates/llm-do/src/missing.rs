//! Grants that a program needs beyond its own folder, and that the operator has not given. See
//! `docs/reference/sandbox.md`.

use crate::{
    grant::{self, Grant, Grantor, MissingGrant, NeededBy},
    problem::Problem,
    settings::Environment,
};
use llm_do_core::{
    authority::{Access, Extent},
    local_name,
    model::ModelName,
    toolset::{Requirement, ToolsetRegistry},
    worker::{ModelChoice, Sandbox, WorkerDefinition},
};
use llm_do_program::{BindError, Program, manifest::Provider, mounts::RequiredGrant};
use llm_do_python::Python;
use llm_do_records::SHORTEST_SECRET;
use llm_do_sandbox::{confine::Confiner, place_of};
use std::{collections::BTreeMap, path::Path, sync::Arc};

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

pub(crate) fn places(program: &Program, grants: &[Grant]) -> Vec<MissingGrant> {
    let (places, network) = (grant::places(grants), grant::network(grants));
    let missing = program.missing_grants(&places, &network, &grant::variables(grants));
    missing.iter().map(place).collect()
}

pub(crate) fn place(required: &RequiredGrant) -> MissingGrant {
    MissingGrant {
        grant: Grant::from(&required.what),
        needed_by: NeededBy::Program,
        asked_at: required.span.origin().to_string(),
    }
}

/// Returns the missing grants of the toolsets of these workers: servers, their hosts, variables for them, places that
/// they see.
pub(crate) fn toolsets(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    grants: &[Grant],
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for worker in workers {
        for requirement in kinds.requires(worker) {
            let grant = Grant::from(requirement);
            if !grant::covers(grants, &grant) && missing.iter().all(|known| known.grant != grant) {
                let asked_at = worker.instructions.file.to_string();
                missing.push(MissingGrant { grant, needed_by: NeededBy::Server, asked_at });
            }
        }
    }
    missing
}

/// Returns the variables that the toolsets of these workers need.
pub(crate) fn toolset_variables(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
) -> Vec<(Arc<WorkerDefinition>, Arc<str>)> {
    let variables = workers.iter().flat_map(|worker| {
        kinds.requires(worker).into_iter().filter_map(|requirement| match requirement {
            Requirement::Variable(name) => Some((Arc::clone(worker), name)),
            Requirement::Process(_) | Requirement::Place(_) | Requirement::Network(_) => None,
        })
    });
    variables.collect()
}

/// Returns the variables that a worker's sandbox names: those that its code gets, and those with keys for its requests.
pub(crate) fn declared_variables(worker: &WorkerDefinition) -> impl Iterator<Item = &Arc<str>> {
    let Sandbox { env, keys, .. } = &worker.sandbox;
    env.iter().chain(keys.iter().map(|key| &key.variable))
}

/// Checks that each variable that code gets can be given: the redactor must be able to find its value.
pub(crate) fn variables(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    environment: &Environment,
) -> Result<(), Problem> {
    let of_toolsets = toolset_variables(workers, kinds);
    let of_sandboxes =
        workers.iter().flat_map(|worker| declared_variables(worker).map(move |name| (worker, name)));
    for (worker, name) in of_sandboxes.chain(of_toolsets.iter().map(|(worker, name)| (worker, name))) {
        let reason = match environment(name) {
            None => "is not set",
            Some(value) if value.trim().len() < SHORTEST_SECRET => {
                "is shorter than 8 bytes, so that it can't be kept out of records"
            }
            Some(_) => continue,
        };
        let asked_by = Arc::clone(&worker.instructions.file);
        return Err(Problem::Variable { name: Arc::clone(name), asked_by, reason });
    }
    Ok(())
}

/// Returns the missing grants for a manifest that sends requests, and a key with them, to another host.
pub(crate) fn endpoints(
    declared: &BTreeMap<String, Provider>,
    workers: &[Arc<WorkerDefinition>],
    choice: &ModelChoice,
    grants: &[Grant],
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for name in workers.iter().filter_map(|worker| choice.chain(worker).ok()).flatten() {
        let provider = declared.get(name.provider());
        missing.extend(provider.and_then(|provider| endpoint(provider, grants)));
    }
    missing.sort_by_cached_key(|missing| missing.grant.to_string());
    missing.dedup();
    missing
}

pub(crate) fn endpoint(declared: &Provider, grants: &[Grant]) -> Option<MissingGrant> {
    let host = host_of(&declared.base_url);
    let variable = declared.api_key_env.as_deref();
    if grant::covers_endpoint(grants, host, variable) {
        return None;
    }
    Some(MissingGrant {
        grant: Grant::Endpoint { host: host.to_owned(), variable: variable.map(str::to_owned) },
        needed_by: NeededBy::Program,
        asked_at: declared.span.origin().to_string(),
    })
}

/// Files with weights that the program names. `operators` are the models that the operator chose.
pub(crate) fn weights(
    workers: &[Arc<WorkerDefinition>],
    choice: &ModelChoice,
    operators: &[ModelName],
    grants: &[Grant],
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for worker in workers.iter().filter(|worker| worker.code.is_none()) {
        let Ok(chain) = choice.chain(worker) else { continue };
        let grants = chain.iter().filter_map(|name| weights_of(name, operators, grants));
        missing.extend(grants.map(|grant| MissingGrant {
            grant,
            needed_by: NeededBy::Program,
            asked_at: worker.instructions.file.to_string(),
        }));
    }
    missing.dedup_by(|a, b| a.grant == b.grant);
    missing
}

/// Returns the grant that a model lacks, if it is a file that the operator did not choose. A missing file is a separate
/// error.
pub(crate) fn weights_of(name: &ModelName, operators: &[ModelName], grants: &[Grant]) -> Option<Grant> {
    if name.provider() != "local" || operators.contains(name) {
        return None;
    }
    let is_name = local_name::is_downloaded(name.model());
    let grant = Grant::Weights(place_of(Path::new(name.model())).ok().filter(|_| !is_name)?);
    (!grants.contains(&grant)).then_some(grant)
}

/// Returns the problem with an input that can't be bound.
pub(crate) fn unbound(error: BindError) -> Problem {
    match error {
        BindError::Input(error) => Problem::Input(error),
        BindError::Beyond(required) => Problem::Grants(required.iter().map(place).collect()),
    }
}

/// Obtains the missing grants from `grantor`, or returns them as a problem.
pub(crate) fn obtain(
    grantor: &dyn Grantor,
    program: &Path,
    missing: Vec<MissingGrant>,
) -> Result<Vec<Grant>, Problem> {
    if grantor.grant(program, &missing)? {
        Ok(missing.into_iter().map(|missing| missing.grant).collect())
    } else {
        Err(Problem::Grants(missing))
    }
}

/// Returns host and port of an address, without scheme, user and path.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_a_client_would_connect_to() {
        assert_eq!(host_of("https://models.example/v1"), "models.example");
        assert_eq!(host_of("http://127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(host_of("http://127.0.0.1@evil.example/v1"), "evil.example");
        assert_eq!(host_of("https://evil.example\\@127.0.0.1/"), "evil.example");
    }
}
