//! The questions to the operator, and the answers (`docs/reference/approvals.md`).
//!
//! Approvals, inputs and settlements are one exchange: a question, identified by call and step, and one answer.

mod acceptance;
mod facts;
mod form;

pub use acceptance::NotAccepted;
pub use facts::Fact;
pub use form::{Form, FormFields, NotFilled};

use crate::{
    attachment::Attachment,
    call_bounds::CallBounds,
    call_path::CallPath,
    model::ModelName,
    origin::Steering,
    outcome::Failure,
    risk::Risk,
    rule::{DecidedBy, Rule},
    schema::{Schema, sha256},
    step_name::StepName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// Default of [`Given::by`]: the person who runs the program.
pub const OPERATOR: &str = "operator";
/// [`Given::via`] of a remembered answer.
pub use crate::rule::MEMORY;
/// [`Given::via`] of a settlement that the state of the files decides.
pub const FILES: &str = "files";
/// [`Given::via`] of [`Answer::Stop`].
pub const STOPPED: &str = "stop";
/// [`Given::via`] in an unattended run that does not wait.
pub const UNATTENDED: &str = "unattended";
/// [`Given::via`] of the answer to a question that has expired.
pub const EXPIRED: &str = "expiry";

/// The person or program that started a run, and the channel. The calls of the run are made with this one's authority, whoever
/// approves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Requester {
    /// Who: `operator`, or a name that the host knows, for example that of a token.
    pub by: Arc<str>,
    /// The channel: `command line`, `library`, `http`, `stdio`, `mcp`, `acp`.
    pub via: Arc<str>,
}

impl Requester {
    /// A requester who is the person that runs the program, with the given channel.
    pub fn operator(via: &str) -> Self {
        Self { by: OPERATOR.into(), via: via.into() }
    }
}

/// `the operator (command line)`, or `ci (http)`.
impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if *self.by == *OPERATOR { "the operator" } else { &*self.by };
        write!(f, "{by} ({})", self.via)
    }
}

/// A question to the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum Question {
    /// May this call be made?
    Approval(Approval),
    /// A worker, or a server behind a tool, wants text or a form from the user.
    Input(Input),
    /// A tool was interrupted, and only the operator can know whether its effect took place.
    Settlement(Settlement),
}

impl Question {
    /// Returns true if the question ends when the user stops the answer that its call is part of. A conversation's wait
    /// for the user's next message does not end then, and neither does the settlement of an interrupted tool: only the
    /// user knows the effect of that tool.
    pub fn ends_with_answer(&self) -> bool {
        matches!(self, Self::Approval(_) | Self::Input(Input { conversation: None, .. }))
    }

    /// The expiry time, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        match self {
            Self::Approval(Approval { expires_ms, .. }) | Self::Input(Input { expires_ms, .. }) => {
                *expires_ms
            }
            Self::Settlement(_) => None,
        }
    }

    /// Returns true if the question has expired at `now_ms`, in milliseconds since 1970.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_ms().is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Sets the expiry of the question. Two questions never expire: a conversation's wait for the user's next message,
    /// and the settlement of an interrupted tool, without which the run can't continue.
    #[must_use]
    pub fn expiring(mut self, at_ms: u64) -> Self {
        match &mut self {
            Self::Approval(Approval { expires_ms, .. })
            | Self::Input(Input { expires_ms, conversation: None, .. }) => *expires_ms = Some(at_ms),
            Self::Input(_) | Self::Settlement(_) => {}
        }
        self
    }

    /// The answer to the question after its expiry: the call is denied, or the input declined. `None` if the question
    /// never expires.
    pub fn expired(&self) -> Option<Given> {
        let reason = Some("the question expired before it was answered".to_owned());
        let answer = match self {
            Self::Approval(_) => Answer::Deny { reason, remember: false },
            Self::Input(Input { conversation: None, .. }) => Answer::Decline { reason },
            Self::Input(_) | Self::Settlement(_) => return None,
        };
        Some(Given::operator(answer, EXPIRED))
    }
}

/// A call that needs the operator's approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Approval {
    /// The workers from the root down to the caller.
    pub chain: Vec<Arc<str>>,
    /// The function's name.
    pub function: Arc<str>,
    /// Its risk.
    pub risk: Risk,
    /// The arguments.
    pub input: Arc<Value>,
    /// The effect of the arguments, if the tool can preview it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Box<Preview>>,
    /// The calls that code in the arguments can make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Arc<CallBounds>>,
    /// The rule that asks.
    pub rule: DecidedBy,
    /// The words of others that could steer the call, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering: Option<Box<Steering>>,
    /// The rules that [`Answer::Allow`] may make, the narrowest first, as the command line takes them. Each lets this call run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Arc<str>>,
    /// When the question expires, in milliseconds since 1970: from then on the call is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The arguments that an edit may give. Only a question of a running call knows them.
    #[serde(skip)]
    pub arguments: Arguments,
}

