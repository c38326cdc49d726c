//! The state of one call, and the tokens that calls have spent.

use crate::{
    line::RecordRef,
    tree::{CallState, Decision, WaitsFor},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{Failure, FailureKind, Principal},
    function::FunctionSource,
    journal::RecordKind,
    model::{ModelError, ModelName, Purpose, Usage},
    origin::Origins,
    price::Usd,
    worker::wait_before_retry,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The next attempt at a request to a model that has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The greatest number of further attempts.
    pub of: u32,
    /// The time at which the attempt begins, in milliseconds since 1970, once it is known.
    pub at_ms: Option<u64>,
    /// The failure of the last attempt.
    pub error: ModelError,
}

impl Retry {
    /// Returns the attempt that follows a failure of attempt `failed`, counted from 0, at that time. `None` if none
    /// follows.
    pub(crate) fn after(error: &ModelError, failed: u32, of: u32, at_ms: u64) -> Option<Self> {
        // The wait is known now if the server has named it. Otherwise a random number spreads it.
        let wait = wait_before_retry(error, failed, of, 0)?;
        let at_ms = error.retry_after().map(|_| at_ms.saturating_add(millis(wait)));
        Some(Self { attempt: failed + 1, of, at_ms, error: error.clone() })
    }

    /// Sets the wait that a random number, drawn at that time, gives.
    pub(super) fn spread(&mut self, random: u64, drawn_ms: u64) {
        if self.at_ms.is_none() {
            let wait = wait_before_retry(&self.error, self.attempt - 1, self.of, random);
            self.at_ms = wait.map(|wait| drawn_ms.saturating_add(millis(wait)));
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The activity of a call, beside the calls that it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// The call works, or waits for its calls.
    #[default]
    Working,
    /// The call waits for a model. The attempt counts from 0.
    Asking {
        /// The purpose of the request.
        purpose: Purpose,
        /// The attempt.
        attempt: u32,
    },
    /// A request has failed, and another attempt follows.
    Pausing,
    /// The call waits for an answer to a question.
    Waiting(WaitsFor),
    /// The code runs again after a failure. The attempt counts from 0.
    Repeating {
        /// The attempt.
        attempt: u32,
    },
}

/// Tokens and cost of requests that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of answers.
    pub requests: u64,
    /// The usage of these requests.
    pub usage: Usage,
    /// The sum of the costs that are known.
    pub cost: Usd,
    /// The number of answers whose cost is not known.
    pub unpriced: u64,
    /// The number of answers whose tokens are not known.
    pub uncounted: u64,
}

impl Spent {
    pub(super) fn add(&mut self, usage: Usage) {
        self.requests += 1;
        self.usage = self.usage.plus(usage);
        match usage.cost_usd {
            Some(cost) => self.cost = self.cost.plus(cost),
            None => self.unpriced += 1,
        }
        self.uncounted += u64::from(usage.input_tokens.is_none() && usage.output_tokens.is_none());
    }
}

/// The state of a call, according to the records so far.
#[derive(Clone, Debug)]
pub struct CallView {
    /// The place of the call.
    pub path: CallPath,
    /// The call that made it, if that is recorded.
    pub parent: Option<CallPath>,
    /// The number of the call in the order in which the calls began.
    pub number: usize,
    /// The function that is called.
    pub function: Arc<str>,
    /// The source of the function.
    pub source: FunctionSource,
    /// The caller on whose behalf the call was made.
    pub principal: Principal,
    /// The arguments that are used.
    pub input: Arc<Value>,
    /// The arguments that the caller gave, if the operator has edited them.
    pub given: Option<Arc<Value>>,
    /// The origins of the given arguments.
    pub origins: Origins,
    /// The state of the call.
    pub state: CallState,
    /// The origins of its output or failure.
    pub output_origins: Origins,
    /// The time at which the call began, in milliseconds since 1970.
    pub started_ms: u64,
    /// The time at which the call or the run ended.
    pub ended_ms: Option<u64>,
    /// The call's own time of waiting for answers that have come, in milliseconds.
    pub waited_ms: u64,
    /// The time at which the open question was asked.
    pub asked_ms: Option<u64>,
    /// The number of open questions of this call and those below it.
    pub open_questions: usize,
    /// The time in which this call, or one below it, has waited for an answer, in milliseconds.
    pub held_ms: u64,
    /// The time since which at least one of these questions is open.
    pub(super) held_since_ms: u64,
    /// The gate's last decision.
    pub verdict: Option<Decision>,
    /// The call is one step of code that makes no calls.
    pub leaf: bool,
    /// The worker that holds its conversation.
    pub worker: Option<Arc<str>>,
    /// The model that answers.
    pub model: Option<ModelName>,
    /// Attempts of its code that have failed and were followed by another one.
    pub failed_attempts: u32,
    /// Requests sent to the model, retries included.
    pub requests: u32,
    /// Requests that were further attempts.
    pub retries: u32,
    /// Requests that failed.
    pub failed_requests: u32,
    /// The time at which the newest request was sent.
    pub requested_ms: u64,
    /// The attempt that the call waits for, after a request has failed.
    pub retry: Option<Box<Retry>>,
    /// The call's own tokens; of a worker that has ended, with those of all calls below it.
    pub usage: Option<Usage>,
    /// Tokens and cost of the call and all below it.
    pub spent: Spent,
    /// The reason for which the call failed or was refused.
    pub failure: Option<Failure>,
    /// Tools that its model called and that were not offered, in order.
    pub unoffered: Vec<Arc<str>>,
    /// Notes of the engine and of code.
    pub notes: Vec<Arc<str>>,
    /// The activity of the call.
    pub activity: Activity,
    /// The time at which this activity began, in milliseconds since 1970.
    pub since_ms: u64,
    /// The record of its end.
    pub ended_seq: Option<u64>,
}

impl CallView {
    /// Returns the call of a record that begins one.
    pub(super) fn begun(record: RecordRef<'_>, parent: Option<CallPath>, number: usize) -> Option<Self> {
        let RecordKind::CallStarted { function, source, principal, input, origins } = record.body else {
            return None;
        };
        Some(Self {
            path: record.path.clone(),
            parent,
            number,
            function: Arc::clone(function),
            source: source.clone(),
            principal: principal.clone(),
            input: Arc::clone(input),
            given: None,
            origins: origins.clone(),
            state: CallState::Open,
            output_origins: Origins::TRUSTED,
            started_ms: record.at_ms,
            ended_ms: None,
            waited_ms: 0,
            asked_ms: None,
            open_questions: 0,
            held_ms: 0,
            held_since_ms: 0,
            verdict: None,
            leaf: false,
            worker: None,
            model: None,
            failed_attempts: 0,
            requests: 0,
            retries: 0,
            failed_requests: 0,
            requested_ms: 0,
            retry: None,
            usage: None,
            spent: Spent::default(),
            failure: None,
            unoffered: Vec::new(),
            notes: Vec::new(),
            activity: Activity::Working,
            since_ms: record.at_ms,
            ended_seq: None,
        })
    }

