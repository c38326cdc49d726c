//! Arguments of the commands that look at runs.

use clap::Args;
use std::path::PathBuf;

/// A run that is shown.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
RUN is an ID from `llm-do runs list`, the beginning or the last digits of one, or `last`.

Examples:
  llm-do runs show last
  llm-do runs show last my-project --json")]
pub(crate) struct ShowRunArgs {
    /// Which run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
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
