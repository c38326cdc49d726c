//! Making the calls of one turn.

use super::Prepared;
use crate::{
    conversation::{PlannedCall, batches},
    engine::{Call, End, Failure, Halt, Outcome},
    function::CompositeCall,
    model::{Blob, ToolResult, Usage},
    operator::Ask,
    send::BoxFuture,
};
use serde_json::Value;

/// Makes the planned calls: side by side except for barriers, results in the order of the calls. The inner `Err` lists
/// what the operator must decide before the run can go on.
pub(super) async fn make(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    turn: u32,
    planned: &[PlannedCall],
    usage: &mut Usage,
) -> Result<Result<(Vec<ToolResult>, Vec<Blob>), Vec<Ask>>, Halt> {
    let engine = parent.engine;
    let mut outcomes: Vec<Option<Outcome>> = planned.iter().map(|_| None).collect();
    let risk = |tool: usize| {
        let meta = &prepared.functions[tool].meta;
        (meta.risk, meta.parallel)
    };
    for batch in batches(planned, risk) {
        let mut places = Vec::with_capacity(batch.len());
        let mut futures: Vec<BoxFuture<'_, Result<Outcome, Halt>>> = Vec::with_capacity(batch.len());
        for call in batch {
            let PlannedCall::Make { index, tool, input, .. } = call else { continue };
            places.push(*index);
            futures.push(Box::pin(engine.call(Call {
                path: parent.path.call(turn, *index),
                function: &prepared.functions[*tool],
                input: input.clone(),
                frame: &prepared.frame,
                attachments: &[],
            })));
        }
        let mut waiting = Vec::new();
        for (index, outcome) in places.into_iter().zip(engine.host().driver.all(futures).await) {
            let outcome = outcome?;
            *usage = usage.plus(outcome.usage);
            if let End::Suspended(asks) = &outcome.end {
                waiting.extend(asks.iter().cloned());
            }
            outcomes[index] = Some(outcome);
        }
        if !waiting.is_empty() {
            return Ok(Err(waiting));
        }
    }
    let mut blobs = Vec::new();
    for outcome in outcomes.iter_mut().flatten() {
        blobs.append(&mut outcome.blobs);
    }
    let results = planned.iter().zip(outcomes).map(|(planned, outcome)| match (planned, outcome) {
        (PlannedCall::Answered(result), _) => result.clone(),
        (PlannedCall::Make { call, .. }, outcome) => {
            let (text, is_error) = match outcome.map(|outcome| outcome.end) {
                Some(End::Done(value)) => (show(&value), false),
                Some(End::Failed(failure)) => (show_failure(&failure), true),
                // A call that was lost is said to be so: each call is answered exactly once.
                Some(End::Suspended(_)) | None => ("The call was interrupted.".to_owned(), true),
            };
            ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: prepared.frame.results().show(&text, prepared.can_read_on).into(),
                is_error,
            }
        }
    });
    Ok(Ok((results.collect(), blobs)))
}

/// A result as a model reads it: text as it is, anything else as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

pub(crate) fn show_failure(failure: &Failure) -> String {
    match &failure.partial {
        None => failure.message.clone(),
        Some(partial) => format!("{}\nWhat there was so far: {}", failure.message, show(partial)),
    }
}
