//! A request as the server received it, in terms that both wires share.

use std::time::Instant;

use serde_json::Value;

/// The provider's format of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI chat-completions.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
}

/// The sender of a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions in the message list (OpenAI's `system` and `developer`).
    System,
    /// The user, without tool results.
    User,
    /// The model.
    Assistant,
    /// Tool results: OpenAI's consecutive `tool` messages taken together, or an Anthropic user
    /// message that holds `tool_result` blocks.
    Tool,
}

/// A call in the history of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; a string holding the raw text where that is not JSON.
    pub arguments: Value,
}

/// An answer to a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id of the call this answers.
    pub id: String,
    /// The text of the result, its text blocks joined.
    pub text: String,
    /// Anthropic's `is_error`; always false on OpenAI's wire, which has no such mark.
    pub is_error: bool,
}

/// A message of the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The sender.
    pub role: Role,
    /// The text, with text parts joined by newlines.
    pub text: String,
    /// The calls in it (assistant only).
    pub tool_calls: Vec<ToolCall>,
    /// The results in it ([`Role::Tool`] only).
    pub tool_results: Vec<ToolResult>,
    /// The wire's `type` of each part that is neither text, call nor result: `image_url`, `document`, …
    pub attachments: Vec<String>,
}

impl Message {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            text: String::new(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            attachments: Vec::new(),
        }
    }

    /// Adds a text part.
    pub(crate) fn push_text(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

/// A tool the request offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The name.
    pub name: String,
    /// The description, or empty.
    pub description: String,
    /// The JSON Schema of its arguments, or null where none was sent.
    pub schema: Value,
}

/// A request body as parsed by one wire's reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Tool>,
}

/// A request, kept by the server and shown to a script's route.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time at which the request had arrived in full.
    pub at: Instant,
    /// The format of the request.
    pub wire: Wire,
    /// The path of its URL.
    pub path: String,
    /// The JSON body as sent.
    pub body: Value,
    /// The size of the body in bytes.
    pub body_bytes: usize,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) conversation: Conversation,
}

impl Seen {
    /// Returns the requested model.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns true if the client asked for a streamed answer.
    pub fn streamed(&self) -> bool {
        self.body["stream"] == Value::Bool(true)
    }

    /// Returns the instructions: all system texts, joined by an empty line.
    pub fn system(&self) -> &str {
        &self.conversation.system
    }

    /// Returns the history, the same for both wires.
    pub fn messages(&self) -> &[Message] {
        &self.conversation.messages
    }

    /// Returns the offered tools.
    pub fn tools(&self) -> &[Tool] {
        &self.conversation.tools
    }

    /// Returns the names of the offered tools, in the order sent.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools().iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Returns the value of a header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the number of assistant messages in the history: 0 for a conversation's first request.
    pub fn turn(&self) -> usize {
        self.messages().iter().filter(|message| message.role == Role::Assistant).count()
    }

    /// Returns the text of the first user message, or empty.
    pub fn first_user_text(&self) -> &str {
        self.messages().iter().find(|m| m.role == Role::User).map_or("", |m| m.text.as_str())
    }

    /// Returns the text of the last user message, or empty. Tool results are not user text.
    pub fn last_user_text(&self) -> &str {
        self.messages().iter().rfind(|m| m.role == Role::User).map_or("", |m| m.text.as_str())
    }

    /// Returns the results in the last message, in the order sent; empty if it holds none.
    pub fn tool_results(&self) -> &[ToolResult] {
        self.messages().last().map_or(&[], |message| message.tool_results.as_slice())
    }
}
