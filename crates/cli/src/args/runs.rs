//! Arguments of the commands for runs that were: looking at them, going on with them, taking tests from them.

use super::{CleanArgs, ExportArgs, ShowRunArgs};
use crate::operator::Channel;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  llm-do runs list
  llm-do runs show last
  llm-do runs show 20260102-1504 --json
  llm-do runs export last --html -o run.html")]
pub(crate) enum RunsCommand {
    /// List the newest runs of a project
    #[command(after_help = "Examples:\n  llm-do runs list\n  llm-do runs list my-project -n 50 --json")]
    List {
        /// The project's directory or a worker file; without it, the current directory
        target: Option<String>,
        /// How many at most
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Go on with a run that waits for an approval, was interrupted or was cut off
    #[command(after_help = "\
What the run did before is not done again. RUN is as in `llm-do runs show`; CALL is a place in its call tree, as
`llm-do runs show` and a suspended run tell it.

Examples:
  llm-do runs resume last                            after a kill or Ctrl-C
  llm-do runs resume last --approve 0/2.0            a call that waited for approval
  llm-do runs resume last --deny 0/2.0=\"not today\"
  llm-do runs resume last --again 0/3.1              a tool that was cut off in its middle runs again
  llm-do runs resume last --result 0/3.1='\"sent\"'    or counts as done, with this result")]
    Resume(ResumeArgs),
    /// Run a program again over the record of a run, without doing anything, and show where it first does something else
    #[command(after_help = "\
Nothing is sent, asked, written or run: answers of models and results of tools come from the record, and what the program
would send is compared with what was sent. Exit code 1 if something differs. RUN is as in `llm-do runs show`, or the
folder of a run.

Examples:
  llm-do runs replay last                                 after a change of prompts or code
  llm-do runs replay last --against ../other-version
  llm-do runs replay tests/recorded --against . --json    in CI, with a run that is kept")]
    Replay(ReplayArgs),
    /// Show what a run did: its call tree with times, tokens and approvals
    Show(ShowRunArgs),
    /// Write a run in a form for others: a page, a trace, or the cases of a worker
    Export(ExportArgs),
    /// Remove old runs
    Clean(CleanArgs),
}

/// What a resumed run is told.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Which run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    /// Approve a call that waits, or `all`
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) approve: Vec<String>,
    /// Deny a call that waits; the model is told the reason
    #[arg(long, value_name = "CALL[=REASON]", help_heading = "Decisions")]
    pub(crate) deny: Vec<String>,
    /// Run a tool again that had begun and not ended
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) again: Vec<String>,
    /// Let another program answer: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL", help_heading = "Decisions")]
    pub(crate) operator: Option<Channel>,
    /// Count a tool that had begun and not ended as done, with this result
    #[arg(long, value_name = "CALL=JSON", help_heading = "Decisions")]
    pub(crate) result: Vec<String>,
}

/// Which run is replayed, over what.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Which run: as in `llm-do runs show`, or its folder
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Where the run is looked for: a project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    /// A program in place of the one that was recorded: a project's directory or a worker file
    #[arg(long, value_name = "WORKER_DIR", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) against: Option<PathBuf>,
    /// Grant what the program asks for beyond its own folder, as in a run
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// What takes a worker's place, and what it is tried against.
#[derive(Debug, Args)]
#[command(after_help = "\
The function runs in the confinement of any Python tool, and beyond that it can change nothing and has neither network nor
models. What it raises NotImplementedError for is left to the worker. Exit code 1 if a case fails.

Examples:
  llm-do harden summarizer --with tools.py:summarizer
  llm-do harden pricing --with pricing.py:price --tolerance 1e-6
  llm-do harden pricing --with pricing.py:price --cases tests/pricing --compare schema")]
pub(crate) struct HardenArgs {
    /// The worker, by its ID
    pub(crate) worker: String,
    /// The project's directory; without it, the current directory
    pub(crate) target: Option<String>,
    /// The function
    #[arg(long = "with", value_name = "FILE.py:FUNCTION")]
    pub(crate) function: String,
    /// A file with cases, or the folder that `runs export --cases` has written; without it, all runs of the project
    #[arg(long, value_name = "DIR|FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) cases: Option<PathBuf>,
    /// When an output counts as the recorded one [default: exact, or tolerance where one is given]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) compare: Option<CompareBy>,
    /// How much numbers may differ, of the larger one, or of 1 where both are smaller [default: 1e-6]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) tolerance: Option<f64>,
    /// Grant what the program asks for beyond its own folder, as in a run
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// It is equal
    Exact,
    /// It fits what the worker returns
    Schema,
    /// It is equal, but for numbers that differ by little
    Tolerance,
}
