//! Copying the records of a run into a run of its own.

use super::{JournalWriter, ReopenError};
use crate::{read::read_sealed, seal::SealKey};
use llm_do_core::journal::{Record, RecordKind};
use llm_do_records::Redactor;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Copies the records of a run that waits into a run of its own, which can be resumed from the same place. Both runs
/// are then independent of each other. Returns the folder of the new run, beside that of the first.
///
/// # Errors
/// The journal is not this user's, or can't be read, or the copy can't be written.
pub fn fork(run_dir: &Path, redactor: Arc<Redactor>, key: &SealKey) -> Result<PathBuf, ReopenError> {
    let (journal, _) = read_sealed(run_dir, key)?;
    let runs_dir = run_dir.parent().unwrap_or(run_dir);
    let writer = JournalWriter::create(runs_dir, redactor, Some(key))
        .map_err(|error| ReopenError::Io { path: error.path, source: error.source })?;
    let copied = journal.records.into_iter().try_for_each(|record| writer.copy(record));
    let failed = |source| ReopenError::Io { path: writer.dir().to_owned(), source };
    copied.and_then(|()| writer.let_go()).map_err(failed)?;
    Ok(writer.dir().to_owned())
}

impl JournalWriter {
    /// Adds a record of another run as it is, with its place and time. The first record names this run.
    fn copy(&self, record: Record) -> std::io::Result<()> {
        let Record { seq, at_ms, path, step, mut body } = record;
        if let RecordKind::RunStarted { run, .. } = &mut body {
            *run = Arc::clone(&self.id);
        }
        self.tail().add(&self.redactor, seq, at_ms, &path, &step, body).map(drop)
    }
}
