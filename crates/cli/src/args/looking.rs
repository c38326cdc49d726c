//! Arguments of `runs show`, `runs export` and `runs clean`.

use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Arguments of `runs show`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
RUN is an ID from `llm-do runs list`, its beginning, its last digits, `last`, or the folder of a run.

PLACE is the position of a call in the tree: 0/2.1 is call 1 of turn 2 of call 0. `--timeline` shows the places.

Examples:
  llm-do runs show last
  llm-do runs show last my-project --json
  llm-do runs show last --timeline
  llm-do runs show last --call 0/2.1       all details of one call
  llm-do runs show last --follow           follow a run until it ends")]
pub(crate) struct ShowRunArgs {
    /// The run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) view: RunView,
}

/// Other views of a run.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Instead of the tree")]
pub(crate) struct RunView {
    /// Show one call with input, prompt, messages, verdicts, log, output, times and tokens
    #[arg(long, value_name = "PLACE")]
    pub(crate) call: Option<String>,
    /// Show the calls as bars over time
    #[arg(long)]
    pub(crate) timeline: bool,
    /// Show each step as it happens, until the run ends
    #[arg(long)]
    pub(crate) follow: bool,
}

/// Arguments of `runs export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
`llm-do runs show --help` describes RUN. The HTML page contains all input and output of the run, with secrets replaced. \
Read it before you share it.

--cases writes a folder with WORKER.cases.jsonl and a runner, run_cases.py. Each line is a case: an input of the worker, its \
output or the kind of its error, its run and place, and the number of calls with this input. Existing cases are not changed. \
--cases takes several runs, or `all` runs of the project.

--program writes a project into the new folder of -o: flow.py, the workers that the program called, and main.cases.jsonl. CALL is \
the call of `run_program` in the run, as `llm-do runs show` prints it.

Examples:
  llm-do runs export last --html -o run.html       one self-contained page
  llm-do runs export 4f2a my-project --html > run.html
  llm-do runs export last --otel http://127.0.0.1:4318
  llm-do runs export last --otel - | jq .
  llm-do runs export last --cases summarizer
  llm-do runs export --program last 0/0.0 -o flow
  llm-do runs export all --cases reports/summarizer -o tests/summarizer")]
pub(crate) struct ExportArgs {
    /// The run, and the project's directory or a worker file (by default the current directory)
    #[arg(value_name = "RUN [TARGET]", default_value = "last", num_args = 1..)]
    pub(crate) runs: Vec<String>,
    /// Write to this file or folder [default: stdout, or cases/WORKER with --cases; required with --program]
    #[arg(short = 'o', long = "to", value_name = "FILE|DIR", value_hint = clap::ValueHint::AnyPath, conflicts_with = "otel")]
    pub(crate) to: Option<PathBuf>,
    /// With --otel: include messages, and arguments and results of tools
    #[arg(long, requires = "otel")]
    pub(crate) content: bool,
    // Last, because its heading would also apply to the options below it.
    #[command(flatten)]
    pub(crate) form: ExportForm,
}

/// The format of an export.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Format")]
pub(crate) struct ExportForm {
    /// A self-contained HTML page with tree, timeline and the details of every call
    #[arg(long)]
    pub(crate) html: bool,
    /// An OpenTelemetry trace as OTLP/JSON, to a file, to stdout (-) or to a collector (http://127.0.0.1:4318)
    #[arg(long, value_name = "FILE|-|URL", value_parser = file_or_collector)]
    pub(crate) otel: Option<String>,
    /// The recorded calls of a worker (by its ID) or a tool, as test cases
    #[arg(long, value_name = "WORKER")]
    pub(crate) cases: Option<String>,
    /// A copy of a run of a cluster below this folder, in the form of a local run
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) local: Option<PathBuf>,
    /// A project of a program that a model wrote, with its workers and a case from its recorded calls: name RUN and CALL
    #[arg(long)]
    pub(crate) program: bool,
}

/// Arguments of `runs clean`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
At least one limit is required. With several limits, a run is removed if any of them applies. Active runs are never removed. \
Runs that wait for an approval are removed only with --suspended.

Examples:
  llm-do runs clean --older-than 30d --dry-run
  llm-do runs clean --keep 20 my-project
  llm-do runs clean --larger-than 500MB --keep 5")]
pub(crate) struct CleanArgs {
    /// The project's directory or a worker file [default: all runs that `llm-do runs list` shows]
    pub(crate) target: Option<String>,
    /// Also remove runs that wait for an approval
    #[arg(long)]
    pub(crate) suspended: bool,
    /// Show the runs that would be removed, without removing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    // Last, because its heading would also apply to the options below it.
    #[command(flatten)]
    pub(crate) limits: CleanLimits,
}

/// Conditions for removing a run.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
#[command(next_help_heading = "Limits")]
pub(crate) struct CleanLimits {
    /// Remove runs without activity for this long, such as 30d, 12h or 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Remove the oldest runs until the rest has at most this total size, such as 500MB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) larger_than: Option<u64>,
    /// Keep the newest N runs; without another limit, remove all others
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
}

/// Parses a number with a unit.
fn measure(text: &str, units: &[(&str, u64)], help: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let one = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, one)| *one);
    let number = number.parse::<u64>().ok();
    number.zip(one).and_then(|(number, one)| number.checked_mul(one)).ok_or_else(|| help.to_owned())
}

/// A file, `-`, or the address of a collector. An address with another scheme is no file.
fn file_or_collector(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some((scheme, _)) if !["http", "https"].contains(&scheme) && !scheme.contains('/') => {
            Err("a collector has an http:// or https:// address".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

pub(super) fn age(text: &str) -> Result<Duration, String> {
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
