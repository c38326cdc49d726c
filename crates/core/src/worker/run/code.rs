//! A worker that is code: the same authority, callers and limits as one with a prompt, and no model.

use super::prepare;
use crate::{
    engine::{Call, End, Failure, FailureKind, Halt, Outcome},
    function::CompositeCall,
    toolset::ToolsetContext,
    worker::{CODE, CodeEntry, WorkerDefinition},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Calls the code with what its caller may touch, narrowed as for any worker.
pub(super) async fn run(
    worker: &Arc<WorkerDefinition>,
    code: &CodeEntry,
    call: &CompositeCall<'_>,
) -> Result<Outcome, Halt> {
    let failed = |kind, message: String| Ok(Outcome::free(End::Failed(Failure::new(kind, message))));
    let host = call.engine.host();
    let (handed, attached) = prepare::hand_over(worker, call);
    let authority = match prepare::narrow(worker, call, &handed, &attached) {
        Ok(authority) => authority,
        Err(failure) => return Ok(Outcome::free(End::Failed(failure))),
    };
    let frame = call.frame.enter(worker, authority, call.path, &*host.driver);
    let functions = match prepare::tools(call.engine, worker, &frame).await? {
        Ok(functions) => functions,
        Err(reason) => return failed(FailureKind::Definition, reason),
    };
    frame.offer(&functions);
    let context = ToolsetContext {
        run: &host.run,
        worker,
        authority: frame.authority(),
        definitions: &host.definitions,
        policy: None,
    };
    let Some(kind) = host.toolsets.get(CODE) else {
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
    let input = call.input.get("input").cloned().unwrap_or(Value::Null);
    call.engine
        .call(Call {
            path: call.path.keyed("code"),
            function: &function,
            input: Arc::new(json!({"input": input})),
            frame: &frame,
            attachments: &[],
        })
        .await
}
