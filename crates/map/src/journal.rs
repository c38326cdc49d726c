//! The records of all rows, in segments that the rows share.
//!
//! A line is `{"row":"ID","record":RECORD}`, with the record in the form of a run's own journal
//! (`docs/reference/journal.md`), or `{"row":"ID","forget":true}`, which voids the row's records before it.

use crate::key::RowId;
use llm_do::runs::{JOURNAL_FILE, JournalLog, still_named};
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The number of bytes after which a new segment begins.
const SEGMENT: u64 = 64 << 20;
const BEFORE: &[u8] = b"{\"row\":\"";
const RECORD: &[u8] = b"\",\"record\":";
const FORGET: &[u8] = b"\",\"forget\":true}\n";

/// The records of all rows. Clones write to the same segments.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Segments>>);

struct Segments {
    dir: PathBuf,
    /// The segment that is being written. The first record opens it.
    file: Option<File>,
    number: u64,
    bytes: u64,
    most: u64,
    /// The rows that have not ended, with the segment of their first record.
    open: HashMap<RowId, u64>,
}

/// The records of interrupted rows, as lines.
pub(crate) type Unfinished = HashMap<RowId, Vec<Vec<u8>>>;

/// The state of a row in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultState {
    /// The results do not contain the row.
    Missing,
    /// The row has an end that counts.
    Ended,
    /// The row has failed, and will be tried again.
    Retried,
}

/// Writes the records of a row's run as a journal of its own, in a folder below `into` with the ID of the run, so that
/// it can be shown like any run. `state` is the folder of a map's state. If a row ran several times, the last run
/// counts. Returns `None` if the map has no such run.
///
/// # Errors
/// The records can't be read, or `into` can't be written.
pub fn row_run(state: &Path, run: &str, into: &Path) -> io::Result<Option<PathBuf>> {
    let mut numbers: Vec<u64> = Vec::new();
    for entry in fs::read_dir(state)? {
        numbers.extend(number_of(&entry?.file_name()));
    }
    numbers.sort_unstable();
    let (mut records, mut is_over) = (Vec::new(), false);
    for number in numbers {
        let mut reader = BufReader::with_capacity(1 << 18, File::open(path_of(state, number))?);
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            let Some((id, rest)) = parse(&line) else { break };
            if id.to_string() != run {
                continue;
            }
            if rest == FORGET {
                is_over = true;
            } else if let Some(record) = rest.strip_prefix(RECORD) {
                if std::mem::take(&mut is_over) {
                    records.clear();
                }
                records.extend_from_slice(record.strip_suffix(b"}\n").unwrap_or(record));
                records.push(b'\n');
            }
        }
    }
    if records.is_empty() {
        return Ok(None);
    }
    let dir = into.join(run);
    fs::create_dir(&dir)?;
    fs::write(dir.join(JOURNAL_FILE), records)?;
    std::os::unix::fs::symlink(fs::canonicalize(state)?.join(BLOBS), dir.join(BLOBS))?;
    Ok(Some(dir))
}

/// The folder of the long values of records.
const BLOBS: &str = "blobs";

impl Journal {
    /// Opens the journal in that folder. Writing begins with a new segment whose number is at least `from`: a user may
    /// remove segments, and earlier ones are not read.
    pub(crate) fn open(dir: &Path, from: u64) -> io::Result<Self> {
        let mut number = from;
        for entry in fs::read_dir(dir)? {
            if let Some(found) = number_of(&entry?.file_name()) {
                number = number.max(found + 1);
            }
        }
        let segments = Segments {
            dir: dir.to_owned(),
            file: None,
            number,
            bytes: 0,
            most: SEGMENT,
            open: HashMap::new(),
        };
        Ok(Self(Arc::new(Mutex::new(segments))))
    }

