//! A worker that holds a conversation with the user (`docs/reference/conversations.md`).
//!
//! Everything that the user says or does is the answer to a question of kind *input*, so a conversation is suspended,
//! resumed and replayed like any other call that waits for the operator.

use super::{Answer as Answered, Forget, Prepared, Talk, asides, begin};
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
    outcome::{Failure, FailureKind, Halt, Stop},
    question::{Answer, Turn},
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
    *call.path == CallPath::root() && call.engine.host().chat
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
    worker: &Arc<WorkerDefinition>,
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
    // The models that were chosen.
    let mut forget = Vec::new();
    loop {
        prepared.frame = frame.for_answer(call.path, conversation.turn(), driver).await;
        let answer = Talk::new(prepared, call, usage, trail, &mut estimate).answer(&mut conversation).await;
        let (mut said, mut failure) = match answer {
            Ok(Answered::Output(value)) => return Ok(value),
            Ok(Answered::Said(said)) => (said, None),
            Err(Stop::Failed(failure)) if conversation.is_closing() => return Err(failure.into()),
            Err(Stop::Failed(failure)) => (conversation.listen(), Some(failure)),
            Err(stop) => return Err(stop),
        };
        // Waiting for the user, and what the user does beside speaking, is no part of an answer.
        prepared.frame = frame.clone();
        let mut not_compacted = None;
        loop {
            number += 1;
            let talk = Talk::new(prepared, call, usage, trail, &mut estimate);
            let turn = Turn {
                number,
                cut_off: said.cut_off,
                failure: not_compacted.take().or_else(|| failure.clone()),
                context: Some(talk.context(&conversation)),
            };
            let heard = call.engine.listen(&frame, call.path, said.clone(), turn).await?;
            match &heard {
                Answer::Attach { file } => {
                    asides::attach(worker, prepared, call, &mut conversation, number, file).await?;
                }
                Answer::Model { model } => {
                    let chosen = asides::choose_model(worker, prepared, call, number, model).await?;
                    if chosen {
                        let model = Arc::clone(&prepared.model);
                        forget.push(Forget { model, run: &call.engine.host().run, path: call.path });
                    }
                }
                Answer::Run { worker, input } => {
                    asides::run(call, &mut conversation, number, worker, input, usage).await?;
                }
                _ => {}
            }
            match conversation.heard(number, &heard) {
                Heard::Message => break,
                Heard::Aside => {}
                Heard::Undone { since } => {
                    if let Some(since) = since {
                        call.engine.take_back(&frame, call.path, number, since).await?;
                    }
                    (said, failure) = (conversation.listen(), None);
                }
                Heard::Compact => {
                    let keep = match &heard {
                        Answer::Compact { keep } => keep.as_deref(),
                        _ => None,
                    };
                    let mut talk = Talk::new(prepared, call, usage, trail, &mut estimate);
                    not_compacted = match talk.compact_as_asked(&mut conversation, keep).await {
                        Err(Stop::Failed(failure)) => Some(failure),
                        compacted => compacted?,
                    };
                }
                Heard::NotCompacted => {
                    let message = "there is no compaction to take back";
                    not_compacted = Some(Failure::new(FailureKind::InvalidInput, message));
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
