//! Messages, requests to a model, and the port to models.
//!
//! A [`Model`] turns one [`ModelRequest`] into provisional [`Delta`]s and one final [`ModelResponse`]. The package
//! that implements the port handles the provider's wire format.

mod message;
mod name;

pub(crate) use message::EMPTY;
pub use message::{Arguments, Blob, Message, MessageId, Part, Role, ToolCall, ToolResult};
pub use name::{BadModelName, ModelName, PROVIDER_ALIASES, is_free_provider, provider_name};

use crate::{
    call_path::CallPath,
    price::{Price, Usd},
    send::{BoxFuture, MaybeSend, MaybeSync},
    server_tool::ServerTool,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// A function as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ToolSpec {
    /// Fits `[A-Za-z0-9_-]{1,64}` (`docs/reference/loop.md`).
    pub name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// JSON Schema of its input, an object schema.
    pub input: Arc<Value>,
}

/// Sampling and size settings (`model_settings` in `docs/reference/worker-files.md`). For an absent value the
/// provider's default applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling mass, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Maximum tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Seed for sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts that end an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// `none`, `minimal`, `low`, `medium`, `high`, or another value of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

impl ModelSettings {
    /// The keys of the settings.
    pub const KEYS: [&str; 6] = ["temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort"];

    /// Sets a setting by its key.
    ///
    /// # Errors
    /// There is no such key, or its value is of another kind. Nothing has changed then.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), WrongSetting> {
        let number = || value.as_f64().ok_or(WrongSetting::Kind("a number"));
        let whole = || value.as_u64().ok_or(WrongSetting::Kind("a whole number, at least 0"));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match key {
            "temperature" => self.temperature = Some(number()?),
            "top_p" => self.top_p = Some(number()?),
            "max_tokens" => {
                let most = WrongSetting::Kind("a whole number, at most 4294967295");
                self.max_tokens = Some(u32::try_from(whole()?).map_err(|_| most)?);
            }
            "seed" => self.seed = Some(whole()?),
            "stop" => {
                let texts = value.as_array().and_then(|texts| texts.iter().map(text).collect());
                self.stop = texts.ok_or(WrongSetting::Kind("a list of texts, in JSON"))?;
            }
            "reasoning_effort" => {
                self.reasoning_effort = Some(text(value).ok_or(WrongSetting::Kind("a word"))?);
            }
            _ => return Err(WrongSetting::Unknown),
        }
        Ok(())
    }

    /// Completes these settings by those of `other` for absent values.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            max_tokens: self.max_tokens.or(other.max_tokens),
            seed: self.seed.or(other.seed),
            stop: if self.stop.is_empty() { other.stop.clone() } else { self.stop.clone() },
            reasoning_effort: self.reasoning_effort.clone().or_else(|| other.reasoning_effort.clone()),
        }
    }
}

/// The reason why a setting can't be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongSetting {
    /// There is no setting of that name.
    Unknown,
    /// The value must be of this kind.
    Kind(&'static str),
}

/// What a request to a model is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next turn of a conversation.
    #[default]
    Answer,
    /// A summary of the older turns of a conversation, which takes their place (`docs/reference/conversations.md`).
    Summary,
}

/// The content of one request to a model. Borrowed from the conversation, so building one copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// Place of the conversation in the call tree. With the run's driver this is unique, so an adapter may keep a
    /// converted prefix under it (between requests a conversation only grows, or is replaced).
    pub conversation: &'a CallPath,
    /// Identity of the run the conversation belongs to; [`ModelRequest::conversation`] is unique within it.
    pub run: &'a str,
    /// ID of the worker that makes the request.
    pub worker: &'a str,
    /// The purpose of the request.
    pub purpose: Purpose,
    /// Number of this turn in the conversation, from 0; retries of one turn keep its number. For a summary, the number
    /// of its compaction.
    pub turn: u32,
    /// The model that receives the request.
    pub model: &'a ModelName,
    /// The rendered instructions.
    pub system: &'a Arc<str>,
    /// The history, valid for any provider: each call answered exactly once.
    pub messages: &'a [Arc<Message>],
    /// The functions offered, in a fixed order.
    pub tools: &'a Arc<[ToolSpec]>,
    /// The tools that the provider runs itself, all of which the model has accepted ([`Model::refused_server_tools`]).
    pub server_tools: &'a Arc<[ServerTool]>,
    /// Settings; `max_tokens` is already limited to the rest of the budget.
    pub settings: &'a ModelSettings,
    /// The schema that the final answer must satisfy, for models whose [`Capabilities::native_schema`] is true;
    /// the engine passes `None` to the others and uses a final-result tool.
    pub output: Option<&'a Arc<Value>>,
}

