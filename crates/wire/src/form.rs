//! The wire format of one model, and what the model takes.

use crate::{claude::Claude, effort::Effort, maker::Maker};
use llm_do_core::{
    model::{Capabilities, ModelRequest, ModelSettings, Sees},
    server_tool::{ServerTool, ToolHost},
};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

/// The wire format of conversations. Several providers share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI chat completions and compatible interfaces.
    OpenAi,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Ollama's own chat interface.
    Ollama,
    /// Bedrock Converse.
    Bedrock,
}

/// The provider behind an endpoint, as far as it differs from other providers with the same wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The company that has designed the interface, or an endpoint that a program declares.
    Own,
    /// A provider with a compatible interface and no differences.
    Compatible,
    /// Cohere, whose compatible interface takes no files.
    Cohere,
    /// DeepSeek, which has a switch for thinking, and takes neither seeds nor files.
    DeepSeek,
    /// Fireworks, whose models are in the account of Fireworks unless their names say otherwise.
    Fireworks,
    /// GitHub Models, which has a media type of its own.
    GitHub,
    /// MiniMax, which takes no files.
    MiniMax,
    /// Mistral, whose IDs of calls have nine characters.
    Mistral,
    /// Moonshot and Kimi, which want their reasoning back while tools run.
    Moonshot,
    /// OpenCode, whose models of MiniMax have Anthropic's interface.
    OpenCode,
    /// OpenRouter, which takes PDF files.
    OpenRouter,
    /// Vertex AI, where Claude has Anthropic's interface, and the path names the model.
    Vertex,
    /// xAI, which counts the tokens of reasoning apart.
    Xai,
}

/// Content that can't be sent to a model, described in a sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsendable(pub String);

/// A model behind an endpoint: its wire format, and what it takes.
#[derive(Clone, Debug)]
pub struct Form {
    pub(crate) wire: Wire,
    pub(crate) dialect: Dialect,
    /// The provider's name in [`llm_do_core::model::Part::Opaque`].
    pub(crate) provider: Arc<str>,
    pub(crate) model: Arc<str>,
    official: bool,
}

impl Wire {
    /// Returns the wire format of a model. Some providers have a second one for some of their models.
    #[must_use]
    pub fn of_model(self, dialect: Dialect, model: &str) -> Self {
        match dialect {
            Dialect::Vertex if model.starts_with("claude") => Self::Anthropic,
            Dialect::OpenCode if model.to_ascii_lowercase().starts_with("minimax-") => Self::Anthropic,
            _ => self,
        }
    }
}

impl Form {
    /// Makes the form of a model. `wire` is the usual wire format of its provider. By default, its endpoint is not the
    /// provider's own ([`Form::official`]).
    pub fn new(wire: Wire, dialect: Dialect, provider: &str, model: &str) -> Self {
        let wire = wire.of_model(dialect, model);
        Self { wire, dialect, provider: provider.into(), model: model.into(), official: false }
    }

    /// Sets whether the endpoint is the provider's own, so that its capabilities are known.
    #[must_use]
    pub fn official(mut self, official: bool) -> Self {
        self.official = official;
        self
    }

    /// Returns the wire format.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the provider behind the endpoint.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the model's name at the provider.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the interface whose server-side tools the endpoint has.
    pub fn host(&self) -> ToolHost {
        match (self.wire, self.dialect) {
            (Wire::Anthropic, Dialect::Own | Dialect::Vertex) => ToolHost::Anthropic,
            (Wire::Responses, _) => ToolHost::Responses,
            (Wire::Gemini, _) => ToolHost::Gemini,
            _ => ToolHost::Without,
        }
    }

