//! `/tools`.

use super::Talk;
use crate::chat::talk::{CALL, Conversation, start};
use llm_do_core::gate::WithheldTool;

/// Shows the tools.
pub(super) fn show(talk: &mut Talk<'_>) {
    let text = match talk.current() {
        Some(conversation) => tools(conversation),
        None => before_the_first_message(talk),
    };
    talk.face.page(&text);
}

fn before_the_first_message(talk: &Talk<'_>) -> String {
    let begun = talk.starter.preview();
    match begun.map(|record| Conversation::begun(&record)) {
        Ok(Some(conversation)) => tools(&conversation),
        Ok(None) => "The tools are known when the chat has begun.".to_owned(),
        Err(problem) => format!("The tools are known when the chat has begun: {}", problem.text()),
    }
}

fn tools(conversation: &Conversation) -> String {
    let Conversation { worker, tools, withheld, server_tools, .. } = conversation;
    let mut lines: Vec<String> = tools
        .iter()
        .map(|(name, description)| {
            let first = description.lines().next().unwrap_or_default();
            format!("{name}  {}", start(first, CALL))
        })
        .collect();
    lines.extend(server_tools.iter().map(|name| format!("{name}  run by the provider of the model")));
    if lines.is_empty() {
        lines.push(format!("{worker} is offered no tools."));
    }
    if !withheld.is_empty() {
        lines.push("\nnot offered:".to_owned());
    }
    lines.extend(withheld.iter().map(|WithheldTool { name, why }| format!("  {name}  {}", start(why, CALL))));
    lines.join("\n")
}