/// The schema of the arguments of a call, for [`Question::accept`]. It is not part of the question, so all values
/// compare equal.
#[derive(Clone, Debug, Default)]
pub struct Arguments(pub Option<Arc<Schema>>);

impl PartialEq for Arguments {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The preview for the operator in addition to the arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "preview", rename_all = "snake_case")]
pub enum Preview {
    /// A file before and after; shown as a diff.
    Change {
        /// Virtual path.
        path: String,
        /// Content now; absent for a new file.
        before: Option<String>,
        /// Content after; absent if it is removed.
        after: Option<String>,
    },
}

/// Text or a form that a call wants from the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Input {
    /// The workers from the root down to the one that asks.
    pub chain: Vec<Arc<str>>,
    /// The question to the user.
    pub prompt: Arc<str>,
    /// JSON Schema of the answer; absent for free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Value>>,
    /// The changes to files that one of the answers makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Preview>,
    /// Set if a conversation waits for the user's next message. `prompt` is what the worker has said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Turn>,
    /// When the question expires, in milliseconds since 1970: from then on the input is declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A question of a tool to the user, in the middle of a call. Its words are those of others: of a server, for example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ToolQuestion {
    /// The question, which says who asks.
    pub prompt: Arc<str>,
    /// JSON Schema of the answer; absent for free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Value>>,
}

/// The place in a conversation at which it waits for the user's next message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The number of the message, which no other message of this conversation gets: an undone one keeps its number.
    pub number: u32,
    /// Whether the last answer was cut off: by the user, or at `max_tokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// Why there is no answer to the last message, or no compaction, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How much of the model's context the next request takes. Journals of earlier versions have no such count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUse>,
}

/// How much of a model's context a conversation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ContextUse {
    /// Tokens of the next request: the provider's count of the last one, and an estimate of what came since.
    pub tokens: u64,
    /// The most that it may have (`max_context_tokens`), if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A tool that had started and not ended when the run was interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Settlement {
    /// The workers from the root down to the caller.
    pub chain: Vec<Arc<str>>,
    /// The function's name.
    pub function: Arc<str>,
    /// Its risk.
    pub risk: Risk,
    /// The arguments.
    pub input: Arc<Value>,
}

/// A source that can answer a question in the operator's place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// No source: the operator must answer.
    #[default]
    Nothing,
    /// An answer that follows from the state of the files.
    Answer(Given),
    /// An answer that was remembered under one of these keys when the question reaches the head of the operator's queue. An
    /// answer that asks to be remembered is kept under one of them.
    Remembered(MemoryKeys),
}

/// The keys under which an answer to an approval may be remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryKeys {
    /// The key of the same call.
    pub call: Arc<str>,
    /// The keys of the rules that let the call run, by the calls to which each rule applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Arc<str>, Arc<str>>,
}

impl MemoryKeys {
    /// All keys, first the one of the same call.
    pub fn all(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.call).chain(self.rules.values())
    }

    /// The key under which `answer` is remembered, if it asks to be remembered.
    pub fn of(&self, answer: &Answer) -> Option<&Arc<str>> {
        match answer {
            Answer::Approve { remember: true } | Answer::Deny { remember: true, .. } => Some(&self.call),
            Answer::Allow { calls } => self.rules.get(calls),
            _ => None,
        }
    }
}

impl From<&str> for MemoryKeys {
    fn from(call: &str) -> Self {
        Self { call: call.into(), rules: BTreeMap::new() }
    }
}

/// The identity of a question: the call it belongs to, and the step within the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct QuestionId {
    /// The call.
    pub call: CallPath,
    /// The step within the call.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub step: StepName,
}

impl QuestionId {
    /// The question of that call at that step.
    pub fn new(call: &CallPath, step: &StepName) -> Self {
        Self { call: call.clone(), step: step.clone() }
    }
}

/// `CALL:STEP`, for example `0/2.0:ask`.
impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.call, self.step)
    }
}

/// A text that is not `CALL:STEP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a question is named CALL:STEP, for example 0/2.0:ask")]
pub struct BadQuestionId;

impl FromStr for QuestionId {
    type Err = BadQuestionId;

