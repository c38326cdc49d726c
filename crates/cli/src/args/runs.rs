//! Arguments of the commands for recorded runs: list, resume, replay, and `harden`.

use super::{CleanArgs, Deferred, ExportArgs, ShowRunArgs};
use crate::operator::Channel;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Without TARGET and --project, the runs are those of the project that LLM_DO_PROJECT names, else those of the current \
directory and those of lone worker files.

Examples:
  llm-do runs list
  llm-do runs list --project ../my-project
  llm-do runs show last
  llm-do runs show 20260102-1504 --json
  llm-do runs export last --html -o run.html")]
pub(crate) struct RunsArgs {
    /// The project's directory
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
    /// The database of a cluster, whose runs are named `pg:RUN` [default: LLM_DO_DATABASE, for such a name]
    #[cfg(feature = "cluster")]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the newest runs of a project
    #[command(after_help = "Examples:\n  llm-do runs list\n  llm-do runs list my-project -n 50 --json")]
    List {
        /// The project's directory or a worker file [default: the current directory]
        target: Option<String>,
        /// Maximum number of runs
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// List only chats
        #[arg(long)]
        chats: bool,
    },
    /// Continue a run that waits for an approval, was interrupted or crashed
    #[command(after_help = "\
Completed steps are not repeated. Of a run that has ended, the recorded result is shown again. `llm-do runs show --help` \
describes RUN. CALL is a place in the call tree, as `llm-do runs show` and a suspended run print it.

Examples:
  llm-do runs resume last                            after a kill or Ctrl-C
  llm-do runs resume last -o result.json             the result of a run whose output was lost
  llm-do runs resume last --approve 0/2.0            approve a call that waits
  llm-do runs resume last --deny 0/2.0=\"not today\"
  llm-do runs resume last --again 0/3.1              run an interrupted tool again
  llm-do runs resume last --result 0/3.1='\"sent\"'    or give the result of the interrupted tool")]
    Resume(Deferred<ResumeArgs>),
    /// Run a program against a recorded run without side effects, and show the first difference
    #[command(after_help = "\
Answers of models and results of tools come from the record: the replay sends nothing, asks no questions, writes no files \
and runs no tools. It compares each request with the recorded one. The exit code is 1 if one differs. RUN is as for \
`llm-do runs show`, or the folder of a run.

Examples:
  llm-do runs replay last                                 after changing prompts or code
  llm-do runs replay last --against ../other-version
  llm-do runs replay tests/recorded --against . --json    in CI, with a run in version control")]
    Replay(Deferred<ReplayArgs>),
    /// Show the call tree of a run with times, tokens and approvals
    Show(Deferred<ShowRunArgs>),
    /// Export a run as an HTML page, a trace, or test cases for a worker
    Export(Deferred<ExportArgs>),
    /// Remove old runs
    Clean(Deferred<CleanArgs>),
}

/// Arguments of `runs resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    /// Approve a waiting call, or `all` of them
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) approve: Vec<String>,
    /// Deny a waiting call; the model gets the reason
    #[arg(long, value_name = "CALL[=REASON]", help_heading = "Decisions")]
    pub(crate) deny: Vec<String>,
    /// Run an interrupted tool again
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) again: Vec<String>,
    /// Answer a waiting question that `llm-do runs show` lists: an input with its value, any other question with an answer
    /// from docs/reference/operator-protocol.md
    #[arg(long, value_name = "CALL:STEP=JSON", help_heading = "Decisions")]
    pub(crate) answer: Vec<String>,
    /// Let another program answer questions: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL", help_heading = "Decisions")]
    pub(crate) operator: Option<Channel>,
    /// Use this result for an interrupted tool
    #[arg(long, value_name = "CALL=JSON", help_heading = "Decisions")]
    pub(crate) result: Vec<String>,
    /// Write the result to a file in place of stdout
    #[arg(short = 'o', long = "to", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: Option<PathBuf>,
}

/// Arguments of `runs replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The run, or its folder
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file of the run [default: the current directory]
    pub(crate) target: Option<String>,
    /// Run this program instead of the recorded one: a project's directory or a worker file
    #[arg(long, value_name = "WORKER_DIR", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) against: Option<PathBuf>,
    /// Grant a capability, as for `llm-do run`
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// Arguments of `harden`.
#[derive(Debug, Args)]
#[command(after_help = "\
The function runs in the confinement of Python tools. In addition it has no write access, no network and no models. If it \
raises NotImplementedError, the case is left to the worker. The exit code is 1 if a case fails.

Examples:
  llm-do harden summarizer --with tools.py:summarizer
  llm-do harden pricing --with pricing.py:price --tolerance 1e-6
  llm-do harden pricing --with pricing.py:price --cases tests/pricing --compare schema")]
pub(crate) struct HardenArgs {
    /// The worker's ID
    pub(crate) worker: String,
    /// The project's directory [default: the current directory]
    pub(crate) target: Option<String>,
    /// The function
    #[arg(long = "with", value_name = "FILE.py:FUNCTION")]
    pub(crate) function: String,
    /// A file with cases, or a folder that `runs export --cases` has written [default: all runs of the project]
    #[arg(long, value_name = "DIR|FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) cases: Option<PathBuf>,
    /// How to compare outputs [default: exact; tolerance if --tolerance is given]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) compare: Option<CompareBy>,
    /// Allowed difference of numbers, relative to the larger one or to 1 if both are smaller [default: 1e-6]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) tolerance: Option<f64>,
    /// Grant a capability, as for `llm-do run`
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// The outputs are equal
    Exact,
    /// The output is valid for the worker's `returns`
    Schema,
    /// The outputs are equal, except for small differences of numbers
    Tolerance,
}
