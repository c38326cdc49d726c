//! The tree of a run's calls.

use crate::{
    journal::Journal,
    run_state::{OpenRun, RunState},
    view::{CallView, RunView},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{Failure, Principal},
    function::FunctionSource,
    gate::{DecidedBy, Rule},
    journal::{Ending, RunStatus},
    model::{ModelName, Usage},
    origin::Origins,
    question::Requester,
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// A run and its calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTree {
    /// ID of the run.
    pub run: Arc<str>,
    /// The state of the run.
    pub state: RunState,
    /// The target, as typed.
    pub target: Arc<str>,
    /// The entry worker.
    pub entry: Arc<str>,
    /// The person or program that started the run, and the channel. Journals of earlier versions do not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// The time at which the run began, in milliseconds since 1970.
    pub started_ms: u64,
    /// The time from the first to the last record, in milliseconds.
    pub took_ms: u64,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// True if the last line of the journal is incomplete.
    pub torn: bool,
    /// The output of a run that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// The reason for which a run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The top-level call, and calls whose caller is not recorded.
    pub calls: Vec<CallNode>,
    /// The kind of answer that a suspended run waits for.
    #[serde(skip)]
    pub waits_for: Option<WaitsFor>,
}

/// The kind of answer that a suspended run waits for. Of several questions, the last of these kinds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsFor {
    /// The user's next message in a conversation.
    Message,
    /// The user's answer to a worker or a server.
    Answer,
    /// An approval.
    Approval,
    /// The outcome of a tool that was cut off.
    Settlement,
}

/// A call, as a node of the tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallNode {
    /// The place of the call.
    pub path: CallPath,
    /// The function that is called.
    pub function: Arc<str>,
    /// The source of the function.
    pub source: FunctionSource,
    /// The caller on whose behalf the call was made.
    pub principal: Principal,
    /// The arguments.
    pub input: Arc<Value>,
    /// The origins of the arguments.
    #[serde(skip_serializing_if = "Origins::is_trusted")]
    pub origins: Origins,
    /// The state of the call.
    pub state: CallState,
    /// The origins of its output or failure.
    #[serde(skip_serializing_if = "Origins::is_trusted")]
    pub output_origins: Origins,
    /// The time at which the call began, in milliseconds since 1970.
    pub started_ms: u64,
    /// The time that the call has run, in milliseconds, without the time it waited for the operator.
    pub took_ms: u64,
    /// The time that the call waited for the operator, in milliseconds.
    pub waited_ms: u64,
    /// The gate's last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
    /// True if the call is a leaf: one step of code that makes no calls.
    pub leaf: bool,
    /// The model that answers, if it is a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// Requests sent to the model, retries included.
    pub requests: u32,
    /// Requests that failed.
    pub failed_requests: u32,
    /// Tokens of the call and all calls below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The reason for which the call failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The tools that its model called and that were not offered, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unoffered: Vec<Arc<str>>,
    /// Notes of the engine and of code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Arc<str>>,
    /// The calls it made, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallNode>,
}

impl CallNode {
    /// Returns the time at which the call ended, or the run's last moment so far, in milliseconds since 1970.
    pub fn ended_ms(&self) -> u64 {
        self.started_ms.saturating_add(self.took_ms).saturating_add(self.waited_ms)
    }
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The call has not ended, or the run was cut off during it.
    Open,
    /// The call ended with an output.
    Done,
    /// The call ended with a failure.
    Failed,
    /// The call was refused, by rule, authority or operator.
    Refused,
    /// The call exceeded its time limit.
    TimedOut,
    /// The call waits for an approval, its own or one of a call below it.
    Suspended,
    /// The run was cancelled during it.
    Cancelled,
}

/// A decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The decision: `preApproved` (the call ran), `blocked` (it was refused) or `ask` (the question is open).
    pub rule: Rule,
    /// The rule, mode or operator that decided.
    pub by: DecidedBy,
    /// The reason given for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Calls below this depth become roots of their own: a manipulated journal must not exhaust the stack.
const DEEPEST: usize = 256;

