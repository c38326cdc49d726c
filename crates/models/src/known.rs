//! The providers that are known by name, with their addresses, wire formats and key variables.

use llm_do_core::model::provider_name;
use llm_do_wire::{Dialect, Wire};

/// A provider known by name.
#[derive(Debug)]
pub(crate) struct KnownProvider {
    /// The part of a model's name before the colon.
    pub(crate) name: &'static str,
    /// The wire format of most of its models ([`Wire::of_model`]).
    pub(crate) wire: Wire,
    pub(crate) dialect: Dialect,
    /// The variables that may hold its key; the first that is set applies. Empty: it takes no key.
    pub(crate) keys: &'static [&'static str],
    /// The variables that may override its address.
    pub(crate) base_vars: &'static [&'static str],
    /// The provider's own address, with a slash at the end; see [`KnownProvider::base`] for `{…}`.
    base: &'static str,
}

/// Every provider, in the order in which an error lists them.
pub(crate) static KNOWN: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        wire: Wire::Anthropic,
        dialect: Dialect::Own,
        keys: &["ANTHROPIC_API_KEY"],
        base_vars: &["ANTHROPIC_BASE_URL"],
        base: "https://api.anthropic.com/v1/",
    },
    KnownProvider {
        name: "openai",
        wire: Wire::OpenAi,
        dialect: Dialect::Own,
        keys: &["OPENAI_API_KEY"],
        base_vars: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        base: "https://api.openai.com/v1/",
    },
    KnownProvider {
        name: "openai_resp",
        wire: Wire::Responses,
        dialect: Dialect::Own,
        keys: &["OPENAI_API_KEY"],
        base_vars: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        base: "https://api.openai.com/v1/",
    },
    KnownProvider {
        name: "gemini",
        wire: Wire::Gemini,
        dialect: Dialect::Own,
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_vars: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        base: "https://generativelanguage.googleapis.com/v1beta/",
    },
    KnownProvider {
        name: "vertex",
        wire: Wire::Gemini,
        dialect: Dialect::Vertex,
        keys: &["VERTEX_API_KEY"],
        base_vars: &["VERTEX_BASE_URL"],
        base: "https://{location}aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/",
    },
    KnownProvider {
        name: "bedrock",
        wire: Wire::Bedrock,
        dialect: Dialect::Own,
        keys: &["BEDROCK_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"],
        base_vars: &["BEDROCK_BASE_URL"],
        base: "https://bedrock-runtime.{aws_region}.amazonaws.com/",
    },
    KnownProvider {
        name: "ollama",
        wire: Wire::Ollama,
        dialect: Dialect::Own,
        keys: &[],
        base_vars: &["OLLAMA_BASE_URL", "OLLAMA_HOST"],
        base: "http://127.0.0.1:11434/",
    },
    KnownProvider {
        name: "ollama_cloud",
        wire: Wire::Ollama,
        dialect: Dialect::Own,
        keys: &["OLLAMA_API_KEY"],
        base_vars: &[],
        base: "https://ollama.com/",
    },
    KnownProvider {
        name: "openrouter",
        wire: Wire::OpenAi,
        dialect: Dialect::OpenRouter,
        keys: &["OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"],
        base_vars: &["OPENROUTER_BASE_URL"],
        base: "https://openrouter.ai/api/v1/",
    },
    KnownProvider {
        name: "groq",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["GROQ_API_KEY"],
        base_vars: &["GROQ_BASE_URL"],
        base: "https://api.groq.com/openai/v1/",
    },
    KnownProvider {
        name: "xai",
        wire: Wire::OpenAi,
        dialect: Dialect::Xai,
        keys: &["XAI_API_KEY"],
        base_vars: &["XAI_BASE_URL"],
        base: "https://api.x.ai/v1/",
    },
    KnownProvider {
        name: "deepseek",
        wire: Wire::OpenAi,
        dialect: Dialect::DeepSeek,
        keys: &["DEEPSEEK_API_KEY"],
        base_vars: &["DEEPSEEK_BASE_URL"],
        base: "https://api.deepseek.com/v1/",
    },
    KnownProvider {
        name: "mistral",
        wire: Wire::OpenAi,
        dialect: Dialect::Mistral,
        keys: &["MISTRAL_API_KEY"],
        base_vars: &["MISTRAL_BASE_URL"],
        base: "https://api.mistral.ai/v1/",
    },
    KnownProvider {
        name: "cohere",
        wire: Wire::OpenAi,
        dialect: Dialect::Cohere,
        keys: &["COHERE_API_KEY"],
        base_vars: &[],
        base: "https://api.cohere.ai/compatibility/v1/",
    },
    KnownProvider {
        name: "fireworks",
        wire: Wire::OpenAi,
        dialect: Dialect::Fireworks,
        keys: &["FIREWORKS_API_KEY"],
        base_vars: &[],
        base: "https://api.fireworks.ai/inference/v1/",
    },
    KnownProvider {
        name: "together",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["TOGETHER_API_KEY"],
        base_vars: &[],
        base: "https://api.together.xyz/v1/",
    },
    KnownProvider {
        name: "github",
        wire: Wire::OpenAi,
        dialect: Dialect::GitHub,
        keys: &["GITHUB_TOKEN"],
        base_vars: &[],
        base: "https://models.github.ai/inference/",
    },
    KnownProvider {
        name: "kimi",
        wire: Wire::OpenAi,
        dialect: Dialect::Moonshot,
        keys: &["KIMI_API_KEY"],
        base_vars: &[],
        base: "https://api.moonshot.ai/v1/",
    },
    KnownProvider {
        name: "moonshot",
        wire: Wire::OpenAi,
        dialect: Dialect::Moonshot,
        keys: &["MOONSHOT_API_KEY"],
        base_vars: &[],
        base: "https://api.moonshot.cn/v1/",
    },
    KnownProvider {
        name: "minimax",
        wire: Wire::Anthropic,
        dialect: Dialect::MiniMax,
        keys: &["MINIMAX_API_KEY"],
        base_vars: &[],
        base: "https://api.minimax.io/anthropic/v1/",
    },
    KnownProvider {
        name: "zai",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["ZAI_API_KEY"],
        base_vars: &[],
        base: "https://api.z.ai/api/paas/v4/",
    },
    KnownProvider {
        name: "bigmodel",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["BIGMODEL_API_KEY"],
        base_vars: &[],
        base: "https://open.bigmodel.cn/api/paas/v4/",
    },
    KnownProvider {
        name: "aliyun",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["ALIYUN_API_KEY", "DASHSCOPE_API_KEY"],
        base_vars: &[],
        base: "https://dashscope.aliyuncs.com/compatible-mode/v1/",
    },
    KnownProvider {
        name: "qwen_cloud",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["QWEN_CLOUD_API_KEY"],
        base_vars: &[],
        base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/",
    },
    KnownProvider {
        name: "nebius",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["NEBIUS_API_KEY"],
        base_vars: &[],
        base: "https://api.studio.nebius.ai/v1/",
    },
    KnownProvider {
        name: "aihubmix",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["AIHUBMIX_API_KEY"],
        base_vars: &[],
        base: "https://aihubmix.com/v1/",
    },
    KnownProvider {
        name: "opencode_go",
        wire: Wire::OpenAi,
        dialect: Dialect::OpenCode,
        keys: &["OPENCODE_GO_API_KEY"],
        base_vars: &[],
        base: "https://opencode.ai/zen/go/v1/",
    },
    KnownProvider {
        name: "requesty",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["REQUESTY_API_KEY"],
        base_vars: &[],
        base: "https://router.requesty.ai/v1/",
    },
    KnownProvider {
        name: "atlascloud",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["ATLASCLOUD_API_KEY"],
        base_vars: &[],
        base: "https://api.atlascloud.ai/v1/",
    },
    KnownProvider {
        name: "api_route",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["API_ROUTE_API_KEY"],
        base_vars: &[],
        base: "https://global.api-route.com/v1/",
    },
    KnownProvider {
        name: "heabsy",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["HEABSY_API_KEY"],
        base_vars: &[],
        base: "https://api.heabsy.com/v1/",
    },
    KnownProvider {
        name: "runcrate",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["RUNCRATE_API_KEY"],
        base_vars: &[],
        base: "https://api.runcrate.ai/v1/",
    },
    KnownProvider {
        name: "cloudgpu",
        wire: Wire::OpenAi,
        dialect: Dialect::Compatible,
        keys: &["CLOUDGPU_API_KEY"],
        base_vars: &[],
        base: "https://cloudgpu.app/v1/",
    },
];

