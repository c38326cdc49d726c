//! The most tokens that a request of a worker may have.

use crate::{
    definition::WorkerDefinition,
    model::{Model, Terms},
};

/// The most tokens of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextLimit {
    pub(super) tokens: u64,
    /// True if the worker declares it. Otherwise it is the model's window.
    pub(super) declared: bool,
}

impl ContextLimit {
    /// Returns the limit that the record of a conversation names.
    pub(super) fn of(worker: &WorkerDefinition, recorded: Option<u64>) -> Option<Self> {
        let declared = worker.limits.max_context_tokens.is_some();
        recorded.map(|tokens| Self { tokens, declared })
    }
}

/// Returns the most tokens that one request of the worker may have: its own limit, else the window of its model, if that
/// is known.
pub(super) fn most_tokens(worker: &WorkerDefinition, terms: &Terms, model: &dyn Model) -> Option<u64> {
    worker.limits.max_context_tokens.or(terms.context).or_else(|| model.context())
}
