//! Tools that a provider runs while it answers (`docs/reference/server-side-tools.md`).
//!
//! The engine never sees the calls of such a tool, so it judges the tool itself: once, before the conversation, as a
//! call of a function whose arguments are the tool's options. A tool that is refused is not offered.

use crate::{model::provider_name, risk::Risk, schema::Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc};

/// The key that names the tool in a worker file and in the journal.
const TOOL_TYPE: &str = "tool_type";

/// One tool that a provider runs, with its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "tool_type", rename_all = "snake_case")]
pub enum ServerTool {
    /// Searches the web.
    WebSearch(WebLimits),
    /// Reads web pages whose addresses it has seen.
    WebFetch(WebLimits),
    /// Runs code in a sandbox of the provider.
    CodeExecution,
}

/// Limits of a tool that reads the web.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WebLimits {
    /// Most uses in one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    /// If not empty, only these domains and those below them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<Arc<str>>,
    /// Never these domains and those below them. Providers accept only one of both lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<Arc<str>>,
}

/// The interfaces of providers that differ in their own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolHost {
    /// Anthropic messages.
    Anthropic,
    /// OpenAI responses.
    Responses,
    /// Gemini.
    Gemini,
    /// A stand-in for any provider: a script, a recorded run.
    Any,
    /// An interface without such tools.
    Without,
}

/// The known providers whose interface has no such tools. A test of the package that implements the providers compares
/// the list.
const WITHOUT: &[&str] = &[
    "openai",
    "bedrock",
    "ollama",
    "ollama_cloud",
    "openrouter",
    "groq",
    "xai",
    "deepseek",
    "mistral",
    "cohere",
    "fireworks",
    "together",
    "github",
    "kimi",
    "moonshot",
    "minimax",
    "zai",
    "bigmodel",
    "aliyun",
    "qwen_cloud",
    "nebius",
    "aihubmix",
    "opencode_go",
    "requesty",
    "atlascloud",
    "api_route",
    "heabsy",
    "runcrate",
    "cloudgpu",
    "local",
];

impl ToolHost {
    /// The interface of a known provider's model; `None` for another provider name. A provider that a program declares
    /// has the interface that its `api` names ([`ToolHost::of_api`]).
    pub fn of(provider: &str, model: &str) -> Option<Self> {
        let provider = provider_name(provider);
        Some(match provider {
            "anthropic" => Self::Anthropic,
            "openai_resp" => Self::Responses,
            "gemini" => Self::Gemini,
            "vertex" if model.starts_with("claude") => Self::Anthropic,
            "vertex" => Self::Gemini,
            "script" | "replay" => Self::Any,
            _ if WITHOUT.contains(&provider) => Self::Without,
            _ => return None,
        })
    }

    /// The interface that the `api` of a declared provider names.
    pub fn of_api(api: &str) -> Self {
        match api {
            "anthropic" => Self::Anthropic,
            "openai_resp" => Self::Responses,
            "gemini" => Self::Gemini,
            _ => Self::Without,
        }
    }
}

impl ServerTool {
    /// The tool's name, which rules use too: `web_search`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::WebSearch(_) => "web_search",
            Self::WebFetch(_) => "web_fetch",
            Self::CodeExecution => "code_execution",
        }
    }

    /// The tool's risk.
    pub fn risk(&self) -> Risk {
        match self {
            Self::WebSearch(_) | Self::WebFetch(_) => Risk::Network,
            Self::CodeExecution => Risk::Exec,
        }
    }

    /// A description for the operator.
    pub fn description(&self) -> &'static str {
        match self {
            Self::WebSearch(_) => "The provider searches the web whenever the model wants it to.",
            Self::WebFetch(_) => "The provider reads web pages whenever the model wants it to.",
            Self::CodeExecution => "The provider runs code that the model writes.",
        }
    }

    /// The tool's options in the form of a call's arguments: an object.
    pub fn options(&self) -> Value {
        let mut options = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = options.as_object_mut() {
            map.remove(TOOL_TYPE);
        }
        options
    }

    /// Replaces the options of the tool; `None` if they don't fit [`ServerTool::schema`].
    #[must_use]
    pub fn with_options(&self, options: &Value) -> Option<Self> {
        let mut whole: Map<String, Value> = options.as_object()?.clone();
        whole.insert(TOOL_TYPE.into(), self.name().into());
        serde_json::from_value(Value::Object(whole)).ok()
    }

    /// The schema of the tool's options.
    pub fn schema(&self) -> Schema {
        let domains =
            |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
        let properties = match self {
            Self::WebSearch(_) | Self::WebFetch(_) => json!({
                "max_uses": {"type": "integer", "minimum": 1, "description": "Most uses in one request."},
                "allowed_domains": domains("Only these domains."),
                "blocked_domains": domains("Never these domains."),
            }),
            Self::CodeExecution => json!({}),
        };
        Schema::built_in(json!({"type": "object", "properties": properties, "additionalProperties": false}))
    }

    /// The reason why a provider with that interface can't offer the tool with these options, if it can't.
    pub fn refused_by(&self, host: ToolHost, provider: &str) -> Option<String> {
        let name = self.name();
        let hosts = match self {
            Self::WebSearch(_) | Self::CodeExecution => "`anthropic:`, `openai_resp:` and `gemini:`",
            Self::WebFetch(_) => "`anthropic:` and `gemini:`",
        };
        let has = match (self, host) {
            (_, ToolHost::Without) | (Self::WebFetch(_), ToolHost::Responses) => false,
            (_, ToolHost::Anthropic | ToolHost::Responses | ToolHost::Gemini | ToolHost::Any) => true,
        };
        if !has {
            return Some(format!("`{provider}` has no `{name}` of its own; {hosts} have"));
        }
        let (Self::WebSearch(limits) | Self::WebFetch(limits)) = self else { return None };
        let given = [
            ("max_uses", limits.max_uses.is_some(), matches!(host, ToolHost::Anthropic | ToolHost::Any)),
            ("allowed_domains", !limits.allowed_domains.is_empty(), host != ToolHost::Gemini),
            (
                "blocked_domains",
                !limits.blocked_domains.is_empty(),
                matches!(host, ToolHost::Anthropic | ToolHost::Any),
            ),
        ];
        if !limits.allowed_domains.is_empty() && !limits.blocked_domains.is_empty() {
            return Some(format!("`{name}` takes `allowed_domains` or `blocked_domains`, not both"));
        }
        let lacking = given.into_iter().find(|(_, given, known)| *given && !known);
        lacking.map(|(option, ..)| format!("`{name}` of `{provider}` has no option `{option}`"))
    }
}

