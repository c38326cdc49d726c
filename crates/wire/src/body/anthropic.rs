//! The body of Anthropic messages ([interface](https://docs.claude.com/en/api/messages)).

use crate::{
    claude::Thinking,
    effort::Effort,
    form::{Dialect, Form, Unsendable},
    history::{self, Given, Piece, Said, Turn, only_text},
    server_tools,
    valid::Valid,
};
use llm_do_core::model::ModelRequest;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Most tokens of an answer in a batch if the worker sets no limit.
pub(crate) const DEFAULT_OF_BATCHES: u32 = 8192;

/// The version of the interface in requests to Vertex, which has no header for it.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// The body of a request. The messages come last, as in every body.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    /// The model. `None` at Vertex, where the path has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'static str>,
    pub(crate) max_tokens: u32,
    /// True for a stream. `None` in a batch, which has no streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Server(Value),
    Function {
        name: Cow<'a, str>,
        description: &'a str,
        input_schema: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
}

/// Makes the provider cache everything up to here.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Mark {
    Ephemeral,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        citations: Vec<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Thinking {
        thinking: &'a str,
        signature: String,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    #[serde(untagged)]
    Own(Value),
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: String,
}

impl<'a> Body<'a> {
    /// Makes the body of a request, in the form that a batch has.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub(crate) fn new(form: &'a Form, request: &ModelRequest<'a>) -> Result<Self, Unsendable> {
        let mut valid = Valid::of(form, request.tools);
        let settings = request.settings;
        let claude = form.claude();
        let is_vertex = form.dialect == Dialect::Vertex;
        let (thinking, effort) = Effort::of(settings).map_or((None, None), |effort| claude.reasoning(effort));
        let mut messages = Vec::with_capacity(request.messages.len());
        history::turns(form, request, &mut valid, |turn| messages.extend(message(turn)))?;
        let own = request.server_tools.iter().filter_map(|tool| server_tools::tool(form.wire, tool));
        let functions = request.tools.iter().map(|tool| Tool::Function {
            name: valid.mapping.told(&tool.name),
            description: &tool.description,
            input_schema: valid.mapping.input(tool),
            cache_control: None,
        });
        let has_system = !request.system.trim().is_empty();
        Ok(Self {
            model: (!is_vertex).then_some(&*form.model),
            anthropic_version: is_vertex.then_some(VERTEX_VERSION),
            max_tokens: settings.max_tokens.unwrap_or(claude.most_tokens()),
            stream: None,
            thinking,
            output_config: effort.map(|effort| OutputConfig { effort }),
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop_sequences: &settings.stop,
            tools: own.map(Tool::Server).chain(functions).collect(),
            system: has_system.then(|| Block::text(Cow::Borrowed(request.system))).into_iter().collect(),
            messages,
        })
    }

    /// Asks for an answer in one piece or for a stream, and marks what the provider should cache: tools and system,
    /// which stay the same for the conversation, and the history up to now. The mark before the last answer is at the
    /// end of the previous request, so that the lookup hits its cache even if one turn has added more blocks than a
    /// lookup searches.
    pub(crate) fn for_chat(mut self, stream: bool) -> Self {
        self.stream = Some(stream);
        match self.system.last_mut() {
            Some(system) => system.mark(),
            None => {
                if let Some(Tool::Function { cache_control, .. }) = self.tools.last_mut() {
                    *cache_control = Some(Mark::Ephemeral);
                }
            }
        }
        let answer = self.messages.iter().rposition(|message| message.role == "assistant");
        if let Some(before) = answer.and_then(|answer| answer.checked_sub(1)) {
            self.messages[before].mark();
        }
        if let Some(last) = self.messages.last_mut() {
            last.mark();
        }
        self
    }
}

/// Converts a message. `None`: it has nothing that this interface takes.
fn message(turn: Turn<'_>) -> Option<Message<'_>> {
    let (role, content) = match turn {
        Turn::User(mut pieces) => {
            let content = match only_text(&mut pieces) {
                Some(text) => vec![Block::text(text)],
                None => pieces.into_iter().map(piece).collect(),
            };
            ("user", content)
        }
        Turn::Answer(said) => ("assistant", said.into_iter().filter_map(block).collect::<Vec<_>>()),
        Turn::Results(results) => ("user", results.into_iter().map(result).collect()),
    };
    (!content.is_empty()).then_some(Message { role, content })
}

fn piece(piece: Piece<'_>) -> Block<'_> {
    match piece {
        Piece::Text(text) => Block::text(text),
        Piece::File(blob) => {
            let data = history::base64(blob);
            let source = Source { r#type: "base64", media_type: &blob.media_type, data };
            if blob.media_type.starts_with("image/") {
                Block::Image { source, cache_control: None }
            } else {
                Block::Document { source, cache_control: None }
            }
        }
    }
}

/// Converts a block. The order of blocks stays, since a signature is only valid where it was. `None`: thinking without
/// a signature, which is refused.
fn block(said: Said<'_>) -> Option<Block<'_>> {
    Some(match said {
        Said::Text { text, citations } => {
            Block::Text { text: Cow::Borrowed(text), citations, cache_control: None }
        }
        Said::Signed { text, signature } => Block::Thinking { thinking: text.unwrap_or_default(), signature },
        Said::Reasoning(_) => return None,
        Said::Own(block) => Block::Own(block),
        Said::Call { id, name, arguments, .. } => {
            Block::ToolUse { id, name, input: arguments, cache_control: None }
        }
    })
}

fn result(given: Given<'_>) -> Block<'_> {
    let Given { id, content, is_error, .. } = given;
    Block::ToolResult { tool_use_id: id, content, is_error, cache_control: None }
}

impl<'a> Block<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Self::Text { text, citations: Vec::new(), cache_control: None }
    }

    fn mark(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::Document { cache_control, .. }
            | Self::ToolUse { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(Mark::Ephemeral),
            Self::Own(Value::Object(block)) => {
                block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
            }
            Self::Own(_) | Self::Thinking { .. } => {}
        }
    }

    /// Returns true if the block can have a cache mark. Thinking can't.
    fn takes_mark(&self) -> bool {
        match self {
            Self::Thinking { .. } => false,
            Self::Own(block) => !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")),
            _ => true,
        }
    }
}

impl Message<'_> {
    fn mark(&mut self) {
        if let Some(block) = self.content.iter_mut().rfind(|block| block.takes_mark()) {
            block.mark();
        }
    }
}
