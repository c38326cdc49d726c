//! The providers that the manifest declares.

use crate::settings::Settings;
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_program::{Program, manifest::Provider};

/// Adds a provider of the manifest.
pub(crate) fn declare(providers: Providers, name: &str, declared: &Provider) -> Providers {
    providers.custom(name, custom(declared))
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

impl Settings {
    /// Adds the providers that another program declares, so that its models can be named here, too.
    #[must_use]
    pub fn with_providers_of(mut self, program: &Program) -> Self {
        let declared = program.providers().clone();
        let own = self.providers;
        self.providers = Box::new(move |providers, confiner| {
            let all = own(providers, confiner);
            declared.iter().fold(all, |all, (name, provider)| declare(all, name, provider))
        });
        self
    }
}
