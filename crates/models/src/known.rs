//! The providers that are known by name, with their addresses, wire formats and key variables.

use genai::adapter::AdapterKind;
use llm_do_core::model::provider_name;

/// A provider known by name.
#[derive(Debug)]
pub(crate) struct Known {
    /// The part of a model's name before the colon.
    pub(crate) name: &'static str,
    pub(crate) kind: AdapterKind,
    /// The variables that may hold its key; the first that is set applies. Empty: it takes no key.
    pub(crate) keys: &'static [&'static str],
    /// The variables that may override its address.
    pub(crate) base_vars: &'static [&'static str],
    /// Its own address, with the slash at the end that `genai` needs; see [`Known::base`] for `{…}`.
    base: &'static str,
}

/// The wire format of conversations. Several providers share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
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
    /// Cohere chat.
    Cohere,
    /// Bedrock converse.
    Bedrock,
}

impl Wire {
    /// The format that this adapter uses for this model.
    pub(crate) fn of(kind: AdapterKind, model: &str) -> Self {
        use AdapterKind as K;
        match kind {
            K::OpenAIResp => Self::Responses,
            K::Anthropic | K::MiniMax => Self::Anthropic,
            K::Gemini => Self::Gemini,
            K::Ollama | K::OllamaCloud => Self::Ollama,
            K::Cohere => Self::Cohere,
            K::BedrockApi => Self::Bedrock,
            K::Vertex if model.starts_with("claude") => Self::Anthropic,
            K::Vertex => Self::Gemini,
            K::OpenCodeGo if model.to_ascii_lowercase().starts_with("minimax-") => Self::Anthropic,
            _ => Self::OpenAi,
        }
    }
}

