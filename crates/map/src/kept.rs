//! Maps as others see them: the commands of a project, how far each has come, and its rows, also while they run.

use crate::{
    board::Counts,
    order::Order,
    results::{FoundEnds, RowEnd},
    slots::Slots,
    state::{Places, check_links, write_whole},
};
use llm_do::Session;
use llm_do::runs::{LogKind, SealKey, SealedLog, log_ids, read_log};
use llm_do_core::model::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The file that says how far the map has come.
pub(crate) const PROGRESS: &str = "progress.json";
/// Longest line of a row that is read as a whole, in bytes.
const LONGEST_LINE: u32 = 64 << 10;

/// The line of a command's log.
#[derive(Serialize, Deserialize)]
struct Listed {
    outputs: PathBuf,
    inputs: PathBuf,
    worker: String,
    at_ms: u64,
}

/// Lists the command in the folder of its project's runs, as long as the log is kept.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn list(session: &Session, outputs: &Path, inputs: &Path) -> io::Result<Option<SealedLog>> {
    let runs_dir = session.runs_dir();
    // The runs of worker files without a project lie together in the user's folder.
    if !runs_dir.starts_with(session.program().root().as_str()) {
        return Ok(None);
    }
    let mut log = SealedLog::begin(runs_dir, LogKind::Maps, &SealKey::of(session.home())?)?;
    log.add(&Listed {
        outputs: std::path::absolute(outputs)?,
        inputs: std::path::absolute(inputs)?,
        worker: session.entry().id.to_string(),
        at_ms: now_ms(),
    })?;
    Ok(Some(log))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The progress of a map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Rows of the input.
    pub rows: u64,
    /// Rows with an output.
    pub done: u64,
    /// Rows that failed.
    pub failed: u64,
    /// The runs of the rows that run.
    pub running: Vec<String>,
    /// Tokens and cost of the last command.
    pub usage: Usage,
    /// The time that the last command has worked, in milliseconds.
    pub worked_ms: u64,
    /// The provider that takes no requests for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}

impl Progress {
    pub(crate) fn of(counts: &Counts, running: Vec<String>) -> Self {
        Self {
            rows: counts.rows,
            done: counts.done,
            failed: counts.failed,
            running,
            usage: counts.usage,
            worked_ms: u64::try_from(counts.worked().as_millis()).unwrap_or(u64::MAX),
            waiting: counts.waiting.as_ref().map(|waiting| waiting.provider.to_string()),
        }
    }

    pub(crate) fn write(&self, places: &Places) -> io::Result<()> {
        write_whole(&places.file(PROGRESS), &serde_json::to_vec(self)?)
    }
}

/// A map of a project.
#[derive(Clone, Debug)]
pub struct KeptMap {
    /// The ID of its last command.
    pub id: String,
    /// The time of that command's start, in milliseconds since 1970.
    pub began_ms: u64,
    /// True while the command works.
    pub is_running: bool,
    /// The worker.
    pub worker: String,
    /// The input.
    pub inputs: PathBuf,
    /// The output.
    pub outputs: PathBuf,
    /// The progress.
    pub progress: Progress,
}

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row has an output.
    Done,
    /// The row has failed.
    Failed,
    /// The row runs.
    Running,
    /// The row has not ended, and does not run.
    Missing,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRow {
    /// The number in the input, from 1.
    pub row: u64,
    /// The ID of its run.
    pub run: String,
    /// The state.
    pub state: RowState,
    /// The kind of its failure.
    pub kind: Option<String>,
    /// The output as JSON, or the message of the failure. Absent if the row is longer than what is read.
    pub text: Option<String>,
    /// The input, if the row failed.
    pub input: Option<Value>,
    /// Tokens and cost of the row.
    pub usage: Usage,
}

/// Some rows of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptRows {
    /// The rows.
    pub rows: Vec<KeptRow>,
    /// The last row that was looked at, if there are more.
    pub next: Option<u64>,
}

