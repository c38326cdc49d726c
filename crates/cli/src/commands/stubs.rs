//! `llm-do stubs`: types of a program's workers in other languages (docs/reference/stdio.md#stubs).

use crate::{
    args::{Format, StubsArgs},
    exit::{Complaint, Exit},
    program::{looked_at, reading_host, show_problem, surroundings},
    render::Output,
};
use llm_do::{
    Problem,
    core::worker::Definitions,
    program::{
        Program,
        stubs::{Language, write},
        target,
    },
    write_named,
};

/// Runs the command.
pub(crate) fn run(args: &StubsArgs, output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("--output is not available for stubs: the result is source code"));
    }
    let request = looked_at(&args.program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let loaded = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let host = reading_host(&request, &around, &target)?;
        Program::load_any(target.source, host).map_err(Problem::Program)
    });
    let program = match loaded {
        Ok(loaded) => loaded.program,
        Err(problem) => return Ok(show_problem(&problem, output)),
    };
    let signatures = program.signatures();
    if let Some((worker, reason)) = signatures.broken.first() {
        return Err(Complaint::wrong(format!("the worker `{worker}` can't be loaded: {reason}"))
            .hint("`llm-do check` shows all findings"));
    }
    let language = match (args.python, args.typescript) {
        (true, _) => Language::Python,
        (_, true) => Language::TypeScript,
        _ => Language::Rust,
    };
    let text = write(language, program.project_name(), &signatures);
    match &args.file {
        None => output.print(&text),
        Some(file) => write_named(file, text.as_bytes())
            .map_err(|error| Complaint { exit: Exit::Failed, ..Complaint::unwritten(file, &error) })?,
    }
    Ok(Exit::Done)
}
