//! A worker as a skill for other agents.

use crate::{
    error::{Error, Message},
    transaction::Staged,
};
use llm_do_core::definition::WorkerDefinition;
use llm_do_program::skills::{self, SKILL_FILE};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A written skill.
#[derive(Debug)]
pub struct Exported {
    /// The skill's name.
    pub name: String,
    /// The skill's folder.
    pub folder: PathBuf,
}

/// Writes a worker as a skill, into a new folder in `to`. `project` gets the real path of `to`, and returns the word for
/// the project's folder in the command of the skill. `id` names the worker in messages.
///
/// # Errors
/// The worker has no description, the folder exists already, or it can't be written.
pub fn export(
    worker: &WorkerDefinition,
    id: &str,
    to: &Path,
    project: impl FnOnce(&Path) -> String,
) -> Result<Exported, Error> {
    let unwritten =
        |error: io::Error| Message::failed(format!("`{}` can't be written: {error}", to.display()));
    fs::create_dir_all(to).map_err(unwritten)?;
    let project = project(&fs::canonicalize(to).map_err(unwritten)?);
    let exported = skills::export(worker, &project)
        .map_err(|reason| Message::wrong(format!("`{id}` can't be exported: {reason}")))?;
    let folder = to.join(&exported.name);
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(Message::wrong(format!("`{}` exists already", folder.display()))
            .hint("remove it, or name another folder with -o")
            .into());
    }
    let staged = Staged::beside(to).map_err(unwritten)?;
    staged
        .write(SKILL_FILE, exported.text.as_bytes())
        .and_then(|_| staged.become_folder(&folder))
        .map_err(unwritten)?;
    Ok(Exported { name: exported.name, folder })
}
