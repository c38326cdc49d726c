//! Calls that are conversations with the user.

use crate::{
    call_path::CallPath,
    definition::{WorkerDefinition, WorkerMode},
    function::CompositeCall,
};

/// Returns true if this call of the worker is a conversation with the user: the entry of a chat, or a worker that may talk to the
/// user and is made for conversations.
pub(super) fn holds_conversation(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> bool {
    is_chat(call) || worker.interactive && worker.mode == WorkerMode::Chat
}

/// Returns true if the operator has started a conversation with this call.
pub(super) fn is_chat(call: &CompositeCall<'_>) -> bool {
    *call.path == CallPath::root() && call.engine.host().chat
}

/// Returns true if the worker has to take the line to the user before it begins.
pub(super) fn needs_lease(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> bool {
    worker.interactive && !is_chat(call)
}
