//! Bodies of requests.

use crate::{
    output::Output,
    request::{Form, Unsendable, last_answer, object},
    response::Echo,
    valid::Valid,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::model::{Blob, Message, ModelRequest, Part, Role, ToolCall, ToolSpec};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// How the names of models begin that take `max_completion_tokens` and refuse `max_tokens`.
const NEWER: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// The body of a request.
///
/// The messages come last, so that a request begins with nearly all bytes of the one before it.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    /// `None` in a batch, which has no streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a, Offered<'a>>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A call, or the function that can be called.
#[derive(Serialize)]
struct Function<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    r#type: &'static str,
    function: T,
}

#[derive(Serialize)]
struct Offered<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, Value>,
    /// Strict mode takes a part of JSON Schema only. The engine validates all arguments.
    strict: bool,
}

/// One message.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Said<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Function<'a, Called<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        /// Reasoning of other providers' models behind OpenRouter, as it came.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<Value>,
    },
    Tool {
        content: &'a str,
        tool_call_id: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Image },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct Image {
    url: String,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct Called<'a> {
    name: Cow<'a, str>,
    /// JSON, as text.
    arguments: String,
}

impl<'a> Body<'a> {
    /// The body of a request. Without `stream`, `stream_options` and `prompt_cache_key`, as a batch has it.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub(crate) fn new(form: &'a Form, request: &ModelRequest<'a>) -> Result<Self, Unsendable> {
        let mut valid = Valid::of(form, request.tools);
        let settings = request.settings;
        let model = &*form.iden.model_name;
        let is_newer = NEWER.iter().any(|start| model.starts_with(start));
        Ok(Self {
            model,
            stream: None,
            stream_options: None,
            prompt_cache_key: None,
            reasoning_effort: settings.reasoning_effort.as_deref().map(effort),
            temperature: settings.temperature,
            top_p: settings.top_p,
            max_tokens: settings.max_tokens.filter(|_| !is_newer),
            max_completion_tokens: settings.max_tokens.filter(|_| is_newer),
            seed: settings.seed,
            stop: &settings.stop,
            response_format: request.output.map(|schema| Output::of(schema).response_format()),
            tools: tools(request.tools, &valid),
            messages: messages(form, request, &mut valid)?,
        })
    }

    /// Names the conversation, which routes its requests to the server that caches their beginning.
    pub(crate) fn with_cache_key(mut self, key: Option<String>) -> Self {
        self.prompt_cache_key = key;
        self
    }

    /// Asks for an answer in one piece, or for a stream with its usage at the end.
    pub(crate) fn with_stream(mut self, stream: bool) -> Self {
        self.stream = Some(stream);
        self.stream_options = stream.then_some(StreamOptions { include_usage: true });
        self
    }
}

/// The interface has one word for no effort.
fn effort(word: &str) -> &str {
    if word == "zero" { "none" } else { word }
}

impl<'a, T> Function<'a, T> {
    fn of(id: Option<Cow<'a, str>>, function: T) -> Self {
        Self { id, r#type: "function", function }
    }
}

fn tools<'a>(tools: &'a [ToolSpec], valid: &Valid) -> Vec<Function<'a, Offered<'a>>> {
    let offered = tools.iter().map(|tool| {
        let (name, parameters) = (valid.mapping.told(&tool.name), valid.mapping.input(tool));
        let function = Offered { name, description: &tool.description, parameters, strict: false };
        Function::of(None, function)
    });
    offered.collect()
}