    /// Returns the time that the call has worked until then, without the time in which it, or a call below it, waited
    /// for an answer.
    pub fn worked_ms(&self, until_ms: u64) -> u64 {
        let held = if self.open_questions > 0 { until_ms.saturating_sub(self.held_since_ms) } else { 0 };
        let held = self.held_ms.saturating_add(held);
        until_ms.saturating_sub(self.started_ms).saturating_sub(held)
    }

    /// Returns the time that the call has worked until then, without its own time of waiting for an answer.
    pub fn took_ms(&self, until_ms: u64) -> u64 {
        let waiting = self.asked_ms.map_or(0, |asked| until_ms.saturating_sub(asked));
        until_ms.saturating_sub(self.started_ms).saturating_sub(self.waited_ms.saturating_add(waiting))
    }

    pub(super) fn does(&mut self, activity: Activity, at_ms: u64) {
        if self.activity != activity {
            (self.activity, self.since_ms) = (activity, at_ms);
        }
    }

    pub(super) fn end(&mut self, state: CallState, record: RecordRef<'_>) {
        // The question of a suspended call stays open.
        if state != CallState::Suspended
            && let Some(asked_ms) = self.asked_ms.take()
        {
            self.waited_ms = self.waited_ms.saturating_add(record.at_ms.saturating_sub(asked_ms));
        }
        self.retry = None;
        (self.state, self.ended_ms, self.ended_seq) = (state, Some(record.at_ms), Some(record.seq));
    }
}

/// Returns the state of a call that has failed.
pub(super) fn state_of(kind: FailureKind) -> CallState {
    match kind {
        FailureKind::Blocked | FailureKind::Denied | FailureKind::Authority => CallState::Refused,
        FailureKind::Timeout => CallState::TimedOut,
        _ => CallState::Failed,
    }
}