    fn from_str(text: &str) -> Result<Self, BadQuestionId> {
        let (call, step) = text.rsplit_once(':').ok_or(BadQuestionId)?;
        if call.is_empty() || step.is_empty() {
            return Err(BadQuestionId);
        }
        Ok(Self { call: CallPath::typed(call), step: step.into() })
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Which question.
    #[serde(flatten)]
    pub id: QuestionId,
    /// What is asked.
    #[serde(flatten)]
    pub question: Question,
}

impl Waiting {
    /// The first sixteen hexadecimal digits of the SHA-256 hash of the question, as JSON. An answer that names this
    /// digest belongs to the question as its author saw it.
    pub fn digest(&self) -> String {
        // Questions are data that serialises.
        let text = serde_json::to_vec(self).unwrap_or_default();
        sha256(&text).chars().take(16).collect()
    }
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To an approval: make the call; `remember`: also the same call later in this session.
    Approve {
        /// Whether to remember.
        #[serde(default)]
        remember: bool,
    },
    /// To an approval: make the call, and later in this session also the calls to which this rule applies.
    Allow {
        /// One of the [`Approval::rules`].
        calls: Arc<str>,
    },
    /// To an approval: refuse the call; the model receives the reason.
    Deny {
        /// Why, in the operator's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether to remember.
        #[serde(default)]
        remember: bool,
    },
    /// To an approval: make the call with these arguments. They pass every step again except the question.
    Edit {
        /// The new arguments.
        input: Arc<Value>,
    },
    /// To a conversation: this file joins the user's next message.
    Attach {
        /// Its path, as the conversation's caller knows it; with a content, its name for people.
        file: Arc<str>,
        /// Its content, if it comes with the answer and is not read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Arc<Attachment>>,
    },
    /// To a conversation: what joined the next message with that number does not join it any more.
    Detach {
        /// The number of the [`Answer::Attach`] or [`Answer::Keep`].
        message: u32,
    },
    /// To an input: the user's text, or the form in the shape of its schema.
    Give {
        /// The text as a string, or the form.
        value: Arc<Value>,
    },
    /// To an input: the user declines.
    Decline {
        /// Why, in the operator's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// To an approval or an input: the user stopped the answer that the call is part of. It decides nothing about the call,
    /// which is not made.
    Stop,
    /// To a conversation: it is over. A worker that has a caller gives its result.
    End,
    /// To a conversation: the result of a call that the user has made joins the next message.
    Keep {
        /// The number of the [`Answer::Run`].
        message: u32,
    },
    /// To a conversation: another model answers from the next message on.
    Model {
        /// Which.
        model: ModelName,
    },
    /// To a conversation: this rule holds from here on, for the calls of the conversation and those below it.
    Rule {
        /// What it says.
        rule: Rule,
        /// The calls that it applies to, as the command line takes them.
        calls: Arc<str>,
    },
    /// To a conversation: what the user said to an earlier question holds no more: a remembered approval or denial, or an
    /// [`Answer::Rule`] of this conversation.
    Forget {
        /// The question.
        of: QuestionId,
    },
    /// To a conversation: the user calls a worker of the program. The result is shown to the user, and the model does not
    /// see it.
    Run {
        /// Its name.
        worker: Arc<str>,
        /// Its input, by parameter.
        input: Arc<Value>,
    },
    /// To a conversation: go back to before the user's message of that number. It and all that follows are no longer part
    /// of what the model is sent. The first message is number 0.
    Undo {
        /// The number of the message.
        message: u32,
    },
    /// To a conversation: compact it. Older turns are summarised.
    Compact {
        /// What the summary must keep, in the user's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Arc<str>>,
    },
    /// To a conversation: take the last compaction back. The model is sent again what it replaced.
    UndoCompaction,
    /// To a settlement: run the tool again.
    Again,
    /// To a settlement: the tool counts as done, with this result.
    Done {
        /// The result.
        result: Arc<Value>,
    },
    /// To a settlement: end the run.
    Abort,
}

impl Answer {
    /// Returns true if the answer fits the kind of the question.
    pub fn fits(&self, question: &Question) -> bool {
        match self {
            Self::Approve { .. } | Self::Deny { .. } | Self::Edit { .. } => {
                matches!(question, Question::Approval(_))
            }
            Self::Allow { calls } => {
                matches!(question, Question::Approval(approval) if approval.rules.contains(calls))
            }
            Self::Give { .. } | Self::Decline { .. } => matches!(question, Question::Input(_)),
            Self::Stop => question.ends_with_answer(),
            Self::Attach { .. }
            | Self::Compact { .. }
            | Self::Detach { .. }
            | Self::End
            | Self::Forget { .. }
            | Self::Keep { .. }
            | Self::Model { .. }
            | Self::Rule { .. }
            | Self::Run { .. }
            | Self::Undo { .. }
            | Self::UndoCompaction => {
                matches!(question, Question::Input(Input { conversation: Some(_), .. }))
            }
            Self::Again | Self::Done { .. } | Self::Abort => matches!(question, Question::Settlement(_)),
        }
    }
}

/// An answer, with the person or program that gave it and the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Given {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Who gave it: `operator`, or a name that the host knows.
    pub by: Arc<str>,
    /// The channel: `terminal`, `command line`, `operator protocol`, `memory`.
    pub via: Arc<str>,
    /// Who started the run that asked. The driver adds this and the following fields when it records the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// The digest of the question as it was shown ([`Waiting::digest`]); absent if it was not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
    /// When the question would have expired, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

impl Given {
    /// An answer that this person or program gave through that channel.
    pub fn new(answer: Answer, by: Arc<str>, via: impl Into<Arc<str>>) -> Self {
        Self { answer, by, via: via.into(), requester: None, digest: None, expires_ms: None }
    }

