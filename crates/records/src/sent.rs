//! The messages that a model was sent, from the records.

use llm_do_core::{
    call_path::CallPath,
    conversation::Conversation,
    journal::{Record, RecordKind},
    model::Message,
    rebuild::conversation_at,
    step_name::StepName,
    worker::Limits,
};
use std::sync::Arc;

/// Returns the messages of the request that is recorded at `path` under the name `step` (`model.2.0`: turn 2, first
/// attempt). None if there is no such request, or if the messages rebuilt from the records don't have the digest that
/// is recorded with the request.
pub fn messages_sent(records: &[Record], path: &CallPath, step: &StepName) -> Option<Vec<Arc<Message>>> {
    let (at, head, digest) = records.iter().enumerate().find_map(|(at, record)| match &record.body {
        RecordKind::ModelRequested { head, digest, .. } if record.path == *path && record.step == *step => {
            Some((at, *head, digest))
        }
        _ => None,
    })?;
    // Records hold the attempts that were made and not the worker's limits.
    let limits = Limits { max_turns: Some(u32::MAX), output_retries: u32::MAX, ..Limits::default() };
    let conversation = conversation_at(&records[..at], path, limits).ok()?;
    let mut messages = conversation.messages().to_vec();
    messages.truncate(usize::try_from(head.0).ok()?.checked_add(1)?);
    (Conversation::digest_of(&messages) == *digest).then_some(messages)
}