impl KeptMap {
    /// The maps of a project whose state is there, newest first. Of each output, the last command counts.
    ///
    /// # Errors
    /// The folder of runs can't be read.
    pub fn all(runs_dir: &Path, key: &SealKey) -> io::Result<Vec<Self>> {
        let (mut maps, mut seen) = (Vec::new(), HashSet::new());
        for id in log_ids(runs_dir, LogKind::Maps)? {
            if let Some(map) = Self::read(runs_dir, &id, key)?
                && seen.insert(map.outputs.clone())
            {
                maps.push(map);
            }
        }
        Ok(maps)
    }

    /// The map of the command with that ID. `None`: there is none of this user, or its state has been removed.
    ///
    /// # Errors
    /// The log of the map can't be read.
    pub fn read(runs_dir: &Path, id: &str, key: &SealKey) -> io::Result<Option<Self>> {
        let Some(log) = read_log(runs_dir, LogKind::Maps, id, key)? else { return Ok(None) };
        let Some(Listed { outputs, inputs, worker, at_ms }) =
            log.lines.first().and_then(|line| serde_json::from_str(line).ok())
        else {
            return Ok(None);
        };
        let places = Places::of(&outputs);
        // What a worker or another user has put there in the place of the state is not followed.
        if check_links(&places).is_err() || !places.dir.is_dir() {
            return Ok(None);
        }
        let progress =
            fs::read(places.file(PROGRESS)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut progress: Progress = progress.unwrap_or_default();
        if !log.is_running {
            progress.running.clear();
            progress.waiting = None;
        }
        Ok(Some(Self {
            id: id.to_owned(),
            began_ms: at_ms,
            is_running: log.is_running,
            worker,
            inputs,
            outputs,
            progress,
        }))
    }

    /// The folder of its state.
    pub fn state(&self) -> PathBuf {
        Places::of(&self.outputs).dir
    }

    /// Rows after that many, in the order of the input: at most `limit` in one of these states, or in any. At most `looked`
    /// rows are looked at.
    ///
    /// # Errors
    /// The state can't be read.
    pub fn rows(&self, states: &[RowState], after: u64, limit: usize, looked: u64) -> io::Result<KeptRows> {
        let places = Places::of(&self.outputs);
        let order = Order::open(&places.file("order"))?;
        let ends = FoundEnds::open(&places.file("results.jsonl"), Slots::open(&places.file("index"))?)?;
        let running: HashSet<&str> = self.progress.running.iter().map(String::as_str).collect();
        let mut found = KeptRows::default();
        let last = order.rows().min(after.saturating_add(looked));
        for at in after..last {
            if found.rows.len() == limit {
                found.next = Some(at);
                return Ok(found);
            }
            let id = order.get(at)?.id;
            let run = id.to_string();
            let end = ends.find(id).unwrap_or_default();
            let state = match &end {
                Some(end) if end.done => RowState::Done,
                Some(_) => RowState::Failed,
                None if running.contains(run.as_str()) => RowState::Running,
                None => RowState::Missing,
            };
            if !states.is_empty() && !states.contains(&state) {
                continue;
            }
            let mut row = KeptRow {
                row: at + 1,
                run,
                state,
                kind: None,
                text: None,
                input: None,
                usage: Usage::default(),
            };
            match end.and_then(|end| ends.read(end, LONGEST_LINE).ok()?) {
                Some(RowEnd::Done(done)) => {
                    row.text = Some(done.output.to_string());
                    row.usage = done.usage;
                }
                Some(RowEnd::Failed(failed)) => {
                    row.kind = Some(failed.kind.to_string());
                    row.text = Some(failed.message);
                    row.input = Some(failed.input);
                    row.usage = failed.usage;
                }
                None => {}
            }
            found.rows.push(row);
        }
        found.next = (last < order.rows()).then_some(last);
        Ok(found)
    }
}
