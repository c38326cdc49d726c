//! Makes calls, in this process or through a driver elsewhere.

use super::run;
use crate::{
    call_path::CallPath,
    call_spec::{CallSpec, Callee, FrameSpec, WorkerCall},
    definition::{Definitions, WorkerDefinition},
    driver::Caller,
    engine::{Call, Engine, Frame},
    function::Function,
    gate::Policy,
    outcome::{Failure, FailureKind, Halt, Outcome, Stop},
    send::BoxFuture,
    source::{FunctionId, FunctionSource},
    step_name::StepName,
    toolset::ToolsetContext,
};
use std::{borrow::Cow, sync::Arc};

/// Makes calls from one frame.
pub(crate) struct FrameCaller<'a> {
    engine: &'a Engine,
    frame: &'a Frame,
    /// The called function, if it is known already.
    known: Option<&'a Function>,
}

impl<'a> FrameCaller<'a> {
    pub(crate) fn new(engine: &'a Engine, frame: &'a Frame) -> Self {
        Self { engine, frame, known: None }
    }
}

impl Caller for FrameCaller<'_> {
    fn frame(&self) -> FrameSpec {
        self.frame.spec()
    }

    fn make<'a>(&'a self, call: CallSpec) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(make(self.engine, self.frame, call, self.known))
    }
}

/// Makes one call. `known` is the called function, if the caller has it already.
///
/// # Errors
/// Only errors that end the run.
pub(crate) async fn call(
    engine: &Engine,
    frame: &Frame,
    call: CallSpec,
    known: Option<&Function>,
) -> Result<Outcome, Halt> {
    let caller = FrameCaller { engine, frame, known };
    let path = call.path.clone();
    let mut outcomes = engine.host().driver.calls(vec![call], &caller).await;
    outcomes.pop().unwrap_or_else(|| {
        let reason = "the driver returned no outcome for the call".to_owned();
        Err(Halt::Diverged { path, step: StepName::Call, reason })
    })
}

/// Makes a call that another process has serialised, for a driver that makes calls in several processes. The engine
/// belongs to this process and to the same run, over the same program.
///
/// # Errors
/// Only errors that end the run, such as a program without the workers or functions that the data names.
pub async fn make_from_spec(engine: &Engine, frame: FrameSpec, call: CallSpec) -> Result<Outcome, Halt> {
    let workers = workers(engine, &frame.workers, &call).await?;
    let frame = Frame::from_spec(frame, &workers);
    if let Some(worker) = frame.worker() {
        run::tools_again(engine, worker, &frame, &call.path, StepName::Call).await?;
    }
    make(engine, &frame, call, None).await
}

async fn make(
    engine: &Engine,
    frame: &Frame,
    call: CallSpec,
    known: Option<&Function>,
) -> Result<Outcome, Halt> {
    let function = match (known, &call.callee) {
        (Some(function), _) => Cow::Borrowed(function),
        (None, Callee::Function(id)) => match frame.function(id) {
            Some(function) => Cow::Borrowed(function),
            None => return Err(gone(&call, &id.name)),
        },
        (None, callee) => match called(engine, frame, callee, &call.path).await {
            Ok(function) => Cow::Owned(function),
            Err(stop) => return Ok(Outcome::free(stop.end()?)),
        },
    };
    // Who starts a program has allowed its entry, which may be code.
    let by_operator = call.callee == Callee::Code && frame.depth() == 1;
    let CallSpec { path, input, .. } = call;
    engine.call(Call { path, function: &function, input, frame, attachments: &[], by_operator }).await
}

/// The error if the program is not the one in which the call was serialised.
fn gone(call: &CallSpec, name: &str) -> Halt {
    let reason = format!("`{name}` no longer exists");
    Halt::Diverged { path: call.path.clone(), step: StepName::Call, reason }
}

/// Resolves a callee that is not among the functions of the calling worker.
async fn called(engine: &Engine, frame: &Frame, callee: &Callee, path: &CallPath) -> Result<Function, Stop> {
    let failed = |message| Stop::failed(FailureKind::Definition, message);
    let host = engine.host();
    match callee {
        Callee::Function(id) => Err(failed(format!("`{}` no longer exists", id.name))),
        Callee::Delegate { reference, by, wildcard } => {
            let worker = delegate(engine, frame, reference).await?;
            let policy = frame.function(by).and_then(|function| function.meta.policy.clone());
            Ok(called_by(frame, &*host.definitions, &worker, reference, *wildcard, policy))
        }
        Callee::Named { package, reference } => {
            let worker = host.definitions.named_by(package, reference);
            let worker = worker.map_err(|error| failed(error.to_string()))?;
            Ok(called_by(frame, &*host.definitions, &worker, reference, false, None))
        }
        Callee::Code => Ok(code_again(engine, frame, path).await?),
    }
}

