//! The choice of each worker's model.

use crate::{grant::Grant, host::Host, missing, obstacle::Obstacle, options::RunOptions};
use llm_do_core::{
    model::{BadModelName, Model, ModelError, ModelErrorKind, ModelName, Models, Terms},
    worker::{ModelChoice, WorkerDefinition},
};
use llm_do_program::Program;
use std::{collections::BTreeMap, sync::Arc};

/// A model that was detected, because nothing names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedModel {
    /// The model.
    pub name: ModelName,
    /// The reason for the choice.
    pub because: String,
}

/// Returns the models of workers that name none: from the environment, the program, or the user's configuration.
pub(crate) fn defaults(program: &Program, host: &impl Host) -> Result<Vec<ModelName>, Obstacle> {
    let user = host.user();
    match host.variable("LLM_DO_MODEL").filter(|name| !name.trim().is_empty()) {
        Some(name) => name.parse().map(|name| vec![name]).map_err(|error: BadModelName| Obstacle::Model {
            worker: Arc::clone(&program.entry().id),
            model: None,
            message: format!("LLM_DO_MODEL: {error}"),
        }),
        None if program.models().is_empty() => Ok(user.models.clone()),
        None => Ok(program.models().to_vec()),
    }
}

/// Returns the models that the operator chose, by a flag, the environment or the user's configuration.
pub(crate) fn of_operator(options: &RunOptions, host: &impl Host) -> Vec<ModelName> {
    let user = host.user();
    let variable = host.variable("LLM_DO_MODEL").and_then(|name| name.parse().ok());
    let named = options.model.iter().cloned().chain(variable);
    named.chain(user.models.iter().chain(&user.fallback).cloned()).collect()
}

/// Completes the choice with a detected model if a worker would have none. Also returns the reason for that model.
pub(crate) fn choose(
    workers: &[Arc<WorkerDefinition>],
    mut choice: ModelChoice,
    host: &impl Host,
) -> Result<(ModelChoice, Option<DetectedModel>), Obstacle> {
    let lacks = |w: &Arc<WorkerDefinition>| w.code.is_none() && choice.of(w).is_err() && w.models.is_empty();
    let must = workers.iter().any(lacks);
    // Code may call workers that are not loaded yet.
    let has_code = |worker: &Arc<WorkerDefinition>| worker.code.is_some() || !worker.tools.is_empty();
    let may = choice.forced.is_none() && workers.iter().any(has_code);
    if !choice.defaults.is_empty() || !(must || may) {
        return Ok((choice, None));
    }
    let detected = host.detected_model();
    if must && detected.is_none() {
        return Err(Obstacle::NoModel);
    }
    choice.defaults = detected.iter().map(|detected| detected.name.clone()).collect();
    // Only a worker that gets it for certain makes it worth a word.
    Ok((choice, detected.filter(|_| must)))
}

/// Returns the providers as a run with these grants may use them. A declared provider without a grant refuses requests:
/// a worker that is loaded late must not reach an address that the operator never saw.
pub(crate) fn granted<H: Host>(
    host: &Arc<H>,
    operators: Vec<ModelName>,
    grants: &[Grant],
) -> Arc<dyn Models> {
    let refused = host.declared().iter().filter_map(|(name, provider)| {
        let missing = missing::endpoint(provider, grants)?;
        let message = format!("the program asks {missing}; the grant `{}` is missing", missing.grant);
        Some((name.clone(), message))
    });
    Arc::new(GrantedModels {
        models: host.models(),
        refused: refused.collect(),
        operators,
        grants: grants.to_vec(),
        host: Arc::clone(host),
    })
}

/// The models of a host, without those that a run may not use.
struct GrantedModels<H> {
    models: Arc<dyn Models>,
    /// The reason why each provider is refused, by its name.
    refused: BTreeMap<String, String>,
    /// The models that the operator chose.
    operators: Vec<ModelName>,
    grants: Vec<Grant>,
    host: Arc<H>,
}

impl<H: Host> Models for GrantedModels<H> {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(grant) = missing::weights_of(name, &self.operators, &self.grants, &*self.host) {
            let message =
                format!("the program wants to run the model in that file; the grant `{grant}` is missing");
            return Err(ModelError::new(ModelErrorKind::Auth, message));
        }
        match self.refused.get(name.provider()) {
            Some(message) => Err(ModelError::new(ModelErrorKind::Auth, message.clone())),
            None => self.models.open(name),
        }
    }

    fn terms(&self, name: &ModelName) -> Terms {
        self.models.terms(name)
    }
}

/// Opens a worker's models and checks that each takes the worker's settings and server-side tools: all errors of the first
/// turn that can be known before it. Returns the models that lack a key or a grant, each with the reason, if another can be
/// asked.
pub(crate) fn open(
    worker: &Arc<WorkerDefinition>,
    choice: &ModelChoice,
    models: &dyn Models,
) -> Result<Vec<(ModelName, String)>, Obstacle> {
    let fail = |model: Option<&ModelName>, message: String| Obstacle::Model {
        worker: Arc::clone(&worker.id),
        model: model.cloned(),
        message,
    };
    let chain = choice.chain(worker).map_err(|failure| fail(None, failure.message))?;
    let mut left_out = Vec::new();
    for name in &chain {
        let model = match models.open(name) {
            Ok(model) => model,
            Err(error) if error.kind == ModelErrorKind::Auth => {
                left_out.push((name.clone(), error.message));
                continue;
            }
            Err(error) => return Err(fail(Some(name), error.message)),
        };
        let tools = if worker.server_tools.is_empty() {
            Vec::new()
        } else {
            model.refused_server_tools(&worker.server_tools)
        };
        if let Some(refused) =
            model.refused_settings(&worker.settings_for(name)).into_iter().chain(tools).next()
        {
            return Err(fail(Some(name), refused));
        }
    }
    if left_out.len() == chain.len() {
        let (name, message) = left_out.swap_remove(0);
        return Err(fail(Some(&name), message));
    }
    Ok(left_out)
}
