//! `llm-do lib export`: writes a worker as a skill.

use super::trouble::Trouble;
use crate::{
    args::{Format, LibExportArgs, ProgramArgs, ProgramFlags},
    exit::Complaint,
    program::{looked_at, quoted, reading_host, surroundings},
    render::Output,
    transaction::Staged,
};
use llm_do::{
    Problem,
    program::{
        Program,
        skills::{SKILL_FILE, export},
        target,
    },
};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Runs the command. `libraries` are the folders of `--lib`.
pub(crate) fn run(args: &LibExportArgs, libraries: &[PathBuf], output: &Output) -> Result<(), Trouble> {
    let program = ProgramFlags {
        entry: Some(args.skill.clone()),
        project: args.project.clone(),
        lib: libraries.to_vec(),
        ..ProgramFlags::default()
    };
    let request = looked_at(&ProgramArgs { target: None, program });
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let loaded = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let root = PathBuf::from(target.source.tree.root().as_str());
        let host = reading_host(&request, &around, &target)?;
        Ok((root, Program::load(target.source, host).map_err(Problem::Program)?.program))
    });
    let (root, program) = loaded.map_err(|problem| match problem {
        Problem::Program(found) => Trouble::Found(found.0),
        problem => Complaint::wrong(problem.to_string()).into(),
    })?;
    let to = around.here.join(&args.to);
    let unwritten =
        |error: io::Error| Complaint::failed(format!("`{}` can't be written: {error}", to.display()));
    fs::create_dir_all(&to).map_err(unwritten)?;
    let exported = export(program.entry(), &named(&root, &to).map_err(unwritten)?)
        .map_err(|reason| Complaint::wrong(format!("`{}` can't be exported: {reason}", args.skill)))?;
    let folder = to.join(&exported.name);
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(Complaint::wrong(format!("`{}` exists already", folder.display()))
            .hint("remove it, or name another folder with -o")
            .into());
    }
    let staged = Staged::beside(&to).map_err(unwritten)?;
    staged
        .write(SKILL_FILE, exported.text.as_bytes())
        .and_then(|_| staged.become_folder(&folder))
        .map_err(unwritten)?;
    match output.format {
        Format::Text => output.print(&format!("{}  written\n", folder.join(SKILL_FILE).display())),
        _ => output.print_json(&json!({"skill": exported.name, "folder": folder})),
    }
    Ok(())
}

/// Returns the word for the project's folder in a command of the skill: the agents that find a skill in a project work
/// in its folder.
fn named(root: &Path, to: &Path) -> io::Result<String> {
    let inside = fs::canonicalize(to)?.starts_with(root);
    Ok(if inside { ".".to_owned() } else { quoted(&root.display().to_string()) })
}
