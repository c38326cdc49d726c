//! The maps of a project and their rows, while they run and afterwards.

use super::Service;
use crate::{
    error::{ApiError, Code},
    events::Reader,
    token::Token,
};
use llm_do::{
    core::model::Usage,
    runs::{SealKey, is_own},
};
use llm_do_map::{KeptMap, KeptRow, RowState, row_run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::task::spawn_blocking;

/// Most rows that one request looks at.
const MOST_LOOKED_AT: u64 = 50_000;
/// The longest text of a row in a list, in characters.
const LONGEST_TEXT: usize = 400;

/// The maps of a project.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Maps {
    /// The maps whose state is there, newest first.
    pub(crate) maps: Vec<MapView>,
}

/// A map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Map")]
pub(crate) struct MapView {
    /// The ID of its last command.
    pub(crate) map: String,
    /// When that began, in milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// Whether it is at work.
    pub(crate) running: bool,
    /// The worker.
    pub(crate) worker: String,
    /// The input, relative to the project if it is in it.
    pub(crate) inputs: String,
    /// The output, relative to the project if it is in it.
    pub(crate) outputs: String,
    /// Rows of the input.
    pub(crate) rows: u64,
    /// Rows with an output.
    pub(crate) done: u64,
    /// Rows that failed.
    pub(crate) failed: u64,
    /// Rows that run.
    pub(crate) at_work: u64,
    /// What the last command has used.
    pub(crate) usage: Usage,
    /// How long the last command has worked, in milliseconds.
    pub(crate) worked_ms: u64,
    /// The provider that takes no requests for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<String>,
}

/// Rows of a map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Rows {
    /// The rows, in the order of the input.
    pub(crate) rows: Vec<RowView>,
    /// The value of `after` for the next page, if there are more rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<u64>,
}

/// In which state a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RowState")]
pub(crate) enum RowStateView {
    /// It has an output.
    Done,
    /// It has failed.
    Failed,
    /// It runs.
    Running,
    /// It has not ended, and does not run.
    Missing,
}

/// A row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub(crate) struct RowView {
    /// Its number in the input, from 1.
    pub(crate) row: u64,
    /// Its run.
    pub(crate) run: String,
    /// Its state.
    pub(crate) state: RowStateView,
    /// The kind of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// The beginning of its output, or of the message of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The beginning of its input, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<String>,
    /// What it has used.
    pub(crate) usage: Usage,
}

/// Which rows a page has.
pub(crate) struct RowsOf {
    /// Only rows in these states; empty: in any.
    pub(crate) states: Vec<RowStateView>,
    /// Only rows after that one.
    pub(crate) after: u64,
    /// The most that are listed.
    pub(crate) limit: usize,
}

impl From<RowState> for RowStateView {
    fn from(state: RowState) -> Self {
        match state {
            RowState::Done => Self::Done,
            RowState::Failed => Self::Failed,
            RowState::Running => Self::Running,
            RowState::Missing => Self::Missing,
        }
    }
}

impl From<RowStateView> for RowState {
    fn from(state: RowStateView) -> Self {
        match state {
            RowStateView::Done => Self::Done,
            RowStateView::Failed => Self::Failed,
            RowStateView::Running => Self::Running,
            RowStateView::Missing => Self::Missing,
        }
    }
}

impl From<KeptRow> for RowView {
    fn from(row: KeptRow) -> Self {
        let shown = |text: String| beginning(&text);
        Self {
            row: row.row,
            run: row.run,
            state: row.state.into(),
            kind: row.kind,
            text: row.text.map(shown),
            input: row.input.map(|input| shown(input.to_string())),
            usage: row.usage,
        }
    }
}

/// The beginning of a text.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn view(map: &KeptMap, root: &Path) -> MapView {
    let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let progress = &map.progress;
    MapView {
        map: map.id.clone(),
        began_ms: map.began_ms,
        running: map.is_running,
        worker: map.worker.clone(),
        inputs: shown(&map.inputs),
        outputs: shown(&map.outputs),
        rows: progress.rows,
        done: progress.done,
        failed: progress.failed,
        at_work: progress.running.len() as u64,
        usage: progress.usage,
        worked_ms: progress.worked_ms,
        waiting: progress.waiting.clone(),
    }
}

impl Service {
    /// The maps of a project.
    pub(crate) async fn maps(&self, token: &Token, program: &str) -> Result<Maps, ApiError> {
        let Some((program, key)) = self.kept_of(token, program)? else { return Ok(Maps::default()) };
        let read = spawn_blocking(move || {
            let root = program.root();
            let all = KeptMap::all(program.runs_dir(), &key)?;
            Ok::<_, io::Error>(Maps { maps: all.iter().map(|map| view(map, &root)).collect() })
        });
        read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }

    /// One map.
    pub(crate) async fn map(&self, token: &Token, program: &str, id: String) -> Result<MapView, ApiError> {
        self.with_map(token, program, id, |map, root, _| Ok(view(&map, &root))).await
    }

    /// Rows of a map.
    pub(crate) async fn rows(
        &self,
        token: &Token,
        program: &str,
        id: String,
        of: RowsOf,
    ) -> Result<Rows, ApiError> {
        self.with_map(token, program, id, move |map, _, _| {
            let states: Vec<RowState> = of.states.into_iter().map(RowState::from).collect();
            let found = match map.rows(&states, of.after, of.limit, MOST_LOOKED_AT) {
                // The command is about to make its tables.
                Err(_) if map.is_running => return Ok(Rows { rows: Vec::new(), next: None }),
                found => found.map_err(ApiError::internal)?,
            };
            Ok(Rows { rows: found.rows.into_iter().map(RowView::from).collect(), next: found.next })
        })
        .await
    }

    /// Who reads the recorded events of the run of a row after the record with that number.
    ///
    /// # Errors
    /// There is no such row with records of this user, or too many follow.
    pub(crate) async fn row(
        &self,
        token: &Token,
        program: &str,
        id: String,
        row: String,
        after: Option<u64>,
    ) -> Result<Reader, ApiError> {
        let place = self.0.quotas.streams.take(token.name(), 1)?;
        let next = after.map_or(0, |after| after.saturating_add(1));
        self.with_map(token, program, id, move |map, _, key| {
            let none = || ApiError::new(Code::NotFound, format!("the map has no records of the row `{row}`"));
            // The ID is the name of a folder.
            if row.len() != 32 || !row.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                return Err(none());
            }
            let folder = tempfile::tempdir().map_err(ApiError::internal)?;
            let dir = row_run(&map.state(), &row, folder.path()).map_err(ApiError::internal)?;
            let dir = dir.filter(|dir| is_own(dir, &key)).ok_or_else(none)?;
            Ok(Reader::new(&dir, None, next, place).with_folder(folder))
        })
        .await
    }

    /// Does something with a map of a project that the client may see, off the threads that answer requests.
    async fn with_map<T: Send + 'static>(
        &self,
        token: &Token,
        program: &str,
        id: String,
        with: impl FnOnce(KeptMap, PathBuf, SealKey) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let none = || ApiError::new(Code::NotFound, format!("there is no map `{id}`"));
        let (program, key) = self.kept_of(token, program)?.ok_or_else(none)?;
        let of = id.clone();
        let read = spawn_blocking(move || {
            let map = KeptMap::read(program.runs_dir(), &of, &key).map_err(ApiError::internal)?;
            map.map(|map| with(map, program.root(), key)).transpose()
        });
        read.await.map_err(ApiError::internal)??.ok_or_else(none)
    }
}
