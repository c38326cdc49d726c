//! Making the calls of one turn.

use super::Prepared;
use crate::{
    call_path::CallPath,
    conversation::{PlannedCall, batches},
    engine::{Call, End, Failure, Halt, Outcome},
    function::CompositeCall,
    model::{Blob, ToolResult, Usage},
    operator::Ask,
    send::BoxFuture,
};
use serde_json::Value;
use std::sync::Arc;

/// A call that is to be made, by a worker's function.
pub(super) struct Making {
    pub(super) path: CallPath,
    /// Which function: its position in [`Prepared::functions`].
    pub(super) function: usize,
    pub(super) input: Arc<Value>,
}

/// Makes calls, side by side except for barriers: their outcomes in their order. The inner `Err` lists what the operator
/// must decide before the run can go on.
pub(super) async fn outcomes(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    calls: impl IntoIterator<Item = Making>,
    usage: &mut Usage,
) -> Result<Result<Vec<Outcome>, Vec<Ask>>, Halt> {
    let engine = parent.engine;
    let mut outcomes = Vec::new();
    let is_barrier = |call: &Making| {
        let meta = &prepared.functions[call.function].meta;
        meta.risk.is_barrier() && !meta.parallel
    };
    for batch in batches(calls, is_barrier) {
        let futures = batch.into_iter().map(|Making { path, function, input }| -> BoxFuture<'_, _> {
            let function = &prepared.functions[function];
            let frame = &prepared.frame;
            Box::pin(engine.call(Call { path, function, input, frame, attachments: &[] }))
        });
        let mut waiting = Vec::new();
        for outcome in engine.host().driver.all(futures.collect()).await {
            let outcome = outcome?;
            *usage = usage.plus(outcome.usage);
            if let End::Suspended(asks) = &outcome.end {
                waiting.extend(asks.iter().cloned());
            }
            outcomes.push(outcome);
        }
        if !waiting.is_empty() {
            return Ok(Err(waiting));
        }
    }
    Ok(Ok(outcomes))
}

/// Makes the planned calls of a turn: results in the order of the calls, and the files that came with them.
pub(super) async fn make(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    turn: u32,
    planned: &[PlannedCall],
    usage: &mut Usage,
) -> Result<Result<(Vec<ToolResult>, Vec<Blob>), Vec<Ask>>, Halt> {
    let calls = planned.iter().filter_map(|planned| match planned {
        PlannedCall::Make { index, tool, input, .. } => {
            let path = parent.path.call(turn, *index);
            Some(Making { path, function: *tool, input: Arc::clone(input) })
        }
        PlannedCall::Answered(_) => None,
    });
    let mut made = match outcomes(prepared, parent, calls, usage).await? {
        Ok(made) => made.into_iter(),
        Err(waiting) => return Ok(Err(waiting)),
    };
    let mut blobs = Vec::new();
    let results = planned.iter().map(|planned| match planned {
        PlannedCall::Answered(result) => result.clone(),
        PlannedCall::Make { call, .. } => {
            let mut outcome = made.next();
            blobs.extend(outcome.iter_mut().flat_map(|outcome| std::mem::take(&mut outcome.blobs)));
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
    let results = results.collect();
    Ok(Ok((results, blobs)))
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
