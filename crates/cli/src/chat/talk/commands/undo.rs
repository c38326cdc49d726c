//! `/undo`, `/retry` and `/edit`: the user's last message is taken back.

use super::{Arguments, Command, Talk, no_completion};
use crate::chat::talk::{NOT_YOUR_TURN, VIA};
use llm_do::last_message;
use llm_do_core::question::{Answer, Given, Reply};
use std::time::Instant;

pub(super) const UNDO: Command = Command {
    name: "/undo",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "take your last message back, with all that followed it",
    more: "The message returns to the composer. llm-do offers to restore the files that file tools changed since. What other tools \
           have done stays done, and the tokens stay paid.",
    run: |talk, _| {
        if let Some(text) = undo(talk) {
            talk.face.note("your last message and what followed it are taken back");
            talk.face.compose(&text);
        }
    },
};

pub(super) const RETRY: Command = Command {
    name: "/retry",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "ask for another answer to your last message",
    more: "",
    run: |talk, _| {
        if let Some(text) = undo(talk) {
            talk.again = Some(text);
        }
    },
};

pub(super) const EDIT: Command = Command {
    name: "/edit",
    alias: None,
    arguments: Arguments::Optional { shown: "[TEXT]", complete: no_completion },
    of_chat: false,
    does: "change your last message and send it again",
    more: "Without TEXT, the message returns to the composer.",
    run: |talk, new| {
        if let Some(text) = undo(talk) {
            match new {
                "" => talk.face.compose(&text),
                new => talk.again = Some(new.to_owned()),
            }
        }
    },
};

/// Takes the user's last message back. Returns its text.
fn undo(talk: &mut Talk<'_>) -> Option<String> {
    let Some((message, text)) = talk.held().and_then(last_message) else {
        talk.face.problem("there is nothing to take back");
        return None;
    };
    let Some(pending) = talk.pending.take() else {
        talk.face.problem(NOT_YOUR_TURN);
        return None;
    };
    talk.since = Some(Instant::now());
    let _ = pending.reply.send(Reply::Given(Given::operator(Answer::Undo { message }, VIA)));
    Some(text)
}
