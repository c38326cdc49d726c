//! `llm-do runs show`: a run as a tree, as a timeline, or while it runs, or one call of it.

use super::toned;
use crate::{
    args::{Format, ShowRunArgs},
    exit::Complaint,
    past_runs::{find, folder_named},
    render::Output,
};
use llm_do_core::{call_path::CallPath, event::Event};
use llm_do_map::row_run;
use llm_do_records::{Following, Line, OpenRun, RunState, Timeline, render, render_call, render_timeline};
use llm_do_runs::{Follow, ReadError, read_run, read_tree};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Number of letters in the ID of a row's run.
const ROW_ID: usize = 32;
/// Interval between two looks at a running run.
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows a run in the requested way.
///
/// # Errors
/// The run does not exist, or can't be read.
pub(crate) fn show(
    folders: impl FnOnce() -> Result<Vec<PathBuf>, Complaint>,
    show: &ShowRunArgs,
    output: &Output,
) -> Result<(), Complaint> {
    // The folder stays until the run is shown.
    let (_folder, dir) = match row_of_map(&show.run, show.target.as_deref())? {
        Some((folder, dir)) => (Some(folder), dir),
        None => match folder_named(&show.run) {
            Some(dir) => (None, dir),
            None => (None, find(&folders()?, &show.run)?),
        },
    };
    if show.view.follow {
        follow(&dir, output)
    } else if show.view.timeline {
        timeline(&dir, output)
    } else if let Some(place) = &show.view.call {
        call(&dir, place, output)
    } else {
        tree(&dir, output)
    }
}

/// Returns the run of a map's row, whose records are in the state beside the output, in a temporary folder. `None`: the
/// name is not one of a row's run. Without a target, the maps in the current directory are searched.
fn row_of_map(run: &str, target: Option<&str>) -> Result<Option<(TempDir, PathBuf)>, Complaint> {
    let is_row = run.len() == ROW_ID && run.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_row {
        return Ok(None);
    }
    let failed =
        |error: io::Error| Complaint::failed(format!("the records of the row can't be read: {error}"));
    let states: Vec<PathBuf> = match target {
        Some(target) => vec![PathBuf::from(format!("{}.map", target.trim_end_matches(".map")))],
        None => {
            let entries = fs::read_dir(".").map_err(failed)?.flatten().map(|entry| entry.path());
            entries.filter(|path| path.extension().is_some_and(|end| end == "map") && path.is_dir()).collect()
        }
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    for state in states.iter().filter(|state| state.is_dir()) {
        if let Some(dir) = row_run(state, run, folder.path()).map_err(failed)? {
            return Ok(Some((folder, dir)));
        }
    }
    let place = target.map_or_else(
        || "the maps of the current directory".to_owned(),
        |target| format!("the map of {target}"),
    );
    Err(Complaint::wrong(format!("no row with the run {run} in {place}"))
        .hint(format!("name the output of the map: `llm-do runs show {run} OUTPUTS`")))
}

fn unreadable(error: ReadError) -> Complaint {
    Complaint::wrong(error.to_string())
}

fn print(lines: &[Line], output: &Output) {
    let text: String = lines.iter().map(|line| toned(line, output.out)).collect();
    output.print(&text);
}

fn columns(output: &Output) -> Option<usize> {
    output.out_terminal.then(|| output.columns())
}

fn tree(dir: &Path, output: &Output) -> Result<(), Complaint> {
    let tree = read_tree(dir).map_err(unreadable)?;
    if output.format == Format::Text {
        print(&render(&tree, columns(output)), output);
    } else {
        output.print_json(&json!(tree));
    }
    Ok(())
}

fn timeline(dir: &Path, output: &Output) -> Result<(), Complaint> {
    let run = read_run(dir).map_err(unreadable)?;
    let timeline = Timeline::of(&run);
    if output.format == Format::Text {
        print(&render_timeline(run.tree(), &timeline, columns(output)), output);
    } else {
        output.print_json(&json!(timeline));
    }
    Ok(())
}

fn call(dir: &Path, place: &str, output: &Output) -> Result<(), Complaint> {
    let run = read_run(dir).map_err(unreadable)?;
    let Some(call) = run.call(&CallPath::typed(place)) else {
        return Err(Complaint::wrong(format!("no call at `{place}` in run {}", run.tree().run))
            .hint("`llm-do runs show RUN --timeline` shows the place of each call"));
    };
    if output.format == Format::Text {
        print(&render_call(&run, &call), output);
    } else {
        output.print_json(&json!(call));
    }
    Ok(())
}

/// Prints new records until the run has ended or was cut off, or until the reader closes the pipe. With JSON output, prints
/// the tree at the end as one object.
fn follow(dir: &Path, output: &Output) -> Result<(), Complaint> {
    let mut follow = Follow::new(dir);
    let mut following = Following::default();
    loop {
        for record in follow.more().map_err(unreadable)? {
            match output.format {
                Format::StreamJson => {
                    let event = json!(Event::Record { record: Arc::new(record) });
                    output.print(&format!("{event}\n"));
                }
                Format::Json | Format::Sarif => {}
                Format::Text => {
                    if let Some(line) = following.line(&record) {
                        print(&[line], output);
                    }
                }
            }
        }
        if output.screen.is_gone() {
            return Ok(());
        }
        if follow.state() != RunState::Open(OpenRun::Running) {
            break;
        }
        thread::sleep(INTERVAL);
    }
    match (output.format, Following::last_line(follow.state())) {
        (Format::Json, _) => tree(dir, output)?,
        (Format::Text, Some(line)) => print(&[line], output),
        _ => {}
    }
    Ok(())
}
