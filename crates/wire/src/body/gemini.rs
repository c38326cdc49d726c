//! The body of Gemini `generateContent` ([interface](https://ai.google.dev/api/generate-content)).

use crate::{
    effort::Effort,
    form::{Form, Unsendable, gemini_generation},
    history::{self, Given, Piece, Said, Turn},
    server_tools,
    valid::Valid,
};
use llm_do_core::model::ModelRequest;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The value with which a call of Gemini 3 goes back that has no signature
/// ([documentation](https://ai.google.dev/gemini-api/docs/thought-signatures)).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The names of models that have levels of thinking and no budgets.
const WITH_LEVELS: [&str; 2] = ["gemini-3", "gemma-4"];

/// The body of a request. The history comes last, as in every body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Generation::is_empty")]
    generation_config: Generation<'a>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tools<'a> {
    Server(Value),
    #[serde(rename_all = "camelCase")]
    Functions {
        function_declarations: Vec<Function<'a>>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters_json_schema: Cow<'a, Value>,
}

/// The configuration that a request with both tools of the provider and functions needs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    include_server_side_tool_invocations: bool,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<String>,
    },
    Data {
        inline_data: Data<'a>,
    },
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<String>,
    },
    Result {
        function_response: Response<'a>,
    },
    Own(Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    mime_type: &'a str,
    data: String,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    response: Output<'a>,
}

#[derive(Serialize)]
struct Output<'a> {
    name: Cow<'a, str>,
    content: &'a str,
}

impl Generation<'_> {
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
    pub(crate) fn new(form: &'a Form, request: &ModelRequest<'a>) -> Result<Self, Unsendable> {
        let mut valid = Valid::of(form, request.tools);
        let settings = request.settings;
        let mut contents = Vec::with_capacity(request.messages.len());
        let signs_calls = form.model.contains("gemini-3");
        history::turns(form, request, &mut valid, |turn| contents.extend(content(turn, signs_calls)))?;
        let functions: Vec<Function<'_>> = request
            .tools
            .iter()
            .map(|tool| Function {
                name: valid.mapping.told(&tool.name),
                description: &tool.description,
                parameters_json_schema: valid.mapping.input(tool),
            })
            .collect();
        let own = request.server_tools.iter().filter_map(|tool| server_tools::tool(form.wire, tool));
        let mut tools: Vec<Tools<'_>> = own.map(Tools::Server).collect();
        let is_mixed = !tools.is_empty() && !functions.is_empty();
        if !functions.is_empty() {
            tools.push(Tools::Functions { function_declarations: functions });
        }
        let thinking = thinking(form, Effort::of(settings));
        Ok(Self {
            system_instruction: (!request.system.trim().is_empty())
                .then(|| Content { role: None, parts: vec![text(Cow::Borrowed(request.system), None)] }),
            tools,
            tool_config: is_mixed.then_some(ToolConfig { include_server_side_tool_invocations: true }),
            generation_config: Generation {
                thinking_config: (thinking != Thinking::default()).then_some(thinking),
                response_mime_type: request.output.map(|_| "application/json"),
                response_json_schema: request.output.map(|schema| &**schema),
                temperature: settings.temperature,
                top_p: settings.top_p,
                max_output_tokens: settings.max_tokens,
                stop_sequences: &settings.stop,
                seed: settings.seed,
            },
            contents,
        })
    }
}

/// Returns the configuration of thinking. Models without thinking reject a request for it.
fn thinking(form: &Form, effort: Option<Effort>) -> Thinking {
    let has_levels = WITH_LEVELS.iter().any(|start| form.model.contains(start));
    let level = |effort| match effort {
        // No level is less.
        Effort::None | Effort::Minimal => Some("MINIMAL"),
        Effort::Low => Some("LOW"),
        Effort::Medium => Some("MEDIUM"),
        Effort::High | Effort::XHigh | Effort::Max => Some("HIGH"),
        Effort::Budget(_) => None,
    };
    let generation = gemini_generation(&form.model);
    // A model without thinking has no budget that could be empty.
    let has_budget =
        |effort: &Effort| !has_levels && (*effort != Effort::None || generation.is_none_or(|it| it >= 2.5));
    Thinking {
        thinking_level: effort.filter(|_| has_levels).and_then(level),
        thinking_budget: effort.filter(has_budget).map(Effort::tokens),
        include_thoughts: generation.is_some_and(|it| it >= 2.5).then_some(true),
    }
}

/// Converts a message. `None`: it has nothing that this interface takes. `signs_calls`: the model requires a signature
/// with the first call of a turn.
fn content(turn: Turn<'_>, signs_calls: bool) -> Option<Content<'_>> {
    let (role, parts) = match turn {
        Turn::User(pieces) => ("user", pieces.into_iter().map(piece).collect()),
        Turn::Answer(said) => ("model", model_parts(said, signs_calls)),
        Turn::Results(results) => ("user", results.into_iter().map(result).collect()),
    };
    (!parts.is_empty()).then_some(Content { role: Some(role), parts })
}

fn text(text: Cow<'_, str>, thought_signature: Option<String>) -> Part<'_> {
    Part::Text { text, thought_signature }
}

fn piece(piece: Piece<'_>) -> Part<'_> {
    match piece {
        Piece::Text(said) => text(said, None),
        Piece::File(blob) => {
            Part::Data { inline_data: Data { mime_type: &blob.media_type, data: history::base64(blob) } }
        }
    }
}

fn model_parts(said: Vec<Said<'_>>, signs_calls: bool) -> Vec<Part<'_>> {
    let mut parts = Vec::with_capacity(said.len());
    let mut before: Option<String> = None;
    let mut is_unsigned = signs_calls;
    for said in said {
        match said {
            Said::Signed { signature, .. } => before = Some(signature),
            Said::Text { text: said, .. } => parts.push(text(Cow::Borrowed(said), before.take())),
            Said::Call { id, name, arguments, signature } => {
                let signature = signature.or_else(|| before.take());
                let signature = signature.or_else(|| is_unsigned.then(|| NO_SIGNATURE.to_owned()));
                is_unsigned = false;
                let function_call = Call { id: own_id(id), name, args: arguments };
                parts.push(Part::Call { function_call, thought_signature: signature });
            }
            Said::Own(part) => parts.push(Part::Own(part)),
            Said::Reasoning(_) => {}
        }
    }
    parts
}

fn result(given: Given<'_>) -> Part<'_> {
    let Given { id, name, content, .. } = given;
    let response = Output { name: name.clone(), content };
    Part::Result { function_response: Response { id: own_id(id), name, response } }
}

/// Returns the id that Gemini gave a call. A call without an id has one of ours, which Gemini does not know.
fn own_id(id: Cow<'_, str>) -> Option<Cow<'_, str>> {
    (!id.is_empty() && !id.starts_with("call#")).then_some(id)
}
