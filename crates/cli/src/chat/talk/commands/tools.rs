//! `/tools`.

use super::{Arguments, Command, Talk};
use crate::chat::talk::{CALL, start};

pub(super) const TOOLS: Command = Command {
    name: "/tools",
    alias: None,
    arguments: Arguments::None,
    does: "show the tools that the worker may call",
    more: "",
    run: |talk, _| {
        let text = tools(talk);
        talk.face.page(&text);
    },
};

fn tools(talk: &Talk<'_>) -> String {
    let Some(conversation) = talk.current() else {
        return "The tools are known when the chat has begun.".to_owned();
    };
    if conversation.tools.is_empty() {
        return format!("{} has no tools.", conversation.worker);
    }
    let lines = conversation.tools.iter().map(|(name, description)| {
        let first = description.lines().next().unwrap_or_default();
        format!("{name}  {}", start(first, CALL))
    });
    lines.collect::<Vec<_>>().join("\n")
}
