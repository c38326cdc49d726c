//! The calls as rows: a line of the tree, a bar on the run's time, and the call in full, which opens below its row.

use super::{class_of, detail, markup::Markup};
use crate::{
    render::{Tone, argument, duration, mark, thousands},
    steps::StepKind,
    timeline::{Timeline, TimelineRow},
    tree::{CallNode, CallState},
    whole::WholeRun,
};
use llm_do_core::call_path::CallPath;
use std::collections::HashMap;

/// Most marks of the scale.
const MARKS: u64 = 6;
/// The divisor of the width that gives the smallest bar.
const SMALLEST: u64 = 250;
/// Depth from which calls are not indented further.
const DEEPEST: usize = 12;

/// The calls by their place, each with the position of its row on the page.
pub(super) struct Rows<'a>(HashMap<&'a CallPath, (usize, &'a CallNode)>);

impl<'a> Rows<'a> {
    /// Returns the reference to a call's row, if the run has such a call.
    pub(super) fn reference(&self, path: &CallPath) -> Option<String> {
        Some(format!("#call-{}", self.0.get(path)?.0))
    }

    /// Returns the call at that place.
    pub(super) fn call(&self, path: &CallPath) -> Option<&'a CallNode> {
        self.0.get(path).map(|(_, node)| *node)
    }
}

/// Writes the rule of the style sheet that draws the lines of the scale behind the bars. It applies to all rows, since
/// a run can have thousands.
pub(super) fn lines(m: &mut Markup, run: &WholeRun) {
    let timeline = Timeline::of(run);
    let Some(first) = timeline.marks(MARKS).first().copied() else { return };
    let first = percent(first, timeline.drawn(timeline.took_ms));
    m.ours(".call > summary > svg { background: repeating-linear-gradient(to right, transparent 0 calc(");
    m.text(&first);
    m.ours(" - 1px), var(--line) calc(");
    m.text(&first);
    m.ours(" - 1px) ");
    m.text(&first);
    m.ours("); }\n");
}

/// Writes the section with all calls.
pub(super) fn section(m: &mut Markup, run: &WholeRun) {
    let timeline = Timeline::of(run);
    // In the order of the timeline's rows.
    let mut nodes: Vec<&CallNode> = Vec::new();
    let mut left: Vec<&CallNode> = run.tree().calls.iter().rev().collect();
    while let Some(node) = left.pop() {
        nodes.push(node);
        left.extend(node.calls.iter().rev());
    }
    let rows = Rows(nodes.iter().enumerate().map(|(number, node)| (&node.path, (number, *node))).collect());
    m.ours("<section id=\"calls\"><h2>Calls</h2>\n");
    m.ours(
        "<div class=\"tools\" hidden><input type=\"search\" placeholder=\"Filter calls\" aria-label=\"Filter calls\">\
         <button type=\"button\" data-do=\"open\">Open all</button><button type=\"button\" data-do=\"close\">Close all</button></div>",
    );
    m.ours(
        "<p class=\"legend dim\"><span class=\"model\"></span>model <span class=\"tool\"></span>tool \
         <span class=\"question\"></span>waiting for an answer <span class=\"pause\"></span>pause</p>\n",
    );
    if timeline.shortened_ms() > 0 {
        let gap = duration(timeline.shortened_ms());
        m.worded("p", "dim small", &format!("{gap} without any work on the run are drawn shorter."));
    }
    let whole = timeline.drawn(timeline.took_ms);
    m.ours("<div class=\"row scale\" aria-hidden=\"true\"><span></span><span class=\"bar\"><svg>");
    for at in timeline.marks(MARKS) {
        m.with("text", &[("x", &percent(at, whole)), ("y", "12")], |m| m.text(&duration(at)));
    }
    m.ours(
        "</svg></span><span class=\"time\">time</span><span class=\"tokens\">tokens in/out</span></div>\n",
    );
    for (number, (node, row)) in nodes.iter().zip(&timeline.rows).enumerate() {
        let id = format!("call-{number}");
        let class = format!("call d{} {}", row.depth.min(DEEPEST), state_class(node.state));
        m.with("details", &[("class", &class), ("id", &id)], |m| {
            m.with("summary", &[], |m| summary(m, node, row, &timeline));
            m.with("div", &[], |m| detail::call(m, run, &run.whole(node), &rows));
        });
        m.ours("\n");
    }
    m.ours("</section>\n");
}

