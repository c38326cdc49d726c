//! `/attach` and `/detach`: files for the next message.

use super::{Input, Talk, candidate};
use crate::chat::known::Known;
use llm_do::Joined;
use llm_do_terminal::{Candidate, fuzzy};

/// Returns the numbers and names of the files and results that join the next message.
fn joining(talk: &Talk<'_>) -> Vec<(u32, String)> {
    let joining = talk.held().map(Joined::next).unwrap_or_default();
    joining.into_iter().map(|joined| (joined.number, joined.name)).collect()
}

/// Shows what joins the next message.
pub(super) fn list(talk: &mut Talk<'_>) {
    let names: Vec<String> = match talk.dialogue.is_running() {
        false => talk.dialogue.first_files().iter().map(ToString::to_string).collect(),
        true => joining(talk).into_iter().map(|(_, name)| name).collect(),
    };
    talk.face.page(&match names.is_empty() {
        true => "Nothing joins your next message.".to_owned(),
        false => format!("With your next message:\n  {}", names.join("\n  ")),
    });
}

/// Removes a file or result from the next message.
pub(super) fn detach(talk: &mut Talk<'_>, name: &str) {
    let joining = joining(talk);
    talk.take(Input::Detach((!name.is_empty()).then(|| name.to_owned()), joining));
}

/// Returns the files that match the typed word.
pub(super) fn files(known: &Known, word: &str) -> Vec<Candidate> {
    let files = known.files();
    let fitting = fuzzy::rank(word, files.iter(), |file| file);
    fitting.into_iter().take(50).map(|file| candidate(file, "")).collect()
}
