//! What clients send and get, as types with schemas.

use crate::token::{Reads, Scope};
use llm_do::{
    core::{
        client_tool::ClientTool,
        gate::Mode,
        journal::RunStatus,
        model::{ModelName, Usage},
        outcome::Failure,
        question::{Answer, Question, QuestionId, Waiting},
    },
    digest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

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
    /// Files for the worker's model: paths in the worker's view, or `upload:ID`.
    pub(crate) attachments: Vec<String>,
    /// The tools that the client executes itself. Only AG-UI has them.
    #[serde(skip)]
    pub(crate) client_tools: Vec<ClientTool>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It waits for a place among the runs at once.
    Queued,
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
    /// It was cut off: `reason` says why, unless the server ended. The next start of the server continues it.
    CutOff,
    /// It can't be continued, because its program has changed since it began.
    Changed,
}

impl State {
    const ALL: [Self; 10] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Done,
        Self::Failed,
        Self::Limit,
        Self::Refused,
        Self::Cancelled,
        Self::CutOff,
        Self::Changed,
    ];

    /// The state with that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
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

/// The state of a run that ended so.
pub(crate) fn status_state(status: RunStatus) -> State {
    match status {
        RunStatus::Done => State::Done,
        RunStatus::Failed => State::Failed,
        RunStatus::Limit => State::Limit,
        RunStatus::Refused => State::Refused,
        RunStatus::Suspended => State::Waiting,
        RunStatus::Interrupted => State::Cancelled,
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
    /// Whether it was started outside of the server, in a terminal for example: it can be looked at only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) outside: bool,
    /// Its state.
    pub(crate) state: State,
    /// Why it is in this state, if it can't be continued or was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The beginning of the message or input that it was started with, at most 120 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// From its first to its last record, in milliseconds, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<u64>,
    /// Its output, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Arc<Value>>,
    /// Why it has no output, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Failure>,
    /// Its tokens and their cost, once it is over. In lists also so far, while it is at work.
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

impl QuestionView {
    /// The question without what shows the effect of a call, which can be long.
    pub(crate) fn without_preview(mut self) -> Self {
        if let Question::Approval(approval) = &mut self.waiting.question {
            approval.preview = None;
        }
        self
    }
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
    /// The name of the token that started the run. The calls of the run are made with its authority, whoever approves them.
    pub(crate) client: Arc<str>,
    /// The question.
    #[serde(flatten)]
    pub(crate) question: QuestionView,
}

/// An answer to a question.
#[derive(Clone, Debug, JsonSchema)]
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

/// The fields of a [`GiveAnswer`] beside those of its answer.
const OF_QUESTION: [&str; 3] = ["call", "step", "digest"];

impl<'de> Deserialize<'de> for GiveAnswer {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Flat {
            #[serde(flatten)]
            id: QuestionId,
            digest: String,
            #[serde(flatten)]
            answer: Answer,
        }
        let fields = Map::deserialize(given)?;
        // Flattened parts know only their own fields, so that none of them sees one that is unknown to all.
        let kind = fields.get("answer").and_then(Value::as_str).unwrap_or_default();
        if let Some(known) = answer_fields().get(kind)
            && let Some(unknown) = fields
                .keys()
                .find(|name| !OF_QUESTION.contains(&name.as_str()) && !known.contains(name.as_str()))
        {
            let unknown = unknown.escape_debug();
            return Err(D::Error::custom(format!("unknown field `{unknown}` of the answer `{kind}`")));
        }
        let Flat { id, digest, answer } =
            serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { id, digest, answer })
    }
}

/// The fields of each kind of answer, by its name.
fn answer_fields() -> &'static HashMap<String, BTreeSet<String>> {
    static FIELDS: LazyLock<HashMap<String, BTreeSet<String>>> = LazyLock::new(|| {
        let schema = schemars::schema_for!(Answer).to_value();
        let variants = schema["oneOf"].as_array().into_iter().flatten();
        let named = variants.filter_map(|variant| {
            let properties = variant["properties"].as_object()?;
            let name = properties.get("answer")?["const"].as_str()?;
            Some((name.to_owned(), properties.keys().cloned().collect()))
        });
        named.collect()
    });
    &FIELDS
}

/// A message to a chat.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// The user's words.
    pub(crate) text: String,
    /// Whether the answer under way gets them with its next request. Otherwise they wait for its end.
    #[serde(default)]
    pub(crate) now: bool,
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
    /// Whether it holds a conversation by itself (`mode: chat`).
    pub(crate) chat: bool,
    /// The model that answers, if one is named or found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelName>,
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

