//! The program `llm-do`.

mod args;
mod chat;
mod commands;
mod editor;
mod environment;
mod exit;
mod interrupt;
mod markdown;
mod max_cost;
mod meant;
mod opening;
mod operator;
mod paint;
mod past_runs;
mod program;
mod questions;
#[cfg(test)]
mod reference;
mod render;
mod rows;
mod screen;
mod terminal;
mod whole_file;

use args::{
    Cli, Command, Format, GateCommand, GrantsCommand, PricesCommand, RunsArgs, RunsCommand, SkillCommand,
};
use commands::check::Wanted;
use exit::{Complaint, Exit};
use llm_do::program::visible;
use render::Output;
use std::{
    env, fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// The allocator. A turn makes some hundred small allocations that are freed together, for which the system's allocator
/// is slow (docs/performance.md).
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
            match mistake.print() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe && !mistake.use_stderr() => {
                    let _ = writeln!(io::stderr(), "error: cannot write to stdout: {error}");
                    Exit::Failed.into()
                }
                _ if mistake.use_stderr() => Exit::Wrong.into(),
                _ => Exit::Done.into(),
            }
        }
    }
}

/// Runs the command. A result that can't be written is lost, and this is always reported.
fn carry_out(cli: Cli) -> Exit {
    let mut output = Output::new(&cli.global);
    if let Err(error) = room_for_descriptors() {
        let reason = llm_do::core::os_error::reason(&error);
        return program::show_complaint(&Complaint::failed(format!("cannot start: {reason}")), &output);
    }
    let file = destination(&cli.command);
    if let Some(file) = file
        && let Err(error) = output.send_to(file)
    {
        return program::show_complaint(&Complaint::unwritten(file, &error), &output);
    }
    let exit = command(&cli, &output);
    let Err(lost) = output.screen.finish() else { return exit };
    let complaint = Complaint::failed(lost);
    let again = match file {
        Some(_) => "`llm-do runs resume last -o FILE` writes its result again",
        None => "`llm-do runs resume last` shows its result again",
    };
    let complaint = match &cli.command {
        Command::Run(_) | Command::Ask(_) => complaint.hint(format!("what the run did is done; {again}")),
        Command::Runs(RunsArgs { command: RunsCommand::Resume(_), .. }) => {
            complaint.hint(format!("what the run did is done; {again}"))
        }
        _ => complaint,
    };
    output.screen.line(&complaint.render(output.err));
    // A reader that is lost interrupts a run that streams its events.
    if matches!(exit, Exit::Done | Exit::Interrupted) { Exit::Failed } else { exit }
}

/// Fails if the process can't open as many files as its runtime needs. The runtime itself would end the process.
fn room_for_descriptors() -> io::Result<()> {
    const NEEDED: usize = 12;
    // A folder that is there even where there are no devices.
    let root = match fs::File::open("/") {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        opened => opened?,
    };
    let others: io::Result<Vec<fs::File>> = (1..NEEDED).map(|_| root.try_clone()).collect();
    others.map(drop)
}

/// Returns the file for the result of a run, in place of stdout.
fn destination(command: &Command) -> Option<&Path> {
    match command {
        Command::Run(run) => run.to.as_deref(),
        Command::Ask(ask) => ask.to.as_deref(),
        Command::Runs(RunsArgs { command: RunsCommand::Resume(resume), .. }) => resume.to.as_deref(),
        _ => None,
    }
}

