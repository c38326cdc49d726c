//! Records: the source of truth about a run. `docs/reference/journal.md` documents the format; fields are only ever
//! added.

pub use crate::outcome::Ending;

use crate::{
    authority::Place,
    budget::Reserved,
    call_bounds::CallBounds,
    call_path::CallPath,
    conversation::{Compaction, Ensures},
    definition::WorkerDefinition,
    foreseen::Foreseen,
    gate::WithheldTool,
    listing::Listing,
    model::{
        Blob, Capabilities, FinishReason, Message, MessageId, ModelError, ModelName, Part, ToolSpec, Usage,
    },
    origin::{Origin, Origins},
    outcome::{Failure, Halt, Principal},
    question::{Given, Question, Requester, ToolQuestion},
    risk::Risk,
    rule::{DecidedBy, Mode, Rule},
    schema::sha256,
    server_tool::ServerTool,
    source::FunctionSource,
    step_name::StepName,
    template::InsertArguments,
    undo::UndoneFile,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// Version of the format, in the first record.
pub const FORMAT: u32 = 2;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Record {
    /// Number in the run, from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The call it belongs to.
    pub path: CallPath,
    /// The step within the call; with `path` it is the record's key. Intent and outcome share it.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub step: StepName,
    /// What happened.
    #[serde(flatten)]
    pub body: RecordKind,
}

/// A runtime for the code of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Runtime {
    /// `python`.
    pub name: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// The interpreter.
    pub path: Arc<str>,
    /// How the kernel confines it: `namespaces`, `landlock` or `unconfined`.
    pub confinement: Arc<str>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an output.
    Done,
    /// The entry failed.
    Failed,
    /// A limit of the root ended it.
    Limit,
    /// The entry itself was refused.
    Refused,
    /// It waits for approvals.
    Suspended,
    /// The operator interrupted it.
    Interrupted,
}

/// A definition that a run used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct UsedDefinition {
    /// Worker ID.
    pub worker: Arc<str>,
    /// File it came from.
    pub file: Arc<str>,
    /// SHA-256 of the text, hexadecimal.
    pub sha256: String,
    /// The text.
    pub text: Arc<str>,
    /// SHA-256 of its code, hexadecimal: see [`WorkerDefinition::code_sha256`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<Arc<str>>,
}

impl UsedDefinition {
    /// The record of a worker's definition.
    pub fn of(worker: &WorkerDefinition) -> Self {
        Self {
            worker: Arc::clone(&worker.id),
            file: Arc::clone(&worker.instructions.file),
            sha256: sha256(worker.text.as_bytes()),
            text: Arc::clone(&worker.text),
            code_sha256: worker.code_sha256.clone(),
        }
    }
}

impl Halt {
    /// The error for a step whose record is of another kind than the step makes.
    pub fn unexpected(path: &CallPath, step: &StepName, found: &RecordKind) -> Self {
        let found = serde_json::to_value(found).ok();
        let kind = found.as_ref().and_then(|v| v["kind"].as_str()).unwrap_or("?").to_owned();
        Self::Diverged { path: path.clone(), step: step.clone(), reason: format!("found a record `{kind}`") }
    }
}

