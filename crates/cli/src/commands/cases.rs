//! `llm-do runs export --cases`: exports the recorded calls of a worker as cases for its replacement
//! (`docs/guides/replay.md`).

use crate::{
    args::{ExportArgs, Format},
    exit::Complaint,
    past_runs,
    program::home,
    render::Output,
};
use llm_do::Cases;
use llm_do_runs::{JOURNAL_FILE, SealKey, is_own, list_runs};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The most runs of a project that are searched.
const MOST_RUNS: usize = 100_000;

/// Runs the command.
pub(crate) fn export(args: &ExportArgs, project: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    let Some(function) = &args.form.cases else { return Ok(()) };
    let folder = args.to.clone().unwrap_or_else(|| Path::new("cases").join(function));
    let mut cases = Cases::kept(&folder, function).map_err(|error| Complaint::wrong(error.to_string()))?;
    let kept = cases.list().len();
    for named in &args.runs {
        match named.as_str() {
            "all" => add_all(&mut cases, &past_runs::folders(None, project)?, function, output)?,
            run => add(&mut cases, &past_runs::folder(run, None, project)?, function)?,
        }
    }
    let new = cases.list().len() - kept;
    if cases.list().is_empty() {
        return Err(Complaint::wrong(format!("`{function}` is called in none of these runs"))
            .hint("`llm-do runs show [RUN]` shows what is"));
    }
    let file = cases.write(&folder, function).map_err(|error| Complaint::failed(error.to_string()))?;
    let differing = cases.list().iter().filter(|case| case.differing > 0).count();
    if differing > 0 {
        output.warn(&format!(
            "{differing} of the inputs had different outputs in different calls: the first is kept, and `differing` counts the others"
        ));
    }
    if output.format == Format::Text {
        output.print(&format!("{new} new of {} cases in {}\n", cases.list().len(), file.display()));
    } else {
        output.print_json(&json!({"file": file, "cases": cases.list().len(), "new": new}));
    }
    Ok(())
}

fn add(cases: &mut Cases, run: &Path, function: &str) -> Result<(), Complaint> {
    cases.add_run(run, function).map_err(|error| Complaint::failed(error.to_string()))
}

/// Adds every run of the user in these folders, oldest first, so that the first result for an input counts. Runs that a
/// project brings along are left out, because they do not show what the worker did here.
pub(crate) fn add_all(
    cases: &mut Cases,
    folders: &[PathBuf],
    function: &str,
    output: &Output,
) -> Result<(), Complaint> {
    let key = SealKey::read(&home()).ok();
    let mut foreign = 0;
    for folder in folders {
        let mut runs = list_runs(folder, MOST_RUNS)
            .map_err(|error| Complaint::failed(format!("cannot read {}: {error}", folder.display())))?;
        runs.reverse();
        for run in runs {
            let dir = folder.join(run.run);
            if !dir.join(JOURNAL_FILE).is_file() {
                continue;
            }
            if !key.as_ref().is_some_and(|key| is_own(&dir, key)) {
                foreign += 1;
                continue;
            }
            // One that can't be read doesn't keep the others from being useful.
            if let Err(error) = cases.add_run(&dir, function) {
                output.warn(&error.to_string());
            }
        }
    }
    if foreign > 0 {
        output.warn(&format!(
            "{foreign} runs were not written by your llm-do and are left out: name a run to take its cases"
        ));
    }
    Ok(())
}
