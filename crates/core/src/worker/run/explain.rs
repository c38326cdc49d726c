//! Explains the gate's decision about a call of a worker's model.

use super::{
    enter::{Entered, enter, list, tools},
    function, server_tools,
};
use crate::{
    call_path::CallPath,
    definition::WorkerDefinition,
    engine::{Call, Engine, Explained, Frame},
    function::CompositeCall,
    origin::Origins,
    outcome::{FailureKind, Stop},
};
use serde_json::Value;
use std::sync::Arc;

/// Explains the decision about a call of `tool` by the model of `worker`, when the operator calls the worker with
/// `input`. Nothing is sent, asked or run.
///
/// # Errors
/// The worker would not start, or it has no such tool, or an error that ends a run.
pub async fn explain(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
    input: &Arc<Value>,
    tool: &str,
    arguments: &Value,
) -> Result<Explained, Stop> {
    let root = CallPath::root();
    let entry = function(worker, &worker.id, false, None);
    let call = Call {
        path: root.clone(),
        function: &entry,
        input: Arc::clone(input),
        frame,
        attachments: &[],
        by_operator: true,
    };
    let (input, places) = engine.accept(&call).await?;
    let frame = &frame.after(engine.trail_into(&call, &input, frame.input_origins()));
    let call = CompositeCall {
        engine,
        frame,
        path: &root,
        input: &input,
        origins: &Origins::TRUSTED,
        places: &places,
        untrusted: &[],
        attachments: &[],
        timeout: None,
        bounds: None,
    };
    let Entered { frame, .. } = enter(worker, &call).await?;
    list(engine, worker, &frame, &root).await?;
    let mut functions = tools(engine, worker, &frame).await?;
    functions.extend(worker.server_tools.iter().map(server_tools::function));
    let Some(called) = functions.iter().find(|f| *f.meta.tool_name == *tool || *f.meta.name == *tool) else {
        let names: Vec<&str> = functions.iter().map(|f| &*f.meta.tool_name).collect();
        let message = format!("`{}` has no tool `{tool}`; it has: {}", worker.id, names.join(", "));
        return Err(Stop::failed(FailureKind::Definition, message));
    };
    let call = Call {
        path: root.call(0, 0),
        function: called,
        input: Arc::new(arguments.clone()),
        frame: &frame,
        attachments: &[],
        by_operator: false,
    };
    Ok(engine.explain(&call).await?)
}