    /// Reads the records of rows that have not ended, starting with that segment. `known` returns the state of a row in
    /// the results.
    pub(crate) fn unfinished(
        &self,
        from: u64,
        known: impl Fn(RowId) -> io::Result<ResultState>,
    ) -> io::Result<Unfinished> {
        let mut segments = self.lock();
        let (mut found, mut forgotten) = (Unfinished::new(), HashSet::new());
        for number in from..segments.number {
            let file = match File::open(path_of(&segments.dir, number)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            let mut reader = BufReader::with_capacity(1 << 18, file);
            let mut line = Vec::new();
            loop {
                line.clear();
                reader.read_until(b'\n', &mut line)?;
                // Half a line, of a process that was killed.
                let Some((id, rest)) = parse(&line) else { break };
                if known(id)? == ResultState::Ended {
                    continue;
                }
                if rest == FORGET {
                    found.remove(&id);
                    segments.open.remove(&id);
                    forgotten.insert(id);
                } else if let Some(record) = rest.strip_prefix(RECORD) {
                    let record = record.strip_suffix(b"}\n").unwrap_or(record);
                    found.entry(id).or_default().push(record.to_vec());
                    segments.open.entry(id).or_insert(number);
                }
            }
        }
        // A process that was killed between a failure's result and its `forget`: the records are those of the failure.
        for (id, records) in &found {
            if !forgotten.contains(id) && known(*id)? == ResultState::Retried && is_whole(records) {
                segments.forget(*id)?;
            }
        }
        found.retain(|id, _| segments.open.contains_key(id));
        Ok(found)
    }

    /// Returns the log of a row.
    pub(crate) fn of_row(&self, id: RowId) -> Box<dyn JournalLog> {
        Box::new(RowLog { journal: self.clone(), id })
    }

    /// Voids the records of a row: the row will run from its beginning.
    pub(crate) fn forget(&self, id: RowId) -> io::Result<()> {
        self.lock().forget(id)
    }

    /// Notes that a row has ended.
    pub(crate) fn ended(&self, id: RowId) {
        self.lock().open.remove(&id);
    }

    /// Returns the first segment with records of rows that have not ended.
    pub(crate) fn oldest(&self) -> u64 {
        let segments = self.lock();
        segments.open.values().copied().min().unwrap_or(segments.number)
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segments {
    fn forget(&mut self, id: RowId) -> io::Result<()> {
        self.open.remove(&id);
        self.append(&[BEFORE, id.to_string().as_bytes(), FORGET].concat())
    }

    /// Writes whole lines, or nothing. An error names the segment.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.bytes >= self.most {
            (self.file, self.bytes) = (None, 0);
            self.number += 1;
        }
        self.write(lines).map_err(|error| {
            let path = path_of(&self.dir, self.number);
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let path = path_of(&self.dir, self.number);
                self.file.insert(options.append(true).create_new(true).open(path)?)
            }
        };
        if let Err(error) = file.write_all(lines).and_then(|()| still_named(file)) {
            file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// A log that takes the lines of the journal of one row.
struct RowLog {
    journal: Journal,
    id: RowId,
}

impl JournalLog for RowLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let id = self.id.to_string();
        let mut wrapped = Vec::with_capacity(lines.len() + 256);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            for part in [BEFORE, id.as_bytes(), RECORD, line, b"}\n"] {
                wrapped.extend_from_slice(part);
            }
        }
        let mut segments = self.journal.lock();
        segments.append(&wrapped)?;
        let number = segments.number;
        segments.open.entry(self.id).or_insert(number);
        Ok(())
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number:06}.jsonl"))
}

fn number_of(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix("journal-")?.strip_suffix(".jsonl")?.parse().ok()
}

/// Returns true if the records include the end of a run.
fn is_whole(records: &[Vec<u8>]) -> bool {
    #[derive(Deserialize)]
    struct Record<'a> {
        kind: Cow<'a, str>,
    }
    let last = records.last().and_then(|last| serde_json::from_slice::<Record<'_>>(last).ok());
    last.is_some_and(|last| last.kind == "run_ended")
}

/// Splits a line into its row and the rest behind the row's ID.
fn parse(line: &[u8]) -> Option<(RowId, &[u8])> {
    let rest = line.strip_prefix(BEFORE)?;
    let id = RowId::parse(rest.get(..32)?)?;
    rest.ends_with(b"\n").then_some((id, &rest[32..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RowKey;

    fn id(n: u64) -> RowId {
        RowKey::of("c", "{}").occurrence(n)
    }

    fn ended(ended: bool) -> ResultState {
        if ended { ResultState::Ended } else { ResultState::Missing }
    }

    #[test]
    fn segments_never_begin_below_those_that_are_read() {
        let dir = tempfile::tempdir().unwrap();
        // A user has removed all segments of a map whose rows had ended.
        let journal = Journal::open(dir.path(), 3).unwrap();
        journal.of_row(id(0)).write(b"{}\n").unwrap();
        let again = Journal::open(dir.path(), 3).unwrap();
        assert_eq!(again.unfinished(3, |_| Ok(ResultState::Missing)).unwrap().len(), 1);
        // Or one in the middle.
        again.of_row(id(1)).write(b"{}\n").unwrap();
        fs::remove_file(path_of(dir.path(), 3)).unwrap();
        let last = Journal::open(dir.path(), 0).unwrap();
        assert_eq!(last.unfinished(0, |_| Ok(ResultState::Missing)).unwrap().len(), 1);
        last.of_row(id(2)).write(b"{}\n").unwrap();
        assert!(path_of(dir.path(), 5).exists());
    }

    #[test]
    fn the_records_of_a_failure_are_not_continued_by_a_further_try() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), 0).unwrap();
        let end = b"{\"kind\":\"run_started\"}\n{\"kind\":\"run_ended\"}\n";
        // Killed after the failure's result, before `forget`.
        journal.of_row(id(0)).write(end).unwrap();
        // Killed at the end of a further try, before its result.
        journal.of_row(id(1)).write(end).unwrap();
        journal.forget(id(1)).unwrap();
        journal.of_row(id(1)).write(end).unwrap();
        // Killed at the end of the first try, before its result.
        journal.of_row(id(2)).write(end).unwrap();
        for _ in 0..2 {
            let again = Journal::open(dir.path(), 0).unwrap();
            let known = |row| if row == id(2) { ResultState::Missing } else { ResultState::Retried };
            let mut found: Vec<RowId> =
                again.unfinished(0, |row| Ok(known(row))).unwrap().into_keys().collect();
            found.sort();
            let mut expected = [id(1), id(2)];
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn rows_that_were_cut_off_are_found_with_their_lines() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), 0).unwrap();
        let mut logs: Vec<_> = (0..3).map(|n| journal.of_row(id(n))).collect();
        logs[0].write(b"{\"a\":0}\n{\"b\":0}\n").unwrap();
        logs[1].write(b"{\"a\":1}\n").unwrap();
        logs[2].write(b"{\"a\":2}\n").unwrap();
        journal.forget(id(2)).unwrap();
        logs[2].write(b"{\"c\":2}\n").unwrap();
        journal.ended(id(0));
        let file = path_of(dir.path(), 0);
        let whole = fs::read(&file).unwrap();
        // Whatever a kill has left of the last line.
        for cut in whole.len() - 20..=whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            let again = Journal::open(dir.path(), 0).unwrap();
            let found = again.unfinished(0, |row| Ok(ended(row == id(0)))).unwrap();
            assert_eq!(found[&id(1)], [b"{\"a\":1}".to_vec()]);
            assert_eq!(found.contains_key(&id(2)), cut == whole.len(), "{found:?}");
            assert_eq!(found.len(), 1 + usize::from(cut == whole.len()));
            assert_eq!(again.oldest(), 0);
            again.ended(id(1));
            again.ended(id(2));
            assert_eq!(again.oldest(), 1);
        }
    }

    #[test]
    fn an_error_names_the_segment() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), 0).unwrap();
        dir.close().unwrap();
        let error = journal.of_row(id(0)).write(b"{}\n").unwrap_err().to_string();
        assert!(error.contains("journal-000000.jsonl"), "{error}");
    }

    #[test]
    fn segments_are_left_behind_when_their_rows_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), 0).unwrap();
        journal.lock().most = 1;
        for n in 0..4 {
            journal.of_row(id(n)).write(b"{}\n").unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
        assert_eq!(journal.oldest(), 0);
        journal.ended(id(0));
        assert_eq!(journal.oldest(), 1);
        journal.ended(id(2));
        assert_eq!(journal.oldest(), 1);
        let found = Journal::open(dir.path(), 0).unwrap();
        let found = found.unfinished(1, |row| Ok(ended(row == id(2)))).unwrap();
        assert_eq!(found.len(), 2);
    }
}
