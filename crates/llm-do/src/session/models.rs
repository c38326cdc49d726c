//! Which model each worker gets, and the providers that the manifest declares.

use super::{Environment, Problem, missing, runs_code};
use crate::grant::Grant;
use llm_do_core::{
    model::{BadModelName, ModelError, ModelErrorKind, ModelName, Models},
    worker::{ModelChoice, WorkerDefinition},
};
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_program::{Program, UserConfig, manifest::Provider};
use std::sync::Arc;

/// What workers get that name no model: by the environment, by the program, by the user's configuration.
pub(super) fn default(
    program: &Program,
    environment: &Environment,
    user: &UserConfig,
) -> Result<Option<ModelName>, Problem> {
    match environment("LLM_DO_MODEL").filter(|name| !name.trim().is_empty()) {
        Some(name) => name.parse().map(Some).map_err(|error: BadModelName| Problem::Model {
            worker: Arc::clone(&program.entry().id),
            model: None,
            message: format!("LLM_DO_MODEL: {error}"),
        }),
        None => Ok(program.model().or(user.model.as_ref()).cloned()),
    }
}

/// The choice, completed by what can be found where a worker would be left without a model; and why it was that one.
pub(super) fn choose(
    program: &Program,
    mut choice: ModelChoice,
    providers: &Providers,
    fallback: Option<ModelName>,
) -> Result<(ModelChoice, Option<(ModelName, String)>), Problem> {
    let workers = program.loaded();
    let lacks = |w: &Arc<WorkerDefinition>| w.code.is_none() && choice.of(w).is_err() && w.model.is_none();
    let must = workers.iter().any(lacks);
    // Code may call workers that nobody has loaded yet.
    let may = choice.forced.is_none() && workers.iter().any(|worker| runs_code(worker));
    if choice.default.is_some() || !(must || may) {
        return Ok((choice, None));
    }
    let found = providers.default_model().map(|found| (found.name, found.because));
    let because = found.or(fallback.map(|name| (name, "no provider is configured".to_owned())));
    if must && because.is_none() {
        return Err(Problem::NoModel);
    }
    choice.default = because.as_ref().map(|(name, _)| name.clone());
    Ok((choice, because))
}

/// Adds a provider of the manifest. One that was not granted keeps its name and refuses: a worker that is loaded late
/// must not reach what the operator never saw.
pub(super) fn declare(providers: Providers, name: &str, declared: &Provider, grants: &[Grant]) -> Providers {
    let Some(missing) = missing::endpoint(declared, grants) else {
        return providers.custom(name, custom(declared));
    };
    let flags: Vec<String> = missing.grants.iter().map(|grant| format!("`--grant {grant}`")).collect();
    let message = format!("the program wants {}; allow it by {}", missing.what, flags.join(" "));
    providers.with(name, move |_| Err(ModelError::new(ModelErrorKind::Auth, message.clone())))
}

fn custom(declared: &Provider) -> CustomProvider {
    CustomProvider {
        api: match declared.api.as_str() {
            "anthropic" => Api::Anthropic,
            "openai_resp" => Api::OpenAiResponses,
            "gemini" => Api::Gemini,
            "ollama" => Api::Ollama,
            _ => Api::OpenAi,
        },
        api_key_env: declared.api_key_env.clone(),
        headers: declared.headers.iter().cloned().collect(),
        stream: declared.stream,
        ..CustomProvider::new(declared.base_url.clone())
    }
}

/// Opens a worker's model and checks that it takes the worker's settings: everything that would fail at its first
/// turn and can be known now.
pub(super) fn open(
    worker: &Arc<WorkerDefinition>,
    choice: &ModelChoice,
    providers: &Providers,
) -> Result<(), Problem> {
    let fail = |model: Option<&ModelName>, message: String| Problem::Model {
        worker: Arc::clone(&worker.id),
        model: model.cloned(),
        message,
    };
    let name = choice.of(worker).map_err(|failure| fail(None, failure.message))?;
    let model = providers.open(&name).map_err(|ModelError { message, .. }| fail(Some(&name), message))?;
    match model.refused_settings(&worker.settings).into_iter().next() {
        Some(refused) => Err(fail(Some(&name), refused)),
        None => Ok(()),
    }
}
