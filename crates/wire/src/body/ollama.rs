//! The body of Ollama chat ([interface](https://docs.ollama.com/api/chat)).

use crate::{
    effort::Effort,
    form::{Form, Unsendable},
    history::{self, Given, Piece, Said, Turn, below},
    valid::Valid,
};
use llm_do_core::model::ModelRequest;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The body of a request. The messages come last, as in every body.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Think {
    Switch(bool),
    Level(&'static str),
}

/// A setting that is absent is the model's own.
#[derive(Default, PartialEq, Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

#[derive(Default, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    /// The tool whose result the message is. A message holds one result.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Call<'a> {
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, Value>,
}

impl Options<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<'a> Body<'a> {
    /// Makes the body of a request.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub(crate) fn new(form: &'a Form, request: &ModelRequest<'a>, stream: bool) -> Result<Self, Unsendable> {
        let mut valid = Valid::of(form, request.tools);
        let settings = request.settings;
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.trim().is_empty() {
            messages.push(Message {
                role: "system",
                content: Cow::Borrowed(request.system),
                ..Message::default()
            });
        }
        history::turns(form, request, &mut valid, |turn| match turn {
            Turn::User(pieces) => messages.push(user(pieces)),
            Turn::Answer(said) => messages.push(assistant(said)),
            Turn::Results(results) => messages.extend(results.into_iter().map(result)),
        })?;
        let tools = request.tools.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: valid.mapping.told(&tool.name),
                description: &tool.description,
                parameters: valid.mapping.input(tool),
            },
        });
        Ok(Self {
            model: &form.model,
            stream,
            think: Effort::of(settings).map(think),
            options: Options {
                temperature: settings.temperature,
                top_p: settings.top_p,
                num_predict: settings.max_tokens,
                seed: settings.seed,
                stop: &settings.stop,
            },
            tools: tools.collect(),
            messages,
        })
    }
}

/// Converts an effort. Ollama has three levels and a fourth for the most.
fn think(effort: Effort) -> Think {
    match effort {
        Effort::None => Think::Switch(false),
        Effort::Minimal | Effort::Low => Think::Level("low"),
        Effort::Medium => Think::Level("medium"),
        Effort::High => Think::Level("high"),
        Effort::XHigh | Effort::Max => Think::Level("max"),
        Effort::Budget(_) => Think::Switch(true),
    }
}

fn user(pieces: Vec<Piece<'_>>) -> Message<'_> {
    let mut message = Message { role: "user", ..Message::default() };
    for piece in pieces {
        match piece {
            Piece::Text(text) => message.content = below(message.content, text),
            Piece::File(blob) => message.images.push(history::base64(blob)),
        }
    }
    message
}

fn assistant(said: Vec<Said<'_>>) -> Message<'_> {
    let mut message = Message { role: "assistant", ..Message::default() };
    for said in said {
        match said {
            Said::Text { text, .. } => message.content = below(message.content, Cow::Borrowed(text)),
            Said::Reasoning(text) => message.thinking = Some(text),
            Said::Call { name, arguments, .. } => {
                message.tool_calls.push(Call { function: Called { name, arguments } });
            }
            Said::Signed { .. } | Said::Own(_) => {}
        }
    }
    message
}

fn result(given: Given<'_>) -> Message<'_> {
    let Given { name, content, .. } = given;
    Message { role: "tool", content: Cow::Borrowed(content), tool_name: Some(name), ..Message::default() }
}