impl RunTree {
    /// Makes the tree of the calls in these records. `running`: a process is writing the journal.
    pub fn of(run: &str, journal: &Journal, running: bool) -> Self {
        Self { torn: journal.torn, ..RunView::of(&journal.records).tree(run, running) }
    }

    /// Returns the state in a few words for people, with the kind of answer that a suspended run waits for.
    pub fn state_in_words(&self) -> &'static str {
        match self.waits_for {
            None => self.state.as_str(),
            Some(WaitsFor::Message) => "waiting for your next message",
            Some(WaitsFor::Answer) => "waiting for your answer",
            Some(WaitsFor::Approval) => "waiting for approval",
            Some(WaitsFor::Settlement) => "waiting for a decision about a call that was cut off",
        }
    }
}

impl RunView {
    /// Returns the run as a tree of calls. `running`: a process is writing the journal.
    pub fn tree(&self, run: &str, running: bool) -> RunTree {
        let open = RunState::Open(if running { OpenRun::Running } else { OpenRun::CutOff });
        let (target, entry, requester) = match self.start() {
            Some(start) => (Arc::clone(&start.target), Arc::clone(&start.entry), start.requester.clone()),
            None => ("".into(), "".into(), None),
        };
        let end = self.end_of_run();
        let (output, failure) = match end.map(|end| &end.ending) {
            Some(Ending::Output(value)) => (Some(Arc::clone(value)), None),
            Some(Ending::Failure(failure)) => (None, Some(failure.clone())),
            Some(Ending::Suspended) | None => (None, None),
        };
        let is_suspended = end.is_some_and(|end| end.status == RunStatus::Suspended);
        RunTree {
            run: run.into(),
            state: end.map_or(open, |end| RunState::Ended(end.status)),
            target,
            entry,
            requester,
            started_ms: self.started_ms(),
            // In a manipulated journal, times may decrease.
            took_ms: self.last_ms().saturating_sub(self.started_ms()),
            usage: self.usage(),
            torn: false,
            output,
            failure,
            calls: self.nodes(),
            waits_for: self.questions().map(|(_, kind)| kind).max().filter(|_| is_suspended),
        }
    }

    fn nodes(&self) -> Vec<CallNode> {
        let mut calls: Vec<&CallView> = self.calls().collect();
        calls.sort_unstable_by_key(|call| call.number);
        let mut roots = Vec::new();
        let mut finished: HashMap<&CallPath, Vec<CallNode>> = HashMap::new();
        // From the last to the first: a call's children begin after it.
        for call in calls.into_iter().rev() {
            let mut below = finished.remove(&call.path).unwrap_or_default();
            below.reverse();
            let node = call.node(self.last_ms(), below);
            match call.parent.as_ref().filter(|_| call.path.depth() <= DEEPEST) {
                Some(parent) => finished.entry(parent).or_default().push(node),
                None => roots.push(node),
            }
        }
        roots.reverse();
        roots
    }
}

impl CallView {
    /// Makes the node of the call in a tree, with the calls that it made. `last_ms`: the time of the newest record.
    fn node(&self, last_ms: u64, calls: Vec<CallNode>) -> CallNode {
        let waiting = self.asked_ms.map_or(0, |asked| last_ms.saturating_sub(asked));
        let waited_ms = self.waited_ms.saturating_add(waiting);
        let ended_ms = self.ended_ms.unwrap_or(last_ms);
        CallNode {
            path: self.path.clone(),
            function: Arc::clone(&self.function),
            source: self.source.clone(),
            principal: self.principal.clone(),
            input: Arc::clone(self.given.as_ref().unwrap_or(&self.input)),
            origins: self.origins.clone(),
            state: self.state,
            output_origins: self.output_origins.clone(),
            started_ms: self.started_ms,
            took_ms: ended_ms.saturating_sub(self.started_ms).saturating_sub(waited_ms),
            waited_ms,
            verdict: self.verdict.clone(),
            leaf: self.leaf,
            model: self.model.clone(),
            requests: self.requests,
            failed_requests: self.failed_requests,
            usage: self.usage,
            failure: self.failure.clone(),
            unoffered: self.unoffered.clone(),
            notes: self.notes.clone(),
            calls,
        }
    }
}
