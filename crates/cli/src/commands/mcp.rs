//! `llm-do mcp`: the Model Context Protocol.

mod add;
mod import;
mod inspect;
mod list;
mod login;
mod package;
mod serve;

use crate::{
    args::McpCommand,
    exit::{Complaint, Exit},
    render::Output,
};

/// Carries out a subcommand.
pub(crate) fn run(command: &McpCommand, output: &Output) -> Result<Exit, Complaint> {
    match command {
        McpCommand::Serve(arguments) => serve::run(arguments, output),
        McpCommand::List(program) => Ok(list::run(program, output)),
        McpCommand::Inspect(arguments) => Ok(inspect::run(arguments, output)),
        McpCommand::Add(arguments) => add::run(arguments, output),
        McpCommand::Install(arguments) => package::run(arguments, output),
        McpCommand::Remove { name, project } => add::remove(name, project.as_deref(), output),
        McpCommand::Login(arguments) => Ok(login::login(arguments, output)),
        McpCommand::Logout(arguments) => Ok(login::logout(arguments, output)),
    }
}
