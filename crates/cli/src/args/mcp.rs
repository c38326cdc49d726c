//! Arguments of `mcp`.

use super::{ApprovalFlags, Deferred, ModelFlags, ProgramArgs, ProgramFlags, run::BudgetFlags};
use clap::{Args, Subcommand};
use std::{net::SocketAddr, path::PathBuf};

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  llm-do mcp add notes -- python3 servers/notes.py
  llm-do mcp inspect notes
  llm-do mcp serve my-project")]
pub(crate) enum McpCommand {
    /// Serve the workers of a program as tools of the Model Context Protocol
    Serve(Deferred<ServeArgs>),
    /// List the MCP servers that a program uses
    #[command(after_help = "\
For each server: its command, the workers that have its tools, whether a remembered grant allows it, and how many of its tools \
you have agreed to. Nothing is started.

Examples:
  llm-do mcp list
  llm-do mcp list my-project --json")]
    List(ProgramArgs),
    /// Show the tools of a server, and how they differ from those that you agreed to
    Inspect(Box<InspectArgs>),
    /// Declare a server in the project's manifest
    Add(AddArgs),
    /// Install the packages of servers on this machine
    Install(InstallArgs),
    /// Remove a server from the project's manifest
    #[command(after_help = "Examples:\n  llm-do mcp remove notes")]
    Remove {
        /// Name of the server
        name: String,
        /// The project's directory [default: the project that contains the current directory]
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        project: Option<PathBuf>,
    },
    /// Sign in at an MCP server over HTTP
    Login(LoginArgs),
    /// Forget the tokens for an MCP server over HTTP
    Logout(LogoutArgs),
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The server is started with the view of a worker that has its tools, lists its tools, and is ended. No tool is called.

With --accept, you agree to its tools as they are: for a server of a library in llm-do.lock, else for this program in your own \
folder of llm-do.

Examples:
  llm-do mcp inspect notes
  llm-do mcp inspect notes --in my-project --grant 'process=python3 servers/notes.py'
  llm-do mcp inspect utils:files --accept")]
pub(crate) struct InspectArgs {
    /// Name from `llm-do mcp list`
    pub(crate) name: String,
    /// A project's directory or a worker file [default: the current directory]
    #[arg(long = "in", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Agree to the tools as the server lists them now
    #[arg(long)]
    pub(crate) accept: bool,
    /// Grant a capability, as for `llm-do run`
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The manifest keeps its comments and its layout. Values of environment variables are never written to it: --env NAME gives the \
server your variable of that name, which needs `--grant env=NAME` at a run.

A package that `npx` or `uvx` would fetch is installed now, at an exact version, in ~/.llm-do. That needs `--grant network`, \
or on a terminal your answer. The server starts from there without a network.

FILE is the JSON of Claude Desktop, Cursor (`mcpServers`) or VS Code (`servers`). Without NAME, all its servers are added.

Examples:
  llm-do mcp add notes -- python3 servers/notes.py
  llm-do mcp add tickets --env TICKETS_TOKEN --path servers -- node servers/tickets.js
  llm-do mcp add files -- npx -y @modelcontextprotocol/server-filesystem notes
  llm-do mcp add git --grant network=index.example.com -- uvx mcp-server-git
  llm-do mcp add --from ~/.cursor/mcp.json
  llm-do mcp add tickets --from .vscode/mcp.json")]
pub(crate) struct AddArgs {
    /// Name of the server: letters, digits and -
    #[arg(required_unless_present = "from")]
    pub(crate) name: Option<String>,
    /// Take the servers of a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "env", "path"], value_hint = clap::ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
    /// An environment variable that the server gets
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// A place that the server sees beyond the view of its worker: PATH, PATH:ro or PATH:rw
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<String>,
    /// Grant a capability for the installation of a package: network=HOST
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
    /// The project's directory [default: the project that contains the current directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
    /// The command that starts the server
    #[arg(last = true, required_unless_present = "from", value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without PACKAGE, installs the packages that `mcp_servers` of the project's manifest names. An installed package is left as it is. \
The archive of a package must have the hash that the manifest states.

npm and pip install, confined to the folder of the package and the hosts of the registry. They run no code of a package. The \
registries are those of your own configuration of npm and pip; without the grant, the error names their hosts.

Examples:
  llm-do mcp install --grant network=registry.example.com
  llm-do mcp install npm:@modelcontextprotocol/server-filesystem@2026.8.31")]
pub(crate) struct InstallArgs {
    /// npm:NAME@VERSION or pypi:NAME@VERSION
    pub(crate) package: Option<String>,
    /// The hash that the archive of PACKAGE must have
    #[arg(long, value_name = "HASH", requires = "package")]
    pub(crate) integrity: Option<String>,
    /// Grant a capability for the installation: network=HOST
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
    /// The project's directory [default: the project that contains the current directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Shows the address to open in a browser, and waits until the browser comes back. The tokens are kept in your keyring, or where \
there is none in ~/.llm-do, readable for you alone. They are sent to that server only, and renewed when they expire.

Examples:
  llm-do mcp login tracker
  llm-do mcp login https://mcp.example.com/mcp
  llm-do mcp login https://mcp.example.com/mcp --scope notes:read")]
pub(crate) struct LoginArgs {
    /// The server's name from `llm-do mcp list`, or its address
    pub(crate) server: String,
    /// A project's directory or a worker file, for a name [default: the current directory]
    #[arg(long = "in", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// The ID of an OAuth client that is registered with the server [default: `auth` of the server, else llm-do registers itself]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// A scope to ask for [default: `auth` of the server, else what the server asks for]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  llm-do mcp logout tracker\n  llm-do mcp logout https://mcp.example.com/mcp"
)]
pub(crate) struct LogoutArgs {
    /// The server's name from `llm-do mcp list`, or its address
    pub(crate) server: String,
    /// A project's directory or a worker file, for a name [default: the current directory]
    #[arg(long = "in", value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each worker that the project exports is a tool; without exports, or with --entry, it is the entry alone. Each call is a run \
with a journal of its own. What a run asks goes to the client, if the client can ask its user. Without --http, the server \
talks with one client over stdin and stdout, and ends with it.

With --http, clients must send `Authorization: Bearer TOKEN`. TOKEN is the content of --token-file, else the value of \
LLM_DO_MCP_TOKEN, else a new one, which is printed.

Examples:
  llm-do mcp serve my-project
  llm-do mcp serve my-project --allow 'write_file(output/**)' --budget 0.50usd
  llm-do mcp serve greeter.worker --model anthropic:claude-haiku-4-5
  llm-do mcp serve my-project --approval defer
  llm-do mcp serve my-project --http 127.0.0.1:8750")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct ServeArgs {
    /// A project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    /// Serve streamable HTTP on this address of the loopback interface, or on this port of 127.0.0.1; port 0 takes a free one
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = super::service::address)]
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
