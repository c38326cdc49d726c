//! `llm-do run`: one run of a program, from the command line to the exit code.

use crate::{
    args::{Cli, Format, RunArgs},
    chat::{self, Chat},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{
        Asked, NotReady, asking, came_too_late, carry_out, given, locked_notes, said, settings, too_small,
    },
    program::{findings, show_complaint},
    render::{Output, Refuses},
    terminal::Terminal,
};
use clap::CommandFactory;
use llm_do::{
    DetectedModel, Input, Problem, RunOptions, Session,
    core::worker::WorkerMode,
    program::{
        diagnostics::{codes, nearest},
        manifest::{LIBRARY, MANIFESTS},
    },
};
use std::{ffi::OsStr, fs, sync::Arc};

/// Runs the command.
pub(crate) fn run(args: &RunArgs, output: &Output) -> Exit {
    let mut asked = match Asked::open(args.approval.operator.as_ref()) {
        Ok(asked) => asked,
        Err(complaint) => return show_complaint(&complaint, output),
    };
    let interrupts = match Interrupts::listen(asked.terminal.clone()) {
        Ok(interrupts) => interrupts,
        Err(error) => {
            return show_complaint(&Complaint::failed(format!("cannot listen to signals: {error}")), output);
        }
    };
    let (session, input) = match ready(args, &asked, output) {
        Ok(ready) => ready,
        Err(not_ready) if has_no_program(&not_ready, args) && output.format == Format::Text => {
            output.screen.line(FIRST_STEPS);
            return Exit::Wrong;
        }
        Err(not_ready) => return said(or_a_command(not_ready, args), output),
    };
    if session.entry().mode == WorkerMode::Chat && !asked.answers_by_program() && chat::is_wanted(output) {
        interrupts.on_first(|| {});
        return match session.with_options(RunOptions { chat: true, ..session.options().clone() }) {
            Ok(session) => chat::hold(Chat::of(session, input), false, output)
                .unwrap_or_else(|complaint| show_complaint(&complaint, output)),
            Err(problem) => said(problem.into(), output),
        };
    }
    if chat::is_held_in(&session) && !asked.answers_by_program() && chat::is_wanted(output) {
        // The chat takes signals itself.
        interrupts.on_first(|| {});
        return chat::hold(Chat::in_run(session, input), false, output)
            .unwrap_or_else(|complaint| show_complaint(&complaint, output));
    }
    say(&session, output);
    let start = |operator, events| session.start(&input, operator, Some(events));
    let refuses = if session.denies_unattended() { Refuses::WithoutTerminal } else { Refuses::AsMeant };
    match carry_out(start, &mut asked, &interrupts, refuses, output) {
        Ok(Exit::Done) => match came_too_late(args, &input) {
            Some(complaint) => {
                output.line(&complaint.render(output.err));
                Exit::Failed
            }
            None => Exit::Done,
        },
        Ok(exit) => exit,
        Err(not_ready) => said(not_ready, output),
    }
}

/// The first steps, for a user who starts llm-do in a folder without a program.
const FIRST_STEPS: &str = "\
llm-do runs programs made of LLM workers: files with instructions that call each other like functions.
There is no worker in this folder.

  llm-do init my-project        create a project, with a first worker to change
  llm-do init --list-templates  the kinds of projects that it can create
  llm-do FILE.worker MESSAGE    run a worker file
  llm-do FOLDER MESSAGE         run the project in a folder
  llm-do doctor                 what this machine has: models, keys, Python, confinement
  llm-do --help                 all commands";

/// Returns true if the command line is only `llm-do`, in a folder without any file of a program.
fn has_no_program(not_ready: &NotReady, args: &RunArgs) -> bool {
    let NotReady::Problem(problem) = not_ready else { return false };
    let Problem::Program(found) = &**problem else { return false };
    let bare = args.first.is_none() && args.program.entry.is_none() && args.program.project.is_none();
    bare && found.0.iter().any(|finding| finding.code == codes::NO_ENTRY) && here_is_no_worker()
}

fn here_is_no_worker() -> bool {
    let Ok(entries) = fs::read_dir(".") else { return false };
    let of_program = |name: &OsStr| {
        let name = name.to_string_lossy();
        MANIFESTS.contains(&&*name) || name == LIBRARY || name == "workers" || name.ends_with(".worker")
    };
    !entries.flatten().any(|entry| of_program(&entry.file_name()))
}

/// Adds a hint that the first word, which names no program, may be a mistyped command.
fn or_a_command(mut not_ready: NotReady, args: &RunArgs) -> NotReady {
    if let (NotReady::Problem(problem), Some(word)) = (&mut not_ready, &args.first)
        && let Problem::Program(found) = &mut **problem
        && let [missing] = &mut found.0[..]
        && missing.code == codes::NO_TARGET
    {
        let commands = Cli::command();
        let names = commands.get_subcommands().map(clap::Command::get_name);
        for name in nearest(word, names) {
            missing.help.push(format!("did you mean the command `llm-do {name}`?"));
        }
    }
    not_ready
}

/// Loads the program, and reads its input.
pub(crate) fn ready(args: &RunArgs, asked: &Asked, output: &Output) -> Result<(Session, Input), NotReady> {
    let settings = || Ok::<_, Complaint>(asking(settings(args)?, asked, output));
    let session = match Session::open(settings()?) {
        Err(Problem::NoModel) => {
            get_model(asked.terminal.as_ref(), output)?;
            Session::open(settings()?)?
        }
        opened => opened?,
    };
    if let Some(complaint) = too_small(&session) {
        return Err(complaint.into());
    }
    let input = given(args, &session, Some(output))?;
    Ok((session, input))
}

/// Shows warnings and notes before the run begins.
pub(crate) fn say(session: &Session, output: &Output) {
    if !output.quiet && !session.warnings().is_empty() {
        output.screen.line(&findings(session.warnings(), output.err));
    }
    if let Some(DetectedModel { name, because }) = session.detected_model() {
        output.note(&format!("using {name}, because {because}"));
    }
    for (name, reason) in session.left_out_models() {
        output.note(&format!("{name} is left out of its list of models: {reason}"));
    }
    for note in locked_notes(session) {
        output.note(&note);
    }
}

/// Fetches the model that needs no key, if the operator agrees.
#[cfg(feature = "local")]
fn get_model(terminal: Option<&Arc<Terminal>>, output: &Output) -> Result<(), NotReady> {
    use super::models::{offer, pull, without_model};
    use crate::opening::store;
    use llm_do_inference::CATALOGUE;

    let store = store();
    match terminal {
        Some(terminal) if offer(terminal, &store, output.err) => {
            Ok(pull(&store, &CATALOGUE[0], output).map(drop)?)
        }
        _ => Err(without_model(Complaint::wrong(Problem::NoModel.to_string())).into()),
    }
}

#[cfg(not(feature = "local"))]
fn get_model(_: Option<&Arc<Terminal>>, _: &Output) -> Result<(), NotReady> {
    Err(Problem::NoModel.into())
}
