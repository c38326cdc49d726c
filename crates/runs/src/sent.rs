//! What a model was sent, from the records.

use llm_do_core::{
    call_path::CallPath,
    conversation::Conversation,
    journal::{Record, RecordKind, conversation_at},
    model::Message,
    worker::Limits,
};
use std::sync::Arc;

/// The messages of the request that is recorded at `path` under the name `step` (`model.2.0`: turn 2, first attempt).
/// None if there is no such request, or if the records don't tell what was sent: the digest that is recorded with a
/// request says so.
pub fn messages_sent(records: &[Record], path: &CallPath, step: &str) -> Option<Vec<Arc<Message>>> {
    let (at, head, digest) = records.iter().enumerate().find_map(|(at, record)| match &record.body {
        RecordKind::ModelRequested { head, digest, .. } if record.path == *path && record.step == step => {
            Some((at, *head, digest))
        }
        _ => None,
    })?;
    // How often the worker might have tried is not recorded; that it did is.
    let limits = Limits { max_turns: Some(u32::MAX), output_retries: u32::MAX, ..Limits::default() };
    let conversation = conversation_at(&records[..at], path, limits).ok()?;
    let mut messages = conversation.messages().to_vec();
    messages.truncate(usize::try_from(head.0).ok()?.checked_add(1)?);
    (Conversation::digest_of(&messages) == *digest).then_some(messages)
}
