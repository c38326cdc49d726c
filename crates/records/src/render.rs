//! A run's tree as lines of text. Each piece has a tone; the terminal maps tones to colours.

mod call;
mod following;
mod timeline;

use crate::{
    run_state::{OpenRun, RunState},
    tree::{CallNode, CallState, Decision, RunTree},
};
use jiff::Timestamp;
use llm_do_core::{
    conversation::Compaction,
    engine::Principal,
    function::FunctionSource,
    gate::{DecidedBy, Rule},
    journal::{Ending, RunStatus},
    model::Usage,
    question::OPERATOR,
};
use serde_json::Value;
use std::{fmt, sync::Arc};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use call::render_call;
pub use following::Following;
pub use timeline::render_timeline;

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Text.
    Plain,
    /// Text that a reader looks for first.
    Strong,
    /// Lines of the tree, arguments, usual verdicts.
    Dim,
    /// Successes.
    Good,
    /// Decisions of a person, and open questions.
    Notice,
    /// Failures.
    Bad,
}

/// A line, without its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub Vec<(Tone, String)>);

impl fmt::Display for Line {
    /// Writes the text without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(_, text)| f.write_str(text))
    }
}

/// Columns of the call's name that are kept even in a narrow terminal.
const NARROWEST_NAME: usize = 24;
/// Columns of an argument shown beside a name.
const WIDEST_ARGUMENT: usize = 48;

/// A line of the tree before its columns are set.
struct Row {
    branch: String,
    name: String,
    argument: String,
    time: String,
    tokens: String,
    mark: (Tone, String),
}

/// Renders the tree as text. `width`: columns of the terminal; without it no line is cut.
pub fn render(tree: &RunTree, width: Option<usize>) -> Vec<Line> {
    let mut lines = vec![headline(tree)];
    let mut rows = Vec::new();
    tree.calls.iter().for_each(|call| add_rows(call, "", "", &mut rows));
    lines.extend(columns(rows, width));
    if let Some(failure) = &tree.failure {
        lines.push(Line(vec![(Tone::Bad, shown(&failure.message))]));
    }
    if tree.torn {
        let text = "The last record was cut off while it was written and does not count.";
        lines.push(Line(vec![(Tone::Notice, text.to_owned())]));
    }
    lines
}

pub(crate) fn tone_of(state: RunState) -> Tone {
    match state {
        RunState::Ended(RunStatus::Done) => Tone::Good,
        RunState::Ended(RunStatus::Suspended | RunStatus::Interrupted) | RunState::Open(OpenRun::Running) => {
            Tone::Notice
        }
        RunState::Ended(RunStatus::Failed | RunStatus::Limit | RunStatus::Refused)
        | RunState::Open(OpenRun::CutOff | OpenRun::Damaged) => Tone::Bad,
    }
}

fn headline(tree: &RunTree) -> Line {
    let mut line = vec![
        (Tone::Strong, tree.run.to_string()),
        (tone_of(tree.state), format!("  {}", tree.state_in_words())),
        (Tone::Plain, format!("  {}  {}", shown(&tree.entry), duration(tree.took_ms))),
    ];
    if let Some(requester) = tree.requester.as_ref().filter(|requester| *requester.by != *OPERATOR) {
        line.push((Tone::Plain, format!("  for {}", shown(&requester.to_string()))));
    }
    if tree.usage != Usage::default() {
        let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
        let text = format!(
            "  {} in / {} out tokens",
            count(tree.usage.input_tokens),
            count(tree.usage.output_tokens)
        );
        line.push((Tone::Plain, text));
    }
    line.extend(tree.usage.cost_usd.map(|cost| (Tone::Plain, format!("  {cost}"))));
    Line(line)
}

fn add_rows(call: &CallNode, branch: &str, below: &str, rows: &mut Vec<Row>) {
    rows.push(Row {
        branch: branch.to_owned(),
        name: shown(&call.function),
        argument: argument(&call.input),
        time: duration(call.took_ms),
        tokens: call.usage.map(tokens).unwrap_or_default(),
        mark: mark(call),
    });
    for (index, child) in call.calls.iter().enumerate() {
        let (here, deeper) =
            if index + 1 == call.calls.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        add_rows(child, &format!("{below}{here}"), &format!("{below}{deeper}"), rows);
    }
}

