//! The body of OpenAI chat completions ([interface](https://platform.openai.com/docs/api-reference/chat)).

use crate::{
    effort::Effort,
    form::{Dialect, Form, Unsendable},
    history::{self, Given, Piece, Said, Turn, only_text},
    output::Output,
    valid::Valid,
};
use llm_do_core::model::{ModelRequest, ToolSpec};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The beginnings of the names of models that take `max_completion_tokens` and refuse `max_tokens`.
const NEWER: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// The place at Fireworks of models whose names have no account.
const FIREWORKS: &str = "accounts/fireworks/models/";

/// Tokens of an answer of Fireworks where a worker names none. Its own default of 2,000 is too short for most answers,
/// and it lowers a number that is too high. Some models refuse such a number.
const FIREWORKS_TOKENS: u32 = 512_000;
const FIREWORKS_STRICT: (&str, u32) = ("muse-glimmer-30b", 68_000);

/// The body of a request.
///
/// The messages come last, so that a request begins with nearly all bytes of the one before it.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: Cow<'a, str>,
    /// True for a stream. `None` in a batch, which has no streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
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
    /// Mistral's name of the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a, Offered<'a>>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// DeepSeek's switch for thinking.
#[derive(Serialize)]
struct Switch {
    r#type: &'static str,
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
    /// False: strict mode takes a part of JSON Schema only. The engine validates all arguments.
    strict: bool,
}

/// A message.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
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
        /// Reasoning of other providers' models behind OpenRouter, unchanged.
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
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
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
    /// Makes the body of a request, in the form that a batch has.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub(crate) fn new(form: &'a Form, request: &ModelRequest<'a>) -> Result<Self, Unsendable> {
        let mut valid = Valid::of(form, request.tools);
        let settings = request.settings;
        let model = &*form.model;
        let is_newer = NEWER.iter().any(|start| model.starts_with(start));
        let is_fireworks = form.dialect == Dialect::Fireworks;
        let most_tokens = settings.max_tokens.or_else(|| {
            is_fireworks.then_some(match FIREWORKS_STRICT {
                (strict, tokens) if model.contains(strict) => tokens,
                _ => FIREWORKS_TOKENS,
            })
        });
        let effort = Effort::of(settings);
        let is_mistral = form.dialect == Dialect::Mistral;
        Ok(Self {
            model: match is_fireworks && !model.contains('/') {
                true => format!("{FIREWORKS}{model}").into(),
                false => model.into(),
            },
            stream: None,
            stream_options: None,
            prompt_cache_key: None,
            thinking: effort
                .filter(|_| form.dialect == Dialect::DeepSeek)
                .map(|effort| Switch { r#type: if effort == Effort::None { "disabled" } else { "enabled" } }),
            reasoning_effort: effort
                .filter(|effort| form.dialect != Dialect::DeepSeek || *effort != Effort::None)
                .and_then(Effort::word),
            temperature: settings.temperature,
            top_p: settings.top_p,
            max_tokens: most_tokens.filter(|_| !is_newer),
            max_completion_tokens: most_tokens.filter(|_| is_newer),
            seed: settings.seed.filter(|_| !is_mistral),
            random_seed: settings.seed.filter(|_| is_mistral),
            stop: &settings.stop,
            response_format: request.output.map(|schema| Output::of(schema).response_format()),
            tools: tools(request.tools, &valid),
            messages: messages(form, request, &mut valid)?,
        })
    }

    /// Asks for an answer in one piece, or for a stream with its usage at the end. Names the conversation where that
    /// helps the provider's cache.
    pub(crate) fn for_chat(mut self, form: &Form, request: &ModelRequest<'_>, stream: bool) -> Self {
        self.prompt_cache_key = form.cache_key(request);
        self.stream = Some(stream);
        // Cohere refuses them.
        let has_options = stream && form.dialect != Dialect::Cohere;
        self.stream_options = has_options.then_some(StreamOptions { include_usage: true });
        self
    }
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
) -> Result<Vec<Message<'a>>, Unsendable> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        messages.push(Message::System { content: request.system });
    }
    history::turns(form, request, valid, |turn| match turn {
        Turn::User(pieces) => messages.push(Message::User { content: content(pieces) }),
        Turn::Answer(said) => messages.extend(assistant(said)),
        Turn::Results(results) => {
            let told = |Given { id, content, .. }| Message::Tool { content, tool_call_id: id };
            messages.extend(results.into_iter().map(told));
        }
    })?;
    Ok(messages)
}

/// Converts the pieces of a message. Text alone becomes a string, because many servers take no list of texts.
fn content(mut pieces: Vec<Piece<'_>>) -> Content<'_> {
    if let Some(text) = only_text(&mut pieces) {
        return Content::Text(text);
    }
    let parts = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => ContentPart::Text { text },
        Piece::File(blob) => {
            let url = history::data_url(blob);
            if blob.media_type.starts_with("image/") {
                ContentPart::ImageUrl { image_url: Image { url } }
            } else {
                ContentPart::File { file: File { filename: &blob.name, file_data: url } }
            }
        }
    });
    Content::Parts(parts.collect())
}

/// Converts an answer of the model. `None`: it has nothing that this interface takes.
fn assistant<'a>(said: Vec<Said<'a>>) -> Option<Message<'a>> {
    let mut content = Cow::Borrowed("");
    let mut tool_calls = Vec::new();
    let mut reasoning_content = None;
    let mut reasoning_details = Vec::new();
    for said in said {
        match said {
            Said::Text { text, .. } if content.is_empty() => content = Cow::Borrowed(text),
            Said::Text { text, .. } => content = Cow::Owned([&content, "\n\n", text].concat()),
            Said::Call { id, name, arguments, .. } => {
                let arguments = arguments.to_string();
                tool_calls.push(Function::of(Some(id), Called { name, arguments }));
            }
            Said::Reasoning(text) => reasoning_content = Some(text),
            Said::Own(block) if is_reasoning(&block) => reasoning_details.push(block),
            Said::Own(_) | Said::Signed { .. } => {}
        }
    }
    let is_empty = content.is_empty()
        && tool_calls.is_empty()
        && reasoning_content.is_none()
        && reasoning_details.is_empty();
    (!is_empty).then_some(Message::Assistant { content, tool_calls, reasoning_content, reasoning_details })
}

/// Returns true if a block is one of OpenRouter's, and not of another wire that the provider had before.
fn is_reasoning(block: &Value) -> bool {
    block["type"].as_str().is_some_and(|kind| kind.starts_with("reasoning."))
}
