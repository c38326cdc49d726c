//! The runs in a folder, each from the first and the last line of its journal.

use crate::{
    blob::BlobDir,
    files::{holder, open_regular, soon},
    journal::JOURNAL_FILE,
    read::ReadError,
    run_id::is_run_id,
};
use llm_do_core::{
    journal::{Record, RunStatus},
    model::Usage,
};
use llm_do_records::{OpenRun, RunState, parse_line};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs::{self, File, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

/// Most bytes at a journal's beginning or end that are read for one line.
const LONGEST_LINE: u64 = 1 << 20;
/// Most runs that an error names.
const MOST_NAMED: usize = 6;
/// Runs that are read at once.
const AT_ONCE: usize = 1024;
/// Bytes that are first read from the end: the last record is usually short.
const LAST_LINE_GUESS: u64 = 4096;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The ID of the run.
    pub run: String,
    /// The state of the run.
    pub state: RunState,
    /// The time at which the run began, in milliseconds since 1970; absent if it was cut off before its first record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// The time from the first to the last record so far, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The target, as typed.
    pub target: String,
    /// The entry worker.
    pub entry: String,
    /// True if the run is a chat.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
    /// The current directory in which the run was started, for hosts that look for the chats of a folder.
    #[serde(skip)]
    pub here: Option<PathBuf>,
    /// The message with which the run was started.
    #[serde(skip)]
    pub message: Option<String>,
    /// The host's invocation of the run, in the host's own format.
    #[serde(skip)]
    pub invocation: Value,
    /// Tokens of the whole run, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl RunSummary {
    /// Makes the summary of a run whose journal can't be read.
    fn damaged(run: String) -> Self {
        Self {
            run,
            state: RunState::Open(OpenRun::Damaged),
            started_ms: None,
            took_ms: None,
            target: String::new(),
            entry: String::new(),
            chat: false,
            here: None,
            message: None,
            invocation: Value::Null,
            usage: None,
        }
    }
}

/// A text that does not identify a single run.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No run matches.
    #[error("no run `{text}` in {}; `llm-do runs list` lists the runs", runs_dir.display())]
    None {
        /// The text that was typed.
        text: String,
        /// The folder that was searched.
        runs_dir: PathBuf,
    },
    /// Several runs match.
    #[error("`{text}` fits {count} runs: {}{}; type more of one", runs.join(", "), if *count > runs.len() { ", …" } else { "" })]
    Several {
        /// The text that was typed.
        text: String,
        /// Some of the runs that match, newest first.
        runs: Vec<String>,
        /// The number of runs that match.
        count: usize,
    },
    /// The folder can't be read.
    #[error("cannot read {}: {source}", runs_dir.display())]
    Io {
        /// The folder.
        runs_dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Returns the newest runs in a folder, newest first, at most `limit`. A folder that does not exist holds none. Folders
/// whose journal can't be opened are left out.
pub fn list_runs(runs_dir: &Path, limit: usize) -> io::Result<Vec<RunSummary>> {
    let ids = run_ids(runs_dir)?;
    let listed = ids.into_iter().filter_map(|id| match summary(runs_dir, id.clone()) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Some(RunSummary::damaged(id)),
        read => read.ok(),
    });
    Ok(listed.take(limit).collect())
}

/// Returns runs in a folder that `keep` accepts, newest first: at least the newest `most` of them, and all older ones
/// that can be continued, because they wait or were interrupted or cut off. Runs whose journal can't be read are left
/// out.
///
/// # Errors
/// The folder can't be read.
pub fn newest_and_unfinished(
    runs_dir: &Path,
    most: usize,
    keep: impl Fn(&RunSummary) -> bool + Sync,
) -> io::Result<Vec<RunSummary>> {
    let mut found = Vec::new();
    for ids in run_ids(runs_dir)?.chunks(AT_ONCE) {
        let only_unfinished = found.len() >= most;
        let read = |id: &String| {
            // The end of a journal is read faster than both ends.
            if only_unfinished && ended_in(&runs_dir.join(id)).is_some_and(is_final) {
                return None;
            }
            summary(runs_dir, id.clone()).ok().filter(&keep)
        };
        found.extend(in_parallel(ids, read));
    }
    Ok(found)
}

/// Returns true if a run that ended with this status can't be continued.
fn is_final(status: RunStatus) -> bool {
    match status {
        RunStatus::Done | RunStatus::Failed | RunStatus::Limit | RunStatus::Refused => true,
        RunStatus::Suspended | RunStatus::Interrupted => false,
    }
}

