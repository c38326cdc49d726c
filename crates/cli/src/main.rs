//! The program `llm-do`.

mod args;
mod chat;
mod commands;
mod editor;
mod environment;
mod exit;
mod interrupt;
mod markdown;
mod meant;
mod opening;
mod operator;
mod paint;
mod program;
mod questions;
#[cfg(test)]
mod reference;
mod render;
mod rows;
mod screen;
mod terminal;
mod transaction;

use args::{Cli, Command, Format, GateCommand, GrantsCommand};
use clap::CommandFactory;
use commands::check::Wanted;
use exit::{Complaint, Exit};
use llm_do::program::visible;
use render::Output;
use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

/// A turn is some hundred small pieces that come and go together, for which the system's allocator is slow
/// (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A supervisor of processes is this program executed again. In that case the call doesn't return.
    llm_do::confine::install();
    // So is the process of a local model.
    #[cfg(feature = "local")]
    llm_do_inference::install();
    interrupt::report_file_size_limit();
    match args::parse(env::args_os()) {
        Ok(cli) => carry_out(cli).into(),
        Err(mistake) => {
            // Help and version are no mistakes; a reader who has gone is none either.
            let _ = mistake.print();
            if mistake.use_stderr() { Exit::Wrong.into() } else { Exit::Done.into() }
        }
    }
}

fn carry_out(cli: Cli) -> Exit {
    let output = Output::new(&cli.global);
    let checks = match &cli.command {
        Command::Check(check) => check.explain.is_none(),
        Command::Run(run) => run.check,
        _ => false,
    };
    if output.format == Format::Sarif && !checks {
        let complaint = Complaint::wrong("--output sarif is a form of findings, and this command has none");
        return program::show_complaint(&complaint.hint("use it with `llm-do check`"), &output);
    }
    let done = match &cli.command {
        Command::Run(run) if run.list_workers => commands::list::run(&(&**run).into(), &output),
        Command::Run(run) if run.check => commands::check::run(&(&**run).into(), Wanted::default(), &output),
        Command::Run(run) => Ok(commands::run::run(run, &output)),
        Command::Chat(chat) if chat.run.list_workers => commands::list::run(&(&chat.run).into(), &output),
        Command::Chat(chat) if chat.run.check => {
            commands::check::run(&(&chat.run).into(), Wanted::default(), &output)
        }
        Command::Chat(chat) => Ok(chat::run(chat, &output)),
        Command::Acp(acp) => commands::acp::run(acp, &output),
        Command::Serve(serve) => commands::serve::run(serve, &output),
        Command::Stubs(stubs) => commands::stubs::run(stubs, &output),
        Command::List(program) => commands::list::run(program, &output),
        Command::Check(check) => match &check.explain {
            Some(code) => commands::check::explain(code, &output),
            None => {
                let wanted = Wanted { fix: check.fix, flow: check.flow };
                commands::check::run(&check.program, wanted, &output)
            }
        },
        Command::Show(show) => commands::show::run(show, &output),
        Command::Lib(arguments) => commands::lib::run(arguments, &output),
        Command::Init(init) => commands::init::run(init, &output),
        Command::Migrate(migrate) => commands::migrate::run(migrate, &output),
        Command::Models(command) => models(command, &output).map(|()| Exit::Done),
        Command::Mcp(command) => commands::mcp::run(command, &output),
        Command::Runs(runs) => commands::runs::run(runs, &output),
        Command::Harden(harden) => Ok(commands::harden::run(harden, &output)),
        Command::Gate(GateCommand::Explain(explain)) => commands::gate::explain(explain, &output),
        Command::Grants(GrantsCommand::List) => commands::grants::list(&output).map(|()| Exit::Done),
        Command::Grants(GrantsCommand::Revoke { target, all }) => {
            commands::grants::revoke(target.as_deref(), *all, &output).map(|()| Exit::Done)
        }
        Command::Doctor { target } => commands::doctor::run(target.as_deref(), &output).map(|()| Exit::Done),
        Command::Schema { what } => {
            commands::schema::run(*what, &output);
            Ok(Exit::Done)
        }
        Command::Man { dir } => commands::man::run(dir).map(|()| Exit::Done),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "llm-do", &mut script);
            // A reader who has gone wants no more.
            let _ = io::stdout().lock().write_all(&script);
            Ok(Exit::Done)
        }
    };
    done.unwrap_or_else(|complaint| program::show_complaint(&complaint, &output))
}

#[cfg(feature = "local")]
fn models(command: &args::ModelsCommand, output: &Output) -> Result<(), Complaint> {
    commands::models::run(command, &opening::store(), output)
}

#[cfg(not(feature = "local"))]
fn models(_: &args::ModelsCommand, _: &Output) -> Result<(), Complaint> {
    Err(Complaint::wrong("this build runs no local models").hint("build it with the feature `local`"))
}
