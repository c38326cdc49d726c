//! Copies of a cluster's runs and programs on this machine.

use crate::{bundle::Bundle, dispatch::Dispatch, error::ClusterError, record_log::BLOB_FOLDERS};
use llm_do_runs::{SealKey, receive_journal};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Copies a run into a folder below `runs_dir`, in the form of a local run, sealed with `key`. Returns the folder.
///
/// # Errors
/// The database can't be reached, a record was changed there, or the folder exists or can't be written.
pub async fn copy_run(
    dispatch: &Dispatch,
    run: &str,
    runs_dir: &Path,
    key: &SealKey,
) -> Result<PathBuf, ClusterError> {
    let from = dispatch.seal_key().await?;
    let lines = dispatch.all_records(run).await?;
    if lines.is_empty() {
        return Err(ClusterError::Missing(format!("the run {run} has no records yet: no node has begun it")));
    }
    fs::create_dir_all(runs_dir).map_err(ClusterError::file(runs_dir))?;
    let dir = runs_dir.join(run);
    receive_journal(&dir, lines.iter().map(String::as_bytes), &from, key)
        .map_err(ClusterError::file(&dir))?;
    for name in dispatch.blob_names(run).await? {
        fetch_blob(dispatch, run, &name, &dir).await?;
    }
    Ok(dir)
}

/// Copies the program of a run into a folder below `cache`. Returns the folder.
///
/// # Errors
/// As for [`copy_run`].
pub async fn copy_program(dispatch: &Dispatch, bundle: &str, cache: &Path) -> Result<PathBuf, ClusterError> {
    Bundle::open(dispatch, bundle, cache).await
}

/// Writes a long value of a run into the run's folder.
pub(crate) async fn fetch_blob(
    dispatch: &Dispatch,
    run: &str,
    name: &str,
    dir: &Path,
) -> Result<(), ClusterError> {
    let is_hash =
        |text: &str| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_known = |folder: &str, file: &str| BLOB_FOLDERS.contains(&folder) && is_hash(file);
    if !name.split_once('/').is_some_and(|(folder, file)| is_known(folder, file)) {
        return Err(ClusterError::Damaged(format!("`{name}` is no name of a value of the run {run}")));
    }
    let content = dispatch.blob(run, name).await?;
    let content =
        content.ok_or_else(|| ClusterError::Damaged(format!("the run {run} lacks the value {name}")))?;
    let path = dir.join(name);
    let folder = path.parent().unwrap_or(dir);
    fs::create_dir_all(folder).map_err(ClusterError::file(folder))?;
    fs::write(&path, content).map_err(ClusterError::file(&path))
}
