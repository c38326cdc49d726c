//! The judgement of tools that the provider of a worker's model runs (`docs/reference/server-side-tools.md`).

use crate::{
    definition::WorkerDefinition,
    engine::{Call, Engine, Frame},
    function::{
        Composite, CompositeCall, Concurrency, Function, FunctionMeta, FunctionSource, Implementation,
    },
    gate::WithheldTool,
    journal::RecordKind,
    model::Model,
    origin::ResultOrigin,
    outcome::{End, Failure, FailureKind, Halt, Outcome, Stop},
    send::BoxFuture,
    server_tool::ServerTool,
    step_name::StepName,
};
use std::sync::Arc;

/// The source of these tools in records and rules.
const SOURCE: &str = "server_side_tools";

/// A server-side tool in the form of a function for the gate: its arguments are the tool's options.
pub(super) fn function(tool: &ServerTool) -> Function {
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset(SOURCE.into()),
            name: tool.name().into(),
            tool_name: tool.name().into(),
            aliases: &[],
            description: tool.description().into(),
            input: Arc::new(tool.schema()),
            output: None,
            risk: tool.risk(),
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: ResultOrigin::Untrusted,
            wildcard: false,
            policy: None,
        },
        body: Implementation::Composite(Arc::new(Permission)),
        rule: None,
    }
}

/// A call that passes the gate and does nothing: it returns the options with which the tool is allowed.
struct Permission;

impl Composite for Permission {
    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move { Ok(Outcome::free(End::Done(Arc::clone(call.input)))) })
    }
}

/// Checks that the provider of a model can run these tools.
pub(super) fn check(
    worker: &WorkerDefinition,
    tools: &[ServerTool],
    model: &dyn Model,
) -> Result<(), Failure> {
    let refused = if tools.is_empty() { None } else { model.refused_server_tools(tools).into_iter().next() };
    match refused {
        Some(refused) => Err(Failure::new(
            FailureKind::Definition,
            format!("`{}`: server_side_tools: {refused}", worker.id),
        )),
        None => Ok(()),
    }
}

/// Checks that no function has the name of such a tool: rules could not tell them apart, nor could the model.
pub(super) fn distinct(worker: &WorkerDefinition, functions: &[Function]) -> Result<(), Failure> {
    let is_taken = |tool: &&ServerTool| functions.iter().any(|f| *f.meta.tool_name == *tool.name());
    match worker.server_tools.iter().find(is_taken) {
        Some(tool) => {
            let name = tool.name();
            let message = format!(
                "`{}` has a tool `{name}` of its own, and lists `{name}` under `server_side_tools`; keep one of them",
                worker.id
            );
            Err(Failure::new(FailureKind::Definition, message))
        }
        None => Ok(()),
    }
}

/// The worker's tools that the gate has not allowed.
pub(super) fn refused<'a>(
    worker: &'a WorkerDefinition,
    granted: &'a [ServerTool],
) -> impl Iterator<Item = WithheldTool> + 'a {
    let is_refused = |tool: &&ServerTool| granted.iter().all(|other| other.name() != tool.name());
    worker.server_tools.iter().filter(is_refused).map(|tool| WithheldTool {
        name: tool.name().into(),
        why: "it was refused when the conversation began".into(),
    })
}

/// Submits each of the worker's tools to the gate, in order, and returns those that it allows, with the allowed
/// options. Like a function that can't pass the gate, a refused tool is not offered; its call's records contain the
/// reason.
///
/// # Errors
/// The operator is to be asked later, or options that the operator edited are invalid.
pub(super) async fn granted(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    frame: &Frame,
) -> Result<Vec<ServerTool>, Stop> {
    let engine: &Engine = call.engine;
    let mut granted = Vec::with_capacity(worker.server_tools.len());
    let mut waiting = Vec::new();
    for (index, tool) in worker.server_tools.iter().enumerate() {
        let function = function(tool);
        let judged = engine.call(Call {
            path: call.path.server_tool(index),
            function: &function,
            input: Arc::new(tool.options()),
            frame,
            attachments: &[],
            by_operator: false,
        });
        match Box::pin(judged).await?.end {
            End::Done(options) => granted.extend(tool.with_options(&options)),
            End::Failed(Failure { kind: FailureKind::Blocked | FailureKind::Denied, .. }) => {
                let text = format!(
                    "`{}` answers without `{}` of its provider, which was refused",
                    worker.id,
                    tool.name()
                );
                let note = RecordKind::Note { text: text.into() };
                engine.host().driver.record(&call.path.server_tool(index), StepName::LeftOut, note)?;
            }
            End::Failed(failure) => return Err(failure.into()),
            End::Suspended(questions) => waiting.extend(questions),
        }
    }
    if waiting.is_empty() { Ok(granted) } else { Err(Stop::Suspended(waiting)) }
}
