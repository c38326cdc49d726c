//! The changes that one record makes to a view, for readers in another process.

use super::{CallView, Item, RunView, Spent};
use crate::tree::CallState;
use llm_do_core::{call_path::CallPath, journal::RunStatus, model::Usage, price::Usd};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The parts of a view that the last record has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// True if the changes are to be noted, because someone reads them.
    noted: bool,
    run: bool,
    calls: BTreeSet<CallPath>,
    items: BTreeSet<(CallPath, usize)>,
    costs: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Changed {
    pub(super) fn begin(&mut self) {
        if self.noted {
            *self = Self { noted: true, ..Self::default() };
        }
    }

    pub(super) fn run(&mut self) {
        self.run = true;
    }

    pub(super) fn call(&mut self, path: &CallPath) {
        if self.noted {
            self.calls.insert(path.clone());
        }
    }

    pub(super) fn item(&mut self, path: &CallPath, index: usize) {
        if self.noted {
            self.items.insert((path.clone(), index));
        }
    }

    pub(super) fn cost(&mut self, key: &(Arc<str>, Arc<str>)) {
        if self.noted {
            self.costs.insert(key.clone());
        }
    }
}

/// The parts of a run's view that its newest record has changed, each as it is now. Whoever applies the changes of all
/// records in order has the view, without knowing the records' meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct RunChanges<'a> {
    /// The status with which the run ended, or `null` if it has been resumed; absent if that has not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Option<RunStatus>>,
    /// Calls by their places.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schemas", schemars(with = "BTreeMap<String, CallChange>"))]
    pub calls: BTreeMap<&'a CallPath, CallChange>,
    /// Parts of conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemChange<'a>>,
    /// Tokens and costs of workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostChange<'a>>,
}

/// The state of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct CallChange {
    /// The state of the call.
    pub state: CallStanding,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended, or the run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Open questions of the call and those below it.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: usize,
    /// When the newest request to its model was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_ms: Option<u64>,
    /// Further attempts at requests.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// The attempt that the call waits for, after a request has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryChange>,
    /// Tokens and costs of the call and all below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentChange>,
}

/// The next attempt at a request that has failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct RetryChange {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The greatest number of further attempts.
    pub of: u32,
    /// When it begins, in milliseconds since 1970, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// Why the last attempt failed.
    pub why: String,
}

/// The state of a call for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallStanding {
    /// The call works, or waits for its calls.
    Running,
    /// The call waits for an answer to its own question.
    Waiting,
    /// The call has an output.
    Done,
    /// The call failed, or ran out of time.
    Failed,
    /// The call was refused.
    Refused,
    /// The call waits for an answer, and so does the run.
    Suspended,
    /// The run ended during it.
    Cancelled,
}

/// Tokens and costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct SpentChange {
    /// Answers of models.
    pub requests: u64,
    /// Tokens sent.
    pub input: u64,
    /// Tokens sent that were read from a cache.
    pub cached: u64,
    /// Tokens produced.
    pub output: u64,
    /// The costs that are known, in US dollars.
    #[cfg_attr(feature = "schemas", schemars(with = "f64"))]
    pub cost: Usd,
    /// Answers whose cost is not known.
    pub unpriced: u64,
    /// Answers whose tokens are not known.
    pub uncounted: u64,
}

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ItemChange<'a> {
    /// The call that holds the conversation.
    pub call: &'a CallPath,
    /// The number within the conversation, from 0.
    pub index: usize,
    /// The part.
    pub item: &'a Item,
}

/// Tokens and costs of one worker with one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct CostChange<'a> {
    /// The worker.
    pub worker: &'a str,
    /// The model.
    pub model: &'a str,
    /// Tokens and costs of their requests.
    pub spent: SpentChange,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

impl RunView {
    /// Makes a view that notes which of its parts each record changes.
    pub fn with_changes() -> Self {
        let mut view = Self::new();
        view.changes.noted = true;
        view
    }

    /// Returns the changes that the last record has made.
    pub fn changes(&self) -> RunChanges<'_> {
        let changed = &self.changes;
        let calls = changed.calls.iter().filter_map(|path| self.calls.get_key_value(path));
        let items = changed.items.iter().filter_map(|(path, index)| {
            let (call, held) = self.conversations.get_key_value(path)?;
            Some(ItemChange { call, index: *index, item: held.items().get(*index)? })
        });
        let costs = changed.costs.iter().filter_map(|key| self.costs.get_key_value(key));
        RunChanges {
            end: changed.run.then(|| self.end_of_run().map(|end| end.status)),
            calls: calls.map(|(path, call)| (path, call.into())).collect(),
            items: items.collect(),
            costs: costs
                .map(|((worker, model), spent)| CostChange { worker, model, spent: spent.into() })
                .collect(),
        }
    }
}

impl CallView {
    /// Returns the state for people.
    pub fn standing(&self) -> CallStanding {
        match self.state {
            CallState::Open if self.ended_ms.is_some() => CallStanding::Cancelled,
            CallState::Open if self.asked_ms.is_some() => CallStanding::Waiting,
            CallState::Open => CallStanding::Running,
            CallState::Done => CallStanding::Done,
            CallState::Failed | CallState::TimedOut => CallStanding::Failed,
            CallState::Refused => CallStanding::Refused,
            CallState::Suspended => CallStanding::Suspended,
            CallState::Cancelled => CallStanding::Cancelled,
        }
    }
}

impl From<&CallView> for CallChange {
    fn from(call: &CallView) -> Self {
        let state = call.standing();
        let waits = matches!(state, CallStanding::Running | CallStanding::Waiting | CallStanding::Suspended);
        Self {
            state,
            started_ms: call.started_ms,
            ended_ms: call.ended_ms.filter(|_| state != CallStanding::Suspended),
            waiting: if waits { call.open_questions } else { 0 },
            requested_ms: (call.requested_ms > 0).then_some(call.requested_ms),
            retries: call.retries,
            retry: call.retry.as_deref().map(|retry| RetryChange {
                attempt: retry.attempt,
                of: retry.of,
                at_ms: retry.at_ms,
                why: retry.error.message.clone(),
            }),
            spent: (call.spent.requests > 0).then(|| (&call.spent).into()),
        }
    }
}

impl From<&Spent> for SpentChange {
    fn from(spent: &Spent) -> Self {
        let Spent { requests, usage, cost, unpriced, uncounted } = *spent;
        let Usage { input_tokens, cached_tokens, output_tokens, .. } = usage;
        Self {
            requests,
            input: input_tokens.unwrap_or_default(),
            cached: cached_tokens.unwrap_or_default(),
            output: output_tokens.unwrap_or_default(),
            cost,
            unpriced,
            uncounted,
        }
    }
}
