//! Checks that the journal of a finished run is complete and matches its report.

use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;

use llm_do::Report;
use llm_do::core::call_path::CallPath;
use llm_do::core::engine::{End, FailureKind};
use llm_do::core::{
    journal::{Record, RecordKind, RunStatus},
    step_name::StepName,
};
use llm_do::runs::{SealKey, read_own_journal};

use crate::FINAL;

/// The counts of a run's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Requests that were sent.
    pub requested: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// The number of failures by kind.
    pub failed: HashMap<String, u64>,
    /// Tools that ran.
    pub tools: u64,
    /// 1 for a run that is done, 0 for a run that failed.
    pub done: u64,
}

impl AddAssign for Audited {
    fn add_assign(&mut self, other: Self) {
        self.requested += other.requested;
        self.answered += other.answered;
        for (what, times) in other.failed {
            *self.failed.entry(what).or_default() += times;
        }
        self.tools += other.tools;
        self.done += other.done;
    }
}

/// Reads the journal behind a report, seals and all, and compares them. A run of the soak makes `turns` tool turns and
/// an answer, or fails because its model did.
///
/// # Errors
/// The part of the journal that is missing or differs.
pub fn audit(report: &Report, key: &SealKey, turns: u64) -> Result<Audited, String> {
    if let Some(halt) = &report.halt {
        return Err(format!("it was halted: {halt}"));
    }
    let journal = read_own_journal(&report.dir, key).map_err(|error| error.to_string())?;
    if journal.torn {
        return Err("its journal ends in half a line".into());
    }
    begins_and_ends(report, &journal.records)?;
    everything_ends(&journal.records)?;
    let (audited, last_failure) = counted(&journal.records);
    let same = |what: &str, journal: u64, report: u32| {
        let same = journal == u64::from(report);
        same.then_some(()).ok_or_else(|| format!("its journal counts {journal} {what}, its report {report}"))
    };
    same("requests", audited.requested, report.counts.sent)?;
    same("answers", audited.answered, report.counts.requests)?;
    same("tools", audited.tools, report.counts.tools)?;
    let unanswered: u64 = audited.failed.values().sum();
    if audited.requested != audited.answered + unanswered {
        return Err(format!(
            "of {} requests {unanswered} failed and {} were answered",
            audited.requested, audited.answered
        ));
    }
    match (&report.end, report.status) {
        (End::Done(output), RunStatus::Done) if output.as_str() == Some(FINAL) => {
            if (audited.answered, audited.tools) != (turns + 1, turns) {
                return Err(format!(
                    "it was done after {} answers and {} tools",
                    audited.answered, audited.tools
                ));
            }
            Ok(Audited { done: 1, ..audited })
        }
        (End::Failed(failure), RunStatus::Failed) if failure.kind == FailureKind::Model => match last_failure
        {
            Some(reason) if failure.message.starts_with(&*reason) => Ok(audited),
            other => Err(format!("it failed with {:?} after {other:?}", failure.message)),
        },
        (end, status) => Err(format!("it ended as {status:?} with {end:?}")),
    }
}

fn begins_and_ends(report: &Report, records: &[Record]) -> Result<(), String> {
    match records.first().map(|record| &record.body) {
        Some(RecordKind::RunStarted { run, .. }) if *run == report.run => {}
        other => return Err(format!("its journal begins with {other:?}")),
    }
    match records.last().map(|record| &record.body) {
        Some(RecordKind::RunEnded { status, ending, usage })
            if *status == report.status && *ending == report.end.to_ending() && *usage == report.usage => {}
        other => return Err(format!("it ended with {:?}, and its journal with {other:?}", report.end)),
    }
    let edges =
        |record: &&Record| matches!(record.body, RecordKind::RunStarted { .. } | RecordKind::RunEnded { .. });
    match records.iter().filter(edges).count() {
        2 => Ok(()),
        _ => Err("its journal begins or ends more than once".into()),
    }
}

/// Checks that every intent has its outcome, under the same key, and every call its end.
fn everything_ends(records: &[Record]) -> Result<(), String> {
    let mut steps: HashSet<(&CallPath, &StepName)> = HashSet::new();
    let mut calls: HashSet<&CallPath> = HashSet::new();
    for Record { seq, path, step, body, .. } in records {
        let fits = match body {
            RecordKind::CallStarted { .. } => calls.insert(path),
            RecordKind::CallEnded { .. } => calls.remove(path),
            RecordKind::ModelRequested { .. } | RecordKind::ToolStarted { .. } => steps.insert((path, step)),
            RecordKind::ModelAnswered { .. } | RecordKind::ModelFailed { .. } => steps.remove(&(path, step)),
            RecordKind::ToolAsked { .. } => steps.remove(&(path, step)),
            // A leaf is one step, and its call ends with it.
            RecordKind::ToolEnded { .. } => steps.remove(&(path, step)) && calls.remove(path),
            _ => true,
        };
        if !fits {
            return Err(format!(
                "record {seq} ({path} {step}) begins or ends what has begun or ended before"
            ));
        }
    }
    match (steps.iter().next(), calls.iter().next()) {
        (None, None) => Ok(()),
        (Some((path, step)), _) => Err(format!("{path} {step} has no outcome in its journal")),
        (_, Some(path)) => Err(format!("the call {path} has no end in its journal")),
    }
}

/// Counts the records, and returns the last failure.
fn counted(records: &[Record]) -> (Audited, Option<String>) {
    let (mut audited, mut last) = (Audited::default(), None);
    for record in records {
        match &record.body {
            RecordKind::ModelRequested { .. } => audited.requested += 1,
            RecordKind::ModelAnswered { .. } => audited.answered += 1,
            RecordKind::ModelFailed { error, .. } => {
                *audited.failed.entry(error.message.clone()).or_default() += 1;
                last = Some(error.message.clone());
            }
            RecordKind::ToolEnded { .. } => audited.tools += 1,
            _ => {}
        }
    }
    (audited, last)
}
