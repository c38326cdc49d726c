//! Endpoints that a program declares.

use llm_do_wire::Wire;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

/// An endpoint that a program declares (`docs/guides/models.md`, `providers: NAME: {…}`).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomProvider {
    /// The base URL: the part before `/chat/completions` or, for Anthropic's interface, before `/v1/messages`.
    pub base_url: String,
    /// The interface.
    #[serde(default)]
    pub api: Api,
    /// The variable with the key. `None`: the endpoint needs no key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// True if answers are streamed, false if an answer arrives in one piece. `None`: they are streamed.
    #[serde(default)]
    pub stream: Option<bool>,
}

impl CustomProvider {
    /// Makes an endpoint with the interface of OpenAI's chat completions that needs no key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api: Api::OpenAi,
            api_key_env: None,
            headers: BTreeMap::new(),
            stream: None,
        }
    }
}

impl fmt::Debug for CustomProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and addresses often contain secrets.
        f.debug_struct("CustomProvider")
            .field("api", &self.api)
            .field("api_key_env", &self.api_key_env)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// The interface that an endpoint speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI chat completions.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI responses.
    #[serde(rename = "openai_resp", alias = "openai-responses", alias = "openai_responses")]
    OpenAiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Ollama's own interface.
    Ollama,
}

impl Api {
    pub(crate) fn wire(self) -> Wire {
        match self {
            Self::OpenAi => Wire::OpenAi,
            Self::OpenAiResponses => Wire::Responses,
            Self::Anthropic => Wire::Anthropic,
            Self::Gemini => Wire::Gemini,
            Self::Ollama => Wire::Ollama,
        }
    }
}