fn command(cli: &Cli, output: &Output) -> Exit {
    let checks = match &cli.command {
        Command::Check(check) => check.explain.is_none(),
        Command::Run(run) => run.check,
        _ => false,
    };
    if output.format == Format::Sarif && !checks {
        let complaint = Complaint::wrong("--output sarif is a form of findings, and this command has none");
        return program::show_complaint(&complaint.hint("use it with `llm-do check`"), output);
    }
    let done = match &cli.command {
        Command::Run(run) if run.list_workers => commands::list::run(&(&**run).into(), output),
        Command::Run(run) if run.check => commands::check::run(&(&**run).into(), Wanted::default(), output),
        #[cfg(feature = "cluster")]
        Command::Run(run) if run.cluster.is_some() => {
            Ok(commands::cluster::run(run, run.cluster.as_deref().unwrap_or_default(), output))
        }
        #[cfg(feature = "cluster")]
        Command::Chat(chat) if chat.run.cluster.is_some() => {
            Err(Complaint::wrong("--cluster is not available for chat: only `llm-do run` starts runs there"))
        }
        #[cfg(feature = "cluster")]
        Command::Cluster(command) => commands::cluster::command(command, output),
        Command::Run(run) => Ok(commands::run::run(run, output)),
        Command::Chat(chat) if chat.run.list_workers => commands::list::run(&(&chat.run).into(), output),
        Command::Chat(chat) if chat.run.check => {
            commands::check::run(&(&chat.run).into(), Wanted::default(), output)
        }
        Command::Chat(chat) => Ok(chat::run(chat, output)),
        Command::Ask(ask) => commands::ask::run(ask, output),
        Command::Map(map) => Ok(commands::map::run(map, output)),
        Command::Acp(acp) => commands::acp::run(acp, output),
        Command::Lsp { stdio: _ } => commands::lsp::run(output),
        Command::Serve(serve) => commands::serve::run(serve, output),
        Command::Stubs(stubs) => commands::stubs::run(stubs, output),
        Command::Page(page) => commands::page::run(page, output),
        Command::List(program) => commands::list::run(program, output),
        Command::Check(check) => match &check.explain {
            Some(code) => commands::check::explain(code, output),
            None => {
                let wanted = Wanted { fix: check.fix, flow: check.flow };
                commands::check::run(&check.program, wanted, output)
            }
        },
        Command::Show(show) => commands::show::run(show, output),
        Command::Lib(arguments) => commands::lib::run(arguments, output),
        Command::Init(init) => commands::init::run(init, output),
        Command::Migrate(migrate) => commands::migrate::run(migrate, output),
        Command::Models(command) => models(command, output).map(|()| Exit::Done),
        Command::Mcp(command) => commands::mcp::run(command, output),
        Command::Runs(runs) => commands::runs::run(runs, output),
        Command::Harden(harden) => Ok(commands::harden::run(harden, output)),
        Command::Test(test) => Ok(commands::test::run(test, output)),
        Command::Tune(tune) => Ok(commands::tune::run(tune, output)),
        Command::Gate(GateCommand::Explain(explain)) => commands::gate::explain(explain, output),
        Command::Grants(GrantsCommand::List) => commands::grants::list(output).map(|()| Exit::Done),
        Command::Grants(GrantsCommand::Revoke { target, all }) => {
            commands::grants::revoke(target.as_deref(), *all, output).map(|()| Exit::Done)
        }
        Command::Keys(command) => commands::keys::run(command, output).map(|()| Exit::Done),
        Command::Prices(PricesCommand::List { start }) => {
            commands::prices::list(start.as_deref(), output).map(|()| Exit::Done)
        }
        Command::Budgets => Ok(commands::budgets::run(output)),
        Command::Skill(SkillCommand::Install(install)) => commands::skill::install(install, output),
        Command::Docs { page } => commands::docs::run(page.as_deref(), output),
        Command::Doctor { target } => commands::doctor::run(target.as_deref(), output).map(|()| Exit::Done),
        Command::Schema { what } => {
            commands::schema::run(*what, output);
            Ok(Exit::Done)
        }
        Command::Man { dir } => commands::man::run(dir).map(|()| Exit::Done),
        Command::Complete { words } => {
            commands::complete::run(words);
            Ok(Exit::Done)
        }
        Command::Completions { shell } => {
            commands::complete::script(*shell, output);
            Ok(Exit::Done)
        }
    };
    done.unwrap_or_else(|complaint| program::show_complaint(&complaint, output))
}

#[cfg(feature = "local")]
fn models(command: &args::ModelsCommand, output: &Output) -> Result<(), Complaint> {
    commands::models::run(command, &opening::store(), output)
}

#[cfg(not(feature = "local"))]
fn models(_: &args::ModelsCommand, _: &Output) -> Result<(), Complaint> {
    Err(Complaint::wrong("this build runs no local models")
        .hint(format!("a build with local models: `{}`", program::WITH_LOCAL_MODELS)))
}
