//! The state that a client carries from one round of a call to the next: sealed, so that an answer belongs to the question
//! that this server asked about this call.

use llm_do::core::{
    question::{QuestionId, Waiting},
    schema::sha256,
};
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The identity of a call: its tool with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(String);

impl Fingerprint {
    pub(crate) fn of(tool: &str, arguments: &Value) -> Self {
        let mut call = serde_json::json!([tool, arguments]);
        call.sort_all_objects();
        Self(sha256(call.to_string().as_bytes()))
    }
}

/// The first sixteen hexadecimal digits of the SHA-256 hash of a question.
pub(crate) fn digest(waiting: &Waiting) -> String {
    // Questions are data that serialises.
    let text = serde_json::to_vec(waiting).unwrap_or_default();
    sha256(&text).chars().take(16).collect()
}

/// The questions of a round.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The run that asks.
    pub(crate) run: Arc<str>,
    /// The questions with their digests.
    asked: Vec<(QuestionId, String)>,
}

impl Round {
    pub(crate) fn new(run: &Arc<str>, asked: &[Waiting]) -> Self {
        let asked = asked.iter().map(|waiting| (waiting.id.clone(), digest(waiting)));
        Self { run: Arc::clone(run), asked: asked.collect() }
    }

    /// Whether this question was asked in this round as it is now.
    pub(crate) fn asked(&self, waiting: &Waiting) -> bool {
        self.asked.iter().any(|(id, seen)| *id == waiting.id && *seen == digest(waiting))
    }
}

/// Seals rounds with a key that only this process knows.
pub(crate) struct Seal(RequestStateCodec);

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a key: {0}")]
pub struct NoKey(String);

impl From<String> for NoKey {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

/// The state that a client has sent back is not one that this server gave it for this call.
#[derive(Debug)]
pub(crate) struct Forged;

impl Seal {
    pub(crate) fn new() -> Result<Self, NoKey> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| NoKey(error.to_string()))?;
        RequestStateCodec::try_new(key).map(Self).map_err(|error| NoKey(error.to_string()))
    }

    pub(crate) fn seal(&self, round: &Round, call: &Fingerprint) -> Result<String, serde_json::Error> {
        let text = serde_json::to_vec(round)?;
        Ok(self.0.seal_with(&text, &SealOptions::new().associated_data(call.0.as_bytes())))
    }

    pub(crate) fn open(&self, state: &str, call: &Fingerprint) -> Result<Round, Forged> {
        self.0.open_json_with(state, call.0.as_bytes()).map_err(|_| Forged)
    }
}