fn summary(m: &mut Markup, node: &CallNode, row: &TimelineRow, timeline: &Timeline) {
    m.with("span", &[], |m| {
        m.ours(match node.state {
            // The mark of most calls is added by the style sheet.
            CallState::Done => "",
            CallState::Open => "<i class=\"notice\" title=\"not ended\">…</i>",
            CallState::Suspended => "<i class=\"notice\" title=\"suspended\">⏸</i>",
            CallState::Failed => "<i class=\"bad\" title=\"failed\">✗</i>",
            CallState::Refused => "<i class=\"bad\" title=\"refused\">⊘</i>",
            CallState::TimedOut => "<i class=\"bad\" title=\"timed out\">⏱</i>",
            CallState::Cancelled => "<i class=\"bad\" title=\"cancelled\">✗</i>",
        });
        m.with("b", &[], |m| m.text(&node.function));
        let argument = argument(&node.input);
        if !argument.is_empty() {
            m.with("code", &[], |m| m.text(&argument));
        }
        let (tone, said) = mark(node);
        // The detail of a call shows the rule of a usual permission.
        if tone != Tone::Dim {
            let class = format!("mark {}", class_of(tone));
            m.with("span", &[("class", &class)], |m| m.text(&said));
        }
    });
    bar(m, row, timeline);
    m.with("time", &[], |m| m.text(&duration(node.took_ms)));
    if let Some(usage) = node.usage.filter(|usage| usage.total() > 0) {
        let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
        m.worded("span", "tokens", &format!("{}/{}", count(usage.input_tokens), count(usage.output_tokens)));
    }
}

/// Draws a picture of the call's time. Positions are attributes, since the page's policy allows no style of an element.
fn bar(m: &mut Markup, row: &TimelineRow, timeline: &Timeline) {
    let took = timeline.drawn(timeline.took_ms);
    let label = format!("from {} to {}", duration(row.from_ms), duration(row.to_ms));
    m.with("svg", &[], |m| {
        let place = |from_ms, to_ms| visible(timeline.drawn(from_ms), timeline.drawn(to_ms), took);
        let whole = place(row.from_ms, row.to_ms);
        // One step that fills its call, as in most leaves, is drawn in its place. The call's own words say when it was.
        if let [only] = row.spans.as_slice()
            && let own = place(only.from_ms, only.to_ms)
            && own.0.abs_diff(whole.0).max(own.1.abs_diff(whole.1)) <= took / SMALLEST
        {
            return rectangle(m, kind(only.kind).0, whole, took, None);
        }
        rectangle(m, "whole", whole, took, Some(&label));
        let mut spans = row.spans.iter().peekable();
        while let Some(span) = spans.next() {
            let (mut bar, mut ms, mut steps) =
                (place(span.from_ms, span.to_ms), span.to_ms.saturating_sub(span.from_ms), 1);
            // Steps of one kind that would be drawn over each other are one bar: a conversation can have thousands.
            while let Some(next) =
                spans.next_if(|next| next.kind == span.kind && place(next.from_ms, next.to_ms).0 <= bar.1)
            {
                bar.1 = bar.1.max(place(next.from_ms, next.to_ms).1);
                ms += next.to_ms.saturating_sub(next.from_ms);
                steps += 1;
            }
            let (class, what) = kind(span.kind);
            let label = match steps {
                1 => format!("{what}: {}", duration(ms)),
                steps => format!("{what}, {steps} times: {}", duration(ms)),
            };
            rectangle(m, class, bar, took, Some(&label));
        }
    });
}

/// Returns the ends of a bar. A bar of no time stays visible, also at the right edge.
fn visible(from: u64, to: u64, took: u64) -> (u64, u64) {
    let smallest = took / SMALLEST;
    let to = to.max(from.saturating_add(smallest)).min(took.max(1));
    (from.min(to.saturating_sub(smallest)), to)
}

/// Returns the class of a kind of step, and its name.
fn kind(kind: StepKind) -> (&'static str, &'static str) {
    match kind {
        StepKind::Model => ("model", "model"),
        StepKind::Tool => ("tool", "tool"),
        StepKind::Question => ("question", "waited for an answer"),
        StepKind::Pause => ("pause", "paused"),
    }
}

fn rectangle(m: &mut Markup, class: &'static str, (from, to): (u64, u64), took: u64, label: Option<&str>) {
    let attributes =
        [("class", class), ("x", &*percent(from, took)), ("width", &*percent(to.saturating_sub(from), took))];
    m.with("rect", &attributes, |m| {
        if let Some(label) = label {
            m.with("title", &[], |m| m.text(label));
        }
    });
}

fn percent(ms: u64, of: u64) -> String {
    let percent = format!("{:.1}", 100.0 * ms as f64 / of.max(1) as f64);
    format!("{}%", percent.trim_end_matches(".0"))
}

fn state_class(state: CallState) -> &'static str {
    match state {
        CallState::Done => "done",
        CallState::Open | CallState::Suspended => "open",
        CallState::Failed | CallState::Refused | CallState::TimedOut | CallState::Cancelled => "ended-badly",
    }
}
