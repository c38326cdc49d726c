//! `/copy`.

use super::{Arguments, Command};
use llm_do::last_answer;

pub(super) const COPY: Command = Command {
    name: "/copy",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "copy the last answer",
    more: "The terminal puts it into its clipboard (OSC 52), if its settings allow that.",
    run: |talk, _| match talk.held().and_then(last_answer) {
        None => talk.face.problem("there is no answer yet"),
        Some(answer) if talk.face.copy(&answer) => {
            talk.face.note("sent to the clipboard of this terminal");
        }
        Some(_) => talk
            .face
            .problem("there is no clipboard here, or the answer is too long for it; /save writes a file"),
    },
};
