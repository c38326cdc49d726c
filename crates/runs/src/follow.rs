//! Reading a journal while it is written.

use crate::{
    blob::BlobDir,
    files::open_regular,
    journal::JOURNAL_FILE,
    list::is_running,
    read::{LONGEST_LINE, ReadError},
};
use llm_do_core::journal::{Record, RecordKind};
use llm_do_records::{BlobSource, OpenRun, Problem, RunState, parse_line};
use std::{
    cell::Cell,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Reads a journal as it grows.
#[derive(Debug)]
pub struct Follow {
    run_dir: PathBuf,
    /// Bytes up to the end of the last line that was read. An incomplete line after it may be completed or removed.
    read_bytes: u64,
    next: u64,
    state: RunState,
}

/// Some of the records of a journal.
#[derive(Debug)]
pub struct Part {
    /// The records, in their order.
    pub records: Vec<Record>,
    /// True if the journal had no more records.
    pub is_last: bool,
}

/// The values beside a journal, and the bytes of those that were read.
struct Counting {
    values: BlobDir,
    bytes: Cell<u64>,
}

impl BlobSource for Counting {
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>> {
        let content = self.values.read(hash, most)?;
        self.bytes.set(self.bytes.get().saturating_add(content.len() as u64));
        Ok(content)
    }
}

impl Follow {
    /// Starts at the run's first record.
    pub fn new(run_dir: &Path) -> Self {
        Self { run_dir: run_dir.to_owned(), read_bytes: 0, next: 0, state: RunState::Open(OpenRun::Running) }
    }

    /// Returns the records written since the last call.
    pub fn more(&mut self) -> Result<Vec<Record>, ReadError> {
        self.part(u64::MAX).map(|part| part.records)
    }

    /// Returns the next of the records written since the last call: those that begin within so many bytes, the values
    /// that lie beside the journal included, and at least one if there is one.
    pub fn part(&mut self, bytes: u64) -> Result<Part, ReadError> {
        let until = self.read_bytes.saturating_add(bytes);
        let path = self.run_dir.join(JOURNAL_FILE);
        let failed = |source| ReadError::Io { path: path.clone(), source };
        // Before the journal is read: the last records of a process that ends in between are then read below.
        let running = is_running(&self.run_dir);
        let mut file = open_regular(&path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.read_bytes)).map_err(failed)?;
        let mut file = BufReader::with_capacity(64 * 1024, file);
        let blobs = Counting { values: BlobDir::of_run(&*self.run_dir), bytes: Cell::new(0) };
        let mut records = Vec::new();
        let mut line = Vec::new();
        let mut is_last = false;
        while records.is_empty() || self.read_bytes.saturating_add(blobs.bytes.get()) < until {
            line.clear();
            let bytes = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(failed)?;
            let wrong = |problem| ReadError::Line { path: path.clone(), line: self.next + 1, problem };
            if line.last() != Some(&b'\n') {
                if bytes as u64 == LONGEST_LINE {
                    return Err(wrong(Problem::TooLong));
                }
                is_last = true;
                break;
            }
            let record = parse_line(&line, &blobs).map_err(wrong)?;
            if record.seq != self.next {
                return Err(wrong(Problem::OutOfOrder { expected: self.next, found: record.seq }));
            }
            self.read_bytes += bytes as u64;
            self.next += 1;
            records.push(record);
        }
        let open = RunState::Open(if running { OpenRun::Running } else { OpenRun::CutOff });
        self.state = match records.last().map(|record| &record.body) {
            Some(RecordKind::RunEnded { status, .. }) => RunState::Ended(*status),
            None if matches!(self.state, RunState::Ended(_)) => self.state,
            Some(_) | None => open,
        };
        Ok(Part { records, is_last })
    }

    /// Returns the run's state at the last call.
    pub fn state(&self) -> RunState {
        self.state
    }
}
