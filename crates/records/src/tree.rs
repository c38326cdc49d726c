//! The tree of a run's calls.

use crate::{
    journal::Journal,
    run_state::{Open, RunState},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{Failure, FailureKind, Principal},
    function::FunctionSource,
    gate::{DecidedBy, Rule},
    journal::{Ending, Record, RecordKind, RunStatus},
    launch::unknown_finish_note,
    model::{ModelName, Usage},
    origin::Origins,
    question::{Input, Question, Requester},
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// A run and its calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTree {
    /// ID of the run.
    pub run: Arc<str>,
    /// Its state.
    pub state: RunState,
    /// What was run, as typed.
    pub target: Arc<str>,
    /// The entry worker.
    pub entry: Arc<str>,
    /// Who started it, and through which channel. Journals of earlier versions do not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// From its first to its last record, in milliseconds.
    pub took_ms: u64,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// Whether the journal ends in half a line.
    pub torn: bool,
    /// The output of a run that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// Why a run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The top-level call, and calls whose caller is not recorded.
    pub calls: Vec<CallNode>,
    /// What a suspended run waits for.
    #[serde(skip)]
    pub waits_for: Option<WaitsFor>,
}

/// What a suspended run waits for. Of several questions, the last of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsFor {
    /// The user's next message in a conversation.
    Message,
    /// The user's answer to a worker or a server.
    Answer,
    /// An approval.
    Approval,
    /// What became of a tool that was cut off.
    Settlement,
}

