//! A worker that is code: the same authority, callers and limits as one with a prompt, and no model.

use super::enter::{Entered, enter, translate_back};
use crate::{
    code::CodeEntry,
    definition::WorkerDefinition,
    engine::Call,
    function::CompositeCall,
    outcome::{End, Failure, FailureKind, Halt, Outcome},
    toolset::ToolsetContext,
};
use serde_json::json;
use std::sync::Arc;

/// Calls the code with what its caller may touch, narrowed as for any worker.
pub(super) async fn run(
    worker: &Arc<WorkerDefinition>,
    code: &CodeEntry,
    call: &CompositeCall<'_>,
) -> Result<Outcome, Halt> {
    let host = call.engine.host();
    let Entered { frame, handed, input, .. } = match enter(worker, call).await {
        Ok(entered) => entered,
        Err(stop) => return Ok(Outcome::free(stop.end()?)),
    };
    let failed = |kind, message: String| Ok(Outcome::free(End::Failed(Failure::new(kind, message))));
    let context = ToolsetContext {
        run: &host.run,
        worker,
        authority: frame.authority(),
        definitions: &host.definitions,
        kinds: &host.toolsets,
        policy: None,
    };
    let Some(kind) = host.toolsets.code() else {
        let message = format!("`{}` is code, and this host runs none", worker.id);
        return failed(FailureKind::Definition, message);
    };
    let mut made = None;
    let work = async { made = Some(kind.entry(code, &context).await) };
    host.driver.unrecorded(Box::pin(work)).await?;
    let function = match made {
        Some(Ok(function)) => function,
        Some(Err(reason)) => return failed(FailureKind::Definition, reason),
        None => return Err(Halt::Cancelled),
    };
    let outcome = call
        .engine
        .call(Call {
            path: call.path.keyed("code"),
            function: &function,
            input: Arc::new(json!({"input": input.whole})),
            frame: &frame,
            attachments: &[],
            // Who starts the program has allowed its entry. A call by a worker is judged like any code.
            starts_run: call.frame.worker().is_none(),
        })
        .await?;
    let end = translate_back(&worker.returned_paths, &handed, outcome.end);
    Ok(Outcome { end, ..outcome })
}
