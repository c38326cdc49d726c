//! A worker that holds a conversation with the user (`docs/reference/conversations.md`).
//!
//! Every message and action of the user is the answer to a question of kind *input*. A conversation is therefore
//! suspended, resumed and replayed like any other call that waits for the operator.

use super::{Answer as Answered, Talk, asides, begin, model_switch, prepared::Prepared};
use crate::{
    call_path::CallPath,
    conversation::Heard,
    definition::WorkerDefinition,
    driver::{CutOff, Driver, Step, StepEnd},
    engine::Frame,
    estimate::Estimate,
    function::CompositeCall,
    journal::RecordKind,
    model::Usage,
    origin::Trail,
    outcome::{Failure, FailureKind, Halt, Stop},
    question::{Answer, QuestionId, Turn},
    step_name::StepName,
};
use serde_json::Value;
use std::sync::Arc;

/// Acquires the line to the user.
///
/// # Errors
/// There is no line. The call fails before anything is sent.
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

/// The line to the user. It is released when the conversation ends in any way.
struct UserLine<'a> {
    driver: &'a dyn Driver,
    path: &'a CallPath,
}

impl Drop for UserLine<'_> {
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
    let _line = UserLine { driver, path: call.path };
    let mut frame = prepared.frame.clone();
    let mut conversation = begin(prepared);
    let mut estimate = Estimate::default();
    let mut number = 0;
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
        let mut refused = None;
        loop {
            number += 1;
            let talk = Talk::new(prepared, call, usage, trail, &mut estimate);
            let turn = Turn {
                number,
                cut_off: said.cut_off,
                failure: refused.take().or_else(|| failure.clone()),
                context: Some(talk.context(&conversation)),
            };
            let heard = call.engine.listen(&frame, call.path, said.clone(), turn).await?;
            match &heard {
                Answer::Attach { file, content } => {
                    let file = asides::Attaching { file, content: content.as_deref() };
                    asides::attach(worker, prepared, call, &mut conversation, number, file).await?;
                }
                Answer::Model { model } => {
                    model_switch::choose(prepared, call, number, model).await?;
                }
                Answer::Run { worker, input } => {
                    let from = call.frame.ruled(frame.session_rules().clone());
                    asides::run(call, &from, &mut conversation, number, worker, input, usage).await?;
                }
                Answer::Rule { rule, calls } => {
                    let made_at = QuestionId::new(call.path, &StepName::Message(number));
                    match frame.session_rules().with(made_at, *rule, calls) {
                        Ok(rules) => frame = frame.ruled(rules),
                        Err(error) => refused = Some(invalid(error.to_string())),
                    }
                }
                Answer::Forget { of } => match without(call, &frame, of).await {
                    Some(rest) => frame = rest,
                    None => refused = Some(invalid(format!("nothing that {of} was answered with holds"))),
                },
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
                    refused = match talk.compact_as_asked(&mut conversation, keep).await {
                        Err(Stop::Failed(failure)) => Some(failure),
                        compacted => compacted?,
                    };
                }
                Heard::NotCompacted => {
                    refused = Some(invalid("there is no compaction to take back"));
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

/// The failure for a request of the user that is not possible.
fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidInput, message)
}

/// Forgets an answer of the user: a rule of this conversation, or an approval or denial that is remembered in it.
/// Returns the frame without it, or `None` if there is no such answer.
///
/// Only calls below this conversation are searched. Calls beside it may be under way, and a resumed run would see them
/// in another order.
async fn without(call: &CompositeCall<'_>, frame: &Frame, of: &QuestionId) -> Option<Frame> {
    if let Some(rules) = frame.session_rules().without(of).filter(|_| of.call == *call.path) {
        return Some(frame.ruled(rules));
    }
    let below = of.call.is_within(call.path);
    let forgotten = below && call.engine.host().driver.shared().forget(of).await;
    forgotten.then(|| frame.clone())
}
