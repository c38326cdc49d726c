//! Makes the calls of one turn.

use super::Prepared;
use crate::{
    call_path::CallPath,
    call_spec::{CallSpec, Callee},
    conversation::{PlannedCall, batches},
    function::CompositeCall,
    model::{Blob, ToolResult, Usage},
    outcome::{End, Outcome, Stop},
    results::{first_page, is_cut, show, show_failure},
    worker::caller::FrameCaller,
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
    let driver = &*engine.host().driver;
    let caller = FrameCaller::new(engine, &prepared.frame);
    for batch in batches(calls, is_barrier) {
        let specs = batch.into_iter().map(|Making { path, function, input }| {
            let callee = Callee::Function(prepared.functions[function].meta.id());
            CallSpec { path, callee, input }
        });
        let mut waiting = Vec::new();
        for outcome in driver.calls(specs.collect(), &caller).await {
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
    let mut results = Vec::with_capacity(planned.len());
    for planned in planned {
        let call = match planned {
            PlannedCall::Answered(result) => {
                results.push(result.clone());
                continue;
            }
            PlannedCall::Make { call, .. } => call,
        };
        let mut outcome = made.next();
        blobs.extend(outcome.iter_mut().flat_map(|outcome| std::mem::take(&mut outcome.blobs)));
        let (text, is_error) = match outcome.map(|outcome| outcome.end) {
            Some(End::Done(value)) => (show(&value), false),
            Some(End::Failed(failure)) => (show_failure(&failure), true),
            // A lost call is reported as lost, because each call must be answered exactly once.
            Some(End::Suspended(_)) | None => ("The call was interrupted.".to_owned(), true),
        };
        let number = match prepared.can_read_on && is_cut(&text) {
            true => Some(parent.engine.host().driver.shared().keep_result(parent.path, &text).await),
            false => None,
        };
        results.push(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: first_page(&text, number).into(),
            is_error,
        });
    }
    Ok((results, blobs))
}
