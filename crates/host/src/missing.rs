//! Grants that a program needs beyond its own folder, and that the operator has not given. See
//! `docs/reference/sandbox.md`.

use crate::{
    grant::{self, Grant, MissingGrant, NeededBy},
    host::Host,
    obstacle::Obstacle,
};
use llm_do_core::{
    authority::Place,
    local_name,
    model::ModelName,
    toolset::{Requirement, ToolsetRegistry},
    worker::{ModelChoice, Sandbox, WorkerDefinition},
};
use llm_do_program::{Program, manifest::Provider, mounts::RequiredGrant};
use llm_do_records::SHORTEST_SECRET;
use std::{collections::BTreeMap, path::Path, sync::Arc};

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
pub fn toolsets(
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
pub fn toolset_variables(
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
pub fn declared_variables(worker: &WorkerDefinition) -> impl Iterator<Item = &Arc<str>> {
    let Sandbox { env, keys, .. } = &worker.sandbox;
    env.iter().chain(keys.iter().map(|key| &key.variable))
}

/// Checks that each variable that code gets can be given: the redactor must be able to find its value.
pub fn variables(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    host: &impl Host,
) -> Result<(), Obstacle> {
    let of_toolsets = toolset_variables(workers, kinds);
    let of_sandboxes =
        workers.iter().flat_map(|worker| declared_variables(worker).map(move |name| (worker, name)));
    for (worker, name) in of_sandboxes.chain(of_toolsets.iter().map(|(worker, name)| (worker, name))) {
        let reason = match host.variable(name) {
            None => "is not set",
            Some(value) if value.trim().len() < SHORTEST_SECRET => {
                "is shorter than 8 bytes, so that it can't be kept out of records"
            }
            Some(_) => continue,
        };
        let asked_by = Arc::clone(&worker.instructions.file);
        return Err(Obstacle::Variable { name: Arc::clone(name), asked_by, reason });
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
    host: &impl Host,
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for worker in workers.iter().filter(|worker| worker.code.is_none()) {
        let Ok(chain) = choice.chain(worker) else { continue };
        let grants = chain.iter().filter_map(|name| weights_of(name, operators, grants, host));
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
pub(crate) fn weights_of(
    name: &ModelName,
    operators: &[ModelName],
    grants: &[Grant],
    host: &impl Host,
) -> Option<Grant> {
    if name.provider() != "local" || operators.contains(name) {
        return None;
    }
    let is_name = local_name::is_downloaded(name.model());
    let grant = Grant::Weights(host.real(Path::new(name.model())).ok().filter(|_| !is_name)?);
    (!grants.contains(&grant)).then_some(grant)
}

/// Obtains the missing grants of a program from its host.
///
/// # Errors
/// [`Obstacle::Grants`] if the host refuses.
pub fn obtain<H: Host>(
    host: &H,
    program: &Place,
    missing: Vec<MissingGrant>,
) -> Result<Vec<Grant>, H::Problem> {
    if host.grant(program, &missing)? {
        Ok(missing.into_iter().map(|missing| missing.grant).collect())
    } else {
        Err(Obstacle::Grants(missing).into())
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