/// Every provider, in the order in which an error lists them.
pub(crate) static KNOWN: &[Known] = &[
    Known {
        name: "anthropic",
        kind: AdapterKind::Anthropic,
        keys: &["ANTHROPIC_API_KEY"],
        base_vars: &["ANTHROPIC_BASE_URL"],
        base: "https://api.anthropic.com/v1/",
    },
    Known {
        name: "openai",
        kind: AdapterKind::OpenAI,
        keys: &["OPENAI_API_KEY"],
        base_vars: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        base: "https://api.openai.com/v1/",
    },
    Known {
        name: "openai_resp",
        kind: AdapterKind::OpenAIResp,
        keys: &["OPENAI_API_KEY"],
        base_vars: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        base: "https://api.openai.com/v1/",
    },
    Known {
        name: "gemini",
        kind: AdapterKind::Gemini,
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_vars: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        base: "https://generativelanguage.googleapis.com/v1beta/",
    },
    Known {
        name: "vertex",
        kind: AdapterKind::Vertex,
        keys: &["VERTEX_API_KEY"],
        base_vars: &["VERTEX_BASE_URL"],
        base: "https://{location}aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/",
    },
    Known {
        name: "bedrock",
        kind: AdapterKind::BedrockApi,
        keys: &["BEDROCK_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"],
        base_vars: &["BEDROCK_BASE_URL"],
        base: "https://bedrock-runtime.{aws_region}.amazonaws.com/",
    },
    Known {
        name: "ollama",
        kind: AdapterKind::Ollama,
        keys: &[],
        base_vars: &["OLLAMA_BASE_URL", "OLLAMA_HOST"],
        base: "http://127.0.0.1:11434/",
    },
    Known {
        name: "ollama_cloud",
        kind: AdapterKind::OllamaCloud,
        keys: &["OLLAMA_API_KEY"],
        base_vars: &[],
        base: "https://ollama.com/",
    },
    Known {
        name: "openrouter",
        kind: AdapterKind::OpenRouter,
        keys: &["OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"],
        base_vars: &["OPENROUTER_BASE_URL"],
        base: "https://openrouter.ai/api/v1/",
    },
    Known {
        name: "groq",
        kind: AdapterKind::Groq,
        keys: &["GROQ_API_KEY"],
        base_vars: &["GROQ_BASE_URL"],
        base: "https://api.groq.com/openai/v1/",
    },
    Known {
        name: "xai",
        kind: AdapterKind::Xai,
        keys: &["XAI_API_KEY"],
        base_vars: &["XAI_BASE_URL"],
        base: "https://api.x.ai/v1/",
    },
    Known {
        name: "deepseek",
        kind: AdapterKind::DeepSeek,
        keys: &["DEEPSEEK_API_KEY"],
        base_vars: &["DEEPSEEK_BASE_URL"],
        base: "https://api.deepseek.com/v1/",
    },
    Known {
        name: "mistral",
        kind: AdapterKind::Mistral,
        keys: &["MISTRAL_API_KEY"],
        base_vars: &["MISTRAL_BASE_URL"],
        base: "https://api.mistral.ai/v1/",
    },
    Known {
        name: "cohere",
        kind: AdapterKind::Cohere,
        keys: &["COHERE_API_KEY"],
        base_vars: &[],
        base: "https://api.cohere.com/v1/",
    },
    Known {
        name: "fireworks",
        kind: AdapterKind::Fireworks,
        keys: &["FIREWORKS_API_KEY"],
        base_vars: &[],
        base: "https://api.fireworks.ai/inference/v1/",
    },
    Known {
        name: "together",
        kind: AdapterKind::Together,
        keys: &["TOGETHER_API_KEY"],
        base_vars: &[],
        base: "https://api.together.xyz/v1/",
    },
    Known {
        name: "github",
        kind: AdapterKind::GithubCopilot,
        keys: &["GITHUB_TOKEN"],
        base_vars: &[],
        base: "https://models.github.ai/inference/",
    },
    Known {
        name: "kimi",
        kind: AdapterKind::Kimi,
        keys: &["KIMI_API_KEY"],
        base_vars: &[],
        base: "https://api.moonshot.ai/v1/",
    },
    Known {
        name: "moonshot",
        kind: AdapterKind::Moonshot,
        keys: &["MOONSHOT_API_KEY"],
        base_vars: &[],
        base: "https://api.moonshot.cn/v1/",
    },
    Known {
        name: "minimax",
        kind: AdapterKind::MiniMax,
        keys: &["MINIMAX_API_KEY"],
        base_vars: &[],
        base: "https://api.minimax.io/anthropic/v1/",
    },
    Known {
        name: "zai",
        kind: AdapterKind::Zai,
        keys: &["ZAI_API_KEY"],
        base_vars: &[],
        base: "https://api.z.ai/api/paas/v4/",
    },
    Known {
        name: "bigmodel",
        kind: AdapterKind::BigModel,
        keys: &["BIGMODEL_API_KEY"],
        base_vars: &[],
        base: "https://open.bigmodel.cn/api/paas/v4/",
    },
    Known {
        name: "aliyun",
        kind: AdapterKind::Aliyun,
        keys: &["ALIYUN_API_KEY", "DASHSCOPE_API_KEY"],
        base_vars: &[],
        base: "https://dashscope.aliyuncs.com/compatible-mode/v1/",
    },
    Known {
        name: "qwen_cloud",
        kind: AdapterKind::QwenCloud,
        keys: &["QWEN_CLOUD_API_KEY"],
        base_vars: &[],
        base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/",
    },
    Known {
        name: "nebius",
        kind: AdapterKind::Nebius,
        keys: &["NEBIUS_API_KEY"],
        base_vars: &[],
        base: "https://api.studio.nebius.ai/v1/",
    },
    Known {
        name: "aihubmix",
        kind: AdapterKind::Aihubmix,
        keys: &["AIHUBMIX_API_KEY"],
        base_vars: &[],
        base: "https://aihubmix.com/v1/",
    },
    Known {
        name: "opencode_go",
        kind: AdapterKind::OpenCodeGo,
        keys: &["OPENCODE_GO_API_KEY"],
        base_vars: &[],
        base: "https://opencode.ai/zen/go/v1/",
    },
    Known {
        name: "requesty",
        kind: AdapterKind::Requesty,
        keys: &["REQUESTY_API_KEY"],
        base_vars: &[],
        base: "https://router.requesty.ai/v1/",
    },
    Known {
        name: "atlascloud",
        kind: AdapterKind::AtlasCloud,
        keys: &["ATLASCLOUD_API_KEY"],
        base_vars: &[],
        base: "https://api.atlascloud.ai/v1/",
    },
    Known {
        name: "api_route",
        kind: AdapterKind::ApiRoute,
        keys: &["API_ROUTE_API_KEY"],
        base_vars: &[],
        base: "https://global.api-route.com/v1/",
    },
    Known {
        name: "heabsy",
        kind: AdapterKind::Heabsy,
        keys: &["HEABSY_API_KEY"],
        base_vars: &[],
        base: "https://api.heabsy.com/v1/",
    },
    Known {
        name: "runcrate",
        kind: AdapterKind::Runcrate,
        keys: &["RUNCRATE_API_KEY"],
        base_vars: &[],
        base: "https://api.runcrate.ai/v1/",
    },
    Known {
        name: "cloudgpu",
        kind: AdapterKind::CloudGpu,
        keys: &["CLOUDGPU_API_KEY"],
        base_vars: &[],
        base: "https://cloudgpu.app/v1/",
    },
];

impl Known {
    /// The provider of that name or alias.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let name = provider_name(name);
        KNOWN.iter().find(|known| known.name == name)
    }

    /// Its own address. Vertex and Bedrock have one per project and region, which come from variables.
    ///
    /// # Errors
    ///
    /// The name of a variable that must be set and is not.
    pub(crate) fn base(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        match self.kind {
            AdapterKind::Vertex => {
                let project = env("VERTEX_PROJECT_ID").ok_or("VERTEX_PROJECT_ID")?;
                let region = env("VERTEX_LOCATION").unwrap_or_else(|| "global".into());
                let host = if region == "global" { String::new() } else { format!("{region}-") };
                let base = self.base.replace("{location}", &host);
                Ok(base.replace("{project}", &project).replace("{region}", &region))
            }
            AdapterKind::BedrockApi => {
                let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
                Ok(self.base.replace("{aws_region}", region.as_deref().unwrap_or("us-east-1")))
            }
            _ => Ok(self.base.into()),
        }
    }
}