fn columns(rows: Vec<Row>, width: Option<usize>) -> Vec<Line> {
    let widest = |column: fn(&Row) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let time = widest(|row| row.time.width()) + 2;
    let tokens = widest(|row| row.tokens.width());
    let tokens = if tokens == 0 { 0 } else { tokens + 2 };
    let marks = widest(|row| row.mark.1.width());
    let mut names = widest(|row| {
        row.branch.width() + row.name.width() + row.argument.width() + usize::from(!row.argument.is_empty())
    });
    if let Some(width) = width {
        // The marks get at most half of the rest.
        let left = width.saturating_sub(time + tokens);
        let for_marks = if marks == 0 { 0 } else { (marks + 2).min(left / 2) };
        names = names.min(left.saturating_sub(for_marks)).max(NARROWEST_NAME);
    }
    let for_marks = width.map(|width| width.saturating_sub(names + time + tokens + 2));
    rows.into_iter()
        .map(|row| {
            let branch = cut(&row.branch, names);
            let name = cut(&row.name, names - branch.width());
            let mut used = branch.width() + name.width();
            let argument = if row.argument.is_empty() || used + 2 >= names {
                String::new()
            } else {
                format!(" {}", cut(&row.argument, names - used - 1))
            };
            used += argument.width();
            let gap = " ".repeat(names.saturating_sub(used));
            let numbers = format!("{gap}{:>time$}{:>tokens$}", row.time, row.tokens);
            let mut line =
                vec![(Tone::Dim, branch), (Tone::Plain, name), (Tone::Dim, argument), (Tone::Plain, numbers)];
            let mark = for_marks.map_or_else(|| row.mark.1.clone(), |columns| cut(&row.mark.1, columns));
            if !mark.is_empty() {
                line.push((row.mark.0, format!("  {mark}")));
            }
            line.retain(|(_, text)| !text.is_empty());
            Line(line)
        })
        .collect()
}

/// Remarks on a call beside its numbers. The first remark sets the tone.
pub(crate) fn mark(call: &CallNode) -> (Tone, String) {
    let called = unoffered(&call.unoffered).map(|called| (Tone::Bad, called));
    let mut said: Vec<(Tone, String)> =
        ending(call).into_iter().chain(decision(call)).chain(called).collect();
    let mut add = |text| said.push((Tone::Dim, text));
    if call.waited_ms >= 1000 {
        add(format!("waited {}", duration(call.waited_ms)));
    }
    if call.failed_requests > 0 {
        add(format!("{} of {} requests failed", call.failed_requests, call.requests));
    }
    if !call.output_origins.is_trusted() {
        add(format!("returned {} words", call.output_origins.greatest()));
    }
    call.notes.iter().for_each(|note| add(first_line(note)));
    let tone = said.first().map_or(Tone::Dim, |(tone, _)| *tone);
    let said: Vec<String> = said.into_iter().map(|(_, text)| text).collect();
    (tone, said.join(", "))
}

/// Says that a model called a tool which was not offered to it.
pub(crate) fn not_offered(name: &str) -> String {
    format!("`{name}` was not offered: the model heard that there is no such tool")
}

/// Says which tools a model called that were not offered to it, each once.
fn unoffered(names: &[Arc<str>]) -> Option<String> {
    const MOST: usize = 3;
    let mut each: Vec<&str> = Vec::new();
    for name in names {
        if !each.contains(&&**name) {
            each.push(name);
        }
    }
    if each.is_empty() {
        return None;
    }
    let quoted = |name: &str| format!("`{}`", brief(name));
    let said: Vec<String> = each.iter().take(MOST).map(|name| quoted(name)).collect();
    let more = if each.len() > MOST { format!(" and {} more", each.len() - MOST) } else { String::new() };
    let were = if each.len() == 1 { "was" } else { "were" };
    Some(format!("called {}{more}, which {were} not offered", said.join(", ")))
}

/// Returns the sign of how a call ended.
fn state_of_ending(ending: &Ending) -> (Tone, char) {
    match ending {
        Ending::Output(_) => (Tone::Good, '✓'),
        Ending::Suspended => (Tone::Notice, '⏸'),
        Ending::Failure(_) => (Tone::Bad, '✗'),
    }
}

/// Describes how the call ended, unless with an output.
fn ending(call: &CallNode) -> Option<(Tone, String)> {
    let why = call.failure.as_ref().map(|failure| first_line(&failure.message)).unwrap_or_default();
    let verdict = call.verdict.as_ref();
    let waits = verdict.is_some_and(|verdict| verdict.rule == Rule::Ask);
    Some(match call.state {
        CallState::Done => return None,
        // The verdict of a call that waits for its own approval shows that.
        CallState::Open | CallState::Suspended if waits => return None,
        CallState::Open => (Tone::Notice, "not ended".to_owned()),
        CallState::Suspended => (Tone::Notice, "suspended".to_owned()),
        CallState::Failed => (Tone::Bad, format!("failed: {why}")),
        CallState::TimedOut => (Tone::Bad, "timed out".to_owned()),
        CallState::Cancelled => (Tone::Bad, "cancelled".to_owned()),
        CallState::Refused => match verdict.filter(|verdict| verdict.rule == Rule::Blocked) {
            Some(Decision { by, reason: Some(reason), .. }) => {
                (Tone::Bad, format!("refused: {} ({})", shown(&by.to_string()), shown(reason)))
            }
            Some(verdict) => (Tone::Bad, format!("refused: {}", shown(&verdict.by.to_string()))),
            None => (Tone::Bad, format!("refused: {why}")),
        },
    })
}

