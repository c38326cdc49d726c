//! What the gate would say of a call that a worker's model makes.

use super::{function, prepare};
use crate::{
    call_path::CallPath,
    engine::{Call, Engine, Explained, Failure, FailureKind, Frame, Halt},
    function::{CompositeCall, Implementation},
    worker::WorkerDefinition,
};
use serde_json::Value;
use std::sync::Arc;

/// Explains what becomes of a call of `tool` that the model of `worker` makes, when the operator calls the worker with
/// `input`. Nothing is sent, asked or run.
///
/// # Errors
/// Only what ends a run. The inner error says why the worker would not begin, or that it has no such tool.
pub async fn explain(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
    input: &Arc<Value>,
    tool: &str,
    arguments: &Value,
) -> Result<Result<Explained, Failure>, Halt> {
    let root = CallPath::root();
    let entry = function(worker, &worker.id, false, None);
    let Implementation::Composite(composite) = &entry.body else { unreachable!("workers are composites") };
    let touched = composite.effects(input).touches;
    let places = touched.iter().map(|touch| frame.authority().locate(&touch.path, touch.access));
    let places = match places.collect::<Result<Vec<_>, _>>() {
        Ok(places) => places,
        Err(refusal) => return Ok(Err(Failure::new(FailureKind::Authority, refusal.to_string()))),
    };
    let call = CompositeCall { engine, frame, path: &root, input, places: &places, attachments: &[] };
    let (handed, attached) = prepare::hand_over(worker, &call);
    let authority = match prepare::narrow(worker, &call, &handed, &attached) {
        Ok(authority) => authority,
        Err(failure) => return Ok(Err(failure)),
    };
    let frame = frame.enter(worker, authority, &root, &*engine.host().driver);
    let functions = match prepare::tools(engine, worker, &frame).await? {
        Ok(functions) => functions,
        Err(reason) => return Ok(Err(Failure::new(FailureKind::Definition, reason))),
    };
    frame.offer(&functions);
    let Some(called) = functions.iter().find(|f| *f.meta.tool_name == *tool || *f.meta.name == *tool) else {
        let names: Vec<&str> = functions.iter().map(|f| &*f.meta.tool_name).collect();
        let message = format!("`{}` has no tool `{tool}`; it has: {}", worker.id, names.join(", "));
        return Ok(Err(Failure::new(FailureKind::Definition, message)));
    };
    let call = Call {
        path: root.call(0, 0),
        function: called,
        input: Arc::new(arguments.clone()),
        frame: &frame,
        attachments: &[],
    };
    engine.explain(&call).await.map(Ok)
}
