//! `llm-do mcp`: the Model Context Protocol.

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
    }
}
