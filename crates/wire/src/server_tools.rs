//! Tools that a provider runs, in its wire format: in requests, and in the records of answers.

use crate::form::Wire;
use llm_do_core::server_tool::{ServerTool, ServerUse, Source};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Returns the tool in the form of the wire; `None` for a wire without it.
pub(crate) fn tool(wire: Wire, tool: &ServerTool) -> Option<Value> {
    Some(match (wire, tool) {
        (Wire::Anthropic, tool) => {
            let kind = match tool {
                ServerTool::WebSearch(_) => "web_search_20250305",
                ServerTool::WebFetch(_) => "web_fetch_20250910",
                ServerTool::CodeExecution => "code_execution_20250825",
            };
            let mut own = tool.options();
            own["type"] = kind.into();
            own["name"] = tool.name().into();
            own
        }
        (Wire::Responses, ServerTool::WebSearch(limits)) => match limits.allowed_domains.as_slice() {
            [] => json!({"type": "web_search"}),
            domains => json!({"type": "web_search", "filters": {"allowed_domains": domains}}),
        },
        (Wire::Responses, ServerTool::CodeExecution) => {
            json!({"type": "code_interpreter", "container": {"type": "auto"}})
        }
        (Wire::Gemini, ServerTool::WebSearch(_)) => json!({"googleSearch": {}}),
        (Wire::Gemini, ServerTool::WebFetch(_)) => json!({"urlContext": {}}),
        (Wire::Gemini, ServerTool::CodeExecution) => json!({"codeExecution": {}}),
        (Wire::Responses, ServerTool::WebFetch(_)) | (Wire::OpenAi | Wire::Ollama | Wire::Bedrock, _) => {
            return None;
        }
    })
}

/// Returns the values of Anthropic's header `anthropic-beta` that the tools need.
pub(crate) fn betas(tools: &[ServerTool]) -> Vec<&'static str> {
    let beta = |tool: &ServerTool| match tool {
        ServerTool::WebSearch(_) => None,
        ServerTool::WebFetch(_) => Some("web-fetch-2025-09-10"),
        ServerTool::CodeExecution => Some("code-execution-2025-08-25"),
    };
    tools.iter().filter_map(beta).collect()
}

/// Returns the parts of the tools' results that OpenAI's answers should include.
pub(crate) fn included(tools: &[ServerTool]) -> Vec<&'static str> {
    let included = |tool: &ServerTool| match tool {
        ServerTool::WebSearch(_) | ServerTool::WebFetch(_) => "web_search_call.action.sources",
        ServerTool::CodeExecution => "code_interpreter_call.outputs",
    };
    tools.iter().map(included).collect()
}

/// The results of tools in an answer, by the ids of their uses.
#[derive(Debug, Default)]
pub(crate) struct Results(BTreeMap<String, Value>);

impl Results {
    /// Collects the results among the blocks of an answer that only the provider knows.
    pub(crate) fn among<'a>(wire: Wire, blocks: impl Iterator<Item = &'a Value>) -> Self {
        let mut results = BTreeMap::new();
        if wire == Wire::Anthropic {
            let found = blocks.filter_map(|block| {
                let id = block.get("tool_use_id")?.as_str()?;
                Some((id.to_owned(), block.get("content")?.clone()))
            });
            results.extend(found);
        }
        Self(results)
    }

    /// Returns the use of a tool that a block is about, if it is about one.
    pub(crate) fn used(&mut self, wire: Wire, block: &Value) -> Option<ServerUse> {
        match wire {
            Wire::Anthropic => self.used_at_anthropic(block),
            Wire::Responses => used_at_openai(block),
            Wire::Gemini => used_at_gemini(block),
            Wire::OpenAi | Wire::Ollama | Wire::Bedrock => None,
        }
    }

    fn used_at_anthropic(&mut self, block: &Value) -> Option<ServerUse> {
        let kind = text(block, "type");
        let (tool, input, result) = if kind == "server_tool_use" {
            (text(block, "name"), block.get("input").cloned(), self.0.remove(text(block, "id")))
        } else {
            // A result alone: its use stands in the message before, which the provider has paused.
            let result = self.0.remove(text(block, "tool_use_id"))?;
            (kind.strip_suffix("_tool_result")?, None, Some(result))
        };
        let result = result.unwrap_or_default();
        let pages = result.as_array().map_or(std::slice::from_ref(&result), Vec::as_slice);
        let error = text(&result, "error_code");
        Some(ServerUse {
            tool: tool.into(),
            input: Arc::new(input.unwrap_or_else(|| json!({}))),
            sources: pages.iter().filter_map(source).collect(),
            error: (!error.is_empty()).then(|| error.into()),
        })
    }
}

