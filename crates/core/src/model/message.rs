//! Messages of a conversation and their parts.

use crate::{
    json,
    server_tool::{ServerUse, Source},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// Number of a message within its conversation, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct MessageId(pub u32);

/// The author of a message. The system text is not a message; a request carries it separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The caller of the worker, or the harness on its behalf (repair turns).
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// One message of a conversation. Immutable and shared: a conversation of N turns holds each once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Message {
    /// Its number in the conversation.
    pub id: MessageId,
    /// The message it follows; undo and forks make this differ from `id - 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// Replaces an answer without content in the history, because providers refuse such messages.
pub(crate) const EMPTY: &str = "(empty answer)";

impl Message {
    /// The model's text in the message, for a person. It is empty if the answer had none.
    pub fn said(&self) -> String {
        let text = self.text();
        if text == EMPTY { String::new() } else { text }
    }

    /// All text, attached text included, in the form that a model receives.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::sent).collect()
    }
    /// The tool calls in it, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: Arc<str>,
    },
    /// A text file that the caller attached. Models receive [`Part::sent`].
    Attachment {
        /// Its file name.
        name: Arc<str>,
        /// Its content.
        text: Arc<str>,
    },
    /// An image, a PDF or another file, for models that read them.
    Blob(Blob),
    /// The model asks for a function to be called (assistant messages only).
    Call(ToolCall),
    /// The answer to one such call (tool messages only).
    Result(ToolResult),
    /// The model's visible thinking; never sent back as text.
    Reasoning {
        /// The text of it.
        text: Arc<str>,
    },
    /// A provider's own data (signed thinking, for example) that must be sent back as it came.
    Opaque {
        /// The provider that owns the data; it is not sent to others.
        provider: Arc<str>,
        /// The data.
        value: Value,
    },
    /// The provider ran a tool of its own here (assistant messages only). A record of it for people; what goes back to
    /// the provider is the [`Part::Opaque`] beside it.
    ServerUse(ServerUse),
    /// The pages that the provider names for the text before it (assistant messages only). Never sent back.
    Cited {
        /// Each page once.
        sources: Vec<Source>,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text { text: text.into() }
    }
    /// The text, if it is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
    /// The text that a model receives for the part: plain text unchanged, an attached text between tags that name the
    /// file.
    pub fn sent(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text { text } => Some(Cow::Borrowed(text)),
            Self::Attachment { name, text } => {
                let name = name.replace('"', "'");
                Some(Cow::Owned(format!("<attachment name=\"{name}\">\n{text}\n</attachment>")))
            }
            _ => None,
        }
    }
}

/// A file given to a model as content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Blob {
    /// File name shown to the model.
    pub name: Arc<str>,
    /// Media type, for example `image/png` or `application/pdf`.
    pub media_type: Arc<str>,
    /// The bytes; Base64 (standard alphabet, padded) in JSON.
    #[serde(with = "base64_bytes")]
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub data: Arc<[u8]>,
}

mod base64_bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&STANDARD.encode(bytes))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(input)?;
        STANDARD.decode(text).map(Arc::from).map_err(D::Error::custom)
    }
}

/// The model's request to call a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// The provider's id of the call; results refer to it.
    pub id: Arc<str>,
    /// The name as the model wrote it; it need not exist.
    pub name: Arc<str>,
    /// The arguments as the model wrote them.
    pub arguments: Arguments,
}

/// Arguments as a model wrote them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Well-formed JSON.
    Json(Arc<Value>),
    /// Not JSON (cut off, or broken), or JSON that can't be kept as it is ([`json::read`]). Kept to be quoted back to the
    /// model.
    Invalid {
        /// What was received.
        text: Arc<str>,
        /// The parse error.
        reason: Arc<str>,
    },
}

impl Arguments {
    /// Returns the arguments as a provider sends them.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Json(value) => Cow::Owned(value.to_string()),
            Self::Invalid { text, .. } => Cow::Borrowed(text),
        }
    }

    /// Parses a string from a provider. Empty text means no arguments, `{}`.
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Json(Arc::new(Value::Object(serde_json::Map::new())));
        }
        match json::read(text) {
            Ok(value) => Self::Json(Arc::new(value)),
            Err(error) => Self::Invalid { text: text.into(), reason: error.to_string().into() },
        }
    }
}

/// The answer to a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ToolResult {
    /// [`ToolCall::id`] of the call it answers.
    pub call_id: Arc<str>,
    /// Name of the tool as called.
    pub name: Arc<str>,
    /// The text for the model.
    pub content: Arc<str>,
    /// Whether it is an error (a refusal, invalid input, a failure).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}