impl KnownProvider {
    /// Returns the provider of that name or alias.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let name = provider_name(name);
        KNOWN.iter().find(|known| known.name == name)
    }

    /// Returns the provider's own address. Vertex and Bedrock have one per project and region, which come from
    /// variables.
    ///
    /// # Errors
    ///
    /// The error is the name of a variable that must be set and is not.
    pub(crate) fn base(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        match (self.wire, self.dialect) {
            (_, Dialect::Vertex) => {
                let project = env("VERTEX_PROJECT_ID").ok_or("VERTEX_PROJECT_ID")?;
                let region = env("VERTEX_LOCATION").unwrap_or_else(|| "global".into());
                let host = if region == "global" { String::new() } else { format!("{region}-") };
                let base = self.base.replace("{location}", &host);
                Ok(base.replace("{project}", &project).replace("{region}", &region))
            }
            (Wire::Bedrock, _) => {
                let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
                Ok(self.base.replace("{aws_region}", region.as_deref().unwrap_or("us-east-1")))
            }
            _ => Ok(self.base.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::server_tool::ToolHost;
    use llm_do_wire::Form;

    #[test]
    fn the_engine_and_the_wire_agree_on_who_has_tools() {
        for known in KNOWN {
            for model in ["some-model", "claude-sonnet-4-5"] {
                let form = Form::new(known.wire, known.dialect, known.name, model);
                assert_eq!(Some(form.host()), ToolHost::of(known.name, model), "{}:{model}", known.name);
            }
        }
    }
}