    /// An answer of the person who runs the program, through that channel.
    pub fn operator(answer: Answer, via: &str) -> Self {
        Self::new(answer, OPERATOR.into(), via)
    }

    /// The answer in the form that is recorded: with the requester of the run, and with the question as it was shown to
    /// the author of the answer.
    #[must_use]
    pub fn recorded(self, requester: Option<&Requester>, id: QuestionId, asked: Option<&Question>) -> Self {
        let shown = asked.filter(|_| ![MEMORY, FILES, UNATTENDED, EXPIRED, STOPPED].contains(&&*self.via));
        Self {
            requester: requester.cloned(),
            digest: shown.map(|question| Waiting { id, question: question.clone() }.digest().into()),
            expires_ms: asked.and_then(Question::expires_ms),
            ..self
        }
    }

    /// Returns true if the answer was remembered.
    pub fn is_remembered(&self) -> bool {
        *self.via == *MEMORY
    }
}

/// An operator's reply to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// An answer.
    Given(Given),
    /// No answer now: the run is suspended. Never recorded.
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval() -> Question {
        Question::Approval(Approval {
            chain: vec!["main".into()],
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::new(serde_json::json!({"to": "ada"})),
            preview: None,
            rule: DecidedBy::Default(Risk::Network),
            calls: None,
            steering: None,
            rules: Vec::new(),
            expires_ms: None,
            arguments: Default::default(),
        })
    }

    #[test]
    fn an_answer_names_the_requester_and_what_was_shown() {
        let id = QuestionId::new(&CallPath::root(), &StepName::Ask(0));
        let asked = approval().expiring(7);
        let digest = Waiting { id: id.clone(), question: asked.clone() }.digest();
        assert_ne!(
            digest,
            Waiting { id: id.clone(), question: approval() }.digest(),
            "the expiry is shown too"
        );
        let requester = Requester { by: "ci".into(), via: "http".into() };
        let approve = Answer::Approve { remember: false };
        let given = Given::new(approve.clone(), "ada".into(), "http");
        let given = given.recorded(Some(&requester), id.clone(), Some(&asked));
        assert_eq!((&*given.by, &given.requester), ("ada", &Some(requester.clone())));
        assert_eq!((given.digest.as_deref(), given.expires_ms), (Some(&*digest), Some(7)));
        // A remembered answer was shown nothing now.
        let remembered = Given::operator(approve, MEMORY).recorded(Some(&requester), id, Some(&asked));
        assert_eq!((remembered.digest, remembered.requester), (None, Some(requester)));
    }

    #[test]
    fn approvals_and_forms_expire_and_messages_and_settlements_wait() {
        let asked = approval().expiring(10);
        assert!(!asked.has_expired(9) && asked.has_expired(10));
        assert!(asked.expired().is_some_and(|given| matches!(given.answer, Answer::Deny { .. })));
        assert!(!approval().has_expired(u64::MAX), "no expiry was set");
        let input = |conversation: Option<Turn>| {
            let (chain, changes) = (Vec::new(), Vec::new());
            let input =
                Input { chain, prompt: "?".into(), schema: None, changes, conversation, expires_ms: None };
            Question::Input(input).expiring(10)
        };
        let form = input(None);
        assert!(form.has_expired(10));
        assert!(form.expired().is_some_and(|given| matches!(given.answer, Answer::Decline { .. })));
        let turn = Turn { number: 1, cut_off: false, failure: None, context: None };
        let settlement = Question::Settlement(Settlement {
            chain: Vec::new(),
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::default(),
        });
        for waits in [input(Some(turn)), settlement.expiring(10)] {
            assert!(!waits.has_expired(u64::MAX) && waits.expired().is_none(), "{waits:?}");
        }
    }

    #[test]
    fn a_question_is_named_by_call_and_step() {
        let id = QuestionId::new(&CallPath::root().call(2, 0), &StepName::Ask(0));
        assert_eq!(id.to_string(), "0/2.0:ask");
        assert_eq!("0/2.0:ask".parse(), Ok(id));
        for wrong in ["", "0/2.0", ":ask", "0:"] {
            assert_eq!(wrong.parse::<QuestionId>(), Err(BadQuestionId), "{wrong}");
        }
    }
}
