//! Removing runs by age and size.

use crate::{
    files::open_regular,
    journal::JOURNAL_FILE,
    list::{is_locked, run_ids, state_in, state_without_lock},
};
use llm_do_core::journal::RunStatus;
use llm_do_records::{OpenRun, RunState};
use serde::Serialize;
use std::{
    fs::{self, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The folder beside the runs in which `llm-do tune` keeps a log of each worker, with a folder of its runs.
pub const TUNINGS: &str = "tune";

/// A run on the disk, or the tunings of a worker with all their runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredRun {
    /// The ID of the run, or `tune/NAME`.
    pub run: String,
    /// The folder of the run, or of the runs of tunings.
    pub dir: PathBuf,
    /// The state of the run.
    pub state: RunState,
    /// The size of the folder, in bytes.
    pub bytes: u64,
    /// The time at which the run was last written.
    #[serde(skip)]
    pub changed: SystemTime,
}

/// The choice of runs to remove. A running run is never removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cleaning {
    /// Removes runs that were last written longer ago than this.
    pub older_than: Option<Duration>,
    /// Removes the oldest runs, until the rest has at most so many bytes.
    pub larger_than: Option<u64>,
    /// Keeps so many of the newest runs. Without the other two, all older runs are removed. A damaged run does not
    /// count: it is kept if it is newer than the oldest of those, and else removed like a run that has ended.
    pub keep: Option<usize>,
    /// True if runs that wait for an approval may be removed.
    pub suspended: bool,
}

/// Returns the runs in a folder. A folder that does not exist holds none. Links are no runs.
pub fn stored_runs(runs_dir: &Path) -> io::Result<Vec<StoredRun>> {
    match fs::symlink_metadata(runs_dir) {
        Ok(found) if !found.is_dir() => {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file, not a folder"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut runs = Vec::new();
    for run in run_ids(runs_dir)? {
        let dir = runs_dir.join(&run);
        let Ok(found) = fs::symlink_metadata(&dir) else { continue };
        if !found.is_dir() {
            continue;
        }
        let journal = fs::symlink_metadata(dir.join(JOURNAL_FILE)).and_then(|journal| journal.modified());
        let changed = journal.or_else(|_| found.modified())?;
        runs.push(StoredRun { state: state_in(&dir), bytes: size(&dir), run, dir, changed });
    }
    runs.extend(tunings(runs_dir));
    Ok(runs)
}

/// Returns the tunings of workers beside the runs.
fn tunings(runs_dir: &Path) -> Vec<StoredRun> {
    let folder = runs_dir.join(TUNINGS);
    if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        return Vec::new();
    }
    let tuning = |log: PathBuf| {
        let name = log.file_name()?.to_str()?.strip_suffix(".jsonl")?;
        let found = fs::symlink_metadata(&log).ok().filter(fs::Metadata::is_file)?;
        let dir = folder.join(name);
        let state = match open_regular(&log) {
            Ok(file) if is_locked(&file) => RunState::Open(OpenRun::Running),
            Ok(_) => RunState::Ended(RunStatus::Done),
            Err(_) => RunState::Open(OpenRun::Damaged),
        };
        let (bytes, changed) = (found.len() + size(&dir), found.modified().ok()?);
        Some(StoredRun { run: format!("{TUNINGS}/{name}"), dir, state, bytes, changed })
    };
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| tuning(entry.path())).collect()
}

/// Removes the tunings of a worker. Returns false, and keeps them, if one is under way.
fn remove_tunings(run: &StoredRun) -> io::Result<bool> {
    let log = run.dir.with_extension("jsonl");
    let file = open_regular(&log)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The log names the runs, so it is the last to go.
    match fs::remove_dir_all(&run.dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_file(&log)?;
    Ok(true)
}

/// Returns the bytes of the files in a folder and below it. Files that have vanished or can't be read count as empty.
fn size(dir: &Path) -> u64 {
    let mut bytes = 0;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            // The metadata of a link itself, not of its target.
            match entry.metadata() {
                Ok(found) if found.is_dir() => left.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

impl Cleaning {
    /// Returns the runs to remove, oldest first.
    pub fn choose(self, mut runs: Vec<StoredRun>, now: SystemTime) -> Vec<StoredRun> {
        runs.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.run.cmp(&a.run)));
        let mut left: u64 = runs.iter().map(|run| run.bytes).sum();
        let is_damaged = |run: &StoredRun| run.state == RunState::Open(OpenRun::Damaged);
        let readable = runs.iter().enumerate().filter(|(_, run)| !is_damaged(run));
        let kept = readable.take(self.keep.unwrap_or(0)).last().map_or(0, |(place, _)| place + 1);
        let by_number = self.keep.is_some() && self.older_than.is_none() && self.larger_than.is_none();
        let mut chosen = Vec::new();
        for run in runs.drain(kept..).rev() {
            let stays = match run.state {
                RunState::Open(OpenRun::Running) => true,
                RunState::Ended(RunStatus::Suspended) => !self.suspended,
                RunState::Open(OpenRun::CutOff | OpenRun::Damaged) | RunState::Ended(_) => false,
            };
            // If the clock was set back, no run is old.
            let age = now.duration_since(run.changed).unwrap_or_default();
            let old = self.older_than.is_some_and(|limit| age > limit);
            let too_large = self.larger_than.is_some_and(|limit| left > limit);
            if !stays && (by_number || old || too_large) {
                left -= run.bytes;
                chosen.push(run);
            }
        }
        chosen
    }
}

/// Removes a run. Returns false, and keeps the run, if it is running or has changed its state since it was listed.
pub fn remove_run(run: &StoredRun) -> io::Result<bool> {
    if run.run.strip_prefix(TUNINGS).is_some_and(|rest| rest.starts_with('/')) {
        return remove_tunings(run);
    }
    let mut journal = match open_regular(&run.dir.join(JOURNAL_FILE)) {
        Ok(journal) => Some(journal),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // Held until the folder is removed: no process can resume the run in the meantime.
    if let Some(journal) = &mut journal {
        match journal.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if state_without_lock(journal) != run.state {
            return Ok(false);
        }
    }
    // Follows no links: neither the folder itself nor those in it.
    fs::remove_dir_all(&run.dir)?;
    Ok(true)
}
