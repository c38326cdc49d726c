//! Arguments of `run`, `gate` and `grants`.

use super::{Deferred, ProgramFlags};
use crate::operator::Channel;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
TARGET is a worker file (.worker, .yaml or .yml), a project's directory, or a name to find in the folders of LLM_DO_PATH. \
With --project or LLM_DO_PROJECT, a single word is the message. Without TARGET, llm-do runs the current directory.

A RULE is a tool, a tool with a pattern for its main argument, or a tool with conditions on its arguments: write_file, \
'write_file(output/**)', 'shell(git diff*)', 'send_money where amount <= 500 and recipient in @contacts.json#/*/iban'.

Examples:
  llm-do greeter.worker \"Say hello to Ada\"
  llm-do my-project -m \"Summarise the notes\" --allow 'write_file(output/**)'
  llm-do extract.worker --input @invoice.json --json
  git diff | llm-do review.worker --model anthropic:claude-haiku-4-5
  llm-do my-project --param input_dir=./data --approval auto_deny
  llm-do my-project --budget 0.50usd --budget 10m")]
pub(crate) struct RunArgs {
    /// The program [default: the current directory]
    #[arg(value_name = "TARGET")]
    pub(crate) first: Option<String>,
    /// The message for its entry worker
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

    /// Write the result to a file in place of stdout
    #[arg(short = 'o', long = "to", value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Output")]
    pub(crate) to: Option<PathBuf>,

    /// Run on the cluster in this database: `llm-do docs cluster`
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "URL", conflicts_with_all = ["list_workers", "check"])]
    pub(crate) cluster: Option<String>,

    /// List the program's workers (`llm-do list`)
    #[arg(long, conflicts_with = "check", help_heading = "Instead of running")]
    pub(crate) list_workers: bool,
    /// Check the program (`llm-do check`)
    #[arg(long, help_heading = "Instead of running")]
    pub(crate) check: bool,
}

/// Approvals and grants of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalFlags {
    /// How to handle calls that need an approval
    #[arg(long = "approval", value_enum, value_name = "MODE")]
    pub(crate) mode: Option<ApprovalMode>,
    /// Run matching calls without asking
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Ask about matching calls
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// Refuse matching calls
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// Let another program answer questions: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) operator: Option<Channel>,
    /// Grant access outside the project: PATH:ro, PATH:rw, network, network=DOMAIN,DOMAIN, endpoint=HOST,VARIABLE, env=NAME, process=COMMAND, weights=PATH, unconfined
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--approval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ApprovalMode {
    /// Ask on the terminal
    Interactive,
    /// Run all of them
    ApproveAll,
    /// Refuse all of them
    AutoDeny,
    /// Suspend the run, and list the calls that wait for an approval
    Defer,
}

/// The input of a worker.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputFlags {
    /// The message
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The input as JSON, as @FILE with JSON, or - for stdin
    #[arg(id = "input", long = "input", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) json: Option<String>,
    /// A parameter of the entry worker; its value is JSON unless its type is string
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// A file to send with the message
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
}

/// The model and its settings.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Program")]
pub(crate) struct ModelFlags {
    /// The model, as PROVIDER:MODEL
    #[arg(id = "model", long = "model", value_name = "MODEL")]
    pub(crate) name: Option<String>,
    /// Override a model setting or a limit, such as temperature=0.2, limits.max_turns=20 or max_context_tokens=50000
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The budget of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// Limit the whole run: 0.50usd, 200000tokens, 30turns, 100calls, 10m; separate several with commas
    #[arg(long, value_name = "AMOUNT", value_delimiter = ',')]
    pub(crate) budget: Vec<String>,
    /// The same as `--budget` with an amount of US dollars, such as 0.50
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
}

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'"
)]
pub(crate) enum GateCommand {
    /// Show the rule that decides about a call, and the results of the other rules
    #[command(after_help = "\
This command asks no questions, runs no tool and sends nothing.

Examples:
  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'
  llm-do gate explain shell '{\"command\": \"git push\"}' --in my-project --entry release
  llm-do gate explain delete_file '{\"path\": \"a.txt\"}' --deny 'delete_file(*.txt)'")]
    Explain(Deferred<ExplainArgs>),
}

/// A call to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The tool's name, as the model sees it
    pub(crate) tool: String,
    /// The arguments as JSON, or @FILE with JSON
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
    /// List the grants of all programs
    #[command(after_help = "Examples:\n  llm-do grants list\n  llm-do grants list --json")]
    List,
    /// Revoke the grants of a program
    #[command(after_help = "\
Examples:
  llm-do grants revoke my-project
  llm-do grants revoke /home/me/gone       a program that no longer exists
  llm-do grants revoke --all")]
    Revoke {
        /// The project's directory or a worker file [default: the current directory]
        target: Option<String>,
        /// Revoke the grants of all programs
        #[arg(long, conflicts_with = "target")]
        all: bool,
    },
}
