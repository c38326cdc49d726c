//! Arguments of `mcp`.

use super::{ApprovalFlags, ModelFlags, ProgramFlags, run::BudgetFlags};
use clap::{Args, Subcommand};
use std::{net::SocketAddr, path::PathBuf};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  llm-do mcp serve my-project")]
pub(crate) enum McpCommand {
    /// Serve the workers of a program as tools of the Model Context Protocol
    Serve(Box<ServeArgs>),
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each worker that the project exports is a tool; without exports, or with --entry, it is the entry alone. Each call is a run
with a journal of its own. What a run asks goes to the client, if the client can ask its user. Without --http, the server
talks with one client over stdin and stdout, and ends with it.

With --http, clients must send `Authorization: Bearer TOKEN`. TOKEN is the content of --token-file, else the value of
LLM_DO_MCP_TOKEN, else a new one, which is printed.

Examples:
  llm-do mcp serve my-project
  llm-do mcp serve my-project --allow 'write_file(output/**)' --budget 0.50usd
  llm-do mcp serve greeter.worker --model anthropic:claude-haiku-4-5
  llm-do mcp serve my-project --approval defer
  llm-do mcp serve my-project --http 127.0.0.1:8750")]
pub(crate) struct ServeArgs {
    /// A project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    /// Serve streamable HTTP on this address of the loopback interface; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// A file with the token of clients, for --http
    #[arg(long, value_name = "FILE", requires = "http", value_hint = clap::ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}
