//! The messages between a worker and its model.

use super::{
    calls::Rows,
    markup::Markup,
    value::{blob, json_block, text_block},
};
use crate::{
    render::{compacted, duration, thousands},
    whole::{WholeCall, WholeRun},
};
use llm_do_core::{
    call_path::CallPath,
    gate::WithheldTool,
    journal::{Record, RecordKind},
    model::{Arguments, FinishReason, Message, Part, Purpose, Role, ToolCall, ToolSpec, Usage},
    server_tool::{ServerTool, Source},
    step_name::StepName,
};
use serde_json::Value;

/// The conversation of a call, with its notes. Nothing for a call that has neither.
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
    let mut records = call.records.iter().filter(told).peekable();
    if records.peek().is_none() {
        return;
    }
    m.ours(if call.node.model.is_some() { "<h3>Conversation</h3>" } else { "<h3>Noted</h3>" });
    m.ours("<ol class=\"talk\">");
    for record in records {
        let after = record.at_ms.saturating_sub(run.tree().started_ms);
        m.with("li", &[], |m| {
            m.worded("span", "at dim", &format!("+{}", duration(after)));
            m.with("div", &[], |m| moment(m, record, call, rows));
        });
    }
    m.ours("</ol>");
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
            m.ours("<details class=\"prompt\"><summary>Instructions</summary>");
            text_block(m, system);
            m.ours("</details>");
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
        RecordKind::ModelAnswered { message: answer, finish, usage } => {
            let turn = call.records.iter().find_map(|other| match other.body {
                RecordKind::ModelRequested { turn, .. } if other.step == record.step => Some(turn),
                _ => None,
            });
            if record.step.request() == Some(Purpose::Summary) {
                m.worded("p", "dim", "Summary of older turns:");
            }
            message(m, answer, turn.map(|turn| (&call.node.path, turn)), rows);
            m.worded("p", "dim small", &answered(*finish, *usage));
        }
        RecordKind::Compacted(compaction) => m.worded("p", "notice", &compacted(compaction)),
        RecordKind::ModelFailed { error } => m.class("p", "bad", |m| {
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

/// `place`: the call and turn of an answer, by which the calls that it makes are found.
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
                    made(m, call, path.and_then(|path| rows.reference(&path)).as_deref());
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

/// A call as the model wrote it.
fn made(m: &mut Markup, call: &ToolCall, reference: Option<&str>) {
    m.class("div", "made", |m| {
        m.ours("<span class=\"arrow\">→</span> ");
        m.worded("b", "mono", &call.name);
        if let Some(reference) = reference {
            m.ours(" ");
            m.with("a", &[("href", reference)], |m| m.ours("see the call"));
        }
        match &call.arguments {
            Arguments::Json(arguments) if matches!(&**arguments, Value::Object(fields) if fields.is_empty()) => {}
            Arguments::Json(arguments) => json_block(m, arguments),
            Arguments::Invalid { text, reason } => {
                m.worded("p", "bad", &format!("not JSON: {reason}"));
                text_block(m, text);
            }
        }
    });
}

/// The finish reason of an answer and its tokens, on one line.
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
    let tokens = [
        (usage.input_tokens, "tokens in"),
        (usage.cached_tokens, "of these cached"),
        (usage.output_tokens, "tokens out"),
        (usage.server_uses, "uses of the provider's tools"),
    ];
    said.extend(tokens.into_iter().filter_map(|(count, what)| Some(format!("{} {what}", thousands(count?)))));
    said.extend(usage.cost_usd.map(|cost| cost.to_string()));
    said.join(" · ")
}