/// Returns the results of `read` for each run, in the order of the runs, read on all processors.
fn in_parallel<T: Send>(ids: &[String], read: impl Fn(&String) -> Option<T> + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let each = ids.len().div_ceil(threads).max(1);
    let read = &read;
    thread::scope(|scope| {
        let parts = ids.chunks(each).map(|ids| scope.spawn(move || ids.iter().filter_map(read).collect()));
        let parts: Vec<thread::ScopedJoinHandle<'_, Vec<T>>> = parts.collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Returns the state and the beginning of the run with that ID.
///
/// # Errors
/// The journal of the run can't be read.
pub fn summary_of(runs_dir: &Path, id: &str) -> io::Result<RunSummary> {
    summary(runs_dir, id.to_owned())
}

/// Returns the first and the last record of the run in that folder, read without those between. If the run has only one
/// record, that is both; both are absent if the run was cut off before its first record.
///
/// # Errors
/// See [`ReadError`].
pub fn read_ends(run_dir: &Path) -> Result<Option<(Record, Record)>, ReadError> {
    let path = run_dir.join(JOURNAL_FILE);
    let failed = |source| ReadError::Io { path: path.clone(), source };
    let mut file = open_regular(&path).map_err(failed)?;
    let blobs = BlobDir::of_run(run_dir);
    let record = |line: Vec<u8>| {
        let wrong = |problem| ReadError::Line { path: path.clone(), line: 1, problem };
        if line.is_empty() { Ok(None) } else { parse_line(&line, &blobs).map(Some).map_err(wrong) }
    };
    let first = record(first_line(&mut file).map_err(failed)?)?;
    let last = record(last_line(&mut file).map_err(failed)?)?;
    Ok(first.zip(last))
}

/// Returns the folder of a run, found by its ID, the beginning or the last four digits of its ID, or `last`: the newest
/// that is not damaged, or the newest if all are.
pub fn find_run(runs_dir: &Path, text: &str) -> Result<PathBuf, FindError> {
    let ids = run_ids(runs_dir).map_err(|source| FindError::Io { runs_dir: runs_dir.to_owned(), source })?;
    if text == "last" {
        let readable = ids.iter().find(|id| state_in(&runs_dir.join(id)) != RunState::Open(OpenRun::Damaged));
        let last = readable.or(ids.first()).map(|id| runs_dir.join(id));
        return last.ok_or_else(|| FindError::None { text: text.to_owned(), runs_dir: runs_dir.to_owned() });
    }
    let fits = |id: &&String| match text {
        "" => false,
        _ => id.starts_with(text) || id.rsplit('-').next() == Some(text),
    };
    let mut runs: Vec<String> = ids.iter().filter(fits).take(MOST_NAMED).cloned().collect();
    match runs.len() {
        0 => Err(FindError::None { text: text.to_owned(), runs_dir: runs_dir.to_owned() }),
        1 => Ok(runs_dir.join(runs.remove(0))),
        _ => {
            let count = ids.iter().filter(fits).count();
            Err(FindError::Several { text: text.to_owned(), runs, count })
        }
    }
}

/// Returns the IDs of the runs in a folder, newest first. A folder that does not exist holds none.
///
/// # Errors
/// The folder can't be read.
pub fn run_ids(runs_dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(runs_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut ids: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|id| is_run_id(id))
        .collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(ids)
}

/// Returns true if a process is writing the run's journal.
pub fn is_running(run_dir: &Path) -> bool {
    open_regular(&run_dir.join(JOURNAL_FILE)).is_ok_and(|file| is_locked(&file))
}

/// Returns true if a process keeps writing the run's journal. Repeats the check for a while: a child of a process whose
/// run has just ended holds the lock of the journal until it executes its own program.
pub fn keeps_running(run_dir: &Path) -> bool {
    !soon(|| !is_running(run_dir))
}

/// Returns the process that writes the run's journal, where the system reports it.
pub fn writer_of(run_dir: &Path) -> Option<u32> {
    holder(&run_dir.join(JOURNAL_FILE))
}

/// Returns the state of the run in that folder. A run whose journal can't be opened counts as cut off.
pub(crate) fn state_in(run_dir: &Path) -> RunState {
    let Ok(mut journal) = open_regular(&run_dir.join(JOURNAL_FILE)) else {
        return RunState::Open(OpenRun::CutOff);
    };
    match state_without_lock(&mut journal) {
        RunState::Open(_) if is_locked(&journal) => RunState::Open(OpenRun::Running),
        state => state,
    }
}

/// Returns the state that the first and the last line of a journal show, if no process is writing it.
pub(crate) fn state_without_lock(journal: &mut File) -> RunState {
    let first = first_line(journal).and_then(|line| glance(&line));
    let last = last_line(journal).and_then(|line| glance(&line));
    match (first, last) {
        (Ok(_), Ok(last)) => {
            last.and_then(|last| last.ended()).map_or(RunState::Open(OpenRun::CutOff), RunState::Ended)
        }
        _ => RunState::Open(OpenRun::Damaged),
    }
}

/// Returns the status with which the run in that folder ended, if its last record is its end.
pub(crate) fn ended_in(run_dir: &Path) -> Option<RunStatus> {
    let mut journal = open_regular(&run_dir.join(JOURNAL_FILE)).ok()?;
    glance(&last_line(&mut journal).ok()?).ok()??.ended()
}

pub(crate) fn is_locked(journal: &File) -> bool {
    match journal.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Ok(()) => {
            let _ = journal.unlock();
            false
        }
        Err(TryLockError::Error(_)) => false,
    }
}

/// The fields of first and last records that a list shows. A reference to a stored value is not followed.
#[derive(Deserialize)]
struct Glance {
    at_ms: u64,
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    target: Value,
    #[serde(default)]
    entry: Value,
    #[serde(default)]
    chat: bool,
    #[serde(default)]
    invocation: Value,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    usage: Value,
}

impl Glance {
    /// Returns the status with which the run ended, if this is its last record.
    fn ended(&self) -> Option<RunStatus> {
        if self.kind == "run_ended" { RunStatus::deserialize(&self.status).ok() } else { None }
    }
}

fn summary(runs_dir: &Path, run: String) -> io::Result<RunSummary> {
    let mut file = open_regular(&runs_dir.join(&run).join(JOURNAL_FILE))?;
    let first = glance(&first_line(&mut file)?)?;
    let last = glance(&last_line(&mut file)?)?;
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let ended = last.as_ref().and_then(Glance::ended);
    let state = match ended {
        Some(status) => RunState::Ended(status),
        None => RunState::Open(if is_locked(&file) { OpenRun::Running } else { OpenRun::CutOff }),
    };
    Ok(RunSummary {
        run,
        state,
        started_ms: first.as_ref().map(|first| first.at_ms),
        took_ms: first
            .as_ref()
            .zip(last.as_ref())
            .map(|(first, last)| last.at_ms.saturating_sub(first.at_ms)),
        target: first.as_ref().map(|first| text(&first.target)).unwrap_or_default(),
        entry: first.as_ref().map(|first| text(&first.entry)).unwrap_or_default(),
        chat: first.as_ref().is_some_and(|first| first.chat),
        here: first.as_ref().and_then(|first| first.invocation["here"].as_str()).map(PathBuf::from),
        message: first
            .as_ref()
            .and_then(|first| first.invocation["input"]["message"].as_str())
            .map(str::to_owned),
        invocation: first.map(|first| first.invocation).unwrap_or_default(),
        usage: ended.and(last).and_then(|last| Usage::deserialize(&last.usage).ok()),
    })
}

/// Returns the first line, without the remains of a write that was cut off.
fn first_line(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut line = Vec::new();
    BufReader::new(&mut *file).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    Ok(if line.ends_with(b"\n") { line } else { Vec::new() })
}

/// Returns the last whole line. Empty if there is none, or if it is too long.
fn last_line(file: &mut File) -> io::Result<Vec<u8>> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut window = LAST_LINE_GUESS;
    loop {
        let start = end.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&mut *file).take(end - start).read_to_end(&mut bytes)?;
        // Half a line at the end is from a write that was cut off.
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(&[][..], |newline| &bytes[..newline]);
        match whole.iter().rposition(|&b| b == b'\n') {
            Some(newline) => return Ok(whole[newline + 1..].to_vec()),
            None if start == 0 => return Ok(whole.to_vec()),
            None if window >= LONGEST_LINE => return Ok(Vec::new()),
            None => window *= 16,
        }
    }
}

/// Parses the fields of a line. The error for a line that is no record is `InvalidData`.
fn glance(line: &[u8]) -> io::Result<Option<Glance>> {
    if line.is_empty() {
        return Ok(None);
    }
    let record = serde_json::from_slice(line);
    record.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
