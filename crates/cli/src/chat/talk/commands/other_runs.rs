//! `/fork` and `/resume`: the chat continues in another run.

use super::{Leave, Talk, candidate};
use crate::chat::known::Known;
use llm_do_terminal::{Candidate, fuzzy};
use std::sync::Arc;

/// Continues another chat, or lists the chats without a run.
pub(super) fn resume(talk: &mut Talk<'_>, run: &str) {
    if run.is_empty() {
        let text = list(talk);
        return talk.face.page(&text);
    }
    match talk.known.chat(run) {
        Ok(dir) => talk.leave(Leave::Other(dir)),
        Err(why) => talk.face.problem(&why),
    }
}

fn list(talk: &Talk<'_>) -> String {
    match talk.known.chats() {
        chats if chats.is_empty() => "There are no chats of this worker.".to_owned(),
        chats => {
            let here = talk.run.as_ref().map(|started| Arc::clone(&started.id));
            let mark = |run: &str| if here.as_deref() == Some(run) { "  (this chat)" } else { "" };
            let lines = chats.into_iter().map(|(run, about)| format!("{run}  {about}{}", mark(&run)));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns the chats that match the typed word.
pub(super) fn complete(known: &Known, word: &str) -> Vec<Candidate> {
    let fitting = fuzzy::rank(word, known.chats(), |(run, _)| run);
    fitting.into_iter().map(|(run, about)| candidate(&run, &about)).collect()
}
