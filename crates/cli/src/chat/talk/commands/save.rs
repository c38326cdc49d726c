//! `/save`.

use super::Talk;
use crate::chat::talk::records::ended_line;
use llm_do::Transcript;
use std::{fs::OpenOptions, io::Write as _};

/// The default name of the file for a saved chat.
const SAVED: &str = "chat.md";

/// Writes the conversation to that file, or to the default one.
pub(super) fn save(talk: &mut Talk<'_>, file: &str) {
    let file = if file.is_empty() { SAVED } else { file };
    let Some((path, conversation)) = talk.at() else {
        talk.face.problem("there is nothing to save yet");
        return;
    };
    let text = Transcript::of(&talk.view, path, &ended_line).markdown(&conversation.worker);
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    match written.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => talk.face.note(&format!("saved to {file}")),
        Err(error) => {
            talk.face.problem(&format!("cannot write {file}: {error}; /save FILE names another file"));
        }
    }
}
