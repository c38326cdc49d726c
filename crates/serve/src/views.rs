//! What clients send and get, as types with schemas.

use llm_do::{
    core::{
        gate::Mode,
        model::Usage,
        outcome::Failure,
        question::{Answer, QuestionId, Waiting},
    },
    digest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A run to start.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StartRun {
    /// The program. It may be left out where the server has only one.
    pub(crate) program: Option<String>,
    /// One of the program's exported workers. Default: its entry, or the first that it exports.
    pub(crate) worker: Option<String>,
    /// A plain message, in place of `input`.
    pub(crate) message: Option<String>,
    /// The whole input, which fits the worker's parameters.
    pub(crate) input: Option<Value>,
    /// Whether the worker holds a conversation. Its first message is the input.
    pub(crate) chat: bool,
    /// What a call that needs an approval does: it can only be stricter than on the server's command line.
    pub(crate) approval: Option<Mode>,
    /// Rules of calls that must be asked about.
    pub(crate) ask: Vec<String>,
    /// Rules of calls that are refused.
    pub(crate) deny: Vec<String>,
    /// Limits of the run beside the server's, as `--budget` takes them: `0.50usd`, `200000tokens`, `10m`.
    pub(crate) budget: Vec<String>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It is at work.
    Running,
    /// It waits for answers to its questions, or for the next message of its chat. Other calls of it may be at work.
    Waiting,
    /// It has an output.
    Done,
    /// It failed.
    Failed,
    /// A limit ended it.
    Limit,
    /// Its first call was refused.
    Refused,
    /// It was cancelled.
    Cancelled,
    /// It was cut off. The server continues it as soon as there is room.
    CutOff,
    /// It can't be continued, because its program has changed since it began.
    Changed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Limit => "limit",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::CutOff => "cut_off",
            Self::Changed => "changed",
        }
    }
}

/// A run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunView {
    /// Its ID.
    pub(crate) run: Arc<str>,
    /// The program's name.
    pub(crate) program: Arc<str>,
    /// The worker that it started with.
    pub(crate) worker: Arc<str>,
    /// Whether it is a chat.
    pub(crate) chat: bool,
    /// The name of the token that started it.
    pub(crate) client: Arc<str>,
    /// Its state.
    pub(crate) state: State,
    /// Why it is in this state, if it can't be continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// When it began, in milliseconds since 1970. Absent while it is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_ms: Option<u64>,
    /// From its first to its last record, in milliseconds, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<u64>,
    /// Its output, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Arc<Value>>,
    /// Why it has no output, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Failure>,
    /// Its tokens and their cost, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// The questions that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) questions: Vec<QuestionView>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Question")]
pub(crate) struct QuestionView {
    /// What an answer must name, so that it is an answer to what its giver saw.
    pub(crate) digest: String,
    /// The question.
    #[serde(flatten)]
    pub(crate) waiting: Waiting,
}

impl From<Waiting> for QuestionView {
    fn from(waiting: Waiting) -> Self {
        Self { digest: digest(&waiting), waiting }
    }
}

/// A question with the run that asks it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionOfRun {
    /// The run's ID.
    pub(crate) run: Arc<str>,
    /// The program's name.
    pub(crate) program: Arc<str>,
    /// The question.
    #[serde(flatten)]
    pub(crate) question: QuestionView,
}

/// An answer to a question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct GiveAnswer {
    /// The question.
    #[serde(flatten)]
    pub(crate) id: QuestionId,
    /// The question's digest, as it was shown.
    pub(crate) digest: String,
    /// The answer.
    #[serde(flatten)]
    pub(crate) answer: Answer,
}

/// A message to a chat.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// The user's words.
    pub(crate) text: String,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct MessageSent {
    /// Whether the conversation has it. If not, the conversation gets it as soon as its answer is complete.
    pub(crate) delivered: bool,
}

/// A worker that clients may start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Worker")]
pub(crate) struct WorkerView {
    /// The program's name.
    pub(crate) program: Arc<str>,
    /// The worker's ID.
    pub(crate) worker: Arc<str>,
    /// Whether it is the one that runs start with if they name none.
    pub(crate) default: bool,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// JSON Schema of its input.
    pub(crate) input: Value,
    /// JSON Schema of its output; absent for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Arc<Value>>,
    /// Whether its runs can change anything outside of their conversations.
    pub(crate) changes: bool,
    /// Whether its runs can reach the network beside their models.
    pub(crate) network: bool,
}

/// A list in pages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Runs {
    /// Newest first.
    pub(crate) runs: Vec<RunView>,
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Arc<str>>,
}

/// The questions that wait.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Questions {
    /// By run.
    pub(crate) questions: Vec<QuestionOfRun>,
}

/// The workers that clients may start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Workers {
    /// By program; the default first.
    pub(crate) workers: Vec<WorkerView>,
}

/// Whether the server works.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `ending` while the server shuts down.
    pub(crate) status: &'static str,
    /// Version of llm-do.
    pub(crate) version: &'static str,
}
