//! The state that a client carries from one round of a call to the next: sealed, so that an answer belongs to the question
//! that this server asked about this call.

use llm_do::{
    Session,
    core::{
        question::{QuestionId, Waiting},
        schema::sha256,
    },
    digest,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The identity of a call: its program and its tool with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(String);

impl Fingerprint {
    pub(super) fn of(program: &str, tool: &str, arguments: &Value) -> Self {
        let mut call = serde_json::json!([program, tool, arguments]);
        call.sort_all_objects();
        Self(sha256(call.to_string().as_bytes()))
    }
}

/// The questions of a round.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Round {
    /// The run that asks.
    pub(super) run: Arc<str>,
    /// The questions with their digests.
    asked: Vec<(QuestionId, String)>,
}

impl Round {
    pub(super) fn new(run: &Arc<str>, asked: &[Waiting]) -> Self {
        let asked = asked.iter().map(|waiting| (waiting.id.clone(), digest(waiting)));
        Self { run: Arc::clone(run), asked: asked.collect() }
    }

    /// Returns true if the question was asked in this round in its present form.
    pub(super) fn asked(&self, waiting: &Waiting) -> bool {
        self.asked.iter().any(|(id, seen)| *id == waiting.id && *seen == digest(waiting))
    }
}

/// Seals a round as text that only this user's llm-do can have made, for that call. A later server can open it. Returns
/// `None` if there is no key to seal it with.
pub(super) fn seal(session: &Session, round: &Round, call: &Fingerprint) -> Option<String> {
    let text = serde_json::to_vec(round).ok()?;
    String::from_utf8(session.seal(&purpose(call), text).ok()?).ok()
}

/// Opens the round in a sealed text. Returns `None` if this user's llm-do has not sealed it for that call.
pub(super) fn open(session: &Session, state: &str, call: &Fingerprint) -> Option<Round> {
    let is_own = session.has_sealed(&purpose(call), state.as_bytes());
    is_own.then(|| serde_json::from_str(state).ok()).flatten()
}

fn purpose(call: &Fingerprint) -> String {
    format!("round of an MCP call {}", call.0)
}