/// A worker in the form of a function that the worker of a frame, or code on its behalf, calls: with the arguments that
/// the caller's definition fixes.
pub(crate) fn called_by(
    frame: &Frame,
    definitions: &dyn Definitions,
    callee: &Arc<WorkerDefinition>,
    reference: &str,
    wildcard: bool,
    policy: Option<Arc<Policy>>,
) -> Function {
    let fixed = frame.worker().and_then(|caller| caller.fixed_for(definitions, callee));
    run::fixing(callee, reference, wildcard, policy, fixed)
}

/// The worker that the calling worker names: one that it has generated, or one of the program.
///
/// # Errors
/// There is no such worker.
pub(crate) async fn delegate(
    engine: &Engine,
    frame: &Frame,
    reference: &str,
) -> Result<Arc<WorkerDefinition>, Failure> {
    let failed = |message| Failure::new(FailureKind::Definition, message);
    let Some(caller) = frame.worker() else {
        return Err(failed("only workers delegate".to_owned()));
    };
    if let Some(worker) = generated(engine, frame, reference).await {
        return Ok(worker);
    }
    engine.host().definitions.worker(caller, reference).map_err(|error| failed(error.to_string()))
}

/// A worker that the calling worker has generated in this call. No other caller can call it.
pub(crate) async fn generated(engine: &Engine, frame: &Frame, name: &str) -> Option<Arc<WorkerDefinition>> {
    let (creator, path) = (frame.worker()?, frame.path()?);
    let made = engine.host().driver.shared().generated(path).await;
    let (name, arguments) = made.into_iter().find(|(made, _)| **made == *name)?;
    engine.host().toolsets.generated(&engine.host().run, creator, &name, &arguments).ok()
}

/// The function that implements the calling worker, which has no prompt.
pub(super) async fn code(engine: &Engine, frame: &Frame) -> Result<Function, Failure> {
    let host = engine.host();
    let failed = |message| Failure::new(FailureKind::Definition, message);
    let Some((worker, code)) = frame.worker().and_then(|worker| Some((worker, worker.code.as_ref()?))) else {
        return Err(failed("this worker is not code".to_owned()));
    };
    let Some(kind) = host.toolsets.code() else {
        return Err(failed(format!("`{}` is code, and this host does not run code", worker.id)));
    };
    let context = ToolsetContext {
        run: &host.run,
        worker,
        authority: frame.authority(),
        definitions: &host.definitions,
        kinds: &host.toolsets,
        client_tools: &host.client_tools,
        policy: None,
        listing: None,
    };
    let runtime = host.toolsets.runtime(kind.name()).map_err(failed)?;
    runtime.entry(code, &context).await.map_err(failed)
}

/// Makes the same function again, which this or another execution has made in an earlier step.
pub(super) async fn code_again(engine: &Engine, frame: &Frame, path: &CallPath) -> Result<Function, Halt> {
    let mut made = None;
    engine.host().driver.unrecorded(Box::pin(async { made = Some(code(engine, frame).await) })).await?;
    let diverged = |reason| Halt::Diverged { path: path.clone(), step: StepName::Tools, reason };
    made.ok_or(Halt::Cancelled)?.map_err(|failure| diverged(failure.message))
}

/// The definitions of the workers in a frame.
async fn workers(
    engine: &Engine,
    calls: &[WorkerCall],
    call: &CallSpec,
) -> Result<Vec<Arc<WorkerDefinition>>, Halt> {
    let host = engine.host();
    let mut found: Vec<Arc<WorkerDefinition>> = Vec::with_capacity(calls.len());
    for (at, WorkerCall { worker, .. }) in calls.iter().enumerate() {
        let FunctionId { source, name } = worker;
        let definition = match (source, found.last()) {
            (FunctionSource::Generated, Some(creator)) => {
                let made = host.driver.shared().generated(&calls[at - 1].path).await;
                let arguments =
                    made.into_iter().find(|(made, _)| made == name).map(|(_, arguments)| arguments);
                arguments.and_then(|own| host.toolsets.generated(&host.run, creator, name, &own).ok())
            }
            _ => host.definitions.identified(worker),
        };
        found.push(definition.ok_or_else(|| gone(call, name))?);
    }
    Ok(found)
}