impl WaitsFor {
    fn of(question: &Question) -> Self {
        match question {
            Question::Approval(_) => Self::Approval,
            Question::Input(Input { conversation: Some(_), .. }) => Self::Message,
            Question::Input(_) => Self::Answer,
            Question::Settlement(_) => Self::Settlement,
        }
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallNode {
    /// Its place.
    pub path: CallPath,
    /// Its function.
    pub function: Arc<str>,
    /// Where the function comes from.
    pub source: FunctionSource,
    /// On whose behalf it was made.
    pub principal: Principal,
    /// The arguments.
    pub input: Arc<Value>,
    /// The origins of the arguments.
    #[serde(skip_serializing_if = "Origins::is_trusted")]
    pub origins: Origins,
    /// How it ended, if it did.
    pub state: CallState,
    /// The origins of its output or failure.
    #[serde(skip_serializing_if = "Origins::is_trusted")]
    pub output_origins: Origins,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it has run, in milliseconds, without the time it waited for the operator.
    pub took_ms: u64,
    /// How long it waited for the operator, in milliseconds.
    pub waited_ms: u64,
    /// The gate's last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
    /// Whether it is a leaf: one step of code that makes no calls.
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
    /// Why it failed or was refused.
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
    /// When it ended, or the run's last moment so far, in milliseconds since 1970.
    pub fn ended_ms(&self) -> u64 {
        self.started_ms.saturating_add(self.took_ms).saturating_add(self.waited_ms)
    }
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It has not ended, or the run was cut off during it.
    Open,
    /// It ended with an output.
    Done,
    /// It ended with a failure.
    Failed,
    /// It was refused, by rule, authority or operator.
    Refused,
    /// It exceeded its time limit.
    TimedOut,
    /// It waits for an approval, its own or one of a call below it.
    Suspended,
    /// The run was cancelled during it.
    Cancelled,
}

/// A decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// `preApproved`: it ran; `blocked`: it was refused; `ask`: the question is open.
    pub rule: Rule,
    /// The rule, mode or operator that decided.
    pub by: DecidedBy,
    /// Reason given when refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Calls below this depth become roots of their own: a manipulated journal must not exhaust the stack.
const DEEPEST: usize = 256;

impl RunTree {
    /// The tree of the calls in these records. `running`: a process is writing the journal.
    pub fn of(run: &str, journal: &Journal, running: bool) -> Self {
        let open = RunState::Open(if running { Open::Running } else { Open::CutOff });
        let records = &journal.records;
        let started_ms = records.first().map_or(0, |record| record.at_ms);
        let last_ms = records.last().map_or(0, |record| record.at_ms);
        let mut tree = Self {
            run: run.into(),
            state: open,
            target: "".into(),
            entry: "".into(),
            requester: None,
            started_ms,
            // In a manipulated journal, times may decrease.
            took_ms: last_ms.saturating_sub(started_ms),
            usage: Usage::default(),
            torn: journal.torn,
            output: None,
            failure: None,
            calls: Vec::new(),
            waits_for: None,
        };
        let mut building = Building::default();
        let mut asked = HashMap::new();
        for record in records {
            let place = || (&record.path, &record.step);
            match &record.body {
                RecordKind::Asked(question) => _ = asked.insert(place(), WaitsFor::of(question)),
                RecordKind::Answered(_) => _ = asked.remove(&place()),
                _ => {}
            }
            match &record.body {
                RecordKind::RunStarted { target, entry, requester, .. } => {
                    (tree.target, tree.entry) = (Arc::clone(target), Arc::clone(entry));
                    tree.requester.clone_from(requester);
                }
                RecordKind::RunEnded { status, ending, .. } => {
                    tree.state = RunState::Ended(*status);
                    // A resumed run has ended before.
                    (tree.output, tree.failure) = (None, None);
                    match ending {
                        Ending::Output(value) => tree.output = Some(Arc::clone(value)),
                        Ending::Failure(failure) => tree.failure = Some(failure.clone()),
                        Ending::Suspended => {}
                    }
                }
                _ => building.take(record),
            }
            if let RecordKind::ModelAnswered { usage, .. } = &record.body {
                tree.usage = tree.usage.plus(*usage);
            }
        }
        tree.calls = building.finish(last_ms);
        if tree.state == RunState::Ended(RunStatus::Suspended) {
            tree.waits_for = asked.into_values().max();
        }
        tree
    }

    /// The state in a few words for people, with what a suspended run waits for.
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

/// Calls in the order they began, with the state that building the tree needs.
#[derive(Default)]
struct Building {
    calls: Vec<(CallNode, Times)>,
    places: HashMap<CallPath, usize>,
}

#[derive(Default)]
struct Times {
    /// When the operator was asked about it, while the question is open.
    asked_ms: Option<u64>,
    ended_ms: Option<u64>,
}

impl Building {
    fn take(&mut self, record: &Record) {
        let at_ms = record.at_ms;
        if let RecordKind::CallStarted { function, source, principal, input, origins } = &record.body {
            let node = CallNode {
                path: record.path.clone(),
                function: Arc::clone(function),
                source: source.clone(),
                principal: principal.clone(),
                input: Arc::clone(input),
                origins: origins.clone(),
                state: CallState::Open,
                output_origins: Origins::TRUSTED,
                started_ms: at_ms,
                took_ms: 0,
                waited_ms: 0,
                verdict: None,
                leaf: false,
                model: None,
                requests: 0,
                failed_requests: 0,
                usage: None,
                failure: None,
                unoffered: Vec::new(),
                notes: Vec::new(),
                calls: Vec::new(),
            };
            self.places.insert(record.path.clone(), self.calls.len());
            self.calls.push((node, Times::default()));
            return;
        }
        let Some((node, times)) = self.places.get(&record.path).map(|&place| &mut self.calls[place]) else {
            return;
        };
        let mut end = |node: &mut CallNode, state| {
            node.state = state;
            times.ended_ms = Some(at_ms);
        };
        if let RecordKind::ModelAnswered { unoffered, unknown_finish, .. } = &record.body {
            node.unoffered.extend(unoffered.iter().cloned());
            node.notes.extend(unknown_finish.as_deref().map(unknown_finish_note));
        }
        match &record.body {
            RecordKind::Verdict { rule, by, reason } => {
                node.verdict = Some(Decision { rule: *rule, by: by.clone(), reason: reason.clone() });
            }
            RecordKind::Asked(question) => {
                if let Question::Approval(approval) = question {
                    let by = approval.rule.clone();
                    node.verdict = Some(Decision { rule: Rule::Ask, by, reason: None });
                }
                times.asked_ms = Some(at_ms);
            }
            RecordKind::Answered(_) => {
                // A call that was edited may fail before the gate decides again.
                node.verdict.take_if(|verdict| verdict.rule == Rule::Ask);
                node.waited_ms += times.asked_ms.take().map_or(0, |asked| at_ms.saturating_sub(asked));
            }
            RecordKind::ToolStarted { .. } => {
                node.leaf = true;
                // A further attempt after a failure.
                (node.state, node.failure, times.ended_ms) = (CallState::Open, None, None);
            }
            RecordKind::ToolEnded { ending, origins, .. } | RecordKind::CallEnded { ending, origins, .. } => {
                node.output_origins = origins.clone();
                let state = match ending {
                    Ending::Output(_) => CallState::Done,
                    Ending::Suspended => CallState::Suspended,
                    Ending::Failure(failure) => {
                        node.failure = Some(failure.clone());
                        state_of(failure.kind)
                    }
                };
                end(node, state);
                if let (RecordKind::CallEnded { usage, .. }, true) = (&record.body, node.model.is_some()) {
                    node.usage = Some(*usage);
                }
            }
            // The timeout of a model request does not end the call: the engine decides how to proceed.
            RecordKind::TimedOut { .. } if record.step.is_tool() => end(node, CallState::TimedOut),
            RecordKind::Cancelled => end(node, CallState::Cancelled),
            RecordKind::ConversationStarted { model, .. } | RecordKind::ModelChosen { model, .. } => {
                node.model = Some(model.clone());
            }
            RecordKind::ModelRequested { .. } => node.requests += 1,
            RecordKind::ModelAnswered { usage, .. } if node.state == CallState::Open => {
                // Its own tokens, until the record of its end has the sum.
                node.usage = Some(node.usage.unwrap_or_default().plus(*usage));
            }
            RecordKind::ModelFailed { .. } => node.failed_requests += 1,
            RecordKind::Note { text } => node.notes.push(Arc::clone(text)),
            _ => {}
        }
    }

    fn finish(self, last_ms: u64) -> Vec<CallNode> {
        let mut roots = Vec::new();
        let mut finished: HashMap<CallPath, Vec<CallNode>> = HashMap::new();
        // From the last to the first: a call's children begin after it.
        for (mut node, times) in self.calls.into_iter().rev() {
            node.waited_ms += times.asked_ms.map_or(0, |asked| last_ms.saturating_sub(asked));
            let ended_ms = times.ended_ms.unwrap_or(last_ms);
            node.took_ms = ended_ms.saturating_sub(node.started_ms).saturating_sub(node.waited_ms);
            node.calls = finished.remove(&node.path).unwrap_or_default();
            node.calls.reverse();
            let parent = node.path.parent().filter(|parent| self.places.contains_key(parent));
            match parent.filter(|_| node.path.depth() <= DEEPEST) {
                Some(parent) => finished.entry(parent).or_default().push(node),
                None => roots.push(node),
            }
        }
        roots.reverse();
        roots
    }
}

fn state_of(kind: FailureKind) -> CallState {
    match kind {
        FailureKind::Blocked | FailureKind::Denied | FailureKind::Authority => CallState::Refused,
        FailureKind::Timeout => CallState::TimedOut,
        _ => CallState::Failed,
    }
}
