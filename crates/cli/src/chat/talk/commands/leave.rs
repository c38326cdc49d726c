//! `/new`, `/done` and `/exit`: a conversation ends.

use super::{Arguments, Command};
use crate::chat::talk::{Leaving, VIA};
use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Given, Reply},
};
use std::time::Instant;

pub(super) const NEW: Command = Command {
    name: "/new",
    alias: None,
    arguments: Arguments::None,
    of_chat: true,
    does: "end this chat and begin another one",
    more: "",
    run: |talk, _| match talk.run {
        Some(_) => talk.leave(Leaving::ForNew),
        None => talk.face.note("a new chat begins with your next message"),
    },
};

pub(super) const DONE: Command = Command {
    name: "/done",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "end a conversation in the middle of a run; its caller gets the result",
    more: "",
    run: |talk, _| match talk.pending.take() {
        Some(pending) if pending.id.call != CallPath::root() => {
            talk.since = Some(Instant::now());
            let _ = pending.reply.send(Reply::Given(Given::operator(Answer::End, VIA)));
        }
        pending => {
            talk.pending = pending;
            talk.face.problem("/done ends a conversation in the middle of a run; /exit leaves this chat");
        }
    },
};

pub(super) const EXIT: Command = Command {
    name: "/exit",
    alias: Some("/quit"),
    arguments: Arguments::None,
    of_chat: false,
    does: "leave the chat; it can be resumed",
    more: "",
    run: |talk, _| talk.leave(Leaving::Chat),
};
