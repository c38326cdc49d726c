//! Arguments of `tune`.

use super::{ApprovalFlags, ProgramFlags};
use clap::Args;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The worker's cases are split into train, validation and test by a hash of name and input. A proposer reads failures of train \
cases and rewrites the instructions; validation cases choose among the rewrites; the test cases, which no model has seen, \
decide if the result is a gain. The same command again continues after a kill and pays for nothing twice. Nothing is changed \
without --write.

Exit codes: 0 the tuning has ended, with or without a gain; 1 a model or the disk failed; 2 error in the command line, a file or \
the cases; 3 there is no terminal and no --max-cost, or you declined; 4 --max-cost was reached before the test ended; 130 \
interrupted.

Examples:
  llm-do tune classify.worker --max-cost 5usd
  llm-do tune my-project --entry triage --proposer anthropic:claude-opus-4-5 --max-cost 10usd
  llm-do tune classify.worker --max-cost 5usd --write
  llm-do tune classify.worker --model openai:gpt-5-mini --model anthropic:claude-haiku-4-5 --max-cost 10usd")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct TuneArgs {
    /// The worker: a worker file, or the directory of a project
    #[arg(value_name = "WORKER")]
    pub(crate) target: String,
    /// Ask this model; several are tuned one after the other, each for the same part of --max-cost, and compared
    #[arg(long = "model", value_name = "MODEL", help_heading = "Models")]
    pub(crate) models: Vec<String>,
    /// Override a model setting or a limit, as for `llm-do run`
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Models")]
    pub(crate) set: Vec<String>,
    /// The model that proposes instructions [default: the worker's own]
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub(crate) proposer: Option<String>,

    /// Spend at most so much on all runs of the tuning, such as 5usd, or `unlimited`, and ask nothing
    #[arg(long, visible_alias = "budget", value_name = "AMOUNT", help_heading = "Search")]
    pub(crate) max_cost: Option<String>,
    /// Ask for at most so many proposals
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Search")]
    pub(crate) rounds: u32,
    /// Refuse instructions that are longer than this multiple of their length now
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor, help_heading = "Search")]
    pub(crate) max_growth: f64,

    /// Write the instructions into the worker's file, if they are a gain
    #[arg(long, help_heading = "Result")]
    pub(crate) write: bool,

    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}

/// Parses a factor of at least 1.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
    factor.ok_or_else(|| "it is a number of at least 1, such as 2 or 1.5".into())
}