/// Default for journals written before server-side tools existed: none.
fn no_server_tools() -> Arc<[ServerTool]> {
    Arc::new([])
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecordKind {
    /// First record of a run.
    RunStarted {
        /// [`FORMAT`].
        format: u32,
        /// ID of the run.
        run: Arc<str>,
        /// Version of llm-do.
        version: Arc<str>,
        /// What was run: the target as given, made absolute relative to nothing (as typed).
        target: Arc<str>,
        /// Entry worker.
        entry: Arc<str>,
        /// Whether the entry holds a conversation with the operator.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        chat: bool,
        /// Approval mode in effect.
        approval: Mode,
        /// `run.date` of templates, `YYYY-MM-DD`, in UTC.
        date: Arc<str>,
        /// Every worker of the closure.
        definitions: Vec<UsedDefinition>,
        /// The runtimes for the code of its tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runtimes: Vec<Runtime>,
        /// How the host started the run, in the host's own format: the data that it needs to resume the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invocation: Option<Arc<Value>>,
        /// Who started the run, and through which channel. Journals of earlier versions do not say so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requester: Option<Requester>,
    },
    /// The run continues after a suspension or an interruption. The steps recorded before are not repeated.
    RunResumed {
        /// Version of llm-do.
        version: Arc<str>,
        /// The idle time, in milliseconds. It does not count towards any deadline.
        idle_ms: u64,
    },
    /// A definition that was loaded later, for a callee that only a wildcard allows.
    Definition(UsedDefinition),
    /// A call has begun.
    CallStarted {
        /// Its function.
        function: Arc<str>,
        /// Where the function comes from.
        source: FunctionSource,
        /// On whose behalf.
        principal: Principal,
        /// The arguments as given; shared with the caller's record of them.
        input: Arc<Value>,
        /// The origins of the arguments; left out if all of them are trusted.
        #[serde(default, skip_serializing_if = "Origins::is_trusted")]
        origins: Origins,
    },
    /// The real places of a call's paths after links are followed. Rules match these places.
    LinksFollowed {
        /// The real place of each path that the call touches, in order.
        places: Vec<Place>,
        /// Whether a link leads to a place other than its path.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
        /// The positions of the places that hold what was written from untrusted words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        untrusted: Vec<usize>,
        /// Whether the process of the call can read such a place, or an untrusted mount.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads_untrusted: bool,
    },
    /// An approval was compared with the state of the files after the answer came.
    Rechecked {
        /// What is not as it was when the operator was asked, so that the operator is asked again; absent if all is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<Arc<str>>,
    },
    /// The answer of a tool's approval code to a call (`@tool(approval=…)`): one source of the verdict.
    RuleStated {
        /// Its answer; `ask` if it failed.
        rule: Rule,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// A function has checked its arguments by more than their schema: code that a model wrote.
    Checked {
        /// The calls that the code can make; absent if the check has failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<Arc<CallBounds>>,
        /// The configuration that pre-approves code with these calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved_by: Option<DecidedBy>,
        /// The findings; absent if there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The gate's verdict on a call.
    Verdict {
        /// The decision: `preApproved` runs, `blocked` is refused.
        rule: Rule,
        /// The rule, mode or operator that decided.
        by: DecidedBy,
        /// Reason given to the caller when refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// The operator is asked.
    Asked(Question),
    /// A question has its answer.
    Answered(Given),
    /// The predicted changes of a leaf that changes files, recorded before it runs. A resume uses them to check
    /// whether the leaf took effect.
    Foreseen {
        /// The changes; absent if they can't be predicted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreseen: Option<Foreseen>,
    },
    /// A leaf is about to run: written before its first effect.
    ToolStarted {
        /// Name.
        function: Arc<str>,
        /// Risk: decides how a resume treats it.
        risk: Risk,
        /// The same for each attempt.
        idempotency_key: Arc<str>,
    },
    /// A leaf wants to know something from the user before it continues. It continues in its next step.
    ToolAsked {
        /// What it asks.
        questions: Vec<ToolQuestion>,
        /// What it needs to continue, apart from the answers.
        state: Arc<Value>,
        /// The output that its code printed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<Arc<str>>,
        /// The origins of the questions; left out if all of them are trusted.
        #[serde(default, skip_serializing_if = "Origins::is_trusted")]
        origins: Origins,
    },
    /// A leaf has ended.
    ToolEnded {
        /// How.
        ending: Ending,
        /// Images and files that it returned beside its value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<Blob>,
        /// The output that its code printed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<Arc<str>>,
        /// The origins of the value; left out if all of it is trusted.
        #[serde(default, skip_serializing_if = "Origins::is_trusted")]
        origins: Origins,
        /// Whether the value is more than the content that the arguments name: rows of a listing or a search, or what a
        /// tainted conversation may have written. Such a value is no source for `from: source(input)`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        mixed: bool,
    },
    /// A composite call has ended, or a call was refused before it ran.
    CallEnded {
        /// How.
        ending: Ending,
        /// Tokens of the call and all below it.
        #[serde(default)]
        usage: Usage,
        /// Images and files that it returned beside its value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<Blob>,
        /// The origins of the value; left out if all of it is trusted.
        #[serde(default, skip_serializing_if = "Origins::is_trusted")]
        origins: Origins,
        /// What the operator wrote in the conversations of the call and below it. Its caller's rules may test for these
        /// words (`from: input`).
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        said: Box<[Arc<Value>]>,
    },
    /// A worker's conversation has begun. With the later records of its path it holds everything that the model was
    /// sent.
    ConversationStarted {
        /// Worker ID.
        worker: Arc<str>,
        /// The model.
        model: ModelName,
        /// The rendered instructions.
        system: Arc<str>,
        /// The tools offered, fixed from here on.
        tools: Arc<[ToolSpec]>,
        /// The tools that the worker has and that no arguments could make pass the gate.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        withheld: Vec<WithheldTool>,
        /// The tools that the provider runs itself, with their options, as the gate allowed them. What such a
        /// conversation answers may hold words of others.
        #[serde(default = "no_server_tools", skip_serializing_if = "<[_]>::is_empty")]
        server_tools: Arc<[ServerTool]>,
        /// Schema the answer must satisfy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<Value>>,
        /// Whether `output` is asked for through the final-result tool.
        #[serde(default)]
        final_tool: bool,
        /// Whether the conversation is held with the user: what the user says follows an answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_user: bool,
        /// Whether the user speaks first. `message` is then empty, or holds what the conversation was begun with, and the
        /// model is not asked before the user has said something.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        listens: bool,
        /// Conditions on the answer beyond its schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ensures: Option<Ensures>,
        /// Whether long results can be read on.
        #[serde(default)]
        can_read_on: bool,
        /// Most tokens of one request, if that is known: it is compacted before it would have more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_context_tokens: Option<u64>,
        /// The model's capabilities.
        can: Capabilities,
        /// The first message.
        message: Arc<Message>,
        /// The origin of the instructions and the first message; left out if they are trusted.
        #[serde(default, skip_serializing_if = "Origin::is_trusted")]
        origin: Origin,
    },
    /// A conversation in the middle of a run has the line to the user, or there is none.
    Leased {
        /// Whether the user, or a program in the user's place, can be asked now or later.
        attended: bool,
    },
    /// A file that the user attaches was read: it joins the next message.
    Attached {
        /// The file, as the model gets it.
        part: Part,
        /// Its size.
        bytes: u64,
        /// The origin of its content.
        #[serde(default, skip_serializing_if = "Origin::is_trusted")]
        origin: Origin,
    },
    /// A file that the user wanted to attach does not join the next message.
    NotAttached {
        /// Why.
        reason: Arc<str>,
    },
    /// Another model answers from here on: the user has chosen it, or it stands in for one that is unavailable.
    ModelChosen {
        /// Which.
        model: ModelName,
        /// Most tokens of one request to it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_context_tokens: Option<u64>,
    },
    /// A model that the user has chosen, or that should have stood in, can't answer. The previous one stays.
    ModelNotChosen {
        /// Why.
        reason: Arc<str>,
    },
    /// A message of the harness that follows from nothing else recorded (a repair turn).
    MessageAdded {
        /// The message.
        message: Arc<Message>,
    },
    /// The budget for a request or for the calls of a turn was reserved in the ledger.
    Reserved(Reserved),
    /// The ledger has too little left for a request or for the calls of a turn: a limit was reached.
    NotReserved {
        /// Which limit, and the usage when it was reached.
        what: Arc<str>,
    },
    /// A request is about to be sent: for the next turn of a conversation, or for a summary (`summary.N.A`).
    ModelRequested {
        /// Turn, from 0. Of a summary, the number of its compaction.
        turn: u32,
        /// Attempt at this turn, from 0.
        attempt: u32,
        /// Last message sent; the others follow from it.
        head: MessageId,
        /// Chained hash of everything sent, which detects divergence at no cost per turn.
        digest: Arc<str>,
        /// Most tokens the answer may have, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u32>,
    },
    /// A request was answered.
    ModelAnswered {
        /// The answer as a message.
        message: Arc<Message>,
        /// Why it ended.
        finish: FinishReason,
        /// Its usage.
        #[serde(default)]
        usage: Usage,
        /// The provider's word for why it ended, if llm-do does not know it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_finish: Option<Arc<str>>,
        /// The tools that it calls and that were not offered, in order. The model hears that there are none such.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unoffered: Vec<Arc<str>>,
    },
    /// A request failed.
    ModelFailed {
        /// How.
        error: ModelError,
        /// The number of further attempts that the worker allows for each request. Journals of earlier versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries: Option<u32>,
    },
    /// The run waited (before a retry).
    Slept {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// A random number was drawn.
    Random {
        /// The number.
        value: u64,
    },
    /// A step's deadline expired before its end.
    TimedOut {
        /// The deadline, in milliseconds.
        after_ms: u64,
    },
    /// A step was interrupted because the run was cancelled.
    Cancelled,
    /// A limit was reached.
    Limit {
        /// Which limit, and the usage when it was reached.
        what: Arc<str>,
    },
    /// A note: the printed output of a tool, or a notice.
    Note {
        /// The text.
        text: Arc<str>,
    },
    /// Last record of a run.
    RunEnded {
        /// How.
        status: RunStatus,
        /// The output, or the failure.
        ending: Ending,
        /// Tokens of the whole run.
        #[serde(default)]
        usage: Usage,
    },
    /// Code that makes calls has reached its next call or its end within its time limit, or the functions of a worker
    /// that is code were made in time. A resume doesn't measure that time again.
    Worked,
    /// A conversation was compacted, or could not be. From here on the model is sent what this record says in place of what
    /// it names.
    Compacted(Compaction),
    /// The user has taken a message back. This is what the turns since then have done.
    Undone {
        /// The files that file tools have changed, if they are not as they were before.
        files: Vec<UndoneFile>,
        /// The functions that may have done something else, which can't be restored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Arc<str>>,
    },
    /// The files of undone turns were restored, as the user wanted.
    Restored {
        /// The files that could be restored before, and what became of each.
        files: Vec<UndoneFile>,
    },
    /// Something outside the program said which tools a worker's toolset has.
    ToolsListed {
        /// The kind of toolset.
        toolset: Arc<str>,
        /// The tools, and what the operator should know about them.
        listing: Arc<Listing>,
    },
    /// A toolset returned a text that a worker's instructions insert, or the reason why there is none. Both are in the words
    /// of others.
    TextInserted {
        /// The kind of toolset.
        toolset: Arc<str>,
        /// The name of the text for that kind.
        name: Arc<str>,
        /// The arguments that the template gives.
        #[serde(default, skip_serializing_if = "InsertArguments::is_empty")]
        arguments: InsertArguments,
        /// The text, or why there is none.
        ending: Ending,
    },
    /// The user has said something to a conversation that does not wait for it. It is delivered later, as an answer with the
    /// same words: `now.T` with the next request of the answer under way, else `message.N`.
    Queued(Queued),
}

/// Words that wait for a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Queued {
    /// The words.
    pub text: Arc<str>,
    /// Who says them, as in [`Given::by`].
    pub by: Arc<str>,
    /// Through which channel, as in [`Given::via`].
    pub via: Arc<str>,
    /// Whether they are for the answer under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

impl RecordKind {
    /// The record in the form of the version that wrote `recorded`: fields added since are left empty.
    pub fn as_of(&self, recorded: &Self) -> Cow<'_, Self> {
        let mut earlier = Cow::Borrowed(self);
        if let (Self::CallEnded { said, .. }, Self::CallEnded { said: recorded, .. }) = (self, recorded)
            && !said.is_empty()
            && recorded.is_empty()
            && let Self::CallEnded { said, .. } = earlier.to_mut()
        {
            *said = Box::default();
        }
        earlier
    }
}