    /// Returns the capabilities that the engine must know.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_schema: self.native_schema(),
            tools: true,
            sees: Sees { images: self.takes_images(), pdf: self.takes_pdf() },
        }
    }

    /// Returns true only if the answer follows the schema while tools are offered. Gemini does this since its third
    /// generation, Ollama's constraint prevents calls, and compatible endpoints are unknown. Anthropic rejects schemas
    /// with keywords as common as `minimum`, and its models handle a final-result tool well.
    fn native_schema(&self) -> bool {
        let follows = match self.wire {
            Wire::OpenAi => self.dialect == Dialect::Own && !is_old_gpt(&self.model),
            Wire::Responses => !is_old_gpt(&self.model),
            Wire::Gemini => gemini_generation(&self.model).is_some_and(|generation| generation >= 3.0),
            Wire::Anthropic | Wire::Ollama | Wire::Bedrock => false,
        };
        self.official && follows
    }

    pub(crate) fn takes_images(&self) -> bool {
        !matches!(
            (self.wire, self.dialect),
            (_, Dialect::Cohere | Dialect::DeepSeek | Dialect::MiniMax)
                | (Wire::Anthropic, Dialect::OpenCode)
        )
    }

    pub(crate) fn takes_pdf(&self) -> bool {
        match self.wire {
            Wire::OpenAi => matches!(self.dialect, Dialect::Own | Dialect::OpenRouter),
            Wire::Ollama => false,
            Wire::Responses | Wire::Anthropic | Wire::Gemini | Wire::Bedrock => self.takes_images(),
        }
    }

    /// Returns true if the provider requires the text of its thinking back while tools run.
    pub(crate) fn echoes_reasoning(&self) -> bool {
        self.wire == Wire::Ollama || matches!(self.dialect, Dialect::DeepSeek | Dialect::Moonshot)
    }

    /// Returns the settings that the provider does not have, each with the reason.
    pub fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        let mut refused = Vec::new();
        let provider = &self.provider;
        let has_seed = match self.wire {
            Wire::OpenAi => self.dialect != Dialect::DeepSeek,
            Wire::Gemini | Wire::Ollama => true,
            Wire::Responses | Wire::Anthropic | Wire::Bedrock => false,
        };
        if settings.seed.is_some() && !has_seed {
            refused.push(format!("seed: {provider} has no such setting"));
        }
        if !settings.stop.is_empty() && self.wire == Wire::Responses {
            refused.push(format!("stop: {provider} has no such setting; `openai:` has"));
        }
        let samplings = [("temperature", settings.temperature), ("top_p", settings.top_p)];
        if self.is_claude() && !self.claude().takes_budgets_and_sampling() {
            let given = samplings.iter().filter(|(_, value)| value.is_some());
            refused.extend(given.map(|(name, _)| format!("{name}: {} has no such setting", self.model)));
        }
        if let Some(effort) = &settings.reasoning_effort {
            refused.extend(self.refused_effort(effort).map(|why| format!("reasoning_effort: {why}")));
        }
        refused
    }

    fn refused_effort(&self, effort: &str) -> Option<String> {
        const WORDS: &str = "none, minimal, low, medium, high, xhigh or max";
        let provider = &self.provider;
        let budgets = match self.wire {
            Wire::OpenAi if self.dialect == Dialect::Cohere => {
                return Some(format!("{provider} has no such setting"));
            }
            Wire::Bedrock => match Maker::of(&self.model) {
                Maker::Anthropic => self.claude().takes_budgets_and_sampling(),
                Maker::Amazon => true,
                Maker::OpenAi => false,
                Maker::Other => return Some(format!("{} has no such setting", self.model)),
            },
            Wire::OpenAi | Wire::Responses | Wire::Ollama => false,
            Wire::Gemini => gemini_generation(&self.model).is_some_and(|generation| generation < 3.0),
            Wire::Anthropic => self.claude().takes_budgets_and_sampling(),
        };
        match effort.parse::<Effort>() {
            Ok(Effort::Budget(_)) if !budgets => {
                let taker = if self.is_claude() { &self.model } else { provider };
                Some(format!("{taker} takes {WORDS}, not a number of tokens"))
            }
            Ok(_) => None,
            Err(_) if budgets => Some(format!("`{effort}` is not {WORDS}, nor a number of tokens")),
            Err(_) => Some(format!("`{effort}` is not {WORDS}")),
        }
    }

    /// Returns the tools that the provider can't run, each with the reason.
    pub fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        tools.iter().filter_map(|tool| tool.refused_by(self.host(), &self.provider)).collect()
    }

    /// Returns a key of the conversation, if the provider routes requests by it to the server that caches their
    /// beginning. It is short, since OpenAI takes 64 characters at most.
    pub(crate) fn cache_key(&self, request: &ModelRequest<'_>) -> Option<String> {
        let caches_by_key = matches!(self.wire, Wire::OpenAi | Wire::Responses)
            && self.dialect == Dialect::Own
            && (self.official || self.model.starts_with("gpt-"));
        caches_by_key.then(|| {
            let mut hasher = DefaultHasher::new();
            (request.run, request.conversation).hash(&mut hasher);
            format!("llm-do-{:016x}", hasher.finish())
        })
    }

    /// Returns the names of functions that a request can't have, because the provider's own tools have them.
    pub(crate) fn reserved(&self) -> &'static [&'static str] {
        match self.wire {
            Wire::Anthropic => &["web_search", "web_fetch", "code_execution"],
            _ => &[],
        }
    }

    fn is_claude(&self) -> bool {
        self.wire == Wire::Anthropic
            || (self.wire == Wire::Bedrock && Maker::of(&self.model) == Maker::Anthropic)
    }

    pub(crate) fn claude(&self) -> Claude {
        Claude::named(&self.model)
    }
}

