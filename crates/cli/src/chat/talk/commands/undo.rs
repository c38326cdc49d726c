//! `/undo`, `/retry` and `/edit`: the user's last message is taken back.

use super::{Input, Line, Talk, Undone};
use llm_do::last_message;

/// Takes the user's last message back.
pub(super) fn undo(talk: &mut Talk<'_>, then: Undone<Line>) {
    let last = talk.held().and_then(last_message).map(|(number, text)| (number, Line::Message(text)));
    talk.take(Input::Undo(last, then));
}