/// Describes who approved the call, or who is asked to.
fn decision(call: &CallNode) -> Option<(Tone, String)> {
    let verdict = call.verdict.as_ref()?;
    let by = shown(&verdict.by.to_string());
    match verdict.rule {
        Rule::PreApproved if verdict.by.is_operator() => Some((Tone::Notice, format!("approved by {by}"))),
        // The usual permission to call a worker is not shown; the permission of a tool is.
        Rule::PreApproved if call.leaf || !matches!(verdict.by, DecidedBy::Default(_)) => {
            Some((Tone::Dim, format!("allowed: {by}")))
        }
        Rule::Ask if call.state != CallState::Done => {
            // The decision will be given for this place.
            Some((Tone::Notice, format!("waits for approval at {}: {by}", shown(call.path.as_str()))))
        }
        Rule::PreApproved | Rule::Ask | Rule::Blocked => None,
    }
}

fn first_line(text: &str) -> String {
    shown(text.lines().next().unwrap_or(""))
}

/// Returns the most informative argument: a path or a command if there is one, else the first text.
pub(crate) fn argument(input: &Value) -> String {
    let Some(fields) = input.as_object() else { return input.as_str().map(brief).unwrap_or_default() };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if let (Some(source), Some(destination)) = (text("source"), text("destination")) {
        return format!("{} → {}", brief(source), brief(destination));
    }
    let telling = ["path", "command", "pattern", "url", "worker"].into_iter().find_map(text);
    telling.or_else(|| fields.values().find_map(Value::as_str)).map(brief).unwrap_or_default()
}

fn brief(text: &str) -> String {
    cut(&shown(text), WIDEST_ARGUMENT)
}

/// Returns text from a model or a file on one line, escaped: it can't move the cursor or imitate other output.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Direction marks are not control characters, but they reorder the text that follows.
        let hidden = c.is_control() || (c.width() == Some(0) && !c.is_alphanumeric() && c as u32 >= 0x2000);
        if c == '\n' || c == '\t' {
            out.push(' ');
        } else if hidden {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the text cut to at most so many columns, with `…` for the rest.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= columns
    });
    let mut out: String = kept.collect();
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Describes the source of a function.
pub(crate) fn source(source: &FunctionSource) -> String {
    match source {
        FunctionSource::Toolset(name) => format!("toolset {name}"),
        FunctionSource::Program => "the program".to_owned(),
        FunctionSource::Library(name) => format!("library {name}"),
        FunctionSource::Generated => "the run itself".to_owned(),
    }
}

/// Describes who made a call.
pub(crate) fn caller(principal: &Principal) -> String {
    match principal {
        Principal::Operator => "the operator".to_owned(),
        Principal::Worker(id) => id.to_string(),
        Principal::Tool { tool, worker } => format!("{tool}, for {worker}"),
    }
}

/// Formats a time for people, in UTC.
pub fn moment(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default()
}

/// Formats a duration: `2ms`, `3.2s`, `2m05s`, `1h02m`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..59_950 => format!("{:.1}s", ms as f64 / 1000.0),
        59_950..3_600_000 => format!("{}m{:02}s", (ms + 500) / 60_000, (ms + 500) / 1000 % 60),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// Formats a usage: `0.0021 USD, 640/80 tokens`, as far as known. In this order the tokens of several lines are
/// aligned.
fn tokens(usage: Usage) -> String {
    let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
    if usage == Usage::default() {
        return String::new();
    }
    let cost = usage.cost_usd.map(|cost| format!("{cost}, ")).unwrap_or_default();
    format!("{cost}{}/{} tokens", count(usage.input_tokens), count(usage.output_tokens))
}

/// Formats a size: `0 B`, `1.5 kB`, `3.2 MB`.
pub fn size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 999.95 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// Describes a compaction: `compacted: 12,000 → 4,000 tokens, 3 results left out, older turns summarised`.
pub fn compacted(compaction: &Compaction) -> String {
    let Compaction { before, after, results, summary, failure, .. } = compaction;
    let mut text = match compaction.has_effect() {
        true => format!("compacted: {} → {} tokens", thousands(*before), thousands(*after)),
        false => "not compacted".to_owned(),
    };
    match results.len() {
        0 => {}
        1 => text.push_str(", 1 result left out"),
        count => text.push_str(&format!(", {count} results left out")),
    }
    if summary.is_some() {
        text.push_str(", older turns summarised");
    }
    if let Some(failure) = failure {
        text.push_str(&format!(", no summary: {failure}"));
    }
    text
}

/// Formats a number: `1,234`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
