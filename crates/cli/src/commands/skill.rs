//! `llm-do skill`: the skill that teaches coding agents llm-do, which is part of the program.

use crate::{
    args::{Format, SkillInstallArgs},
    exit::{Complaint, Exit},
    program::quoted,
    render::Output,
    transaction::Staged,
    whole_file,
};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The paths and the texts of the skill's files.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/skill.rs"));

/// The name of the skill, and of its folder.
const NAME: &str = "llm-do";

/// The skill in a folder of skills.
enum Found {
    Nothing,
    /// The files of this program.
    Same,
    /// Other files, for example those of an older program.
    Other,
}

/// Writes the skill.
pub(crate) fn install(args: &SkillInstallArgs, output: &Output) -> Result<Exit, Complaint> {
    let target = args.to.join(NAME);
    let failed =
        |error: io::Error| Complaint::failed(format!("`{}` can't be written: {error}", target.display()));
    let did = match found(&target).map_err(failed)? {
        Found::Same => "is up to date",
        Found::Nothing => {
            create(&args.to, &target).map_err(failed)?;
            "written"
        }
        Found::Other if args.replace => {
            replace(&target).map_err(failed)?;
            "replaced"
        }
        Found::Other => {
            return Err(Complaint::wrong(format!("`{}` exists and differs", target.display())).hint(
                format!(
                    "to replace it: llm-do skill install --to {} --replace",
                    quoted(&args.to.display().to_string())
                ),
            ));
        }
    };
    match output.format {
        Format::Text if !output.quiet => output.screen.line(&format!("{}: {did}", target.display())),
        Format::Text => {}
        _ => output.print_json(&json!({"skill": target, "result": did})),
    }
    Ok(Exit::Done)
}

/// Compares the files of a folder with those of the skill.
fn found(target: &Path) -> io::Result<Found> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => {
            return Err(io::Error::other("it is not a folder"));
        }
        Ok(_) => {}
    }
    let same =
        |(path, text): &(&str, &str)| fs::read(target.join(path)).is_ok_and(|found| found == text.as_bytes());
    Ok(if FILES.iter().all(same) { Found::Same } else { Found::Other })
}

/// Creates the folder with all files at once.
fn create(skills: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(skills)?;
    let staged = Staged::beside(skills)?;
    for (path, text) in FILES {
        staged.write(path, text.as_bytes())?;
    }
    staged.become_folder(target)
}

/// Writes each file of the skill whole. Other files of the folder stay.
fn replace(target: &Path) -> io::Result<()> {
    let folders: Vec<PathBuf> =
        FILES.iter().filter_map(|(path, _)| Some(target.join(path).parent()?.to_owned())).collect();
    for folder in folders {
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("`{}` is not a folder", folder.display()))),
            Err(_) => fs::create_dir(&folder)?,
        }
    }
    FILES.iter().try_for_each(|(path, text)| whole_file::write(&target.join(path), text.as_bytes()))
}
