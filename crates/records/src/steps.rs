//! The steps that took time within the calls of a run, each with its beginning and its end.

use llm_do_core::{
    call_path::CallPath,
    journal::{Record, RecordKind},
    step_name::StepName,
};
use serde::Serialize;
use std::collections::HashMap;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A request to a model.
    Model,
    /// Code of a tool.
    Tool,
    /// A question to the operator.
    Question,
    /// A wait before a retry.
    Pause,
}

/// A step that took time.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The kind of the step.
    pub kind: StepKind,
    /// The record of its intent; of a pause, its only record.
    pub begin: &'a Record,
    /// The record of its outcome. Without one it is still running, or was cut off.
    pub end: Option<&'a Record>,
    /// The time at which it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// The time at which it ended; without an outcome, the last moment at which it can have run.
    pub ended_ms: u64,
}

impl Step<'_> {
    /// Returns the place of the call that the step belongs to.
    pub fn path(&self) -> &CallPath {
        &self.begin.path
    }
}

/// Returns the steps of a run, in the order of their first records.
pub fn steps(records: &[Record]) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut open: HashMap<(&CallPath, &StepName), usize> = HashMap::new();
    let mut before_ms = 0;
    for record in records {
        let key = (&record.path, &record.step);
        let kind = match &record.body {
            RecordKind::ModelRequested { .. } => StepKind::Model,
            RecordKind::ToolStarted { .. } => StepKind::Tool,
            RecordKind::Asked(_) => StepKind::Question,
            RecordKind::Slept { ms } => {
                let (begun_ms, ended_ms) = (record.at_ms.saturating_sub(*ms), record.at_ms);
                steps.push(Step {
                    kind: StepKind::Pause,
                    begin: record,
                    end: Some(record),
                    begun_ms,
                    ended_ms,
                });
                continue;
            }
            RecordKind::RunResumed { .. } => {
                // Steps that ran stopped with the process; a question keeps waiting.
                open.retain(|_, &mut place| {
                    let waits = steps[place].kind == StepKind::Question;
                    if !waits {
                        steps[place].ended_ms = before_ms.max(steps[place].begun_ms);
                    }
                    waits
                });
                continue;
            }
            _ => {
                if let Some(place) = open.remove(&key) {
                    let step = &mut steps[place];
                    // In a manipulated journal, times may decrease.
                    (step.end, step.ended_ms) = (Some(record), record.at_ms.max(step.begun_ms));
                }
                before_ms = record.at_ms;
                continue;
            }
        };
        before_ms = record.at_ms;
        if let Some(place) = open.insert(key, steps.len()) {
            steps[place].ended_ms = record.at_ms.max(steps[place].begun_ms);
        }
        let at_ms = record.at_ms;
        steps.push(Step { kind, begin: record, end: None, begun_ms: at_ms, ended_ms: at_ms });
    }
    let last_ms = records.last().map_or(0, |record| record.at_ms);
    for place in open.into_values() {
        steps[place].ended_ms = last_ms.max(steps[place].begun_ms);
    }
    steps
}
