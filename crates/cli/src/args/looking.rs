//! Arguments of the commands that look at runs.

use clap::Args;
use std::path::PathBuf;

/// A run that is shown.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
RUN is an ID from `llm-do runs list`, the beginning or the last digits of one, or `last`.

PLACE is a call's place in the tree, such as 0/2.1: the call 1 of turn 2 of the call 0. `--timeline` shows them.

Examples:
  llm-do runs show last
  llm-do runs show last my-project --json
  llm-do runs show last --timeline
  llm-do runs show last --call 0/2.1       one call in full
  llm-do runs show last --follow           a run that goes on, line by line until it ends")]
pub(crate) struct ShowRunArgs {
    /// Which run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) view: RunView,
}

/// What is shown instead of the tree.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Instead of the tree")]
pub(crate) struct RunView {
    /// One call in full: input, prompt, messages, verdicts, log, output, times, tokens
    #[arg(long, value_name = "PLACE")]
    pub(crate) call: Option<String>,
    /// The calls as bars over time
    #[arg(long)]
    pub(crate) timeline: bool,
    /// What happens as it happens, until the run ends
    #[arg(long)]
    pub(crate) follow: bool,
}

/// A run that is written in another form.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
RUN is as in `llm-do runs show`. The page holds all that the run was given and wrote, secrets replaced: look at it before
you hand it on.

Examples:
  llm-do runs export last --html -o run.html       one page that needs nothing else
  llm-do runs export 4f2a my-project --html > run.html")]
pub(crate) struct ExportArgs {
    /// Which run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) form: ExportForm,
    /// Where to [default: stdout]
    #[arg(short = 'o', long = "to", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: Option<PathBuf>,
}

/// What it is written as.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Form")]
pub(crate) struct ExportForm {
    /// One page with tree, timeline and every call in full; needs no network and no other file
    #[arg(long)]
    pub(crate) html: bool,
}
