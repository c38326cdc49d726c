//! `/fork` and `/resume`: the chat continues in another run.

use super::{Arguments, Command, Talk, candidate};
use crate::chat::{
    known::Known,
    talk::{Leaving, NOT_YOUR_TURN},
};
use llm_do_terminal::{Candidate, fuzzy};
use std::sync::Arc;

pub(super) const FORK: Command = Command {
    name: "/fork",
    alias: None,
    arguments: Arguments::None,
    of_chat: true,
    does: "continue in a copy of this chat; this one can be resumed",
    more: "The copy is a run of its own with the same records. Files are not copied: both chats work in the same folder.",
    run: |talk, _| leave(talk, Leaving::ForFork),
};

pub(super) const RESUME: Command = Command {
    name: "/resume",
    alias: None,
    arguments: Arguments::Optional { shown: "[RUN]", complete },
    of_chat: true,
    does: "continue another chat of this worker; without RUN, list them",
    more: "RUN is the ID of the run or its end. The chat that you leave can be resumed, too.",
    run: |talk, run| match run {
        "" => {
            let text = list(talk);
            talk.face.page(&text);
        }
        run => match talk.known.chat(run) {
            Ok(dir) if talk.run.is_some() => leave(talk, Leaving::For(dir)),
            Ok(dir) => talk.switch(&dir),
            Err(why) => talk.face.problem(&why),
        },
    },
};

fn leave(talk: &mut Talk<'_>, leaving: Leaving) {
    match (&talk.run, &talk.pending) {
        (Some(_), Some(_)) => talk.leave(leaving),
        (Some(_), None) => talk.face.problem(NOT_YOUR_TURN),
        (None, _) => talk.face.problem("the chat begins with your first message"),
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

fn complete(known: &Known, before: &str, word: &str) -> Vec<Candidate> {
    if !before.is_empty() {
        return Vec::new();
    }
    let fitting = fuzzy::rank(word, known.chats(), |(run, _)| run);
    fitting.into_iter().map(|(run, about)| candidate(&run, &about)).collect()
}
