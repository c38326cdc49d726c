//! The body of OpenAI responses ([interface](https://platform.openai.com/docs/api-reference/responses)).

use crate::{
    effort::Effort,
    form::{Form, Unsendable, is_reasoning_gpt},
    history::{self, Given, Piece, Said, Turn, only_text},
    output::Output,
    server_tools,
    valid::Valid,
};
use llm_do_core::model::ModelRequest;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The body of a request. The history comes last, as in every body.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    /// False: the provider stores nothing.
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

/// Reasoning without a summary, which only verified organisations get. Requests of others for one are refused.
#[derive(Serialize)]
struct Reasoning {
    effort: Option<&'static str>,
}

#[derive(Serialize)]
struct Text {
    format: Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Server(Value),
    Function {
        r#type: &'static str,
        name: Cow<'a, str>,
        description: &'a str,
        parameters: Cow<'a, Value>,
        /// The interface's default would make optional properties required.
        strict: bool,
    },
}

/// An item of the history.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Content<'a>>,
    },
    Reasoning {
        encrypted_content: String,
        summary: [(); 0],
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        /// JSON, as text.
        arguments: String,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: &'a str,
    },
    #[serde(untagged)]
    User {
        role: &'static str,
        content: Vec<Content<'a>>,
    },
    #[serde(untagged)]
    Own(Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { detail: &'static str, image_url: String },
    InputFile { filename: &'a str, file_data: String },
    OutputText { text: &'a str },
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
        let reasons = is_reasoning_gpt(&form.model);
        let effort = Effort::of(settings).and_then(Effort::word);
        let mut input = Vec::with_capacity(request.messages.len());
        history::turns(form, request, &mut valid, |turn| add(&mut input, turn))?;
        let own = request.server_tools.iter().filter_map(|tool| server_tools::tool(form.wire, tool));
        let functions = request.tools.iter().map(|tool| Tool::Function {
            r#type: "function",
            name: valid.mapping.told(&tool.name),
            description: &tool.description,
            parameters: valid.mapping.input(tool),
            strict: false,
        });
        let encrypted = reasons.then_some("reasoning.encrypted_content");
        Ok(Self {
            model: &form.model,
            store: false,
            stream,
            prompt_cache_key: form.cache_key(request),
            reasoning: (reasons || effort.is_some()).then_some(Reasoning { effort }),
            include: encrypted.into_iter().chain(server_tools::included(request.server_tools)).collect(),
            temperature: settings.temperature,
            top_p: settings.top_p,
            max_output_tokens: settings.max_tokens,
            text: request.output.map(|schema| Text { format: Output::of(schema).text_format() }),
            instructions: (!request.system.trim().is_empty()).then_some(request.system),
            tools: own.map(Tool::Server).chain(functions).collect(),
            input,
        })
    }
}

fn add<'a>(input: &mut Vec<Item<'a>>, turn: Turn<'a>) {
    match turn {
        Turn::User(mut pieces) => {
            let content = match only_text(&mut pieces) {
                Some(text) => vec![Content::InputText { text }],
                None => pieces.into_iter().map(piece).collect(),
            };
            input.push(Item::User { role: "user", content });
        }
        Turn::Answer(said) => input.extend(said.into_iter().filter_map(item)),
        Turn::Results(results) => input.extend(results.into_iter().map(|given| {
            let Given { id, content, .. } = given;
            Item::FunctionCallOutput { call_id: id, output: content }
        })),
    }
}

fn piece(piece: Piece<'_>) -> Content<'_> {
    match piece {
        Piece::Text(text) => Content::InputText { text },
        Piece::File(blob) if blob.media_type.starts_with("image/") => {
            Content::InputImage { detail: "auto", image_url: history::data_url(blob) }
        }
        Piece::File(blob) => Content::InputFile { filename: &blob.name, file_data: history::data_url(blob) },
    }
}

/// Converts a piece of an answer. `None`: thinking without a signature, which has no form here.
fn item(said: Said<'_>) -> Option<Item<'_>> {
    Some(match said {
        Said::Text { text, .. } => {
            Item::Message { role: "assistant", content: vec![Content::OutputText { text }] }
        }
        Said::Signed { signature, .. } => Item::Reasoning { encrypted_content: signature, summary: [] },
        Said::Reasoning(_) => return None,
        Said::Call { id, name, arguments, .. } => {
            Item::FunctionCall { call_id: id, name, arguments: arguments.to_string() }
        }
        Said::Own(mut item) => {
            // The server keeps nothing (`store: false`), and looks ids of searches up.
            if item["type"] == json!("web_search_call")
                && let Some(map) = item.as_object_mut()
            {
                map.shift_remove("id");
            }
            Item::Own(item)
        }
    })
}
