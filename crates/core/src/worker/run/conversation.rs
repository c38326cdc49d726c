//! A worker that holds a conversation with the user (`docs/reference/conversations.md`).
//!
//! Everything that the user says or does is the answer to a question of kind *input*, so a conversation is suspended,
//! resumed and replayed like any other call that waits for the operator.

use super::{Answer, Prepared, Talk, begin};
use crate::{
    call_path::CallPath,
    conversation::Heard,
    definition::{WorkerDefinition, WorkerMode},
    driver::{CutOff, Driver, Step, StepEnd},
    estimate::Estimate,
    function::CompositeCall,
    journal::RecordKind,
    model::Usage,
    origin::Trail,
    outcome::{FailureKind, Halt, Stop},
    question::Turn,
    step_name::StepName,
};
use serde_json::Value;
use std::sync::Arc;

/// Whether this call of the worker is a conversation with the user: the entry of a chat, or a worker that may talk to the
/// user and is made for conversations.
pub(super) fn holds_conversation(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> bool {
    is_chat(call) || worker.interactive && worker.mode == WorkerMode::Chat
}

/// Whether the operator has started a conversation with this call.
fn is_chat(call: &CompositeCall<'_>) -> bool {
    call.frame.worker().is_none() && call.engine.host().chat
}

/// Whether the worker has to take the line to the user before it begins.
pub(super) fn needs_lease(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> bool {
    worker.interactive && !is_chat(call)
}

/// Takes the line to the user.
///
/// # Errors
/// There is no line: the call fails before anything is sent.
pub(super) async fn lease(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> Result<(), Stop> {
    let host = call.engine.host();
    let step = Step {
        path: call.path,
        name: StepName::Lease,
        intent: None,
        deadline: None,
        cut_off: CutOff::Again,
        run: Box::pin(async { RecordKind::Leased { attended: host.attended } }),
    };
    match host.driver.step(step).await?.end {
        StepEnd::Done(RecordKind::Leased { attended: true }) => Ok(()),
        StepEnd::Done(RecordKind::Leased { attended: false }) | StepEnd::TimedOut => {
            let message = format!(
                "`{}` talks to the user, and no user can be reached in this run: it needs a terminal, `--operator`, or \
                 `--approval defer`",
                worker.id
            );
            Err(Stop::failed(FailureKind::Denied, message))
        }
        StepEnd::Done(other) => Err(Halt::unexpected(call.path, &StepName::Lease, &other).into()),
    }
}

/// The line to the user, which is free again when the conversation ends in any way.
struct Line<'a> {
    driver: &'a dyn Driver,
    path: &'a CallPath,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.driver.conversation_ended(self.path);
    }
}

/// Holds the conversation until it has a result or the user ends it.
pub(super) async fn hold(
    prepared: &mut Prepared,
    call: &CompositeCall<'_>,
    usage: &mut Usage,
    trail: &mut Trail,
) -> Result<Arc<Value>, Stop> {
    let driver = &*call.engine.host().driver;
    let _line = Line { driver, path: call.path };
    let frame = prepared.frame.clone();
    let mut conversation = begin(prepared);
    let mut estimate = Estimate::default();
    let mut number = 0;
    loop {
        prepared.frame = frame.for_answer(call.path, conversation.turn(), driver).await;
        let answer = Talk::new(prepared, call, usage, trail, &mut estimate).answer(&mut conversation).await;
        let (mut said, mut failure) = match answer {
            Ok(Answer::Output(value)) => return Ok(value),
            Ok(Answer::Said(said)) => (said, None),
            Err(Stop::Failed(failure)) if conversation.is_closing() => return Err(failure.into()),
            Err(Stop::Failed(failure)) => (conversation.listen(), Some(failure)),
            Err(stop) => return Err(stop),
        };
        loop {
            number += 1;
            let turn = Turn { number, cut_off: said.cut_off, failure: failure.clone() };
            let heard = call.engine.listen(&frame, call.path, said.clone(), turn).await?;
            match conversation.heard(number, &heard) {
                Heard::Message => break,
                Heard::Undone { since } => {
                    if let Some(since) = since {
                        call.engine.take_back(&frame, call.path, number, since).await?;
                    }
                    (said, failure) = (conversation.listen(), None);
                }
                // Without a result of its own, it is what was said last.
                Heard::End => {
                    let last = || Ok(Arc::new(Value::String(said.text.to_string())));
                    return failure.map_or_else(last, |failure| Err(failure.into()));
                }
            }
        }
    }
}
