//! Makes the calls of one turn.

use super::Prepared;
use crate::{
    call_path::CallPath,
    conversation::{PlannedCall, batches},
    engine::Call,
    function::CompositeCall,
    model::{Blob, ToolResult, Usage},
    outcome::{End, Outcome, Stop},
    results::{show, show_failure},
    send::BoxFuture,
};
use serde_json::Value;
use std::sync::Arc;

/// A call to make of a worker's function.
pub(super) struct Making {
    pub(super) path: CallPath,
    /// Which function: its position in [`Prepared::functions`].
    pub(super) function: usize,
    pub(super) input: Arc<Value>,
}

/// Makes calls, in parallel except for barriers, and returns their outcomes in order.
pub(super) async fn outcomes(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    calls: impl IntoIterator<Item = Making>,
    usage: &mut Usage,
) -> Result<Vec<Outcome>, Stop> {
    let engine = parent.engine;
    let mut outcomes = Vec::new();
    let is_barrier = |call: &Making| prepared.functions[call.function].meta.is_barrier();
    for batch in batches(calls, is_barrier) {
        let futures = batch.into_iter().map(|Making { path, function, input }| -> BoxFuture<'_, _> {
            let function = &prepared.functions[function];
            let frame = &prepared.frame;
            Box::pin(engine.call(Call { path, function, input, frame, attachments: &[], starts_run: false }))
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
            return Err(Stop::Suspended(waiting));
        }
    }
    Ok(outcomes)
}

/// Makes the planned calls of a turn. Returns the results in the order of the calls, with their files.
pub(super) async fn make(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    turn: u32,
    planned: &[PlannedCall],
    usage: &mut Usage,
) -> Result<(Vec<ToolResult>, Vec<Blob>), Stop> {
    let calls = planned.iter().filter_map(|planned| match planned {
        PlannedCall::Make { index, tool, input, .. } => {
            let path = parent.path.call(turn, *index);
            Some(Making { path, function: *tool, input: Arc::clone(input) })
        }
        PlannedCall::Answered(_) => None,
    });
    let mut made = outcomes(prepared, parent, calls, usage).await?.into_iter();
    let mut blobs = Vec::new();
    let results = planned.iter().map(|planned| match planned {
        PlannedCall::Answered(result) => result.clone(),
        PlannedCall::Make { call, .. } => {
            let mut outcome = made.next();
            blobs.extend(outcome.iter_mut().flat_map(|outcome| std::mem::take(&mut outcome.blobs)));
            let (text, is_error) = match outcome.map(|outcome| outcome.end) {
                Some(End::Done(value)) => (show(&value), false),
                Some(End::Failed(failure)) => (show_failure(&failure), true),
                // A lost call is reported as lost, because each call must be answered exactly once.
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
    Ok((results, blobs))
}