fn used_at_openai(item: &Value) -> Option<ServerUse> {
    let (tool, input, sources) = match text(item, "type") {
        "web_search_call" => {
            let mut action = item.get("action").and_then(Value::as_object).cloned().unwrap_or_default();
            let sources = action.remove("sources");
            let read = source(&Value::Object(action.clone()));
            let found = sources.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(source);
            ("web_search", action, found.chain(read).collect())
        }
        "code_interpreter_call" => {
            let code = item.get("code").cloned().unwrap_or_default();
            ("code_execution", Map::from_iter([("code".to_owned(), code)]), Vec::new())
        }
        _ => return None,
    };
    let failed = matches!(text(item, "status"), "failed" | "incomplete").then(|| text(item, "status").into());
    Some(ServerUse { tool: tool.into(), input: Arc::new(Value::Object(input)), sources, error: failed })
}

fn used_at_gemini(part: &Value) -> Option<ServerUse> {
    let done = |tool: &str, input: Value| {
        Some(ServerUse { tool: tool.into(), input: Arc::new(input), sources: Vec::new(), error: None })
    };
    if let Some(code) = part.get("executableCode") {
        return done("code_execution", json!({"code": code.get("code")}));
    }
    let call = part.get("toolCall")?;
    done(&text(call, "toolType").to_lowercase(), call.get("args").cloned().unwrap_or_else(|| json!({})))
}

/// Returns the searches that Gemini reports beside an answer (`groundingMetadata`).
pub(crate) fn searched(grounding: &Value) -> Option<ServerUse> {
    let queries = grounding.get("webSearchQueries").and_then(Value::as_array).cloned().unwrap_or_default();
    let chunks = grounding.get("groundingChunks").and_then(Value::as_array).into_iter().flatten();
    let sources: Vec<Source> = chunks.filter_map(|chunk| source(chunk.get("web")?)).collect();
    (!queries.is_empty() || !sources.is_empty()).then(|| ServerUse {
        tool: "web_search".into(),
        input: Arc::new(json!({"queries": queries})),
        sources,
        error: None,
    })
}

/// Returns the pages that Gemini reports to have read (`urlContextMetadata`).
pub(crate) fn fetched(context: &Value) -> impl Iterator<Item = ServerUse> {
    let pages = context.get("urlMetadata").and_then(Value::as_array).into_iter().flatten();
    pages.map(|page| {
        let url = text(page, "retrievedUrl");
        let status = text(page, "urlRetrievalStatus");
        ServerUse {
            tool: "web_fetch".into(),
            input: Arc::new(json!({"url": url})),
            sources: vec![Source { url: url.into(), title: None }],
            error: (!status.is_empty() && status != "URL_RETRIEVAL_STATUS_SUCCESS").then(|| status.into()),
        }
    })
}

/// Returns the pages among a text's citations, each once.
pub(crate) fn cited(citations: &[Value]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for source in citations.iter().filter_map(source) {
        if !sources.iter().any(|known| known.url == source.url) {
            sources.push(source);
        }
    }
    sources
}

/// Returns the page that an object describes, if it has an address.
fn source(page: &Value) -> Option<Source> {
    let url = page.get("url").or_else(|| page.get("uri"))?.as_str()?;
    let title = page.get("title").or_else(|| page.pointer("/content/title")).and_then(Value::as_str);
    Some(Source { url: url.into(), title: title.map(Into::into) })
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
