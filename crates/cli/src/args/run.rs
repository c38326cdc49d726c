//! Arguments of a run, and of what is asked before it.

use super::ProgramFlags;
use crate::operator::Channel;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
TARGET is a worker file (ends in .worker, .yaml or .yml), a directory with a project, or a name to be found on
LLM_DO_PATH. With one word, --project or LLM_DO_PROJECT makes it the message; without any, the current directory is run.

A RULE names a tool, or a tool and its arguments: write_file, 'write_file(output/**)', 'shell(git diff*)'.

Examples:
  llm-do greeter.worker \"Say hello to Ada\"
  llm-do my-project -m \"Summarise the notes\" --allow 'write_file(output/**)'
  llm-do extract.worker --input @invoice.json --json
  git diff | llm-do review.worker --model anthropic:claude-haiku-4-5
  llm-do my-project --param input_dir=./data --approval auto_deny
  llm-do my-project --budget 0.50usd --budget 10m")]
pub(crate) struct RunArgs {
    /// What to run; without it, the current directory
    #[arg(value_name = "TARGET")]
    pub(crate) first: Option<String>,
    /// What to tell it
    #[arg(value_name = "MESSAGE")]
    pub(crate) second: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFlags,

    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,

    /// Show the program's workers instead of running it (`llm-do list`)
    #[arg(long, conflicts_with = "check", help_heading = "Instead of running")]
    pub(crate) list_workers: bool,
    /// Report what is wrong with the program instead of running it (`llm-do check`)
    #[arg(long, help_heading = "Instead of running")]
    pub(crate) check: bool,
}

/// Who decides about calls, and what the program gets.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalFlags {
    /// What happens to calls that need an approval
    #[arg(long = "approval", value_enum, value_name = "MODE")]
    pub(crate) mode: Option<ApprovalMode>,
    /// Run calls that match without asking
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Ask about calls that match
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// Refuse calls that match
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// Let another program answer: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) operator: Option<Channel>,
    /// Allow what lies beyond the project: PATH:ro, PATH:rw, network, network=DOMAIN,DOMAIN, endpoint=HOST,VARIABLE, process=uv, unconfined
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--approval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ApprovalMode {
    /// Ask on the terminal
    Interactive,
    /// Run them all
    ApproveAll,
    /// Refuse them all
    AutoDeny,
    /// Stop, and list what waits for an approval
    Defer,
}

/// What a worker is given.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputFlags {
    /// The message, spelled out
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The input: JSON, @FILE with JSON, or - for stdin
    #[arg(id = "input", long = "input", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) json: Option<String>,
    /// One parameter of the entry; JSON where its type is not a string
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// A file that the model is given with the message
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
}

/// Which model, and how it is set.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Program")]
pub(crate) struct ModelFlags {
    /// The model, PROVIDER:MODEL
    #[arg(id = "model", long = "model", value_name = "MODEL")]
    pub(crate) name: Option<String>,
    /// Override a setting of the model, such as temperature=0.2
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// What the whole run may use.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// Most that the whole run may use: 0.50usd, 200000tokens, 30turns, 100calls, 10m; several together
    #[arg(long, value_name = "AMOUNT", value_delimiter = ',')]
    pub(crate) budget: Vec<String>,
}

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'"
)]
pub(crate) enum GateCommand {
    /// Say which rule decides about a call, and what the others say
    #[command(after_help = "\
Nothing is sent, asked or run.

Examples:
  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'
  llm-do gate explain shell '{\"command\": \"git push\"}' --in my-project --entry release
  llm-do gate explain delete_file '{\"path\": \"a.txt\"}' --deny 'delete_file(*.txt)'")]
    Explain(Box<ExplainArgs>),
}

/// A call that is to be explained.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The tool, as the model sees it
    pub(crate) tool: String,
    /// Its arguments as JSON, or @FILE
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// The project's directory or a worker file [default: the current directory]
    #[arg(long = "in", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  llm-do grants list\n  llm-do grants revoke my-project")]
pub(crate) enum GrantsCommand {
    /// List what was granted, and to which program
    #[command(after_help = "Examples:\n  llm-do grants list\n  llm-do grants list --json")]
    List,
    /// Take back what a program was granted
    #[command(after_help = "\
Examples:
  llm-do grants revoke my-project
  llm-do grants revoke /home/me/gone       a program that is no longer there
  llm-do grants revoke --all")]
    Revoke {
        /// The project's directory or a worker file [default: the current directory]
        target: Option<String>,
        /// Everything that any program was granted
        #[arg(long, conflicts_with = "target")]
        all: bool,
    },
}