/// Part of an answer in progress. Provisional: only the response counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "delta", rename_all = "snake_case")]
pub enum Delta {
    /// More text of the answer.
    Text {
        /// The new piece.
        text: String,
    },
    /// More of the model's visible thinking.
    Reasoning {
        /// The new piece.
        text: String,
    },
    /// A tool call has begun to appear.
    Call {
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments of a call. The engine takes a typed answer from them; they are not shown.
    #[serde(skip)]
    Arguments {
        /// The number of the call among those that have begun to appear, from 0.
        call: u32,
        /// The new piece of their JSON.
        text: String,
    },
}

/// Receives deltas while a response is in progress.
pub trait DeltaSink: MaybeSend + MaybeSync {
    /// Takes a delta; must not block.
    fn delta(&self, delta: Delta);
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// `max_tokens` or the context window cut it off.
    Length,
    /// The model or its provider declined to answer.
    Refusal,
    /// The provider has paused a long turn with tools of its own. The next request continues it.
    Paused,
    /// The user stopped it. The message holds what had arrived.
    Stopped,
    /// Anything else.
    Other,
}

/// Tokens of one request, or of many summed. Unknown is not zero (`docs/reference/loop.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens sent, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Of these, read from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Of these, written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens produced, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Uses of tools that the provider ran ([`Part::ServerUse`]), which it charges apart from tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_uses: Option<u64>,
    /// What they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<f64>"))]
    pub cost_usd: Option<Usd>,
}

impl Usage {
    /// Adds two usages. A figure that one side doesn't know is taken from the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            }
        }
        Self {
            input_tokens: add(self.input_tokens, other.input_tokens),
            cached_tokens: add(self.cached_tokens, other.cached_tokens),
            cache_write_tokens: add(self.cache_write_tokens, other.cache_write_tokens),
            output_tokens: add(self.output_tokens, other.output_tokens),
            server_uses: add(self.server_uses, other.server_uses),
            // A sum with an unknown part is unknown. A side without any usage is not a part.
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(a), Some(b)) => Some(a.plus(b)),
                (a, _) if other == Self::default() => a,
                (_, b) if self == Self::default() => b,
                _ => None,
            },
        }
    }
    /// Sets the cost of the usage, if it is known.
    #[must_use]
    pub fn priced(self, price: Option<&Price>) -> Self {
        Self { cost_usd: price.and_then(|price| price.of(&self)), ..self }
    }
    /// The sum of input and output tokens that are known.
    pub fn total(&self) -> u64 {
        self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0))
    }
}

/// A model's final answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The parts of the answer, in order.
    pub parts: Vec<Part>,
    /// The reason why the answer ended.
    pub finish: FinishReason,
    /// The token usage.
    #[serde(default)]
    pub usage: Usage,
    /// The provider's word for the reason why the answer ended, if llm-do does not know it ([`FinishReason::Other`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_finish: Option<Arc<str>>,
}

/// The capabilities of a model that the engine must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// Takes an output schema with a request and keeps to it, tools present or not.
    pub native_schema: bool,
    /// Takes tools at all.
    pub tools: bool,
    /// The files that it reads.
    #[serde(default, skip_serializing_if = "Sees::is_blind")]
    pub sees: Sees,
}

impl Capabilities {
    /// All capabilities, for a stand-in for any model.
    pub const ALL: Self = Self { native_schema: true, tools: true, sees: Sees { images: true, pdf: true } };
}

/// Files that a model reads as content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sees {
    /// Images.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub images: bool,
    /// PDF documents.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pdf: bool,
}

