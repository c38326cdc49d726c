//! A worker that is code: it has the same authority, callers and limits as a worker with a prompt, and no model.

use super::{
    enter::{Entered, enter, list, tools, tools_again},
    handed::translate_back,
    sets,
};
use crate::{
    call_spec::{CallSpec, Callee},
    definition::WorkerDefinition,
    driver::{CutOff, Step, StepEnd},
    engine::Frame,
    function::{CompositeCall, Function},
    journal::RecordKind,
    model::Usage,
    outcome::{End, Ending, FailureKind, Halt, Outcome, Stop},
    step_name::StepName,
    worker::caller,
};
use serde_json::json;
use std::sync::Arc;

/// Calls the code with its caller's authority, narrowed as for any worker.
pub(super) async fn run(worker: &Arc<WorkerDefinition>, call: &CompositeCall<'_>) -> Result<Outcome, Halt> {
    let Entered { frame, handed, input, .. } = match enter(worker, call).await {
        Ok(entered) => entered,
        Err(stop) => return Ok(Outcome::free(stop.end()?)),
    };
    let function = match make(worker, call, &frame).await {
        Ok(function) => function,
        Err(stop) => {
            let end = stop.end()?;
            let origins = frame.trail().ends(&end);
            return Ok(Outcome { origins, ..Outcome::free(end) });
        }
    };
    let mut usage = Usage::default();
    sets::read(call, &frame, &mut usage).await?;
    let input = Arc::new(json!({"input": input.whole}));
    let spec = CallSpec { path: call.path.keyed("code"), callee: Callee::Code, input };
    let outcome = caller::call(call.engine, &frame, spec, Some(&function)).await?;
    call.engine.host().driver.shared().ended(call.path).await;
    let end = translate_back(&worker.returned_paths, &handed, outcome.end);
    Ok(Outcome { end, usage: usage.plus(outcome.usage), ..outcome })
}

/// Makes the tools that the code may call, and the function of the worker. This is a step, since it may fail or take
/// too long.
async fn make(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
    frame: &Frame,
) -> Result<Function, Stop> {
    let driver = &*call.engine.host().driver;
    list(call.engine, worker, frame, call.path).await?;
    let mut made = None;
    let deadline = frame.remaining(driver).await;
    let step = Step {
        path: call.path,
        name: StepName::Tools,
        intent: None,
        deadline,
        cut_off: CutOff::Again,
        run: Box::pin(async {
            let making = async {
                tools(call.engine, worker, frame).await?;
                caller::code(call.engine, frame).await
            };
            match making.await {
                Ok(function) => {
                    made = Some(function);
                    RecordKind::Worked
                }
                Err(failure) => RecordKind::CallEnded {
                    ending: End::Failed(failure).to_ending(),
                    usage: Default::default(),
                    blobs: Vec::new(),
                    origins: Default::default(),
                    said: Box::default(),
                },
            }
        }),
    };
    match driver.step(step).await?.end {
        StepEnd::Done(RecordKind::Worked) => {}
        StepEnd::Done(RecordKind::CallEnded { ending: Ending::Failure(failure), .. }) => {
            return Err(failure.into());
        }
        StepEnd::Done(other) => return Err(Halt::unexpected(call.path, &StepName::Tools, &other).into()),
        StepEnd::TimedOut => {
            let message = format!("`{}` ran out of time before its code began", worker.id);
            return Err(Stop::failed(FailureKind::Timeout, message));
        }
    }
    match made {
        Some(function) => Ok(function),
        None => {
            tools_again(call.engine, worker, frame, call.path, StepName::Tools).await?;
            Ok(caller::code_again(call.engine, frame, call.path).await?)
        }
    }
}
