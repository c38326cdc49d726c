//! Reading a journal back.

use crate::{
    blob::{BlobError, Blobs, mentions_blob, open_regular},
    journal::JOURNAL_FILE,
    seal::{Chain, SealKey},
};
use llm_do_core::journal::{FORMAT, Record, RecordKind};
use serde::Deserialize;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// Longest line that is read, in bytes. The writer moves long values elsewhere; only many short ones make a long line.
pub(crate) const LONGEST_LINE: u64 = 256 << 20;

/// What a journal holds.
#[derive(Debug)]
pub struct Journal {
    /// Its records, long values in place.
    pub records: Vec<Record>,
    /// Whether half a line stands at the end, from a write that was cut off. It counts as not written.
    pub torn: bool,
    /// Bytes up to the end of the last whole line.
    pub whole_bytes: u64,
    /// What seals the record that follows, if the seals were looked at.
    pub(crate) seals: Option<Chain>,
}

/// A journal that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not JSON, or not the JSON of a record.
    #[error("not a record: {0}")]
    NotARecord(#[from] serde_json::Error),
    /// A long value is missing or damaged.
    #[error("{0}")]
    Blob(#[from] BlobError),
    /// Lines are missing, doubled or mixed up.
    #[error("record {expected} should stand here, not {found}: lines are missing or doubled")]
    OutOfOrder {
        /// The number that follows.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// Written by a newer version.
    #[error("written in format {0}, which this version of llm-do does not know: use a newer one")]
    Format(u32),
    /// Not sealed with the user's key, or not where it was written.
    #[error(
        "this record was not written by your llm-do, or was changed since: a run goes on only from a journal of your own"
    )]
    Foreign,
    /// Longer than anything llm-do writes.
    #[error("the line is too long for a record")]
    TooLong,
}

/// Reads the journal in a run's folder, whoever wrote it: good enough to look at.
pub fn read_journal(run_dir: &Path) -> Result<Journal, ReadError> {
    read(run_dir, None)
}

/// Reads the journal in a run's folder if each record was written there by this user's llm-do: good enough to believe
/// what it says was allowed and done.
pub fn read_own_journal(run_dir: &Path, key: &SealKey) -> Result<Journal, ReadError> {
    read(run_dir, Some(key.chain(&run_id_of(run_dir))))
}

/// A run's folder bears its ID.
pub(crate) fn run_id_of(run_dir: &Path) -> String {
    run_dir.file_name().unwrap_or_default().to_string_lossy().into()
}

fn read(run_dir: &Path, seals: Option<Chain>) -> Result<Journal, ReadError> {
    let path = run_dir.join(JOURNAL_FILE);
    let failed = |source| ReadError::Io { path: path.clone(), source };
    let blobs = Blobs::of_run(run_dir);
    let mut file = BufReader::with_capacity(64 * 1024, open_regular(&path).map_err(failed)?);
    let mut journal = Journal { records: Vec::new(), torn: false, whole_bytes: 0, seals };
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(failed)? as u64;
        if bytes == 0 {
            return Ok(journal);
        }
        let expected = journal.records.len() as u64;
        let wrong = |problem| ReadError::Line { path: path.clone(), line: expected + 1, problem };
        if line.last() != Some(&b'\n') {
            if bytes == LONGEST_LINE {
                return Err(wrong(Problem::TooLong));
            }
            journal.torn = true;
            return Ok(journal);
        }
        let record = parse(&line, &blobs).map_err(wrong)?;
        if journal.seals.as_mut().is_some_and(|seals| !seals.admits(&line[..line.len() - 1])) {
            return Err(wrong(Problem::Foreign));
        }
        if record.seq != expected {
            return Err(wrong(Problem::OutOfOrder { expected, found: record.seq }));
        }
        journal.records.push(record);
        journal.whole_bytes += bytes;
    }
}

pub(crate) fn parse(line: &[u8], blobs: &Blobs) -> Result<Record, Problem> {
    let parsed = if mentions_blob(line) {
        let mut value: Value = serde_json::from_slice(line)?;
        blobs.unpack_record(&mut value)?;
        Record::deserialize(value)
    } else {
        serde_json::from_slice(line)
    };
    match parsed {
        Ok(Record { body: RecordKind::RunStarted { format, .. }, .. }) if format > FORMAT => {
            Err(Problem::Format(format))
        }
        Ok(record) => Ok(record),
        // A first record that has changed so much that it can't even be read still tells its format.
        Err(error) => match serde_json::from_slice::<Value>(line)?["format"].as_u64() {
            Some(format) if format > u64::from(FORMAT) => {
                Err(Problem::Format(u32::try_from(format).unwrap_or(u32::MAX)))
            }
            _ => Err(error.into()),
        },
    }
}
