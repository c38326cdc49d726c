//! Arguments of `map`.

use super::{ApprovalFlags, ModelFlags, ProgramFlags};
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The same command again runs the rows that are missing, and none twice. OUTPUTS.map/ holds the state, OUTPUTS.failures.jsonl the \
rows that failed, which is input for another map.

Exit codes: 0 all rows have an output; 1 rows failed; 2 error in the command line, a file or the input; 3 there is no terminal \
and no --max-cost, or you declined; 4 --max-cost or --max-failures was reached; 130 interrupted.

Examples:
  llm-do map classify.worker reviews.csv -o labels.jsonl
  llm-do map classify.worker reviews.csv -o labels.jsonl --set-column text=review --ignore-column id
  llm-do map my-project --entry extract invoices/ -o invoices.jsonl --max-cost 5usd
  llm-do map classify.worker labels.jsonl.failures.jsonl -o second.jsonl --model openai:gpt-5-mini")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct MapArgs {
    /// The worker: a worker file, or the directory of a project
    #[arg(value_name = "WORKER")]
    pub(crate) target: String,
    /// The rows: a .jsonl, .csv or .tsv file, or a folder whose files are the rows
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: PathBuf,
    /// Write one line of JSON for each row to this file
    #[arg(short = 'o', long = "outputs", value_name = "OUTPUTS", value_hint = ValueHint::FilePath)]
    pub(crate) outputs: PathBuf,

    /// Give a parameter the values of a column with another name
    #[arg(long, value_name = "PARAMETER=COLUMN", help_heading = "Input")]
    pub(crate) set_column: Vec<String>,
    /// Leave a column out
    #[arg(long, value_name = "COLUMN", help_heading = "Input")]
    pub(crate) ignore_column: Vec<String>,
    /// Give a parameter the same value in all rows
    #[arg(long = "param", value_name = "NAME=VALUE", help_heading = "Input")]
    pub(crate) params: Vec<String>,

    /// Take the rows for your own words: you wrote them, or a program of yours did. Otherwise they are untrusted
    #[arg(long, help_heading = "Input")]
    pub(crate) trusted: bool,

    /// Run so many rows first, and estimate the cost of all from them; 0 for none
    #[arg(long, value_name = "ROWS", default_value_t = 20, help_heading = "Cost")]
    pub(crate) pilot: u64,
    /// Spend at most so much, such as 5usd, or `unlimited`, and ask nothing
    #[arg(long, visible_alias = "budget", value_name = "AMOUNT", help_heading = "Cost")]
    pub(crate) max_cost: Option<String>,
    /// Stop when more rows have failed: a number, or a part of all rows such as 5%
    #[arg(long, value_name = "N|P%", help_heading = "Cost")]
    pub(crate) max_failures: Option<llm_do_map::MaxFailures>,

    /// Run at most so many rows, and send each provider at most so many requests, at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Rows")]
    pub(crate) concurrency: u16,
    /// Send the requests in batches of the provider: half the price, answers within a day
    #[arg(long, help_heading = "Rows")]
    pub(crate) batch: bool,
    /// Write the columns of each row, or the name of its file, as `input` beside its output
    #[arg(long, conflicts_with = "unordered", help_heading = "Rows")]
    pub(crate) keep: bool,
    /// Write the lines as rows end, not in the order of the input
    #[arg(long, help_heading = "Rows")]
    pub(crate) unordered: bool,
    /// Run the rows again that failed, except those that were cut off in the middle of an effect
    #[arg(long, help_heading = "Rows")]
    pub(crate) retry_failed: bool,

    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}
