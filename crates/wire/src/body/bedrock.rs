//! The body of Bedrock Converse
//! ([interface](https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html)).

use crate::{
    effort::Effort,
    form::{Form, Unsendable},
    history::{self, Given, Piece, Said, Turn},
    maker::{Maker, nova_level},
    valid::Valid,
};
use llm_do_core::model::{Blob, ModelRequest};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The body of a request. The messages come last, as in every body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body<'a> {
    #[serde(skip_serializing_if = "Inference::is_empty")]
    inference_config: Inference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
struct ToolConfig<'a> {
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: Cow<'a, Value>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// A block is an object with one member, which names its kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Block<'a> {
    Text(Cow<'a, str>),
    Image {
        format: &'a str,
        source: Source,
    },
    Document {
        format: &'a str,
        name: String,
        source: Source,
    },
    ReasoningContent(Reasoning<'a>),
    ToolUse {
        tool_use_id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: [Text<'a>; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Reasoning<'a> {
    ReasoningText { text: &'a str, signature: String },
    RedactedContent(String),
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Source {
    bytes: String,
}

impl Inference<'_> {
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
        let maker = Maker::of(&form.model);
        let effort = Effort::of(settings);
        // Nova refuses these beside its highest effort.
        let is_highest = maker == Maker::Amazon && effort.and_then(nova_level) == Some("high");
        let given =
            settings.max_tokens.is_some() || settings.temperature.is_some() || settings.top_p.is_some();
        if is_highest && given {
            let what = "Nova takes no max_tokens, temperature or top_p beside this reasoning_effort; use medium or less";
            return Err(Unsendable(what.into()));
        }
        let max_tokens = settings.max_tokens.unwrap_or_else(|| maker.most_tokens(&form.model));
        let mut messages = Vec::with_capacity(request.messages.len());
        let mut unsendable = None;
        history::turns(form, request, &mut valid, |turn| match message(turn) {
            Ok(message) => messages.extend(message),
            Err(what) => unsendable = Some(what),
        })?;
        if let Some(what) = unsendable {
            return Err(what);
        }
        let tools: Vec<Tool<'_>> = request
            .tools
            .iter()
            .map(|tool| {
                let input_schema = Schema { json: valid.mapping.input(tool) };
                let name = valid.mapping.told(&tool.name);
                Tool { tool_spec: ToolSpec { name, description: &tool.description, input_schema } }
            })
            .collect();
        let has_system = !request.system.trim().is_empty();
        Ok(Self {
            inference_config: Inference {
                max_tokens: (!is_highest).then_some(max_tokens),
                temperature: settings.temperature,
                top_p: settings.top_p,
                stop_sequences: &settings.stop,
            },
            additional_model_request_fields: effort.and_then(|effort| maker.reasoning(&form.model, effort)),
            system: has_system.then(|| Block::Text(Cow::Borrowed(request.system))).into_iter().collect(),
            tool_config: (!tools.is_empty()).then_some(ToolConfig { tools }),
            messages,
        })
    }
}

/// Converts a message. `None`: it has nothing that this interface takes.
fn message(turn: Turn<'_>) -> Result<Option<Message<'_>>, Unsendable> {
    let (role, content) = match turn {
        Turn::User(pieces) => {
            let mut names = Vec::new();
            let blocks: Result<Vec<_>, _> = pieces.into_iter().map(|it| piece(it, &mut names)).collect();
            ("user", blocks?)
        }
        Turn::Answer(said) => ("assistant", said.into_iter().filter_map(block).collect()),
        Turn::Results(results) => ("user", results.into_iter().map(result).collect()),
    };
    Ok((!content.is_empty()).then_some(Message { role, content }))
}

fn piece<'a>(piece: Piece<'a>, names: &mut Vec<String>) -> Result<Block<'a>, Unsendable> {
    let blob = match piece {
        Piece::Text(text) => return Ok(Block::Text(text)),
        Piece::File(blob) => blob,
    };
    let source = Source { bytes: history::base64(blob) };
    Ok(match &*blob.media_type {
        "application/pdf" => Block::Document { format: "pdf", name: document(blob, names), source },
        "image/jpeg" | "image/jpg" => Block::Image { format: "jpeg", source },
        "image/png" => Block::Image { format: "png", source },
        "image/gif" => Block::Image { format: "gif", source },
        "image/webp" => Block::Image { format: "webp", source },
        other => {
            let what = format!("`{}` ({other}) can't be sent: Bedrock doesn't take such images", blob.name);
            return Err(Unsendable(what));
        }
    })
}

/// Makes a name of a document in the form that Converse takes: of few characters, and unique in a message.
fn document(blob: &Blob, names: &mut Vec<String>) -> String {
    let stem = blob.name.rsplit_once('.').map_or(&*blob.name, |(stem, _)| stem);
    let plain = |c: char| if c.is_ascii_alphanumeric() || " -()[]".contains(c) { c } else { '-' };
    let plain: String = stem.chars().map(plain).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let base = if plain.is_empty() { "document".to_owned() } else { plain };
    let (mut name, mut number) = (base.clone(), 1);
    while names.contains(&name) {
        number += 1;
        name = format!("{base}-{number}");
    }
    names.push(name.clone());
    name
}

/// Converts a block. `None`: thinking without a signature, which is refused.
fn block(said: Said<'_>) -> Option<Block<'_>> {
    Some(match said {
        Said::Text { text, .. } => Block::Text(Cow::Borrowed(text)),
        Said::Signed { text: Some(text), signature } => {
            Block::ReasoningContent(Reasoning::ReasoningText { text, signature })
        }
        Said::Signed { text: None, signature } => {
            Block::ReasoningContent(Reasoning::RedactedContent(signature))
        }
        Said::Call { id, name, arguments, .. } => Block::ToolUse { tool_use_id: id, name, input: arguments },
        Said::Reasoning(_) | Said::Own(_) => return None,
    })
}

fn result(given: Given<'_>) -> Block<'_> {
    let Given { id, content, is_error, .. } = given;
    let status = is_error.then_some("error");
    Block::ToolResult { tool_use_id: id, content: [Text { text: content }], status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_names_of_their_own_that_converse_takes() {
        let named = |name: &str, names: &mut Vec<String>| {
            let blob =
                Blob { name: name.into(), media_type: "application/pdf".into(), data: b"".as_slice().into() };
            document(&blob, names)
        };
        let mut names = Vec::new();
        for (name, expected) in [
            ("report.v2.pdf", "report-v2"),
            ("report.v2.pdf", "report-v2-2"),
            (" .pdf", "document"),
            ("a  b", "a b"),
        ] {
            assert_eq!(named(name, &mut names), expected, "{name}");
        }
    }
}
