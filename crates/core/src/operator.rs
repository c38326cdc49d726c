//! What an operator is asked, and answers (SPEC §9.4).

use crate::{
    call_path::CallPath,
    function::{Preview, Risk},
    send::{BoxFuture, MaybeSend, MaybeSync},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// A call that needs the operator's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ask {
    /// The call. Its place identifies the question: answering twice is harmless.
    pub call: CallPath,
    /// Who calls, from the root worker down to the caller.
    pub chain: Vec<Arc<str>>,
    /// The function's name.
    pub function: Arc<str>,
    /// Its risk.
    pub risk: Risk,
    /// The arguments.
    pub input: Arc<Value>,
    /// What the arguments would do, where the tool can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The rule that asks.
    pub rule: String,
}

/// The operator's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Go ahead; `remember`: also for the same call later in this session.
    Approve {
        /// Whether to remember.
        #[serde(default)]
        remember: bool,
    },
    /// Don't; the model is told the reason.
    Deny {
        /// Why, in the operator's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether to remember.
        #[serde(default)]
        remember: bool,
    },
    /// Go ahead with these arguments; they pass every step again except the asking.
    Edit {
        /// The new arguments.
        input: Arc<Value>,
    },
    /// Nobody can answer now: the run is suspended (mode `defer`). No answer, and so never recorded.
    Later,
}

/// What a run remembers (SPEC §9.4): whoever queues questions looks here when a question's turn has come, since the
/// answer to an earlier one may cover it by then.
pub trait Recall: MaybeSend + MaybeSync {
    /// The remembered answer to this question, if there is one now.
    fn recall(&self) -> Option<Answer>;
}

/// Nothing is remembered.
impl Recall for () {
    fn recall(&self) -> Option<Answer> {
        None
    }
}

/// How a question came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Whether it is a remembered one: nobody was asked.
    pub recalled: bool,
    /// How long it took from the recorded question to the recorded answer.
    pub waited: Duration,
}

/// Nobody answers now.
pub struct Later;

impl Operator for Later {
    fn answer<'a>(&'a self, _ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Later })
    }
    fn takes_several(&self) -> bool {
        true
    }
}

/// Somebody, or some program, who answers.
pub trait Operator: MaybeSend + MaybeSync {
    /// Answers one question. Called for one at a time, in order of arrival, unless it takes several at once. Dropped when
    /// nobody waits for the answer any more.
    fn answer<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer>;
    /// Whether it tells questions apart by their calls, and so may be asked several at once. People are not.
    fn takes_several(&self) -> bool {
        false
    }
}
