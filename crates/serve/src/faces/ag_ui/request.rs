//! The requests of AG-UI's clients: `RunAgentInput`.

use super::writing::AT_CLIENT;
use crate::{
    error::{ApiError, Code},
    faces::conversation::{Conversation, Prompt, Speaker, Words},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do::{
    Session,
    core::{
        attachment::Attachment, client_tool::ClientTool, definition::Signature, json, model::Blob,
        question::Answer, worker::media_type,
    },
    runs::is_run_id,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{fmt, str::FromStr, sync::Arc};

/// Greatest number of tools of a client.
const MOST_TOOLS: usize = 64;

/// The parameter that takes the state of the client.
const STATE: &str = "state";

/// A request. Fields that this version of the protocol does not have are ignored, as the protocol requires.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    state: Option<Value>,
    #[serde(default)]
    context: Option<Vec<Context>>,
    #[serde(default)]
    resume: Option<Vec<Resume>>,
}

/// A tool that the client executes itself.
#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Option<Value>,
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
        id: Option<String>,
        #[serde(default)]
        content: Option<String>,
    },
    /// The result of a call. The run has those of the worker's own calls already.
    Tool {
        #[serde(rename = "toolCallId")]
        call: String,
        content: Content,
        #[serde(default)]
        error: Option<String>,
    },
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
        Ok(request)
    }

    /// Returns the tools that the client executes itself.
    ///
    /// # Errors
    /// A tool can't be used, or no worker of the program takes tools of its client.
    pub(super) fn client_tools(&self, session: &Session) -> Result<Vec<ClientTool>, ApiError> {
        let wrong = |why: String| ApiError::new(Code::BadRequest, format!("tools{why}"));
        let given = self.tools.as_deref().unwrap_or_default();
        if given.len() > MOST_TOOLS {
            return Err(wrong(format!(": there are {}, and {MOST_TOOLS} are the most", given.len())));
        }
        let mut tools: Vec<ClientTool> = Vec::with_capacity(given.len());
        for (number, Tool { name, description, parameters }) in given.iter().enumerate() {
            let tool = ClientTool::new(name, description, parameters.clone())
                .map_err(|why| wrong(format!("[{number}].{why}")))?;
            if tools.iter().any(|other| other.name == tool.name) {
                return Err(wrong(format!("[{number}].name: there are two tools `{name}`")));
            }
            tools.push(tool);
        }
        match tools.is_empty() || session.takes_client_tools() {
            true => Ok(tools),
            false => Err(wrong(format!(
                ": `{}` takes no tools of its client: add `client` to its `toolsets`, or send none",
                session.entry().id
            ))),
        }
    }

    /// Returns the results of the client's calls at the end of the messages. There are none if the user has said something
    /// since.
    ///
    /// # Errors
    /// A result belongs to no call of a run, or two results to one call.
    pub(super) fn results(&self) -> Result<Vec<ClientResult>, ApiError> {
        let mut results: Vec<ClientResult> = Vec::new();
        for (number, message) in self.messages.iter().enumerate().rev() {
            let (call, content, error) = match message {
                Message::Tool { call, content, error } => (call, content, error),
                Message::Reasoning {} | Message::Activity {} => continue,
                Message::Assistant { .. }
                | Message::User { .. }
                | Message::Developer { .. }
                | Message::System { .. } => break,
            };
            let run =
                |id: &str| id.split_once('_').map(|(run, _)| run).filter(|run| is_run_id(run)).map(Arc::from);
            if run(call).is_some() {
                continue;
            }
            let Some(run) = call.strip_prefix(AT_CLIENT).and_then(run) else {
                let why = format!("messages[{number}].toolCallId: there is no call `{call}`");
                return Err(ApiError::new(Code::NotFound, why));
            };
            if results.iter().any(|other| other.call == *call) {
                return Err(wrong(number, &format!("the call `{call}` has two results")));
            }
            if results.iter().any(|other| other.run != run) {
                return Err(wrong(number, "its call is one of another run than that of the other results"));
            }
            let answer = match error {
                Some(error) => Answer::Decline { reason: Some(error.clone()) },
                None => Answer::Give { value: Arc::new(content.text(number)?.into()) },
            };
            results.push(ClientResult { run, call: call.clone(), answer });
        }
        results.reverse();
        Ok(results)
    }

    /// Reads the round of a chat that contains the worker's last message from the ID of that message.
    pub(super) fn said_last(&self) -> Option<SaidIn> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant { id, .. } => Some(id.as_deref()?.parse().ok()),
            _ => None,
        })?
    }

    /// Takes the client's state out of the request. Clients that have none send an empty object.
    fn state(&mut self, session: &Session) -> Result<Option<Value>, ApiError> {
        let takes = takes_state(&session.entry().signature);
        let state = self.state.take().filter(|state| !state.is_null());
        match state.filter(|state| takes || *state != json!({})) {
            Some(_) if !takes => Err(ApiError::new(
                Code::BadRequest,
                format!(
                    "state: `{}` has no parameter `{STATE}`: send an empty state, or declare the parameter",
                    session.entry().id
                ),
            )),
            state => Ok(state),
        }
    }

    /// Returns the input of a run of the worker, with the state if the worker has a parameter for it.
    pub(super) fn prompt(mut self, session: &Session) -> Result<Prompt, ApiError> {
        let wrong = |why: String| ApiError::new(Code::BadRequest, why);
        let state = self.state(session)?;
        let prompt = self.conversation()?.prompt(session).map_err(wrong)?;
        let Some(state) = state else { return Ok(prompt) };
        let mut input = match (prompt.input, &session.entry().signature.message) {
            (Some(input), _) => input,
            (None, Some(parameter)) => json!({&**parameter: prompt.message}),
            (None, None) => json!({}),
        };
        if input.get(STATE).is_some() {
            return Err(wrong(format!(
                "state: the last message has a `{STATE}` of its own: send one of them"
            )));
        }
        input[STATE] = state;
        Ok(Prompt { message: None, input: Some(input), files: prompt.files })
    }

    /// Returns the next message for a chat that has the conversation up to the worker's last message. The message
    /// contains the context and the state, because both may have changed since.
    pub(super) fn next_message(mut self, session: &Session) -> Result<(String, Vec<Attachment>), ApiError> {
        let state = self.state(session)?.filter(|state| *state != json!({}));
        if let Some(state) = state {
            let context =
                Context { description: "The state of the application".into(), value: state.to_string() };
            self.context.get_or_insert_default().push(context);
        }
        let last = self.messages.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
        self.messages.drain(..last.map_or(0, |last| last + 1));
        Ok(self.conversation()?.text())
    }

    pub(super) fn resume(&self) -> &[Resume] {
        self.resume.as_deref().unwrap_or_default()
    }

    /// Returns all messages so far, with the context as messages of the application.
    fn conversation(self) -> Result<Conversation, ApiError> {
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
                Message::Assistant { content: Some(text), .. } => said(Speaker::Worker, text),
                Message::Assistant { content: None, .. }
                | Message::Tool { .. }
                | Message::Reasoning {}
                | Message::Activity {} => continue,
            });
        }
        Conversation::new(words).map_err(|why| ApiError::new(Code::BadRequest, format!("messages: {why}")))
    }
}

