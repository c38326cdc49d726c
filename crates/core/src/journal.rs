//! Records: the truth about a run (SPEC §12). `docs/journal.md` documents the format; fields are only ever added.

mod fold;

pub(crate) use fold::timed_out;
pub use fold::{FoldError, conversation_at};

use crate::{
    authority::Place,
    call_path::CallPath,
    conversation::Ensures,
    engine::{Failure, Principal},
    function::{Foreseen, FunctionSource, Risk},
    gate::{Mode, Rule},
    ledger::Reserved,
    model::{Blob, FinishReason, Message, MessageId, ModelError, ModelName, Sees, ToolSpec, Usage},
    operator::{Answer, Ask},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Version of the format, in the first record.
pub const FORMAT: u32 = 1;

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
    /// Name of the step within the call; with `path` the key of what happened. Intent and outcome share it.
    pub step: String,
    /// What happened.
    #[serde(flatten)]
    pub body: RecordKind,
}

/// What runs the code of tools.
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
}

/// How a tool or call ended, as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this value.
    Output(Arc<Value>),
    /// With a failure that the caller is told.
    Failure(Failure),
    /// It waits for approvals further down.
    Suspended,
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
        /// Approval mode in effect.
        approval: Mode,
        /// `run.date` of templates, `YYYY-MM-DD`, in UTC.
        date: Arc<str>,
        /// Every worker of the closure.
        definitions: Vec<UsedDefinition>,
        /// What runs the code of its tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runtimes: Vec<Runtime>,
        /// How the run was started, in the words of the host that started it: what it needs to resume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invocation: Option<Arc<Value>>,
    },
    /// The run goes on after it was suspended or cut off. What stands before is not done again.
    RunResumed {
        /// Version of llm-do.
        version: Arc<str>,
        /// How long nothing happened, in milliseconds. It counts for no deadline.
        idle_ms: u64,
    },
    /// A definition that was loaded later, for a callee that only a wildcard named.
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
    },
    /// Links lead elsewhere than the paths of a call say: rules are matched on these places.
    LinksFollowed {
        /// The real place of each path that the call touches, in order.
        places: Vec<Place>,
    },
    /// What the code of a tool's author says of a call (`@tool(approval=…)`); one source of the verdict among others.
    RuleStated {
        /// What it says; `ask` where it failed.
        rule: Rule,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// The gate's word on a call.
    Verdict {
        /// What was decided: `preApproved` runs, `blocked` is refused.
        rule: Rule,
        /// The rule, remembered answer, mode or operator that decided.
        by: Arc<str>,
        /// Reason given to the caller when refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// The operator is asked.
    Asked(Ask),
    /// The operator has answered.
    Answered(Answer),
    /// A question was not put to the operator: when its turn came, an earlier answer that was to be remembered covered
    /// it.
    Recalled(Answer),
    /// A leaf is about to run: written before its first effect.
    ToolStarted {
        /// Name.
        function: Arc<str>,
        /// Risk: decides what a resume does with it.
        risk: Risk,
        /// The same for each attempt.
        idempotency_key: Arc<str>,
        /// What it will have changed, where that is known before: so that a resume can tell whether it was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreseen: Option<Foreseen>,
    },
    /// A leaf has ended.
    ToolEnded {
        /// How.
        ending: Ending,
        /// Images and files that it returned beside its value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<Blob>,
        /// What its code printed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<Arc<str>>,
    },
    /// The operator has decided what becomes of a leaf that had begun and not ended when the run was cut off.
    Settled {
        /// Run it again; otherwise it counts as done, with the result that follows.
        again: bool,
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
    },
    /// A worker's conversation has begun. With the later records of its path it holds all a model was sent.
    ConversationStarted {
        /// Worker ID.
        worker: Arc<str>,
        /// The model.
        model: ModelName,
        /// The rendered instructions.
        system: Arc<str>,
        /// The tools offered, fixed from here on.
        tools: Arc<[ToolSpec]>,
        /// Schema the answer must satisfy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<Value>>,
        /// Whether `output` is asked for through the final-result tool.
        #[serde(default)]
        final_tool: bool,
        /// What must hold of the answer beyond its schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ensures: Option<Ensures>,
        /// Whether long results can be read on.
        #[serde(default)]
        can_read_on: bool,
        /// Files that the model reads.
        #[serde(default, skip_serializing_if = "Sees::is_blind")]
        sees: Sees,
        /// The first message.
        message: Arc<Message>,
    },
    /// A message of the harness that follows from nothing else recorded (a repair turn).
    MessageAdded {
        /// The message.
        message: Arc<Message>,
    },
    /// What a request or the calls of a turn may use was set aside in the ledger.
    Reserved(Reserved),
    /// The ledger has too little left for a request or for the calls of a turn: a limit was reached.
    NotReserved {
        /// Which, and how far it got.
        what: Arc<str>,
    },
    /// A request is about to be sent.
    ModelRequested {
        /// Turn, from 0.
        turn: u32,
        /// Attempt at this turn, from 0.
        attempt: u32,
        /// Last message sent; the others follow from it.
        head: MessageId,
        /// Chained hash of everything sent, to notice divergence at no cost per turn.
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
        /// What it used.
        #[serde(default)]
        usage: Usage,
    },
    /// A request failed.
    ModelFailed {
        /// How.
        error: ModelError,
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
    /// A step's deadline came before its end.
    TimedOut {
        /// The deadline, in milliseconds.
        after_ms: u64,
    },
    /// A step was cut off because the run was cancelled.
    Cancelled,
    /// A limit was reached.
    Limit {
        /// Which, and how far it got.
        what: Arc<str>,
    },
    /// Something worth knowing: what a tool printed, a notice.
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
}