/// Returns true if a model predates structured output.
fn is_old_gpt(model: &str) -> bool {
    model == "gpt-4"
        || ["gpt-3", "gpt-4-", "chatgpt-", "o1-mini", "o1-preview"].iter().any(|old| model.starts_with(old))
}

/// Returns true if a model of OpenAI reasons. Others reject a request for reasoning.
pub(crate) fn is_reasoning_gpt(model: &str) -> bool {
    let numbered = model
        .strip_prefix("gpt-")
        .and_then(|rest| rest.chars().next())
        .is_some_and(|c| ('5'..='9').contains(&c));
    (numbered && !model.contains("-chat"))
        || ["o1", "o3", "o4", "codex"].iter().any(|prefix| model.starts_with(prefix))
}

/// Returns `2.5` of `gemini-2.5-flash`.
pub(crate) fn gemini_generation(model: &str) -> Option<f32> {
    let rest = model.strip_prefix("models/").unwrap_or(model).strip_prefix("gemini-")?;
    rest.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names_tell_what_a_model_can() {
        assert_eq!(gemini_generation("gemini-2.5-flash"), Some(2.5));
        assert_eq!(gemini_generation("gemini-3-pro-preview"), Some(3.0));
        assert_eq!(gemini_generation("gemini-flash-latest"), None);
        assert!(is_old_gpt("gpt-4") && is_old_gpt("gpt-4-turbo") && is_old_gpt("gpt-3.5-turbo"));
        assert!(!is_old_gpt("gpt-4o") && !is_old_gpt("gpt-4.1-mini") && !is_old_gpt("gpt-5"));
        assert!(
            is_reasoning_gpt("gpt-5-mini")
                && is_reasoning_gpt("o3")
                && !is_reasoning_gpt("gpt-5-chat-latest")
        );
        assert!(!is_reasoning_gpt("gpt-4o"));
    }

    #[test]
    fn a_file_goes_to_models_that_take_it() {
        let sees = |wire, dialect, model| Form::new(wire, dialect, "p", model).capabilities().sees;
        for (wire, dialect, model, images, pdf) in [
            (Wire::OpenAi, Dialect::Own, "m", true, true),
            (Wire::OpenAi, Dialect::OpenRouter, "m", true, true),
            (Wire::OpenAi, Dialect::Compatible, "m", true, false),
            (Wire::OpenAi, Dialect::DeepSeek, "m", false, false),
            (Wire::OpenAi, Dialect::Cohere, "m", false, false),
            (Wire::OpenAi, Dialect::OpenCode, "minimax-m2", false, false),
            (Wire::Anthropic, Dialect::MiniMax, "m", false, false),
            (Wire::Anthropic, Dialect::Own, "m", true, true),
            (Wire::Gemini, Dialect::Vertex, "claude-x", true, true),
            (Wire::Ollama, Dialect::Own, "m", true, false),
            (Wire::Bedrock, Dialect::Own, "m", true, true),
        ] {
            assert_eq!(sees(wire, dialect, model), Sees { images, pdf }, "{wire:?} {dialect:?}");
        }
    }
}