/// Returns true if the worker has a parameter for the client's state that is not its parameter for a message.
fn takes_state(signature: &Signature) -> bool {
    let is_state = |name: &str| name == STATE && signature.message.as_deref() != Some(STATE);
    signature.declared && signature.parameters.iter().any(|parameter| is_state(&parameter.name))
}

/// A round of a run, as it is part of the IDs of messages: `RUN_RECORD_message_N`, with the number of the round's first
/// record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidIn {
    pub(super) run: Arc<str>,
    pub(super) from: u64,
}

impl SaidIn {
    /// The ID of a message.
    pub(super) fn message(&self, number: usize) -> String {
        format!("{}_{}_message_{number}", self.run, self.from)
    }
}

impl FromStr for SaidIn {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (round, _) = text.rsplit_once("_message_").ok_or(())?;
        let (run, from) = round.rsplit_once('_').ok_or(())?;
        let from = from.parse().map_err(drop)?;
        is_run_id(run).then(|| Self { run: run.into(), from }).ok_or(())
    }
}

/// The result of a call that the client has executed.
pub(super) struct ClientResult {
    pub(super) run: Arc<str>,
    /// The ID of the call.
    pub(super) call: String,
    pub(super) answer: Answer,
}

impl Content {
    /// Returns the content of a result.
    fn text(&self, number: usize) -> Result<String, ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::Parts(parts) => parts,
        };
        let mut texts = Vec::with_capacity(parts.len());
        for part in parts {
            let Part::Text { text } = part else { return Err(wrong(number, "a result must be text")) };
            texts.push(&**text);
        }
        Ok(texts.join("\n"))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_messages_name_their_round_and_others_name_none() {
        let round = SaidIn { run: "20261121-221530-4f2a".into(), from: 17 };
        assert_eq!(round.message(2).parse(), Ok(round));
        for other in [
            "",
            "1",
            "a_message_1",
            "_17_message_1",
            "20261121-221530-4f2a_x_message_1",
            "../..//_1_message_1",
        ] {
            assert_eq!(other.parse::<SaidIn>(), Err(()), "{other}");
        }
    }

    #[test]
    fn next_message_has_what_came_after_the_last_answer_with_context() {
        let body = |context: Value| {
            json!({"threadId": "t", "runId": "r", "context": context, "messages": [
                {"role": "user", "content": "One"},
                {"role": "assistant", "id": "20261121-221530-4f2a_0_message_1", "content": "Said"},
                {"role": "user", "content": "Two"},
            ]})
        };
        let read = |context| Request::read(body(context).to_string().as_bytes()).expect("a request");
        let after = |mut request: Request| {
            let last = request.messages.pop().expect("a message");
            request.messages = vec![last];
            request.conversation().expect("a conversation").text().0
        };
        assert_eq!(read(json!([])).said_last().map(|said| said.from), Some(0));
        assert_eq!(after(read(json!([]))), "Two");
        let with_context = after(read(json!([{"description": "Page", "value": "3"}])));
        assert!(with_context.contains("<application>\nPage: 3") && with_context.contains("<user>\nTwo"));
    }
}
