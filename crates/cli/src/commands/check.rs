//! `llm-do check`: finds mistakes in a program without running it (docs/guides/check.md).

mod explain;
mod fix;

use crate::{
    args::{Format, ProgramArgs},
    exit::{Complaint, Exit},
    program::{findings, looked_at, reading_host, surroundings},
    render::Output,
    visible,
};
use fix::{Left, Made};
use llm_do::{
    Problem,
    program::{
        Diagnostic, Report, check_whole,
        diagnostics::{
            json::to_json,
            sarif::{percent_encoded, to_sarif},
        },
        flow::{self, Flow},
        target,
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

pub(crate) use explain::explain;
pub(crate) use fix::replace;

/// The most rounds of fixes. A fix may uncover another finding, but no realistic program needs this many rounds.
const MOST_ROUNDS: usize = 20;
/// The most pure workers that are named.
const MOST_NAMED: usize = 8;

/// The findings of a program.
struct Checked {
    /// The root of the program, if there is one.
    root: Option<PathBuf>,
    found: Vec<Diagnostic>,
    flow: Flow,
    /// Pure workers, which touch nothing.
    pure: Vec<Arc<str>>,
}

impl Checked {
    /// Returns the result for a program that can't be read.
    fn unread(root: Option<PathBuf>, found: Vec<Diagnostic>) -> Self {
        Self { root, found, flow: Flow::default(), pure: Vec::new() }
    }
}

/// Options beside the findings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Apply the safe fixes.
    pub(crate) fix: bool,
    /// Show the flow of untrusted content.
    pub(crate) flow: bool,
}

/// Runs the command: exit code 2 if the program does not load.
pub(crate) fn run(program: &ProgramArgs, wanted: Wanted, output: &Output) -> Result<Exit, Complaint> {
    if wanted.flow && output.format == Format::Sarif {
        return Err(Complaint::wrong("`--flow` is available as text and as JSON, not as SARIF"));
    }
    let mend = wanted.fix;
    let mut checked = check(program)?;
    let (mut made, mut left) = (Vec::new(), Vec::new());
    if mend {
        for _ in 0..MOST_ROUNDS {
            let Some(root) = &checked.root else { break };
            let round = fix::apply(root, &checked.found);
            left = round.left;
            if round.made.is_empty() {
                break;
            }
            made.extend(round.made);
            checked = check(program)?;
        }
    }
    let Checked { root, found, flow, pure } = checked;
    let errors = found.iter().filter(|finding| finding.is_error()).count();
    match output.format {
        Format::Text => {
            output.print(&findings(&found, output.out));
            if wanted.flow {
                output.print(&visible::text(&flow_text(&flow, !found.is_empty())));
            }
            if mend {
                told(&made, &left, output);
            }
            summary(&found, errors, mend, output);
            if errors == 0 && !pure.is_empty() {
                output.note(&pure_text(&pure));
            }
        }
        Format::Sarif => {
            let root = root.map(|root| format!("file://{}/", percent_encoded(&root.to_string_lossy())));
            output.print_json(&to_sarif(&found, env!("CARGO_PKG_VERSION"), root.as_deref()));
        }
        Format::Json | Format::StreamJson => {
            let mut report = to_json(&found);
            report["pure"] = json!(pure);
            if mend {
                report["fixed"] = made.iter().map(made_json).collect();
                report["not_fixed"] = left.iter().map(left_json).collect();
            }
            if wanted.flow {
                report["flow"] = flow::to_json(&flow);
            }
            output.print_json(&report);
        }
    }
    Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
}

fn check(program: &ProgramArgs) -> Result<Checked, Complaint> {
    let request = looked_at(program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let target = match target::find(&request, &around) {
        Ok(target) => target,
        Err(found) => return Ok(Checked::unread(None, found.0)),
    };
    let root = Some(PathBuf::from(target.source.tree.root().as_str()));
    let host = match reading_host(&request, &around, &target) {
        Ok(host) => host,
        Err(Problem::Program(found)) => return Ok(Checked::unread(root, found.0)),
        Err(problem) => return Err(Complaint::wrong(problem.to_string())),
    };
    let mut found = target.warnings;
    let Report { found: more, flow, pure } = check_whole(target.source, host);
    found.extend(more);
    Ok(Checked { root, found, flow, pure })
}

/// Formats the flow, separated from the findings before it.
fn flow_text(flow: &Flow, after_findings: bool) -> String {
    let text = match flow.workers.is_empty() {
        true => "no untrusted content reaches a worker\n".to_owned(),
        false => flow::text(flow),
    };
    if after_findings { format!("\n{text}") } else { text }
}

/// Formats the pure workers on one line.
fn pure_text(pure: &[Arc<str>]) -> String {
    let shown: Vec<String> =
        pure.iter().take(MOST_NAMED).map(|name| format!("`{}`", visible::line(name))).collect();
    let more = match pure.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match pure.len() {
        1 => format!("{} is pure: it touches nothing", shown[0]),
        _ => format!("{}{more} are pure: they touch nothing", shown.join(", ")),
    }
}

/// Shows the changes that were made, and the reasons for those that were not.
fn told(made: &[Made], left: &[Left], output: &Output) {
    for made in made.iter().filter(|_| !output.quiet) {
        let place = visible::line(&made.place);
        output.screen.line(&format!("{} {place}: {}", output.err.green("fixed"), visible::line(&made.title)));
    }
    let files: BTreeSet<String> =
        left.iter().map(|left| format!("{} is left as it is: {}", left.file, left.reason)).collect();
    files.iter().for_each(|line| output.warn(line));
    if made.is_empty() && left.is_empty() {
        output.note("there is nothing that can be fixed for certain");
    }
}

fn made_json(made: &Made) -> Value {
    json!({ "code": made.code.id, "place": made.place, "title": made.title })
}

fn left_json(left: &Left) -> Value {
    json!({ "file": left.file, "title": left.title, "reason": left.reason })
}

fn summary(found: &[Diagnostic], errors: usize, mended: bool, output: &Output) {
    if output.quiet {
        return;
    }
    let warnings = found.len() - errors;
    let many = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let line = match (errors, warnings) {
        (0, 0) => output.err.green("nothing is wrong").to_string(),
        (0, warnings) => format!("found {}", many(warnings, "warning")),
        (errors, 0) => format!("found {}", many(errors, "error")),
        (errors, warnings) => {
            format!("found {}, {}", many(errors, "error"), many(warnings, "warning"))
        }
    };
    output.screen.line(&line);
    let fixes = found.iter().filter(|finding| finding.fix.is_some()).count();
    if fixes > 0 && !mended {
        output.note(&format!("{} can be fixed by `llm-do check --fix`", many(fixes, "finding")));
    }
    if let Some(error) = found.iter().find(|finding| finding.is_error()) {
        output.note(&format!("`llm-do check --explain {}` says more about an error", error.code));
    }
}