fn messages<'a>(
    form: &Form,
    request: &ModelRequest<'a>,
    valid: &mut Valid,
) -> Result<Vec<Said<'a>>, Unsendable> {
    let last_answer = last_answer(request.messages);
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        messages.push(Said::System { content: request.system });
    }
    for (number, message) in request.messages.iter().enumerate() {
        valid.is_answered = number < last_answer;
        let Message { role, parts, .. } = &**message;
        match role {
            Role::User => messages.extend(user(form, parts, valid)?),
            Role::Assistant => messages.extend(assistant(form, parts, valid)),
            Role::Tool => {
                messages.extend(parts.iter().filter_map(|part| match part {
                    Part::Result(result) => {
                        let tool_call_id = valid.ids.result(&result.call_id);
                        Some(Said::Tool { content: &result.content, tool_call_id })
                    }
                    _ => None,
                }));
                // Files that a tool has fetched for the model. Only user messages may contain them.
                messages.extend(user(form, parts, valid)?);
            }
        }
    }
    Ok(messages)
}

/// A message of the user. `None`: it is empty.
fn user<'a>(form: &Form, parts: &'a [Part], valid: &Valid) -> Result<Option<Said<'a>>, Unsendable> {
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { .. } | Part::Attachment { .. } => {
                pieces.extend(part.sent().map(|text| Piece::Text { text }));
            }
            Part::Blob(blob) => pieces.push(file(form, blob, valid)?),
            _ => {}
        }
    }
    if pieces.is_empty() {
        return Ok(None);
    }
    // Many servers take text only as text.
    let content = if pieces.iter().all(|piece| matches!(piece, Piece::Text { .. })) {
        let texts = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text { text } => Some(text),
            _ => None,
        });
        Content::Text(texts.reduce(below).unwrap_or_default())
    } else {
        Content::Pieces(pieces)
    };
    Ok(Some(Said::User { content }))
}

/// Two texts with an empty line between them.
fn below<'a>(above: Cow<'a, str>, text: Cow<'a, str>) -> Cow<'a, str> {
    let gap = if above.ends_with('\n') { "\n" } else { "\n\n" };
    Cow::Owned([&above, gap, &text].concat())
}

fn file<'a>(form: &Form, blob: &'a Blob, valid: &Valid) -> Result<Piece<'a>, Unsendable> {
    if let Some(text) = form.file_text(blob, valid)? {
        return Ok(Piece::Text { text: text.into() });
    }
    let url = format!("data:{};base64,{}", blob.media_type, STANDARD.encode(&blob.data));
    Ok(if blob.media_type.starts_with("image/") {
        Piece::ImageUrl { image_url: Image { url } }
    } else {
        Piece::File { file: File { filename: &blob.name, file_data: url } }
    })
}

/// An answer of the model. `None`: it is empty, which most servers reject in a history.
fn assistant<'a>(form: &Form, parts: &'a [Part], valid: &mut Valid) -> Option<Said<'a>> {
    let mut content = Cow::Borrowed("");
    let mut tool_calls = Vec::new();
    let (mut thought, mut reasoning_content) = (None, None);
    let mut reasoning_details = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { text } if content.is_empty() => content = Cow::Borrowed(text),
            Part::Text { text } => content = Cow::Owned([&content, "\n\n", text].concat()),
            Part::Call(ToolCall { id, name, arguments }) => {
                let arguments = valid.mapping.arguments(name, object(arguments)).to_string();
                let (id, name) = (valid.ids.call(&valid.mapping, id), valid.mapping.told(name));
                tool_calls.push(Function::of(Some(id), Called { name, arguments }));
            }
            Part::Reasoning { text } => thought = Some(&**text),
            Part::Opaque { provider, value } if *provider == form.provider => match Echo::read(value) {
                Some(Echo::Reasoning) => reasoning_content = thought.take(),
                Some(Echo::Block(block)) if is_reasoning(&block) => reasoning_details.push(block),
                _ => {}
            },
            _ => {}
        }
    }
    let is_empty = content.is_empty()
        && tool_calls.is_empty()
        && reasoning_content.is_none()
        && reasoning_details.is_empty();
    (!is_empty).then_some(Said::Assistant { content, tool_calls, reasoning_content, reasoning_details })
}

/// Whether a block is one of OpenRouter's, and not of another wire that the provider had before.
fn is_reasoning(block: &Value) -> bool {
    block["type"].as_str().is_some_and(|kind| kind.starts_with("reasoning."))
}
