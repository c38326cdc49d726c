//! `llm-do ask`: one prompt, one answer, without a worker of the user's.

use crate::{
    args::{AskArgs, ProgramFlags, RunArgs},
    commands::run,
    exit::{Complaint, Exit},
    program::home,
    render::Output,
    whole_file,
};
use std::{fs, io, path::PathBuf};

/// The worker that answers. It has no tools, so it can only answer.
const WORKER: &str = "\
---
description: Answers a prompt of `llm-do ask`
---
Answer the user's message.
";

/// Runs the command: a run of a worker file that llm-do writes into the user's folder, so that the run is recorded,
/// listed, resumed and replayed like any other.
pub(crate) fn run(args: &AskArgs, output: &Output) -> Result<Exit, Complaint> {
    let worker = worker().map_err(|(path, error)| {
        Complaint::failed(format!("cannot write {}: {error}", path.display()))
            .hint("set LLM_DO_HOME to a folder that you may write to")
    })?;
    let message = (!args.prompt.is_empty()).then(|| args.prompt.join(" "));
    let run = RunArgs {
        first: Some(worker.display().to_string()),
        // One word beside a target, even an empty one, is its message and never another target.
        second: message,
        input: args.attachments(),
        program: ProgramFlags { no_project: true, ..ProgramFlags::default() },
        model: args.model.clone().into(),
        budget: args.budget.clone(),
        to: args.to.clone(),
        ..RunArgs::default()
    };
    Ok(run::run(&run, output))
}

/// Returns the path of the worker file, after writing it if it is missing or different.
fn worker() -> Result<PathBuf, (PathBuf, io::Error)> {
    let folder = home().join("ask");
    let path = folder.join("ask.worker");
    if fs::read(&path).is_ok_and(|found| found == WORKER.as_bytes()) {
        return Ok(path);
    }
    let written = llm_do::private_dir(&folder).and_then(|()| whole_file::write(&path, WORKER.as_bytes()));
    written.map(|()| path.clone()).map_err(|error| (path, error))
}
