//! What a client of AG-UI sends: `RunAgentInput`.

use crate::{
    error::{ApiError, Code},
    faces::conversation::{Conversation, Speaker, Words},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do::core::{attachment::Attachment, json, model::Blob, worker::media_type};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// A request. Fields that this version of the protocol does not have are left alone, as the protocol wants it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    state: Option<Value>,
    #[serde(default)]
    context: Option<Vec<Context>>,
    #[serde(default)]
    resume: Option<Vec<Resume>>,
}

#[derive(Deserialize)]
struct Context {
    description: String,
    value: String,
}

/// An answer to an interrupt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resume {
    pub(super) interrupt_id: String,
    pub(super) status: Status,
    #[serde(default)]
    pub(super) payload: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Resolved,
    Cancelled,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message {
    Developer {
        content: String,
    },
    System {
        content: String,
    },
    User {
        content: Content,
    },
    Assistant {
        #[serde(default)]
        content: Option<String>,
    },
    /// The results of the worker's own calls come back: the run knows them.
    Tool {},
    Reasoning {},
    Activity {},
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    Image { source: Source },
    Document { source: Source },
    Audio {},
    Video {},
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Data { value: String },
    Url {},
    File {},
}

impl Request {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let wrong_body = |error: &dyn fmt::Display| {
            ApiError::new(Code::BadRequest, format!("the body is no RunAgentInput: {error}"))
        };
        let request: Self = serde_json::from_slice(body).map_err(|error| wrong_body(&error))?;
        json::exact(&String::from_utf8_lossy(body)).map_err(|error| wrong_body(&error))?;
        let wrong = |why: &str| Err(ApiError::new(Code::BadRequest, why));
        if request.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return wrong("tools: the tools of a worker are its own: send none");
        }
        match &request.state {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) if fields.is_empty() => {}
            Some(_) => return wrong("state: a worker shares no state: send none"),
        }
        Ok(request)
    }

    pub(super) fn resume(&self) -> &[Resume] {
        self.resume.as_deref().unwrap_or_default()
    }

    /// What is said so far, with the context as words of the application.
    pub(super) fn conversation(self) -> Result<Conversation, ApiError> {
        let said = |speaker, text| Words { speaker, text, files: Vec::new() };
        let context = self.context.unwrap_or_default().into_iter();
        let mut words: Vec<Words> = context
            .map(|Context { description, value }| {
                said(Speaker::Application, format!("{description}: {value}"))
            })
            .collect();
        for (number, message) in self.messages.into_iter().enumerate() {
            words.push(match message {
                Message::Developer { content } | Message::System { content } => {
                    said(Speaker::Application, content)
                }
                Message::User { content } => content.words(number)?,
                Message::Assistant { content: Some(text) } => said(Speaker::Worker, text),
                Message::Assistant { content: None }
                | Message::Tool {}
                | Message::Reasoning {}
                | Message::Activity {} => continue,
            });
        }
        Conversation::new(words).map_err(|why| ApiError::new(Code::BadRequest, format!("messages: {why}")))
    }
}

impl Content {
    fn words(self, number: usize) -> Result<Words, ApiError> {
        let mut words = Words { speaker: Speaker::User, text: String::new(), files: Vec::new() };
        let parts = match self {
            Self::Text(text) => vec![Part::Text { text }],
            Self::Parts(parts) => parts,
        };
        for part in parts {
            match part {
                Part::Text { text } => {
                    if !words.text.is_empty() {
                        words.text.push('\n');
                    }
                    words.text.push_str(&text);
                }
                Part::Image { source } => {
                    let count = words.files.len() + 1;
                    words.files.push(source.file(number, count, true)?);
                }
                Part::Document { source } => {
                    let count = words.files.len() + 1;
                    words.files.push(source.file(number, count, false)?);
                }
                Part::Audio {} | Part::Video {} => {
                    return Err(wrong(number, "audio and video are not supported"));
                }
            }
        }
        Ok(words)
    }
}

impl Source {
    fn file(self, number: usize, count: usize, is_image: bool) -> Result<Attachment, ApiError> {
        let Self::Data { value } = self else {
            return Err(wrong(number, "the server fetches nothing: send the content as `data`"));
        };
        let data = STANDARD
            .decode(value.trim())
            .map_err(|error| wrong(number, &format!("the data is not Base64: {error}")))?;
        let kind = media_type(&data);
        if is_image && !kind.is_some_and(|kind| kind.starts_with("image/")) {
            return Err(wrong(number, "the data is no image: PNG, JPEG, GIF and WebP are known"));
        }
        let kind = kind.unwrap_or("application/octet-stream");
        let extension = match kind {
            "text/plain" => "txt",
            kind => kind.rsplit('/').next().unwrap_or("bin"),
        };
        let name = format!("file-{count}.{extension}");
        Ok(Blob { name: name.into(), media_type: kind.into(), data: data.into() }.into())
    }
}

fn wrong(number: usize, why: &str) -> ApiError {
    ApiError::new(Code::BadRequest, format!("messages[{number}]: {why}"))
}
