//! `llm-do ask`: one prompt, one answer, without a worker of the user's.

use crate::{
    args::{AskArgs, ProgramFlags, RunArgs},
    commands::run,
    exit::{Complaint, Exit},
    program::shipped_worker,
    render::Output,
};

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
    let worker = shipped_worker("ask", "ask", WORKER)?;
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
