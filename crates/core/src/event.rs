//! Events for screens and other programs: a record, or something provisional that a later record confirms or discards
//! (SPEC §12). Events are never the truth.

use crate::{call_path::CallPath, journal::Record, model::Delta};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Something to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Something has been recorded.
    Record {
        /// The record, as in the journal but with long values in place.
        record: Arc<Record>,
    },
    /// Part of an answer that is being made.
    Delta {
        /// The call whose worker is answering.
        path: CallPath,
        /// Turn of its conversation.
        turn: u32,
        /// The piece.
        #[serde(flatten)]
        delta: Delta,
    },
    /// The deltas shown for this turn don't count: the request failed and may be repeated.
    Discard {
        /// The call.
        path: CallPath,
        /// The turn.
        turn: u32,
    },
}