impl Sees {
    /// Returns true if the model reads files of that media type.
    pub fn reads(self, media_type: &str) -> bool {
        if media_type == "application/pdf" {
            self.pdf
        } else {
            self.images && media_type.starts_with("image/")
        }
    }

    /// Returns true if the model reads no files.
    pub fn is_blind(&self) -> bool {
        *self == Self::default()
    }
}

/// The kind of a failed request, which decides whether it is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// 429.
    RateLimited,
    /// 5xx, 529.
    Server,
    /// No answer, or none in time.
    Timeout,
    /// Connection refused or broken, stream cut or garbled.
    Network,
    /// 401, 403, or no key in the environment.
    Auth,
    /// No such provider, model or file.
    NotFound,
    /// The provider says that the request is wrong.
    BadRequest,
    /// The conversation is longer than the model's window.
    ContextExceeded,
    /// The model doesn't support a part of the request (an image, a setting).
    Unsupported,
    /// The answer says the same again and again.
    Repetition,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// For people: what happened, and what to do. Never holds a key.
    pub message: String,
    /// The wait that the server asked for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The HTTP status of the answer, if there was one. Not recorded.
    #[serde(skip)]
    pub status: Option<u16>,
}

impl ModelError {
    /// An error of that kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None, status: None }
    }
    /// Returns true if a retry may help (`docs/reference/loop.md`).
    pub fn is_transient(&self) -> bool {
        use ModelErrorKind as K;
        matches!(self.kind, K::RateLimited | K::Server | K::Timeout | K::Network)
    }
    /// Returns true if another model may answer: nothing is wrong with the request, and this model can't be reached, has
    /// no capacity, or is refused to the user's key.
    pub fn is_unavailable(&self) -> bool {
        self.is_transient() || matches!(self.kind, ModelErrorKind::Auth | ModelErrorKind::NotFound)
    }
    /// The wait that the server asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// A model, ready for requests.
pub trait Model: MaybeSend + MaybeSync {
    /// The capabilities of the model.
    fn capabilities(&self) -> Capabilities;
    /// The settings that the model refuses, each with the reason. Checked before anything is sent
    /// (`docs/reference/worker-files.md`).
    fn refused_settings(&self, _settings: &ModelSettings) -> Vec<String> {
        Vec::new()
    }
    /// The tools that the model's provider can't run, each with the reason. Checked before anything is sent.
    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        tools.iter().map(|tool| format!("the model has no `{}` of its own", tool.name())).collect()
    }
    /// The tokens of its context window, if the model itself knows them ([`Terms::context`] has those of a provider's
    /// models).
    fn context(&self) -> Option<u64> {
        None
    }
    /// Maximum tokens of an answer to a request without `max_tokens`, if the model has such a default of its own.
    fn default_output(&self) -> Option<u32> {
        None
    }
    /// Answers one request. Never retries by itself: the engine retries, so that retries are recorded.
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
    /// Reports that, in a resumed run, a record answers this request: the model is not asked. A model whose answers
    /// depend on the number of earlier requests counts the request.
    fn answered_before(&self, _request: ModelRequest<'_>) {}
    /// Returns true if an earlier process has sent this request, and its answer is fetched instead of being asked for again.
    fn continues(&self, _request: ModelRequest<'_>) -> bool {
        false
    }
    /// Reports that a conversation has ended: the model may drop all data that it keeps under `(run, conversation)`.
    fn forget(&self, _run: &str, _conversation: &CallPath) {}
}

/// Finds models by name.
pub trait Models: MaybeSend + MaybeSync {
    /// Opens a model without sending a request. An unknown provider, a missing key (naming the variable) and a
    /// missing file are reported here, before a run starts.
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError>;
    /// The known prices of a model and the known sizes of its requests and answers.
    fn terms(&self, _name: &ModelName) -> Terms {
        Terms::default()
    }
}

/// The prices of a model and the sizes of its requests and answers. An absent value is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The prices of its tokens.
    pub price: Option<Price>,
    /// Maximum tokens of one answer.
    pub max_output: Option<u32>,
    /// Maximum tokens of one request.
    pub context: Option<u64>,
}
