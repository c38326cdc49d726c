//! A worker that is code: the same authority, callers and limits as one with a prompt, and no model.

use super::enter::{Entered, enter, translate_back};
use crate::{
    call_spec::{CallSpec, Callee},
    definition::WorkerDefinition,
    function::CompositeCall,
    outcome::{Halt, Outcome},
    worker::caller,
};
use serde_json::json;
use std::sync::Arc;

/// Calls the code with what its caller may touch, narrowed as for any worker.
pub(super) async fn run(worker: &Arc<WorkerDefinition>, call: &CompositeCall<'_>) -> Result<Outcome, Halt> {
    let Entered { frame, handed, input, .. } = match enter(worker, call).await {
        Ok(entered) => entered,
        Err(stop) => return Ok(Outcome::free(stop.end()?)),
    };
    let input = Arc::new(json!({"input": input.whole}));
    let spec = CallSpec { path: call.path.keyed("code"), callee: Callee::Code, input };
    let outcome = caller::call(call.engine, &frame, spec, None).await?;
    call.engine.host().driver.shared().ended(call.path).await;
    let end = translate_back(&worker.returned_paths, &handed, outcome.end);
    Ok(Outcome { end, ..outcome })
}
