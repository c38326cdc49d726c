//! A run's timeline in a terminal: a bar for each call.

use super::{Line, Tone, cut, duration, headline, shown};
use crate::{
    steps::StepKind,
    timeline::{Timeline, TimelineRow, TimelineSpan},
    tree::{CallState, RunTree},
};
use unicode_width::UnicodeWidthStr;

/// Columns where there is no terminal.
const WIDTH: usize = 100;
/// Most columns of places and of names.
const WIDEST_PLACE: usize = 16;
const WIDEST_NAME: usize = 32;
/// Fewest columns of a bar.
const NARROWEST_BAR: usize = 16;

/// Renders the calls of a run as bars over time. `width`: columns of the terminal.
pub fn render_timeline(tree: &RunTree, timeline: &Timeline, width: Option<usize>) -> Vec<Line> {
    let width = width.unwrap_or(WIDTH);
    let widest = |columns: fn(&TimelineRow) -> usize, most: usize| {
        timeline.rows.iter().map(columns).max().unwrap_or(0).min(most)
    };
    let places = widest(|row| row.path.as_str().width(), WIDEST_PLACE);
    let names = widest(|row| 2 * row.depth + shown(&row.function).width(), WIDEST_NAME.min(width / 3));
    let bars = width.saturating_sub(places + names + 2 + 2 + 9).max(NARROWEST_BAR);
    let mut lines = vec![headline(tree), scale(timeline, places + names + 4, bars)];
    for row in &timeline.rows {
        let place = cut(&shown(row.path.as_str()), places);
        let name = cut(&format!("{}{}", "  ".repeat(row.depth), shown(&row.function)), names);
        let gap = |text: &str, columns: usize| " ".repeat(columns.saturating_sub(text.width()) + 2);
        let tone = match row.state {
            CallState::Done => Tone::Plain,
            CallState::Open | CallState::Suspended => Tone::Notice,
            CallState::Failed | CallState::Refused | CallState::TimedOut | CallState::Cancelled => Tone::Bad,
        };
        let mut line = vec![(Tone::Dim, format!("{place}{}", gap(&place, places)))];
        line.push((tone, format!("{name}{}", gap(&name, names))));
        line.extend(bar(row, timeline, bars));
        line.push((Tone::Plain, format!("{:>9}", duration(row.to_ms.saturating_sub(row.from_ms)))));
        lines.push(Line(line));
    }
    let used =
        |kind: StepKind| timeline.rows.iter().any(|row| row.spans.iter().any(|span| span.kind == kind));
    let mut legend = Vec::new();
    for kind in [StepKind::Model, StepKind::Tool, StepKind::Question, StepKind::Pause] {
        if used(kind) {
            let (sign, tone, name) = look(kind);
            let space = if legend.is_empty() { "" } else { "  " };
            legend.extend([(tone, format!("{space}{sign}")), (Tone::Dim, format!(" {name}"))]);
        }
    }
    if timeline.shortened_ms() > 0 {
        let gap = duration(timeline.shortened_ms());
        legend.push((Tone::Dim, format!("  {gap} without any work are drawn shorter")));
    }
    if !legend.is_empty() {
        lines.push(Line(legend));
    }
    lines
}

fn look(kind: StepKind) -> (char, Tone, &'static str) {
    match kind {
        StepKind::Model => ('█', Tone::Plain, "model"),
        StepKind::Tool => ('▆', Tone::Good, "tool"),
        StepKind::Question => ('▒', Tone::Notice, "waiting for an answer"),
        StepKind::Pause => ('·', Tone::Dim, "pause"),
    }
}

fn scale(timeline: &Timeline, before: usize, bars: usize) -> Line {
    let mut text = " ".repeat(before);
    for at in timeline.marks((bars / 10) as u64) {
        let label = duration(at);
        let column = before + column_of(at, timeline.drawn(timeline.took_ms), bars);
        // A label ends at its mark. It is left out where it would overlap another or leave the line.
        if column >= text.width() + label.width() && column <= before + bars {
            text.push_str(&" ".repeat(column - text.width() - label.width()));
            text.push_str(&label);
        }
    }
    Line(vec![(Tone::Dim, text)])
}

/// Pieces of one tone each.
fn bar(row: &TimelineRow, timeline: &Timeline, bars: usize) -> Vec<(Tone, String)> {
    let took = timeline.drawn(timeline.took_ms);
    let mut cells = vec![(' ', Tone::Dim); bars];
    let mut fill = |from: u64, to: u64, cell: (char, Tone)| {
        let from = column_of(timeline.drawn(from), took, bars).min(bars - 1);
        let to = column_of(timeline.drawn(to), took, bars).clamp(from + 1, bars);
        cells[from..to].fill(cell);
    };
    fill(row.from_ms, row.to_ms, ('─', Tone::Dim));
    for TimelineSpan { kind, from_ms, to_ms } in &row.spans {
        let (sign, tone, _) = look(*kind);
        fill(*from_ms, *to_ms, (sign, tone));
    }
    let mut pieces: Vec<(Tone, String)> = Vec::new();
    for (sign, tone) in cells {
        match pieces.last_mut() {
            Some((last, text)) if *last == tone => text.push(sign),
            _ => pieces.push((tone, sign.into())),
        }
    }
    pieces
}

fn column_of(at: u64, took: u64, bars: usize) -> usize {
    (at as f64 / took.max(1) as f64 * bars as f64).round() as usize
}
