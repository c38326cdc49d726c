//! Arguments of the commands that look at runs.

use clap::Args;
use std::{path::PathBuf, time::Duration};

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

With --cases, each input that the worker had becomes a line of cases.jsonl, with its output or failure, its run and place, and
how many calls had it. Cases that the folder holds already stand as they are. Beside them stands a runner, run_cases.py. Several
runs can be named, or `all` of the project here.

Examples:
  llm-do runs export last --html -o run.html       one page that needs nothing else
  llm-do runs export 4f2a my-project --html > run.html
  llm-do runs export last --otel http://127.0.0.1:4318
  llm-do runs export last --otel - | jq .
  llm-do runs export last --cases summarizer
  llm-do runs export all --cases reports/summarizer -o tests/summarizer")]
pub(crate) struct ExportArgs {
    /// Which run, and the project's directory or a worker file; without it, the current directory
    #[arg(value_name = "RUN [TARGET]", default_value = "last", num_args = 1..)]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) form: ExportForm,
    /// Where it goes [default: stdout; cases: the folder cases/WORKER]
    #[arg(short = 'o', long = "to", value_name = "FILE|DIR", value_hint = clap::ValueHint::AnyPath, conflicts_with = "otel")]
    pub(crate) to: Option<PathBuf>,
    /// With --otel: what was said, too, and arguments and results of tools
    #[arg(long, requires = "otel")]
    pub(crate) content: bool,
}

/// What it is written as.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Form")]
pub(crate) struct ExportForm {
    /// One page with tree, timeline and every call in full; needs no network and no other file
    #[arg(long)]
    pub(crate) html: bool,
    /// An OpenTelemetry trace as OTLP/JSON: into a file, to stdout (-), or to a collector (http://127.0.0.1:4318)
    #[arg(long, value_name = "FILE|-|URL")]
    pub(crate) otel: Option<String>,
    /// The cases of a worker, by its ID, or of a tool
    #[arg(long, value_name = "WORKER")]
    pub(crate) cases: Option<String>,
}

/// Runs that are removed.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
At least one limit is needed; with two, a run goes that either of them is against. Runs that go on are never removed, and
those that wait for an approval only with --suspended.

Examples:
  llm-do runs clean --older-than 30d --dry-run
  llm-do runs clean --keep 20 my-project
  llm-do runs clean --larger-than 500MB --keep 5")]
pub(crate) struct CleanArgs {
    /// The project's directory or a worker file; without it, all that `llm-do runs list` shows here
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) limits: CleanLimits,
    /// Remove runs that wait for an approval, too
    #[arg(long)]
    pub(crate) suspended: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which runs are removed.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
#[command(next_help_heading = "Limits")]
pub(crate) struct CleanLimits {
    /// Remove runs in which nothing has happened for so long, such as 30d, 12h, 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Remove the oldest runs until all that are left have at most this size, such as 500MB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) larger_than: Option<u64>,
    /// Never remove the newest N; without another limit, remove all others
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
}

/// A number and its unit.
fn measure(text: &str, units: &[(&str, u64)], help: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let one = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, one)| *one);
    let number = number.parse::<u64>().ok();
    number.zip(one).and_then(|(number, one)| number.checked_mul(one)).ok_or_else(|| help.to_owned())
}

fn age(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
    measure(text, &units, "write a number and s, m, h, d or w, such as 30d").map(Duration::from_secs)
}

fn bytes(text: &str) -> Result<u64, String> {
    let units = [("B", 1), ("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
    measure(text, &units, "write a number and B, kB, MB or GB, such as 500MB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_have_units() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2 w"), Ok(Duration::from_secs(14 * 86_400)));
        assert_eq!(bytes("100MB"), Ok(100_000_000));
        assert_eq!(bytes("1gb"), Ok(1_000_000_000));
        for wrong in
            ["", "d", "30", "-1d", "1.5d", "30 years", "99999999999999999999d", "18446744073709551615w"]
        {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("100").is_err() && bytes("1 mile").is_err());
    }
}
