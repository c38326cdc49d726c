//! Sets of rules that a tool returns (`docs/reference/approvals.md`). The entry calls these tools before the first
//! request of a run, so that no text that a model reads can change their results.

use crate::{
    call_path::CallPath,
    engine::{Call, Engine, Frame},
    function::{CompositeCall, Function},
    gate::{Set, ToolSet, ToolSets, Values},
    journal::RecordKind,
    model::Usage,
    origin::ResultOrigin,
    outcome::{End, Halt},
    risk::Risk,
    step_name::StepName,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Calls the tools whose results rules name, if the worker is the entry, and keeps the sets for the whole run. `frame`
/// is the worker's own, with its functions.
///
/// # Errors
/// The run stops. A tool that fails gives a set that can't be read.
pub(super) async fn read(call: &CompositeCall<'_>, frame: &Frame, usage: &mut Usage) -> Result<(), Halt> {
    if call.frame.worker().is_some() {
        return Ok(());
    }
    let wanted = wanted(call.engine, frame);
    if wanted.is_empty() {
        return Ok(());
    }
    let mut sets = ToolSets::default();
    for (index, set) in wanted.into_iter().enumerate() {
        let path = call.path.set(index);
        let values = match usable(&set, frame.functions()) {
            Ok(function) => result(call.engine, frame, path, function, &set, usage).await?,
            Err(reason) => Err(reason.into()),
        };
        if let Err(reason) = &values {
            let text = format!("the set {} of a rule can't be read: {reason}", Set::Tool(set.clone())).into();
            let step = StepName::Other(format!("set.{index}").into());
            call.engine.host().driver.record(call.path, step, RecordKind::Note { text })?;
        }
        sets.insert(set, values);
    }
    frame.keep_sets(sets);
    Ok(())
}

/// The sets that the rules of this run name, each once.
fn wanted(engine: &Engine, frame: &Frame) -> Vec<ToolSet> {
    let gate = &engine.host().gate;
    let lines = [&gate.operator, &gate.project.lines, &gate.user.lines];
    let lines = lines.into_iter().flatten().chain(frame.rules());
    let named = lines.flat_map(|line| line.conditions.sets()).filter_map(|set| match set {
        Set::Tool(set) => Some(set),
        Set::Known(_) => None,
    });
    let mut wanted: Vec<ToolSet> = Vec::new();
    for set in named.chain(&gate.sets_of_workers) {
        if !wanted.contains(set) {
            wanted.push(set.clone());
        }
    }
    wanted
}

/// The function that returns a set, if it may.
fn usable<'f>(set: &ToolSet, functions: &'f [Function]) -> Result<&'f Function, String> {
    let tool = &set.tool;
    let found = functions.iter().find(|f| f.meta.name == *tool || f.meta.tool_name == *tool);
    let Some(function) = found else {
        return Err(format!("the entry has no tool `{tool}` that could return the set"));
    };
    let meta = &function.meta;
    if meta.risk != Risk::Read {
        return Err(format!("`{tool}` returns no set: it has the risk `{}`, not `read`", meta.risk));
    }
    if meta.results != ResultOrigin::Trusted {
        return Err(format!("`{tool}` returns no set: its results are untrusted"));
    }
    Ok(function)
}

async fn result(
    engine: &Engine,
    frame: &Frame,
    path: CallPath,
    function: &Function,
    set: &ToolSet,
    usage: &mut Usage,
) -> Result<Values, Halt> {
    let input = Arc::new(Value::Object(Map::new()));
    let call = Call { path, function, input, frame, attachments: &[], by_operator: false };
    let outcome = engine.call(call).await?;
    *usage = usage.plus(outcome.usage);
    let tool = &set.tool;
    Ok(match outcome.end {
        End::Done(value) => match set.at.values(&value) {
            Ok(values) => Ok(values.into()),
            Err(reason) => Err(format!("the result of `{tool}`: {reason}").into()),
        },
        End::Failed(failure) => Err(format!("`{tool}` failed: {}", failure.message).into()),
        End::Suspended(_) => Err(format!("`{tool}` waits for an approval").into()),
    })
}
