//! Makes the calls of one turn.

use super::prepared::Prepared;
use crate::{
    call_path::CallPath,
    call_spec::{CallSpec, Callee},
    conversation::{PlannedCall, batches},
    function::CompositeCall,
    model::{Blob, ToolResult, Usage},
    origin::{Content, Trail},
    outcome::{End, FailureKind, Outcome, Stop},
    results::{first_page, is_cut, show, show_failure},
    worker::caller::FrameCaller,
};
use serde_json::Value;
use std::sync::Arc;

/// A call to make of a worker's function.
pub(super) struct Making {
    pub(super) path: CallPath,
    /// Position of the function in [`Prepared::functions`].
    pub(super) function: usize,
    pub(super) input: Arc<Value>,
}

/// Makes calls, in parallel except for barriers, and returns their outcomes in order.
pub(super) async fn outcomes(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    trail: &Trail,
    calls: impl IntoIterator<Item = Making>,
    usage: &mut Usage,
) -> Result<Vec<Outcome>, Stop> {
    let engine = parent.engine;
    let mut outcomes = Vec::new();
    let is_barrier = |call: &Making| prepared.functions[call.function].meta.is_barrier();
    let driver = &*engine.host().driver;
    let frame = prepared.frame.after(trail.clone());
    let caller = FrameCaller::new(engine, &frame);
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

/// The results of a turn's calls.
pub(super) struct Made {
    /// The results, in the order of the calls.
    pub(super) results: Vec<ToolResult>,
    /// The files of the results.
    pub(super) blobs: Vec<Blob>,
    /// The contents that the conversation receives with them.
    pub(super) contents: Vec<Content>,
    /// True if the user has stopped one of the calls, and with it the answer that it belongs to.
    pub(super) stopped: bool,
}

/// Makes the planned calls of a turn. `trail` are the contents that the conversation had received when the model
/// planned them.
pub(super) async fn make(
    prepared: &Prepared,
    parent: &CompositeCall<'_>,
    turn: u32,
    trail: &Trail,
    planned: &[PlannedCall],
    usage: &mut Usage,
) -> Result<Made, Stop> {
    let calls = planned.iter().filter_map(|planned| match planned {
        PlannedCall::Make { index, tool, input, .. } => {
            let path = parent.path.call(turn, *index);
            Some(Making { path, function: *tool, input: Arc::clone(input) })
        }
        PlannedCall::Answered(_) => None,
    });
    let mut made = outcomes(prepared, parent, trail, calls, usage).await?.into_iter();
    let (mut blobs, mut contents) = (Vec::new(), Vec::new());
    let mut results = Vec::with_capacity(planned.len());
    let mut stopped = false;
    for planned in planned {
        let (call, index, tool, input) = match planned {
            PlannedCall::Answered(result) => {
                results.push(result.clone());
                continue;
            }
            PlannedCall::Make { call, index, tool, input } => (call, *index, *tool, input),
        };
        let mut outcome = made.next();
        if let Some(outcome) = &outcome {
            let meta = &prepared.functions[tool].meta;
            let path = parent.path.call(turn, index);
            contents.extend(Content::said(&path, &meta.name, &outcome.said));
            contents.extend(Content::of_outcome(path, meta, outcome, input));
        }
        blobs.extend(outcome.iter_mut().flat_map(|outcome| std::mem::take(&mut outcome.blobs)));
        let (text, is_error) = match outcome.map(|outcome| outcome.end) {
            Some(End::Done(value)) => (show(&value), false),
            Some(End::Failed(failure)) => {
                stopped |= failure.kind == FailureKind::Stopped;
                (show_failure(&failure), true)
            }
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
    Ok(Made { results, blobs, contents, stopped })
}