/// A session of a page that has begun.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SignedIn {
    /// The page's secret, for the header `Llm-Do-Session` of its requests. The cookie is useless without it.
    pub(crate) secret: String,
    /// The session ends after so many seconds without a request.
    pub(crate) idle_s: u64,
}

/// What a token allows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(crate) struct SessionView {
    /// The token's name.
    pub(crate) name: Arc<str>,
    /// What it may do.
    pub(crate) scopes: Vec<Scope>,
    /// Which runs it may read.
    pub(crate) read: Reads,
    /// The programs that it may use. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) programs: Option<Vec<Arc<str>>>,
    /// The models that an answer to a chat may choose.
    pub(crate) models: Vec<ModelName>,
    /// Version of llm-do.
    pub(crate) version: &'static str,
}

/// A program of the service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Program")]
pub(crate) struct ProgramView {
    /// Its name.
    pub(crate) program: Arc<str>,
    /// What it does: the description of its manifest, else of its default worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Whether the token may change its definitions.
    pub(crate) edit: bool,
    /// What `check` finds. Absent if it can't be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) findings: Option<Findings>,
}

/// How much is wrong with a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Findings {
    /// What keeps it from running.
    pub(crate) errors: usize,
    /// What may be a mistake.
    pub(crate) warnings: usize,
}

/// A file that was uploaded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Uploaded {
    /// Its ID. Inputs name it `upload:ID`.
    pub(crate) upload: String,
    /// Its name.
    pub(crate) name: String,
    /// Its size.
    pub(crate) bytes: u64,
}

/// A folder of a run's files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Folder {
    /// Its path in the view of the run's worker.
    pub(crate) path: String,
    /// What is in it, by name.
    pub(crate) entries: Vec<FolderEntry>,
    /// Whether there is more than could be looked at.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
}

/// A file or folder of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct FolderEntry {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: FileKind,
    /// The size of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Whether others may have written it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untrusted: bool,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// The definition files of a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionFiles {
    /// By path.
    pub(crate) files: Vec<DefinitionFile>,
}

/// A definition file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionFile {
    /// Its path from the program's folder.
    pub(crate) path: String,
    /// The SHA-256 hash of its bytes.
    pub(crate) sha256: String,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The text of a definition file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionText {
    /// Its path from the program's folder.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
    /// The SHA-256 hash of its bytes.
    pub(crate) sha256: String,
}

/// A text to save.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveDefinition {
    /// Its path from the program's folder.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
    /// The hash of what it replaces; `null` for a file that is not there yet.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) sha256: Option<String>,
}

/// What became of a text that was saved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Saved {
    /// The hash of the file now.
    pub(crate) sha256: String,
    /// What `llm-do check --output json` finds in the program now.
    pub(crate) diagnostics: Vec<Value>,
}

/// Texts to check that are not saved.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckTexts {
    /// Texts by path from the program's folder.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

/// What is wrong with a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnostics {
    /// As `llm-do check --output json` shows it.
    pub(crate) diagnostics: Vec<Value>,
}

/// The programs of the service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Programs")]
pub(crate) struct ProgramsView {
    /// By name.
    pub(crate) programs: Vec<ProgramView>,
}

/// Whether the server works.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `ending` while the server shuts down.
    pub(crate) status: &'static str,
    /// Version of llm-do.
    pub(crate) version: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_has_the_fields_of_its_kind_and_no_other() {
        // The message of the error lists the kinds that are read; the fields come from the schema.
        let unknown = serde_json::from_value::<Answer>(json!({"answer": "applaud"}));
        let listed = unknown.expect_err("no such kind").to_string();
        let kinds: BTreeSet<&str> =
            listed.split('`').skip(1).step_by(2).filter(|kind| *kind != "applaud").collect();
        assert!(kinds.contains("approve"), "{listed}");
        assert_eq!(kinds, answer_fields().keys().map(String::as_str).collect());
        let question = |more: Value| {
            let mut whole = json!({"call": "0/1.0", "step": "ask", "digest": "0"});
            whole.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            serde_json::from_value::<GiveAnswer>(whole)
        };
        for good in [
            json!({"answer": "approve"}),
            json!({"answer": "deny", "reason": null, "remember": true}),
            json!({"answer": "give", "value": {"any": 1}}),
        ] {
            assert!(question(good.clone()).is_ok(), "{good}");
        }
        for wrong in [
            json!({"answer": "approve", "reason": "because"}),
            json!({"answer": "give", "value": 1, "by": "somebody"}),
            json!({"answer": "applaud"}),
            json!({}),
        ] {
            assert!(question(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
