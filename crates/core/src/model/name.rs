//! Names of models and of their providers.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// `provider:model`, for example `anthropic:claude-haiku-4-5`, `script:demo.yaml`, `local:smollm2-135m-instruct`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemas", schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct ModelName {
    whole: Arc<str>,
    colon: usize,
}

/// Providers whose models cost nothing, unless the user gives them a price.
const FREE: [&str; 3] = ["local", "replay", "script"];

/// Returns true if the models of a provider cost nothing. An endpoint can't have such a name, because budgets do not count
/// its requests.
pub fn is_free_provider(name: &str) -> bool {
    FREE.contains(&name)
}

impl ModelName {
    /// Returns true if a request costs nothing: the answer comes from this machine or from a record.
    pub fn is_free(&self) -> bool {
        is_free_provider(self.provider())
    }

    /// The part before the first colon.
    pub fn provider(&self) -> &str {
        &self.whole[..self.colon]
    }
    /// The part after the first colon.
    pub fn model(&self) -> &str {
        &self.whole[self.colon + 1..]
    }
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// Returns true if a pattern of `compatible_models` matches this model. All names of a provider are equivalent:
    /// `google:*` matches `gemini:gemini-2.5-flash`. A pattern that is not a valid glob matches nothing.
    pub fn fits(&self, glob: &str) -> bool {
        let Ok(glob) = globset::Glob::new(glob) else { return false };
        let matcher = glob.compile_matcher();
        let provider = provider_name(self.provider());
        let aliases = PROVIDER_ALIASES.iter().filter(|(_, name)| *name == provider).map(|(alias, _)| *alias);
        matcher.is_match(self.as_str())
            || aliases.chain([provider]).any(|name| matcher.is_match(format!("{name}:{}", self.model())))
    }
}

/// Other names of providers, each with the provider's own.
pub const PROVIDER_ALIASES: &[(&str, &str)] = &[
    ("claude", "anthropic"),
    ("openai-responses", "openai_resp"),
    ("openai_responses", "openai_resp"),
    ("google", "gemini"),
    ("vertexai", "vertex"),
    ("bedrock_api", "bedrock"),
    ("aws", "bedrock"),
    ("ollama-cloud", "ollama_cloud"),
    ("open_router", "openrouter"),
    ("grok", "xai"),
    ("mistralai", "mistral"),
    ("github_copilot", "github"),
    ("dashscope", "aliyun"),
    ("qwen", "qwen_cloud"),
];

/// The provider's own name, if `name` is another one of its names.
pub fn provider_name(name: &str) -> &str {
    PROVIDER_ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}

/// A model name that is not `provider:model`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a model name: write `provider:model`, for example `anthropic:claude-haiku-4-5`")]
pub struct BadModelName(pub String);

impl FromStr for ModelName {
    type Err = BadModelName;
    fn from_str(text: &str) -> Result<Self, BadModelName> {
        match text.find(':') {
            Some(colon) if colon > 0 && colon + 1 < text.len() && !text.chars().any(char::is_control) => {
                Ok(Self { whole: text.into(), colon })
            }
            _ => Err(BadModelName(text.to_owned())),
        }
    }
}
impl TryFrom<String> for ModelName {
    type Error = BadModelName;
    fn try_from(text: String) -> Result<Self, BadModelName> {
        text.parse()
    }
}
impl From<ModelName> for String {
    fn from(name: ModelName) -> Self {
        name.whole.to_string()
    }
}
