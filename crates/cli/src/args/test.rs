//! Arguments of `test`.

use super::{ApprovalFlags, ProgramFlags};
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Cases are in files NAME.cases.yaml or NAME.cases.jsonl, beside the worker NAME or below tests/. Each case runs on a copy of \
the program's folder. Without recordings, a hosted model is asked only with --max-cost, --live, --update or --model. Built-in file tools and stubs run; other calls that need an approval are refused, unless the command \
line allows them. The exit code is 1 if a case fails or is worse than the baseline, and 4 if --max-cost ends the tests.

Examples:
  llm-do test                                       from recordings, where there are some
  llm-do test my-project --case 'price-*'
  llm-do test --update --model openai:gpt-5-mini    ask models, and record their answers
  llm-do test --live --model a:x --model b:y --repeat 10 --max-cost 1.50
  llm-do test --json > before.json
  llm-do test --live --baseline before.json
  llm-do test --junit report.xml --summary summary.md --shard 1/4")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct TestArgs {
    /// A project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    /// Run only cases of this name; * matches any characters
    #[arg(long = "case", value_name = "NAME", help_heading = "Cases")]
    pub(crate) cases: Vec<String>,
    /// Run the I-th of N parts of the cases
    #[arg(long, value_name = "I/N", help_heading = "Cases")]
    pub(crate) shard: Option<String>,
    /// Run each case this often, in place of its own `repeat`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Cases")]
    pub(crate) repeat: Option<u32>,
    /// Run again whenever a file of the program changes
    #[arg(long, help_heading = "Cases")]
    pub(crate) watch: bool,

    /// Take the answers of models from recordings only
    #[arg(long, conflicts_with_all = ["live", "update"], help_heading = "Answers")]
    pub(crate) recorded: bool,
    /// Ask models
    #[arg(long, conflicts_with = "update", help_heading = "Answers")]
    pub(crate) live: bool,
    /// Ask models, and record their answers
    #[arg(long, help_heading = "Answers")]
    pub(crate) update: bool,
    /// Ask this model; of several models each runs every case
    #[arg(long = "model", value_name = "MODEL", conflicts_with = "recorded", help_heading = "Answers")]
    pub(crate) models: Vec<String>,
    /// Override a model setting or a limit, as for `llm-do run`
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Answers")]
    pub(crate) set: Vec<String>,
    /// Stop before the models cost more than this, in US dollars; compared before each repeat
    #[arg(long, visible_alias = "budget", value_name = "USD", help_heading = "Answers")]
    pub(crate) max_cost: Option<String>,

    /// Compare with an earlier report, which `llm-do test --json` has printed
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Reports")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write a report in JUnit's XML
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Reports")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a summary in Markdown
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Reports")]
    pub(crate) summary: Option<PathBuf>,
    /// Write an HTML page of each run into a directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = "Reports")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}
