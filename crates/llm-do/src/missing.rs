//! What a program asks for beyond its own folder and the operator has not granted. See `docs/reference/sandbox.md`.

use crate::{
    grant::{self, Grant, Grantor, MissingGrant},
    problem::Problem,
    settings::Environment,
};
use llm_do_core::{
    authority::{Access, Extent, Network},
    model::ModelName,
    toolset::ToolsetRegistry,
    worker::{ModelChoice, WorkerDefinition},
};
use llm_do_program::{
    BindError, Program,
    manifest::Provider,
    mounts::{RequiredGrant, Wanted},
};
use llm_do_python::Python;
use llm_do_records::SHORTEST_SECRET;
use llm_do_sandbox::{confine::Confiner, place_of};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The packages of the program's Python tools, where they are not fetched yet.
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
    Some(MissingGrant {
        what: "packages for its Python tools, which `uv` would fetch from the network".into(),
        asked_by: wanted.asked_by(),
        grants: vec![Grant::Uv],
    })
}

/// The places outside the program that the Python of its own environment reads.
pub(crate) fn interpreter(
    workers: &[Arc<WorkerDefinition>],
    kinds: &ToolsetRegistry,
    python: &Python,
) -> Vec<MissingGrant> {
    let starts =
        |worker: &Arc<WorkerDefinition>| kinds.code().is_some_and(|code| code.starts_processes(worker));
    let Some((places, asked_by)) = workers.iter().any(starts).then(|| python.ungranted()).flatten() else {
        return Vec::new();
    };
    let missing = places.iter().filter_map(|place| {
        let place = place_of(place).ok()?;
        Some(MissingGrant {
            what: format!("to read {place}, which the Python of its environment needs"),
            asked_by: asked_by.display().to_string(),
            grants: vec![Grant::Place(Extent { place, access: Access::Read })],
        })
    });
    missing.collect()
}

/// Processes of its tools, where nothing can confine them. Another run of this process may have been granted to run
/// unconfined; this one needs its own grant.
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
        what: "to run processes with all of your own rights, since this system can't confine them".into(),
        asked_by: worker.instructions.file.to_string(),
        grants: vec![Grant::Unconfined],
    })
}

pub(crate) fn places(program: &Program, grants: &[Grant]) -> Vec<MissingGrant> {
    let (places, network) = (grant::places(grants), grant::network(grants));
    let missing = program.missing_grants(&places, &network, &grant::variables(grants));
    missing.iter().map(place).collect()
}

pub(crate) fn place(required: &RequiredGrant) -> MissingGrant {
    MissingGrant {
        what: match &required.what {
            Wanted::Place { place, access: Access::Read } => format!("to read {place}"),
            Wanted::Place { place, access: Access::Write } => format!("to write {place}"),
            Wanted::Network(Network::Domains(domains)) => {
                let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
                format!("to use the network: {}", domains.join(", "))
            }
            Wanted::Network(_) => "to use the network".into(),
            Wanted::Variable(name) => {
                format!("to give its Python functions the environment variable {name}")
            }
        },
        asked_by: required.span.origin().to_string(),
        grants: vec![Grant::from(&required.what)],
    }
}

/// Checks that each variable that code gets can be given: the redactor must be able to find its value.
pub(crate) fn variables(workers: &[Arc<WorkerDefinition>], environment: &Environment) -> Result<(), Problem> {
    for (worker, name) in
        workers.iter().flat_map(|worker| worker.sandbox.env.iter().map(move |name| (worker, name)))
    {
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

/// A manifest that sends requests, and a key with them, somewhere else needs a grant for it.
pub(crate) fn endpoints(
    declared: &BTreeMap<String, Provider>,
    workers: &[Arc<WorkerDefinition>],
    choice: &ModelChoice,
    grants: &[Grant],
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for name in workers.iter().filter_map(|worker| choice.of(worker).ok()) {
        let provider = declared.get(name.provider());
        missing.extend(provider.and_then(|provider| endpoint(provider, grants)));
    }
    missing.sort_by(|a, b| a.what.cmp(&b.what));
    missing.dedup();
    missing
}

pub(crate) fn endpoint(declared: &Provider, grants: &[Grant]) -> Option<MissingGrant> {
    let host = host_of(&declared.base_url);
    let variable = declared.api_key_env.as_deref();
    if grant::covers_endpoint(grants, host, variable) {
        return None;
    }
    let key = variable.map(|variable| format!(", with the key in {variable}")).unwrap_or_default();
    Some(MissingGrant {
        what: format!("to send requests to {host}{key}"),
        asked_by: declared.span.origin().to_string(),
        grants: vec![Grant::Endpoint { host: host.to_owned(), variable: variable.map(str::to_owned) }],
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
        let Ok(name) = choice.of(worker) else { continue };
        if let Some(grant) = weights_of(&name, operators, grants) {
            missing.push(MissingGrant {
                what: format!("to run the model in the file {}, in a confined process", name.model()),
                asked_by: worker.instructions.file.to_string(),
                grants: vec![grant],
            });
        }
    }
    missing.dedup_by(|a, b| a.grants == b.grants);
    missing
}

/// The grant that a model lacks, if it is a file that the operator did not choose. A file that does not exist is an error
/// of its own.
pub(crate) fn weights_of(name: &ModelName, operators: &[ModelName], grants: &[Grant]) -> Option<Grant> {
    if name.provider() != "local" || operators.contains(name) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    let is_name =
        name.model().chars().all(plain) && !name.model().starts_with('.') && !name.model().ends_with(".gguf");
    let grant = Grant::Weights(place_of(Path::new(name.model())).ok().filter(|_| !is_name)?);
    (!grants.contains(&grant)).then_some(grant)
}

/// The problem with an input that can't be bound.
pub(crate) fn unbound(error: BindError) -> Problem {
    match error {
        BindError::Input(error) => Problem::Input(error),
        BindError::Beyond(required) => Problem::Grants(required.iter().map(place).collect()),
    }
}

/// Gets from `grantor` what is missing, or says what it was.
pub(crate) fn obtain(
    grantor: &dyn Grantor,
    program: &Path,
    missing: Vec<MissingGrant>,
) -> Result<Vec<Grant>, Problem> {
    if grantor.grant(program, &missing)? {
        Ok(missing.into_iter().flat_map(|missing| missing.grants).collect())
    } else {
        Err(Problem::Grants(missing))
    }
}

/// Host and port of an address, without scheme, user and path.
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