/// One use of a tool that the provider ran while it answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ServerUse {
    /// The tool: `web_search`, or the provider's name for a step of it.
    pub tool: Arc<str>,
    /// What the model gave it: `{"query": …}`, `{"url": …}`, `{"code": …}`.
    pub input: Arc<Value>,
    /// The pages that it found or read, as far as the provider names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The provider's word for the reason why it failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

impl fmt::Display for ServerUse {
    /// Formats the use as one line: `web_search {"query":"…"}: 3 pages`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tool, self.input)?;
        match (&self.error, self.sources.len()) {
            (Some(error), _) => write!(f, ": failed ({error})"),
            (None, 0) => Ok(()),
            (None, 1) => f.write_str(": 1 page"),
            (None, pages) => write!(f, ": {pages} pages"),
        }
    }
}

/// A page that a provider names as the origin of what a model says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Source {
    /// Its address.
    pub url: Arc<str>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.title {
            Some(title) => write!(f, "{} ({title})", self.url),
            None => f.write_str(&self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(limits: WebLimits) -> ServerTool {
        ServerTool::WebSearch(limits)
    }

    #[test]
    fn options_are_read_as_they_are_written() {
        let tool = search(WebLimits {
            max_uses: Some(3),
            allowed_domains: vec!["docs.rs".into()],
            ..WebLimits::default()
        });
        let json = json!({"tool_type": "web_search", "max_uses": 3, "allowed_domains": ["docs.rs"]});
        assert_eq!(serde_json::to_value(&tool).unwrap(), json);
        assert_eq!(serde_json::from_value::<ServerTool>(json).unwrap(), tool);
        for tool in [tool, ServerTool::CodeExecution] {
            let options = tool.options();
            assert!(tool.schema().validate(&options).is_ok(), "{options}");
            assert_eq!(tool.with_options(&options), Some(tool));
        }
    }

    #[test]
    fn options_that_an_operator_edited_replace_those_of_the_file() {
        let edited = search(WebLimits::default()).with_options(&json!({"max_uses": 1}));
        assert_eq!(edited, Some(search(WebLimits { max_uses: Some(1), ..WebLimits::default() })));
        assert_eq!(search(WebLimits::default()).with_options(&json!({"max_uses": "1"})), None);
    }

    #[test]
    fn a_provider_refuses_tools_and_options_that_it_has_not() {
        let refused =
            |tool: &ServerTool, provider| tool.refused_by(ToolHost::of(provider, "m").unwrap(), provider);
        let plain = search(WebLimits::default());
        for provider in ["anthropic", "openai_resp", "gemini", "google", "vertex", "script"] {
            assert_eq!(refused(&plain, provider), None, "{provider}");
            assert_eq!(refused(&ServerTool::CodeExecution, provider), None, "{provider}");
        }
        for provider in ["openai", "ollama", "local", "bedrock"] {
            assert!(refused(&plain, provider).is_some(), "{provider}");
        }
        assert!(refused(&ServerTool::WebFetch(WebLimits::default()), "openai_resp").is_some());
        let few = search(WebLimits { max_uses: Some(1), ..WebLimits::default() });
        assert_eq!(refused(&few, "anthropic"), None);
        assert_eq!(
            refused(&few, "gemini").as_deref(),
            Some("`web_search` of `gemini` has no option `max_uses`")
        );
        let domains = vec!["a.example".into()];
        let both = WebLimits { max_uses: None, allowed_domains: domains.clone(), blocked_domains: domains };
        assert!(refused(&search(both), "anthropic").is_some_and(|why| why.contains("not both")));
    }
}
