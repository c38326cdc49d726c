//! The records of all rows, in segments that the rows share.
//!
//! A line is `{"row":"ID","record":RECORD}`, with the record as a journal of its own would have it
//! (`docs/reference/journal.md`), or `{"row":"ID","forget":true}`: what is before it does not count.

use crate::key::RowId;
use llm_do::runs::JournalLog;
use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Bytes after which a new segment begins.
const SEGMENT: u64 = 64 << 20;
const BEFORE: &[u8] = b"{\"row\":\"";
const RECORD: &[u8] = b"\",\"record\":";
const FORGET: &[u8] = b"\",\"forget\":true}\n";

/// The records of all rows. Clones write to the same segments.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Segments>>);

struct Segments {
    dir: PathBuf,
    /// The segment that is written. The first record opens it.
    file: Option<File>,
    number: u64,
    bytes: u64,
    most: u64,
    /// The rows that have no end yet, with the segment of their first record.
    open: HashMap<RowId, u64>,
}

/// The records of rows that were cut off, as lines.
pub(crate) type Unfinished = HashMap<RowId, Vec<Vec<u8>>>;

impl Journal {
    /// The journal in that folder. Writing begins with a new segment.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let mut number = 0;
        while path_of(dir, number).try_exists()? {
            number += 1;
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

    /// The records of rows without an end, from that segment on. `ended` says which rows have one.
    pub(crate) fn unfinished(
        &self,
        from: u64,
        ended: impl Fn(RowId) -> io::Result<bool>,
    ) -> io::Result<Unfinished> {
        let mut segments = self.lock();
        let mut found = Unfinished::new();
        for number in from..segments.number {
            let mut reader = BufReader::with_capacity(1 << 18, File::open(path_of(&segments.dir, number))?);
            let mut line = Vec::new();
            loop {
                line.clear();
                reader.read_until(b'\n', &mut line)?;
                // Half a line, of a process that was killed.
                let Some((id, rest)) = parse(&line) else { break };
                if ended(id)? {
                    continue;
                }
                if rest == FORGET {
                    found.remove(&id);
                    segments.open.remove(&id);
                } else if let Some(record) = rest.strip_prefix(RECORD) {
                    let record = record.strip_suffix(b"}\n").unwrap_or(record);
                    found.entry(id).or_default().push(record.to_vec());
                    segments.open.entry(id).or_insert(number);
                }
            }
        }
        Ok(found)
    }

    /// The log of one row.
    pub(crate) fn of_row(&self, id: RowId) -> Box<dyn JournalLog> {
        Box::new(RowLog { journal: self.clone(), id })
    }

    /// What is recorded of a row so far does not count: it will run from its beginning.
    pub(crate) fn forget(&self, id: RowId) -> io::Result<()> {
        let mut segments = self.lock();
        segments.open.remove(&id);
        let line = [BEFORE, id.to_string().as_bytes(), FORGET].concat();
        segments.append(&line)
    }

    /// A row has its end.
    pub(crate) fn ended(&self, id: RowId) {
        self.lock().open.remove(&id);
    }

    /// The first segment with records of rows without an end.
    pub(crate) fn oldest(&self) -> u64 {
        let segments = self.lock();
        segments.open.values().copied().min().unwrap_or(segments.number)
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segments {
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
        if let Err(error) = file.write_all(lines) {
            file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// Takes the lines of one row's journal.
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

/// The row of a line, and what follows its ID.
fn parse(line: &[u8]) -> Option<(RowId, &[u8])> {
    let rest = line.strip_prefix(BEFORE)?;
    let id = RowId::parse(rest.get(..32)?)?;
    rest.ends_with(b"\n").then_some((id, &rest[32..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RowKey;
    use std::fs;

    fn id(n: u64) -> RowId {
        RowKey::of("c", "{}").occurrence(n)
    }

    #[test]
    fn rows_that_were_cut_off_are_found_with_their_lines() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
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
            let again = Journal::open(dir.path()).unwrap();
            let found = again.unfinished(0, |row| Ok(row == id(0))).unwrap();
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
        let journal = Journal::open(dir.path()).unwrap();
        dir.close().unwrap();
        let error = journal.of_row(id(0)).write(b"{}\n").unwrap_err().to_string();
        assert!(error.contains("journal-000000.jsonl"), "{error}");
    }

    #[test]
    fn segments_are_left_behind_when_their_rows_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
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
        let found = Journal::open(dir.path()).unwrap().unfinished(1, |row| Ok(row == id(2))).unwrap();
        assert_eq!(found.len(), 2);
    }
}
