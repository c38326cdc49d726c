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
/// Deeper calls are not indented further.
const DEEPEST: usize = 12;

/// The position of each call's row on the page.
pub(super) struct Rows<'a>(HashMap<&'a CallPath, usize>);

impl Rows<'_> {
    /// The reference to a call's row, if the run has such a call.
    pub(super) fn reference(&self, path: &CallPath) -> Option<String> {
        Some(format!("#call-{}", self.0.get(path)?))
    }
}

/// The section with all calls.
pub(super) fn section(m: &mut Markup, run: &WholeRun) {
    let timeline = Timeline::of(run);
    // In the order of the timeline's rows.
    let mut nodes: Vec<&CallNode> = Vec::new();
    let mut left: Vec<&CallNode> = run.tree().calls.iter().rev().collect();
    while let Some(node) = left.pop() {
        nodes.push(node);
        left.extend(node.calls.iter().rev());
    }
    let rows = Rows(nodes.iter().enumerate().map(|(number, node)| (&node.path, number)).collect());
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
        m.with("details", &[("class", &class), ("id", &id), ("data-place", node.path.as_str())], |m| {
            m.class("summary", "row", |m| summary(m, node, row, &timeline));
            m.class("div", "full", |m| detail::call(m, run, &run.whole(node), &rows));
        });
        m.ours("\n");
    }
    m.ours("</section>\n");
}

fn summary(m: &mut Markup, node: &CallNode, row: &TimelineRow, timeline: &Timeline) {
    m.class("span", "who", |m| {
        m.ours(match node.state {
            CallState::Done => "<i class=\"good\" title=\"done\">✓</i>",
            CallState::Open => "<i class=\"notice\" title=\"not ended\">…</i>",
            CallState::Suspended => "<i class=\"notice\" title=\"suspended\">⏸</i>",
            CallState::Failed => "<i class=\"bad\" title=\"failed\">✗</i>",
            CallState::Refused => "<i class=\"bad\" title=\"refused\">⊘</i>",
            CallState::TimedOut => "<i class=\"bad\" title=\"timed out\">⏱</i>",
            CallState::Cancelled => "<i class=\"bad\" title=\"cancelled\">✗</i>",
        });
        m.with("b", &[], |m| m.text(&node.function));
        m.worded("span", "argument mono dim", &argument(&node.input));
        let (tone, said) = mark(node);
        // The detail of a call shows the rule of a usual permission.
        if tone != Tone::Dim {
            let class = format!("mark {}", class_of(tone));
            m.with("span", &[("class", &class)], |m| m.text(&said));
        }
    });
    m.class("span", "bar", |m| bar(m, row, timeline));
    m.worded("span", "time", &duration(node.took_ms));
    m.class("span", "tokens", |m| {
        if let Some(usage) = node.usage.filter(|usage| usage.total() > 0) {
            let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
            m.text(&format!("{}/{}", count(usage.input_tokens), count(usage.output_tokens)));
        }
    });
}

/// A picture of the call's time. Positions are attributes, since the page's policy allows no style of an element.
fn bar(m: &mut Markup, row: &TimelineRow, timeline: &Timeline) {
    let took = timeline.drawn(timeline.took_ms);
    let label = format!("from {} to {}", duration(row.from_ms), duration(row.to_ms));
    m.with("svg", &[("role", "img"), ("aria-label", &label)], |m| {
        for at in timeline.marks(MARKS) {
            let x = percent(at, took);
            m.with("line", &[("x1", &x), ("x2", &x), ("y1", "-16"), ("y2", "36")], |_| {});
        }
        rectangle(m, "whole", (timeline.drawn(row.from_ms), timeline.drawn(row.to_ms)), took, &label);
        for span in &row.spans {
            let (class, what) = match span.kind {
                StepKind::Model => ("model", "model"),
                StepKind::Tool => ("tool", "tool"),
                StepKind::Question => ("question", "waited for an answer"),
                StepKind::Pause => ("pause", "paused"),
            };
            let label = format!("{what}: {}", duration(span.to_ms.saturating_sub(span.from_ms)));
            rectangle(m, class, (timeline.drawn(span.from_ms), timeline.drawn(span.to_ms)), took, &label);
        }
    });
}

fn rectangle(m: &mut Markup, class: &'static str, (from, to): (u64, u64), took: u64, label: &str) {
    // A bar of no time stays visible, also at the right edge.
    let smallest = took / 250;
    let to = to.max(from.saturating_add(smallest)).min(took.max(1));
    let from = from.min(to.saturating_sub(smallest));
    let attributes = [
        ("class", class),
        ("x", &*percent(from, took)),
        ("width", &*percent(to.saturating_sub(from), took)),
        ("y", if class == "whole" { "3" } else { "5" }),
        ("height", if class == "whole" { "14" } else { "10" }),
        ("rx", "2"),
    ];
    m.with("rect", &attributes, |m| m.with("title", &[], |m| m.text(label)));
}

fn percent(ms: u64, of: u64) -> String {
    format!("{:.2}%", 100.0 * ms as f64 / of.max(1) as f64)
}

fn state_class(state: CallState) -> &'static str {
    match state {
        CallState::Done => "done",
        CallState::Open | CallState::Suspended => "open",
        CallState::Failed | CallState::Refused | CallState::TimedOut | CallState::Cancelled => "ended-badly",
    }
}
