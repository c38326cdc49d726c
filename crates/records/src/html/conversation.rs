//! The messages between a worker and its model.

use super::{
    calls::Rows,
    markup::Markup,
    value::{blob, json_block, text_block},
};
use crate::{
    render::{compacted, duration, not_offered, thousands},
    whole::{WholeCall, WholeRun},
};
use llm_do_core::{
    call_path::CallPath,
    gate::WithheldTool,
    journal::{Record, RecordKind},
    launch::unknown_finish_note,
    model::{Arguments, FinishReason, Message, Part, Purpose, Role, ToolCall, ToolSpec, Usage},
    server_tool::{ServerTool, Source},
    step_name::StepName,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes the conversation of a call, with its notes. Writes nothing for a call that has neither.
pub(super) fn section(m: &mut Markup, run: &WholeRun, call: &WholeCall<'_>, rows: &Rows<'_>) {
    let told = |record: &&&Record| {
        matches!(
            record.body,
            RecordKind::ConversationStarted { .. }
                | RecordKind::MessageAdded { .. }
                | RecordKind::ModelAnswered { .. }
                | RecordKind::ModelFailed { .. }
                | RecordKind::Compacted(_)
                | RecordKind::Slept { .. }
                | RecordKind::Limit { .. }
                | RecordKind::Note { .. }
        ) || matches!(record.body, RecordKind::TimedOut { .. } if !record.step.is_tool())
    };
    let records: Vec<&Record> = call.records.iter().filter(told).copied().collect();
    if records.is_empty() {
        return;
    }
    m.ours(if call.node.model.is_some() { "<h3>Conversation</h3>" } else { "<h3>Noted</h3>" });
    m.ours("<ol class=\"talk\">");
    let mut rest = records.as_slice();
    while let Some((record, others)) = rest.split_first() {
        let only_calls = rest.iter().take_while(|record| made_alone(record, call, rows).is_some()).count();
        let after = record.at_ms.saturating_sub(run.tree().started_ms);
        m.with("li", &[], |m| {
            m.worded("span", "at dim", &format!("+{}", duration(after)));
            m.with("div", &[], |m| match rest.split_at_checked(only_calls) {
                Some((turns, _)) if only_calls >= MANY => calls_alone(m, turns, call, rows),
                _ => moment(m, record, call, rows),
            });
        });
        rest = if only_calls >= MANY { &rest[only_calls..] } else { others };
    }
    m.ours("</ol>");
}

/// Consecutive turns that only make calls are shown together from this number on: the calls have rows of their own,
/// with all that the model said.
const MANY: usize = 4;

/// Returns the places of the calls of an answer, if it only makes calls whose rows show the same arguments.
fn made_alone(record: &Record, call: &WholeCall<'_>, rows: &Rows<'_>) -> Option<Vec<CallPath>> {
    let RecordKind::ModelAnswered { message, finish: FinishReason::ToolCalls, unknown_finish: None, .. } =
        &record.body
    else {
        return None;
    };
    let turn = turn_of(record, call)?;
    let shown = message.parts.iter().enumerate().map(|(index, part)| match part {
        Part::Call(made) => Some(call.node.path.call(turn, index)).filter(|path| is_shown(made, path, rows)),
        _ => None,
    });
    shown.collect::<Option<Vec<_>>>().filter(|paths| !paths.is_empty())
}

/// Returns true if the row of a call shows all that the model wrote about it.
fn is_shown(made: &ToolCall, path: &CallPath, rows: &Rows<'_>) -> bool {
    matches!(&made.arguments, Arguments::Json(arguments)
        if rows.call(path).is_some_and(|row| row.function == made.name && row.input == *arguments))
}

/// Returns the turn whose answer a record holds.
fn turn_of(record: &Record, call: &WholeCall<'_>) -> Option<u32> {
    call.records.iter().find_map(|other| match other.body {
        RecordKind::ModelRequested { turn, .. } if other.step == record.step => Some(turn),
        _ => None,
    })
}

/// Turns that only make calls.
fn calls_alone(m: &mut Markup, turns: &[&Record], call: &WholeCall<'_>, rows: &Rows<'_>) {
    let paths: Vec<CallPath> =
        turns.iter().filter_map(|turn| made_alone(turn, call, rows)).flatten().collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in paths.iter().filter_map(|path| rows.call(path)) {
        *counts.entry(&node.function).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} × {count}")).collect();
    m.class("div", "message assistant", |m| {
        m.worded("span", "speaker", "the model");
        m.class("div", "made", |m| {
            m.text(&format!("{} requests whose answers are calls: {}. ", turns.len(), counts.join(", ")));
            for (path, which) in paths
                .first()
                .map(|path| (path, "first"))
                .into_iter()
                .chain(paths.last().map(|path| (path, "last")))
            {
                if let Some(reference) = rows.reference(path) {
                    m.with("a", &[("href", &reference)], |m| m.text(which));
                    m.ours(" ");
                }
            }
        });
    });
    let usage = turns.iter().fold(Usage::default(), |sum, turn| match turn.body {
        RecordKind::ModelAnswered { usage, .. } => sum.plus(usage),
        _ => sum,
    });
    m.worded("p", "dim small", &tokens(usage).join(" · "));
}

fn moment(m: &mut Markup, record: &Record, call: &WholeCall<'_>, rows: &Rows<'_>) {
    match &record.body {
        RecordKind::ConversationStarted {
            system,
            tools,
            withheld,
            server_tools,
            output,
            message: first,
            ..
        } => {
            if !system.is_empty() {
                m.ours("<details class=\"prompt\"><summary>Instructions</summary>");
                text_block(m, system);
                m.ours("</details>");
            }
            offered(m, tools);
            for WithheldTool { name, why } in withheld {
                m.worded("p", "dim", &format!("Not offered: {name} ({why})"));
            }
            if !server_tools.is_empty() {
                let names: Vec<&str> = server_tools.iter().map(ServerTool::name).collect();
                m.worded("p", "dim", &format!("Tools of the provider: {}", names.join(", ")));
            }
            if let Some(schema) = output {
                m.ours("<details class=\"prompt\"><summary>Form of the answer</summary>");
                json_block(m, schema);
                m.ours("</details>");
            }
            if !first.parts.is_empty() {
                message(m, first, None, rows);
            }
        }
        RecordKind::MessageAdded { message: added } => message(m, added, None, rows),
        RecordKind::ModelAnswered { message: answer, finish, usage, unoffered, unknown_finish, .. } => {
            let turn = turn_of(record, call);
            if record.step.request() == Some(Purpose::Summary) {
                m.worded("p", "dim", "Summary of older turns:");
            }
            message(m, answer, turn.map(|turn| (&call.node.path, turn)), rows);
            for name in unoffered {
                m.worded("p", "bad", &not_offered(name));
            }
            if let Some(word) = unknown_finish {
                m.worded("p", "notice", &unknown_finish_note(word));
            }
            m.worded("p", "dim small", &answered(*finish, *usage));
        }
        RecordKind::Compacted(compaction) => m.worded("p", "notice", &compacted(compaction)),
        RecordKind::ModelFailed { error, .. } => m.class("p", "bad", |m| {
            m.ours("The request failed: ");
            m.text(&error.message);
        }),
        RecordKind::TimedOut { after_ms } => {
            let what = if matches!(record.step, StepName::Work(_)) { "next call" } else { "answer" };
            m.worded("p", "bad", &format!("No {what} within {}.", duration(*after_ms)));
        }
        RecordKind::Slept { ms } => {
            m.worded("p", "dim", &format!("Waited {} before trying again.", duration(*ms)));
        }
        RecordKind::Limit { what } => m.worded("p", "bad", what),
        RecordKind::Note { text } => m.worded("p", "notice", text),
        _ => {}
    }
}

fn offered(m: &mut Markup, tools: &[ToolSpec]) {
    if tools.is_empty() {
        return;
    }
    m.class("details", "prompt", |m| {
        m.with("summary", &[], |m| {
            m.ours("Tools ");
            m.worded("span", "dim", &tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(", "));
        });
        for tool in tools {
            m.class("details", "tool-spec", |m| {
                m.with("summary", &[], |m| {
                    m.worded("b", "mono", &tool.name);
                    m.ours(" ");
                    m.worded("span", "dim", tool.description.lines().next().unwrap_or_default());
                });
                text_block(m, &tool.description);
                json_block(m, &tool.input);
            });
        }
    });
}

/// Writes a message. `place`: the call and turn of an answer, by which the calls that it makes are found.
fn message(m: &mut Markup, message: &Message, place: Option<(&CallPath, u32)>, rows: &Rows<'_>) {
    let (class, who) = match message.role {
        Role::User => ("message user", "to the model"),
        Role::Assistant => ("message assistant", "the model"),
        Role::Tool => ("message results", "results"),
    };
    m.class("div", class, |m| {
        m.worded("span", "speaker", who);
        let mut calls = 0;
        for part in &message.parts {
            match part {
                Part::Text { text } => text_block(m, text),
                Part::Attachment { name, text } => {
                    m.worded("span", "mono", name);
                    text_block(m, text);
                }
                Part::Blob(file) => blob(m, file),
                Part::Call(call) => {
                    let path = place.map(|(path, turn)| path.call(turn, calls));
                    calls += 1;
                    made(m, call, path.as_ref(), rows);
                }
                Part::Result(result) => {
                    m.worded("span", if result.is_error { "mono bad" } else { "mono" }, &result.name);
                    text_block(m, &result.content);
                }
                Part::Reasoning { text } => {
                    m.ours("<details class=\"prompt\"><summary>Thinking</summary>");
                    text_block(m, text);
                    m.ours("</details>");
                }
                Part::ServerUse(used) => {
                    m.worded(
                        "p",
                        if used.error.is_some() { "bad" } else { "mono" },
                        &format!("The provider ran {used}"),
                    );
                    pages(m, &used.sources);
                }
                Part::Cited { sources } => {
                    m.worded("p", "dim small", "Cited:");
                    pages(m, sources);
                }
                Part::Opaque { provider, .. } => {
                    m.worded("p", "dim small", &format!("data of {provider}'s own"));
                }
            }
        }
    });
}

/// Pages that a provider names, as text: an address that a stranger chose is no link.
fn pages(m: &mut Markup, sources: &[Source]) {
    for source in sources {
        m.worded("p", "dim small", &source.to_string());
    }
}

/// Writes a call as the model wrote it. Arguments that its row shows are not repeated.
fn made(m: &mut Markup, call: &ToolCall, path: Option<&CallPath>, rows: &Rows<'_>) {
    m.class("div", "made", |m| {
        m.ours("<span class=\"arrow\">→</span> ");
        m.worded("b", "mono", &call.name);
        if let Some(reference) = path.and_then(|path| rows.reference(path)) {
            m.ours(" ");
            m.with("a", &[("href", &reference)], |m| m.ours("see the call"));
        }
        match &call.arguments {
            Arguments::Json(_) if path.is_some_and(|path| is_shown(call, path, rows)) => {}
            Arguments::Json(arguments) if matches!(&**arguments, Value::Object(fields) if fields.is_empty()) => {}
            Arguments::Json(arguments) => json_block(m, arguments),
            Arguments::Invalid { text, reason } => {
                m.worded("p", "bad", &format!("not JSON: {reason}"));
                text_block(m, text);
            }
        }
    });
}

/// Returns the finish reason of an answer and its tokens, on one line.
fn answered(finish: FinishReason, usage: Usage) -> String {
    let mut said = vec![match finish {
        FinishReason::Stop => "done".to_owned(),
        FinishReason::ToolCalls => "wants tools called".to_owned(),
        FinishReason::Length => "cut off by its length".to_owned(),
        FinishReason::Refusal => "declined".to_owned(),
        FinishReason::Paused => "paused by the provider".to_owned(),
        FinishReason::Stopped => "stopped by the user".to_owned(),
        FinishReason::Other => "ended".to_owned(),
    }];
    said.extend(tokens(usage));
    said.join(" · ")
}

/// Lists the known numbers of a usage.
fn tokens(usage: Usage) -> Vec<String> {
    let tokens = [
        (usage.input_tokens, "tokens in"),
        (usage.cached_tokens, "of these cached"),
        (usage.output_tokens, "tokens out"),
        (usage.server_uses, "uses of the provider's tools"),
    ];
    let said = tokens.into_iter().filter_map(|(count, what)| Some(format!("{} {what}", thousands(count?))));
    said.chain(usage.cost_usd.map(|cost| cost.to_string())).collect()
}
