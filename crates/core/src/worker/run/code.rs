//! A worker that is code: the same authority, callers and limits as one with a prompt, and no model.

use super::{Handed, prepare};
use crate::{
    engine::{Call, End, Failure, FailureKind, Halt, Outcome},
    function::{CompositeCall, Risk},
    toolset::ToolsetContext,
    worker::{ATTACHMENTS, CODE, CodeEntry, INSTRUCTIONS, WorkerDefinition},
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
    let mut function = match made {
        Some(Ok(function)) => function,
        Some(Err(reason)) => return failed(FailureKind::Definition, reason),
        None => return Err(Halt::Cancelled),
    };
    if call.frame.worker().is_none() {
        // Whoever starts the program has allowed its entry. What a worker calls is judged like any code.
        function.meta.risk = Risk::Delegate;
    }
    let input = input(worker, call.input, &handed);
    let outcome = call
        .engine
        .call(Call {
            path: call.path.keyed("code"),
            function: &function,
            input: Arc::new(json!({"input": input})),
            frame: &frame,
            attachments: &[],
        })
        .await?;
    let end = prepare::translate_back(&worker.returned_paths, &handed, outcome.end);
    Ok(Outcome { end, ..outcome })
}

/// What the code is given: its declared parameters, with what it was handed as it sees it; else whatever was given.
fn input(worker: &WorkerDefinition, input: &Value, handed: &[Handed]) -> Value {
    if !worker.signature.declared {
        return input.get("input").cloned().unwrap_or(Value::Null);
    }
    let mut values = input.as_object().cloned().unwrap_or_default();
    for beside in [INSTRUCTIONS, ATTACHMENTS] {
        values.shift_remove(beside);
    }
    for Handed { name, .. } in handed {
        values.insert(name.to_string(), Value::String(format!("/{name}")));
    }
    Value::Object(values)
}
