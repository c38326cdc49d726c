//! The times at which the calls of a run were active, for drawing.

use crate::{
    steps::StepKind,
    tree::{CallNode, CallState},
    whole::WholeRun,
};
use llm_do_core::{call_path::CallPath, journal::RecordKind};
use serde::Serialize;
use std::{collections::HashMap, sync::Arc};

/// The calls of a run over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// The time at which the run began, in milliseconds since 1970. All other times are relative to it.
    pub started_ms: u64,
    /// The time from the first to the last record, in milliseconds.
    pub took_ms: u64,
    /// The times between two processes that ran it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<TimelineGap>,
    /// The calls, each before those that it made.
    pub rows: Vec<TimelineRow>,
}

/// The time between the end of one process and the start of the next that resumed the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineGap {
    /// The beginning of the gap, in milliseconds from the run's beginning.
    pub from_ms: u64,
    /// The end of the gap, likewise.
    pub to_ms: u64,
}

impl TimelineGap {
    fn ms(self) -> u64 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// A call over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineRow {
    /// The place of the call.
    pub path: CallPath,
    /// The number of calls above it.
    pub depth: usize,
    /// The function that is called.
    pub function: Arc<str>,
    /// The state of the call.
    pub state: CallState,
    /// The beginning of the call, in milliseconds from the run's beginning.
    pub from_ms: u64,
    /// The end of the call, or the run's last moment.
    pub to_ms: u64,
    /// The call's own steps that took time, without the calls that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<TimelineSpan>,
}

/// A span of time within a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineSpan {
    /// The kind of step.
    pub kind: StepKind,
    /// The beginning of the span, in milliseconds from the run's beginning.
    pub from_ms: u64,
    /// The end of the span, likewise.
    pub to_ms: u64,
}

impl Timeline {
    /// Makes the timeline of a run.
    pub fn of(run: &WholeRun) -> Self {
        let tree = run.tree();
        let offset = |ms: u64| ms.saturating_sub(tree.started_ms).min(tree.took_ms);
        let mut spans: HashMap<&CallPath, Vec<TimelineSpan>> = HashMap::new();
        let steps = run.steps();
        for step in &steps {
            spans.entry(step.path()).or_default().push(TimelineSpan {
                kind: step.kind,
                from_ms: offset(step.begun_ms),
                to_ms: offset(step.ended_ms),
            });
        }
        let mut rows = Vec::new();
        let mut left: Vec<(usize, &CallNode)> = tree.calls.iter().rev().map(|node| (0, node)).collect();
        while let Some((depth, node)) = left.pop() {
            rows.push(TimelineRow {
                path: node.path.clone(),
                depth,
                function: Arc::clone(&node.function),
                state: node.state,
                from_ms: offset(node.started_ms),
                to_ms: offset(node.ended_ms()),
                spans: spans.remove(&node.path).unwrap_or_default(),
            });
            left.extend(node.calls.iter().rev().map(|call| (depth + 1, call)));
        }
        let gaps = run.records().iter().filter_map(|record| match record.body {
            RecordKind::RunResumed { idle_ms, .. } => Some(TimelineGap {
                from_ms: offset(record.at_ms.saturating_sub(idle_ms)),
                to_ms: offset(record.at_ms),
            }),
            _ => None,
        });
        Self { started_ms: tree.started_ms, took_ms: tree.took_ms, gaps: gaps.collect(), rows }
    }

    /// Returns the position of a time in a drawing, in milliseconds from its left edge. A gap gets at most a tenth of
    /// the width of the work, or it would fill the drawing of a run that was resumed the next day.
    pub fn drawn(&self, at_ms: u64) -> u64 {
        let longest = self.longest_gap();
        let too_long = self.gaps.iter().filter(|gap| gap.ms() > longest);
        too_long.fold(at_ms, |drawn, gap| {
            let passed = at_ms.min(gap.to_ms).saturating_sub(gap.from_ms);
            let kept = u128::from(passed) * u128::from(longest) / u128::from(gap.ms());
            drawn.saturating_sub(passed - u64::try_from(kept).unwrap_or(passed))
        })
    }

    /// Returns the total length of the gaps that a drawing shortens, in milliseconds.
    pub fn shortened_ms(&self) -> u64 {
        let longest = self.longest_gap();
        self.gaps.iter().map(|gap| gap.ms()).filter(|ms| *ms > longest).fold(0, u64::saturating_add)
    }

    fn longest_gap(&self) -> u64 {
        let gaps = self.gaps.iter().fold(0_u64, |sum, gap| sum.saturating_add(gap.ms()));
        self.took_ms.saturating_sub(gaps) / 10
    }

    /// Returns at most `most` round times for the marks of a drawing, in milliseconds from its left edge.
    pub fn marks(&self, most: u64) -> Vec<u64> {
        let whole = self.drawn(self.took_ms);
        let round = (0..).flat_map(|power| [1, 2, 5].map(|first| first * 10_u64.pow(power)));
        // Above a second, in the steps of a clock.
        let round = round.take_while(|step| *step <= 1000).chain(
            [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400]
                .map(|seconds| seconds * 1000),
        );
        let days = (1..40).map(|power| 86_400_000_u64.saturating_mul(1 << power));
        let Some(step) = round.chain(days).find(|step| whole / step <= most) else {
            return Vec::new();
        };
        (1..=whole / step).map(|count| count * step).collect()
    }
}
