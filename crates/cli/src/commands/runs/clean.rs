//! `llm-do runs clean`: removes old runs.

use crate::{
    args::{CleanArgs, Format},
    exit::Complaint,
    past_runs::names,
    program::home,
    render::Output,
};
use llm_do_records::size;
use llm_do_runs::{Cleaning, StoredRun, remove_run, stored_runs};
use serde_json::json;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Removes runs that exceed the limits, and reports them.
pub(crate) fn clean(folders: &[PathBuf], clean: &CleanArgs, output: &Output) -> Result<(), Complaint> {
    let mut runs = Vec::new();
    for folder in folders {
        let found = check(folder).and_then(|()| stored_runs(folder).map_err(|error| error.to_string()));
        runs.extend(
            found
                .map_err(|error| Complaint::failed(format!("cannot clean {}: {error}", folder.display())))?,
        );
    }
    let all = runs.len();
    let cleaning = Cleaning {
        older_than: clean.limits.older_than,
        larger_than: clean.limits.larger_than,
        keep: clean.limits.keep,
        suspended: clean.suspended,
    };
    let chosen = cleaning.choose(runs, SystemTime::now());
    let (mut removed, mut problems) = (Vec::new(), Vec::new());
    for run in chosen {
        match if clean.dry_run { Ok(true) } else { remove_run(&run) } {
            Ok(true) => removed.push(run),
            Ok(false) => {}
            Err(error) => problems.push(format!("cannot remove {}: {error}", run.dir.display())),
        }
    }
    tell(&removed, all, folders, clean.dry_run, output);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Complaint::failed(problems.join("\n"))),
    }
}

/// Checks that the folder of the runs is not reached through a link `.llm-do`, which a project can contain.
fn check(folder: &Path) -> Result<(), String> {
    let around = folder.parent().filter(|around| **around != *home());
    match around.map(fs::symlink_metadata) {
        Some(Ok(found)) if found.is_symlink() => {
            Err("`.llm-do` is a symbolic link, and llm-do does not follow it".to_owned())
        }
        _ => Ok(()),
    }
}

fn tell(removed: &[StoredRun], all: usize, folders: &[PathBuf], dry_run: bool, output: &Output) {
    let freed: u64 = removed.iter().map(|run| run.bytes).sum();
    let left = all - removed.len();
    if output.format != Format::Text {
        output.print_json(&json!({
            "folders": folders, "dry_run": dry_run, "removed": removed, "freed_bytes": freed, "left": left,
        }));
        return;
    }
    let mut text = String::new();
    for run in removed {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{}  {:<20}  {:>9}", run.run, run.state.as_str(), size(run.bytes));
    }
    output.print(&text);
    let count = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    output.note(&match (removed.len(), dry_run) {
        (0, _) => format!("nothing to remove: {} in {}", count(all), names(folders)),
        (number, true) => {
            format!("would remove {} and free {}, {} left", count(number), size(freed), count(left))
        }
        (number, false) => format!("removed {}, {} freed, {} left", count(number), size(freed), count(left)),
    });
}
