//! Reading a journal back.

use crate::{
    blob::BlobDir,
    files::open_regular,
    journal::JOURNAL_FILE,
    list::is_running,
    seal::{Chain, SealKey},
};
use llm_do_core::{
    function::Risk,
    journal::{RecordKind, RunStatus},
};
use llm_do_records::{BlobError, Journal, Problem, RunTree, WholeRun, parse_line};
use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// Longest line that is read, in bytes. The writer moves long values elsewhere; only many short ones make a long line.
pub(crate) const LONGEST_LINE: u64 = 256 << 20;

/// A journal that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The problem with the line.
        problem: Problem,
    },
}

/// Reads the journal in a run's folder without checking its seals, to show it.
///
/// # Errors
/// See [`ReadError`].
pub fn read_journal(run_dir: &Path) -> Result<Journal, ReadError> {
    read(run_dir, None)
}

/// Reads the journal in a run's folder if this user's llm-do wrote each of its records there. The records can then be
/// trusted about permissions and effects.
///
/// # Errors
/// See [`ReadError`].
pub fn read_own_journal(run_dir: &Path, key: &SealKey) -> Result<Journal, ReadError> {
    read_sealed(run_dir, key).map(|(journal, _)| journal)
}

/// Returns true if this user's llm-do began the run in that folder: it wrote the first record of the journal there.
/// Lists check this for each run. A host must check [`is_own`] before it trusts the journal.
pub fn began_here(run_dir: &Path, key: &SealKey) -> bool {
    has_seals(run_dir, key, 1)
}

/// Returns true if this user's llm-do wrote each record of the journal in that folder there. No record is parsed.
pub fn is_own(run_dir: &Path, key: &SealKey) -> bool {
    has_seals(run_dir, key, usize::MAX)
}

/// Returns true if the journal has a record, and the first `most` of them have the seals of this key.
fn has_seals(run_dir: &Path, key: &SealKey, most: usize) -> bool {
    let Ok(file) = open_regular(&run_dir.join(JOURNAL_FILE)) else { return false };
    let (mut file, mut seals) = (BufReader::with_capacity(64 * 1024, file), key.chain(&run_id_of(run_dir)));
    let mut line = Vec::new();
    for number in 0..most {
        line.clear();
        let Ok(bytes) = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) else { return false };
        // The rest is from a write that was cut off, or that is under way. A line that is too long is no record.
        let Some(record) = line.strip_suffix(b"\n") else {
            return number > 0 && bytes as u64 != LONGEST_LINE;
        };
        if !seals.admits(record) {
            return false;
        }
    }
    true
}

/// Reads a journal like [`read_own_journal`], and returns the seals for the records that follow.
pub(crate) fn read_sealed(run_dir: &Path, key: &SealKey) -> Result<(Journal, Chain), ReadError> {
    let mut seals = key.chain(&run_id_of(run_dir));
    let journal = read(run_dir, Some(&mut seals))?;
    Ok((journal, seals))
}

/// Returns the call tree of the run in that folder, which may still be running.
///
/// # Errors
/// See [`ReadError`].
pub fn read_tree(run_dir: &Path) -> Result<RunTree, ReadError> {
    // Before the journal is read: a run that ends in between is then shown with its end.
    let running = is_running(run_dir);
    Ok(RunTree::of(&run_id_of(run_dir), &read_journal(run_dir)?, running))
}

/// Reads the run in that folder with its whole journal. It may still be running.
///
/// # Errors
/// See [`ReadError`].
pub fn read_run(run_dir: &Path) -> Result<WholeRun, ReadError> {
    // Before the journal is read: a run that ends in between is then shown with its end.
    let running = is_running(run_dir);
    Ok(WholeRun::of(&run_id_of(run_dir), read_journal(run_dir)?, running))
}

/// Returns the ID of the run in that folder: the folder's name.
pub(crate) fn run_id_of(run_dir: &Path) -> String {
    run_dir.file_name().unwrap_or_default().to_string_lossy().into()
}

fn read(run_dir: &Path, mut seals: Option<&mut Chain>) -> Result<Journal, ReadError> {
    let path = run_dir.join(JOURNAL_FILE);
    let failed = |source| ReadError::Io { path: path.clone(), source };
    let blobs = BlobDir::of_run(run_dir);
    let mut file = BufReader::with_capacity(64 * 1024, open_regular(&path).map_err(failed)?);
    let mut journal = Journal::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(failed)? as u64;
        if bytes == 0 {
            return Ok(journal);
        }
        let number = journal.records.len() as u64 + 1;
        let wrong = |problem| ReadError::Line { path: path.clone(), line: number, problem };
        if line.last() != Some(&b'\n') {
            if bytes == LONGEST_LINE {
                return Err(wrong(Problem::TooLong));
            }
            journal.torn = true;
            return Ok(journal);
        }
        let record = match parse_line(&line, &blobs) {
            Err(problem @ Problem::Blob(BlobError::Lost { .. }))
                if seals.as_deref().is_some_and(|seals| {
                    ends_harmlessly(seals.clone(), std::mem::take(&mut line), &mut file, &blobs)
                }) =>
            {
                drop(problem);
                journal.torn = true;
                return Ok(journal);
            }
            parsed => parsed.map_err(wrong)?,
        };
        if seals.as_mut().is_some_and(|seals| !seals.admits(&line[..line.len() - 1])) {
            return Err(wrong(Problem::Foreign));
        }
        journal.push(record, bytes).map_err(wrong)?;
    }
}

/// Returns true if the journal can end before a line whose long value is lost: records are not synced, and after a
/// power failure the file of the newest value can be empty. The line and those after it must be own records, and none
/// of them may begin an effect or end the run: then they count as not written, like an incomplete line.
fn ends_harmlessly(mut seals: Chain, mut line: Vec<u8>, rest: &mut impl BufRead, blobs: &BlobDir) -> bool {
    loop {
        let Some(own) = line.strip_suffix(b"\n") else { return true };
        let harmless = match parse_line(&line, blobs) {
            Ok(record) => match record.body {
                RecordKind::ToolStarted { risk, .. } => risk == Risk::Read,
                RecordKind::RunEnded { status, .. } => {
                    matches!(status, RunStatus::Suspended | RunStatus::Interrupted)
                }
                _ => true,
            },
            Err(problem) => matches!(problem, Problem::Blob(BlobError::Lost { .. })),
        };
        if !harmless || !seals.admits(own) {
            return false;
        }
        line.clear();
        match rest.take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}
