//! `/attach` and `/detach`: files for the next message.

use super::{Arguments, Command, Talk, candidate};
use crate::chat::known::Known;
use llm_do::Joined;
use llm_do_core::question::Answer;
use llm_do_terminal::{Candidate, fuzzy};

pub(super) const ATTACH: Command = Command {
    name: "/attach",
    alias: None,
    arguments: Arguments::Optional { shown: "[FILE]", complete: |known, _, word| files(known, word) },
    of_chat: false,
    does: "let a file join your next message; without FILE, show what joins it",
    more: "FILE is relative to the program's folder. @FILE in a message attaches the file, too.\n\
           The worker's attachment_policy says which files it takes.",
    run: |talk, file| match file {
        "" => {
            let text = list(talk);
            talk.face.page(&text);
        }
        file if talk.run.is_none() => talk.attach_first(file),
        file => {
            talk.aside(Answer::Attach { file: file.into(), content: None });
        }
    },
};

pub(super) const DETACH: Command = Command {
    name: "/detach",
    alias: None,
    arguments: Arguments::Optional { shown: "[NAME]", complete: |_, _, _| Vec::new() },
    of_chat: false,
    does: "take back the file or result of that name, or the last one that joins your next message",
    more: "",
    run: detach,
};

/// Returns the numbers and names of the files and results that join the next message.
fn joining(talk: &Talk<'_>) -> Vec<(u32, String)> {
    let joining = talk.held().map(Joined::next).unwrap_or_default();
    joining.into_iter().map(|joined| (joined.number, joined.name)).collect()
}

fn list(talk: &Talk<'_>) -> String {
    let names: Vec<String> = match talk.run {
        None => talk.first_files.clone(),
        Some(_) => joining(talk).into_iter().map(|(_, name)| name).collect(),
    };
    match names.is_empty() {
        true => "Nothing joins your next message.".to_owned(),
        false => format!("With your next message:\n  {}", names.join("\n  ")),
    }
}

fn detach(talk: &mut Talk<'_>, name: &str) {
    let fits = |known: &str| name.is_empty() || known == name;
    let nothing = match name {
        "" => "nothing joins your next message".to_owned(),
        name => format!("no {name} joins your next message; /attach shows what does"),
    };
    if talk.run.is_none() {
        match talk.first_files.iter().rposition(|file| fits(file)) {
            Some(at) => {
                let file = talk.first_files.remove(at);
                talk.face.note(&format!("{file} does not join your next message any more"));
            }
            None => talk.face.problem(&nothing),
        }
        return;
    }
    match joining(talk).into_iter().rfind(|(_, known)| fits(known)) {
        Some((message, _)) => {
            talk.aside(Answer::Detach { message });
        }
        None => talk.face.problem(&nothing),
    }
}

/// Returns the files that match the typed word.
pub(super) fn files(known: &Known, word: &str) -> Vec<Candidate> {
    let files = known.files();
    let fitting = fuzzy::rank(word, files.iter(), |file| file);
    fitting.into_iter().take(50).map(|file| candidate(file, "")).collect()
}
